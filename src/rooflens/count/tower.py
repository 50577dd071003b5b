"""The vision encoder's kernels in a prefill: every patch attends to every other, nothing is cached."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from rooflens.core.op import Op
from rooflens.core.scenario import AttentionFlops, Batch, Phase
from rooflens.core.tower import Tower
from rooflens.count.plan import Normalise, Projection, Step, layer_steps
from rooflens.count.setting import Setting


def tower_steps(tower: Tower, setting: Setting) -> tuple[tuple[dict[Step, int], Setting], ...]:
    """The kernels over patches and those over image tokens, each with the pass that they run in.

    The image tokens of a sequence are taken as one image: patches of different images do not attend to each other,
    so that several small images cost less attention than this.
    """
    patches, tokens = Counter[Step](), Counter[Step]()
    patches[Projection(tower.patch.name, (tower.patch,))] += 1
    for layer in tower.layers:
        for step in layer_steps(layer, tower.patch.d_out, setting.conventions.fusion, mixed=False):
            patches[step] += layer.count
    for norm in tower.norms:
        patches[Normalise(norm)] += 1
    for merger in tower.mergers:
        tokens[Projection(merger.name, (merger,))] += 1
    image = setting.batch.image_tokens
    return (dict(patches), _over(setting, image * tower.patches)), (dict(tokens), _over(setting, image))


def as_vision(op: Op) -> Op:
    """`op` under the encoder's name; its attention keeps no cache."""
    return replace(op, name=f"vision_{op.name}", traffic=replace(op.traffic, kv_write=0))


def _over(setting: Setting, tokens: object) -> Setting:
    batch = Batch(setting.batch.sequences, tokens, 0)  # type: ignore[arg-type]
    everything = replace(setting.conventions, attention_flops=AttentionFlops.FULL)
    return Setting(Phase(setting.phase.kind, batch), setting.precision, everything)
