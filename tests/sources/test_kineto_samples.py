"""Real traces of other machines, where they are at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.core.op import OpKind
from rooflens.core.timed import TimedPhase
from rooflens.errors import InputError
from rooflens.sources.kineto import read_kineto
from rooflens.sources.kineto_file import read_events
from tests.sources.kineto_traces import near

SAMPLES = Path(__file__).parents[3] / "shared" / "data" / "traces" / "kineto"
FILES = sorted(SAMPLES.glob("*.json.gz"))

pytestmark = pytest.mark.skipif(not FILES, reason="needs the shared data folder")


def phase_of(file: str, name: str) -> TimedPhase:
    path = SAMPLES / f"{file}.json.gz"
    if not path.exists():
        pytest.skip(f"no {file} at hand")
    (phase,) = read_kineto(path, [name])
    return phase


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_is_read(path: Path) -> None:
    """Every range that it has is a phase that adds up; without ranges, one sentence."""
    events = read_events(path)
    ranges = sorted({event.name for event in events if event.category == "user_annotation"})
    if not ranges:
        with pytest.raises(InputError, match="it has no ranges"):
            read_kineto(path, ["decode"])
        return
    for phase in read_kineto(path, ranges):
        assert phase.passes > 0
        assert 0 <= phase.coverage <= 1 + 1e-9
        assert 0 <= phase.matrix_share <= 1 + 1e-9
        assert phase.busy_s <= phase.op_s * (1 + 1e-3)
        assert phase.busy_s + phase.dispatch_s + phase.gap_s == near(phase.wall_s)


@pytest.mark.parametrize("file", ["hf_h100_qwen1.5-0.5b", "hf_mi300x_qwen1.5-0.5b"])
def test_qwen_in_transformers(file: str) -> None:
    """Qwen1.5-0.5B: 24 layers of width 1,024 with an MLP of 2,816 (its config.json), run without its head: 4 products
    of 1,024 x 1,024 in every layer, of which q, k and v have a bias, and 3 of the MLP. Kernels that were launched
    before the step have no part in it."""
    phase = phase_of(file, "ProfilerStep#6")
    assert phase.gpu
    assert phase.coverage > 0.99
    assert 0.3 < phase.matrix_share < 0.7
    gemms = [timed.op for timed in phase.ops if timed.op.kind is OpKind.GEMM]
    found = {(op.shape.n, op.shape.k, op.shape.bias): op for op in gemms}
    layers = {(1024, 1024, True): 72, (1024, 1024, False): 24, (2816, 1024, False): 48, (1024, 2816, False): 24}
    assert {key: found[key].count for key in layers} == layers
    tokens = found[1024, 2816, False].shape.m
    for (n, k, bias), count in layers.items():
        assert found[n, k, bias].model_flops == 2 * tokens * n * k * count
    (attention,) = (timed.op for timed in phase.ops if timed.op.kind is OpKind.ATTENTION)
    assert (attention.count, attention.shape.heads, attention.shape.d_k) == (24, 16, 64)


def test_replay_of_a_graph() -> None:
    """All 544 kernels of the step have the correlation of one hipGraphLaunch: names, times, and no counts."""
    phase = phase_of("sglang_mi300x_qwen3-8b_decode_graphreplay", "step[DECODE bs=32]")
    assert sum(timed.op.count for timed in phase.ops) >= 544
    assert phase.coverage < 0.05
    assert phase.busy_s == near(9.8e-3, rel=0.05)
    assert all(timed.op.name for timed in phase.ops)


def test_mxfp4_experts_of_vllm_are_named_not_guessed() -> None:
    """gpt-oss-120b at TP 8: half of the time is in the experts' own kernels, a fifth in all-reduce."""
    phase = phase_of("vllm_b200_prefill_eager", "execute_context_1(888_788544)_generation_0(0)")
    shares = dict(phase.unknown)
    assert sum(share for name, share in shares.items() if name.startswith("bmm_")) > 0.4
    assert sum(share for name, share in shares.items() if "all_reduce" in name) == near(0.18, abs=0.02)
