"""What matching makes of real traces that lie beside a checkout."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rooflens.api import load
from rooflens.core.model import ModelSpec
from rooflens.core.op import DType, OpKind
from rooflens.core.profile import Measurement, Profile
from rooflens.core.scenario import Batch, Conventions, Fusion, Phase, PhaseKind, Precision
from rooflens.count.sequence import sequence
from rooflens.errors import InputError
from rooflens.matching import match
from rooflens.measured import place_measured
from rooflens.sources.config import spec_from_config
from rooflens.sources.hardware import load_hardware
from rooflens.sources.kineto_record import record_kineto
from tests.sources.shared import traces

REPLAY = "kineto/sglang_mi300x_qwen3-8b_decode_graphreplay.json.gz"
CAPTURE = "kineto/sglang_mi300x_qwen3-8b_decode_graphcapture.json.gz"


def qwen() -> ModelSpec:
    """Qwen1.5-0.5B."""
    sizes = {
        "model_type": "qwen2",
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "intermediate_size": 2816,
        "vocab_size": 151936,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
    }
    return spec_from_config(sizes, name="qwen1.5-0.5b", origin="written by hand")


def coverage(profile: Profile) -> float:
    return profile.phases[0].measured.traced.coverage


def flops(profile: Profile) -> dict[OpKind, float]:
    found: dict[OpKind, float] = {}
    for point in profile.phases[0].points:
        found[point.op.kind] = found.get(point.op.kind, 0) + float(point.op.flops)
    return found


def hidden(path: Path):
    """The kernels of ProfilerStep#6 without their shapes, their time, and FLOP by the classes of the kernels.

    An op of several kernels counts for the class of the one that is of its own kind.
    """
    (phase,) = record_kineto(path).phases
    shaped: dict[OpKind, float] = {}
    for run in phase.runs:
        if run.op is not None and run.name[:6] != "Memset":
            shaped[run.kind] = shaped.get(run.kind, 0) + float(run.op.flops)
    return phase, tuple(replace(run, op=None) for run in phase.runs), shaped


def test_flop_of_hidden_shapes_are_within_5_percent_and_no_class_is_above_its_roof():
    """A batch of 16 prompts of 559 tokens: 8,944 rows in every product; no output head ran."""
    phase, runs, shaped = hidden(traces("kineto/hf_h100_qwen1.5-0.5b.json.gz"))
    pass_ = Phase(PhaseKind.PREFILL, Batch(16, 559, 0))
    precision = Precision(*[DType.BF16] * 6)
    found = {f: match(runs, sequence(qwen(), pass_, precision, Conventions(fusion=f))) for f in Fusion}
    best = max(found.values(), key=lambda one: one.score)
    assert best is found[Fusion.FRAMEWORK]
    assert (best.found, best.heavy) == (24 * 8, 24 * 8 + 1)
    part = load_hardware("h100-sxm")
    assigned: dict[OpKind, float] = {}
    floor: dict[OpKind, float] = {}
    seconds: dict[OpKind, float] = {}
    timed = replace(phase.timed, ops=best.ops)
    placed = place_measured(pass_, Measurement((timed.wall_s,), timed), part, DType.BF16, predicted=None)
    for point in placed.points:
        if point.known:
            kind = point.op.kind
            assigned[kind] = assigned.get(kind, 0) + float(point.op.flops)
            floor[kind] = floor.get(kind, 0) + float(point.floor_s)
            seconds[kind] = seconds.get(kind, 0) + (point.measured_s or 0)
    for kind in (OpKind.GEMM, OpKind.ATTENTION, OpKind.ACTIVATION, OpKind.POINTWISE, OpKind.REDUCTION):
        assert assigned[kind] == pytest.approx(shaped[kind], rel=0.05), kind
    assert all(floor[kind] <= 1.05 * seconds[kind] for kind in floor)


def test_the_decode_replay_is_modelled_by_its_model_and_by_its_capture():
    replay, capture = traces(REPLAY), traces(CAPTURE)
    alone = load([replay], model="qwen3-8b", gpu="mi300x")[0]
    assert coverage(alone) >= 0.95
    assert alone.phases[0].measured.traced.matrix_share >= 0.80
    (both,) = load([replay, capture], model="qwen3-8b", gpu="mi300x")
    assert coverage(both) >= 0.99
    (shapes,) = load([replay, capture], gpu="mi300x")
    assert coverage(shapes) >= 0.6
    assert flops(shapes)[OpKind.GEMM] == pytest.approx(flops(alone)[OpKind.GEMM], rel=0.001)
    assert flops(both)[OpKind.ATTENTION] == flops(alone)[OpKind.ATTENTION]


def test_the_eager_prefill_of_one_of_eight_ranks_is_modelled():
    (profile,) = load([traces("kineto/vllm_b200_prefill_eager.json.gz")], model="gpt-oss-120b", tp=8)
    assert coverage(profile) >= 0.95
    (phase,) = profile.phases
    runs = {point.op.name: point.op.count for point in phase.points}
    assert {name: runs[name] for name in ("experts_gate_up_proj", "experts_down_proj", "all_reduce")} == {
        "experts_gate_up_proj": 36,
        "experts_down_proj": 36,
        "all_reduce": 73,
    }
    share: dict[OpKind, list[float]] = {}
    for point in phase.points:
        if point.known:
            held = share.setdefault(point.op.kind, [0.0, 0.0])
            held[0] += float(point.floor_s)
            held[1] += point.measured_s or 0
    assert all(floor <= 1.05 * seconds for floor, seconds in share.values())


def test_ranks_without_a_model_are_refused():
    with pytest.raises(InputError, match="--tp 8 splits a model, and none is given; pass --model too"):
        load([], tp=8)
