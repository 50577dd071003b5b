"""forward: a model and a pass to the ops that run, one line for each kind of kernel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rooflens.core.model import ModelSpec
from rooflens.core.op import Op
from rooflens.core.scenario import Conventions, Phase, PhaseKind, Precision
from rooflens.core.tower import Tower
from rooflens.count import plan as steps, pointwise, recurrent
from rooflens.count.attention import attention
from rooflens.count.compressed import compressed_attention, hyper_mix
from rooflens.count.cross import cross_attention, image_projection
from rooflens.count.eager import eager_attention
from rooflens.count.gemm import linear, output_head
from rooflens.count.latent import block_scores, latent_attention
from rooflens.count.moe import expert_gemm
from rooflens.count.plan import Step, plan
from rooflens.count.setting import Setting
from rooflens.count.tower import as_vision, tower_steps


def forward(model: ModelSpec, phase: Phase, precision: Precision, conventions: Conventions) -> tuple[Op, ...]:
    """Count one forward pass of `model`: every kernel once, with how often it runs.

    Counts are exact Python integers for integer batches (but for the expected number of experts), float64 arrays
    for arrays. FLOP and bytes of an op are totals over its `count`.
    """
    return tuple(op for _, _, op in kernels(model, phase, precision, conventions))


def kernels(
    model: ModelSpec, phase: Phase, precision: Precision, conventions: Conventions
) -> Iterator[tuple[Step, Setting, Op]]:
    """Each op of `forward`, in its order, with the step of the plan that it counts and the pass that it is counted in.

    A vision encoder runs in a pass of its own, over patches.
    """
    setting = Setting(phase, precision, conventions)
    for step, count in plan(model, conventions.fusion, images=setting.has_images).items():
        for op in count_step(step, setting):
            yield step, setting, op.times(count)
    if model.tower is not None and setting.has_images and phase.kind is PhaseKind.PREFILL:
        yield from _vision(model.tower, setting)


def _vision(tower: Tower, setting: Setting) -> Iterator[tuple[Step, Setting, Op]]:
    """The vision encoder's kernels: over patches, then over the image tokens that they become."""
    for planned, inner in tower_steps(tower, setting):
        for step, count in planned.items():
            for op in count_step(step, inner):
                yield step, inner, as_vision(op.times(count))


def count_step(step: Step, setting: Setting) -> Iterable[Op]:
    """The ops of one kernel of the plan, each as it runs once."""
    match step:
        case steps.Attend(name, layer) if setting.eager:
            return eager_attention(name, layer, setting)
        case steps.AttendLatent(name, latent, expansion):
            return latent_attention(name, latent, expansion, setting)
        case steps.ImageProjection(name, parts):
            return image_projection(name, parts, setting)
        case steps.AttendCompressed(name, compressed, grouped):
            return compressed_attention(name, compressed, grouped, setting)
        case _:
            return (_one(step, setting),)


def _one(step: Step, setting: Setting) -> Op:
    match step:
        case steps.Projection(name, parts):
            return linear(name, setting.tokens, parts, setting)
        case steps.Experts(name, layer, parts):
            return expert_gemm(name, layer, parts, setting)
        case steps.Attend(name, attended):
            return attention(name, attended, setting)
        case steps.Convolve(name, convolved):
            return recurrent.convolution(name, convolved, setting)
        case steps.Scan(name, scanned):
            return recurrent.scan(name, scanned, setting)
        case steps.ScoreBlocks(name, indexer):
            return block_scores(name, indexer, setting)
        case steps.AttendImages(name, crossed):
            return cross_attention(name, crossed, setting)
        case steps.Mix(name, streams):
            return hyper_mix(name, streams, setting)
        case steps.Head(head):
            return output_head(head, setting)
        case _:
            return _pointwise(step, setting)


def _pointwise(step: Step, setting: Setting) -> Op:
    match step:
        case steps.Normalise(norm, adds_residual):
            return pointwise.norm(norm, setting, adds_residual=adds_residual)
        case steps.Rotate(name, width):
            return pointwise.rotary(name, width, setting)
        case steps.Activate(name, width, gated):
            return pointwise.activation(name, width, gated, setting)
        case steps.AddResidual(name, width):
            return pointwise.residual(name, width, setting)
        case steps.Embed(name, width, positions):
            return pointwise.embedding(name, width, positions, setting)
        case _:
            raise TypeError(f"no count for {step!r}")
