"""Real runs on a GPU: ceilings, a small Llama with random weights, graphs, traces, energy, ranges.

ROOFLENS_CHECK_DEVICE names another device of torch than "cuda"; "cpu" runs what needs no GPU, to try the tests.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="runs are torch's (extra torch)")
pytest.importorskip("transformers", reason="models are transformers' (extra torch)")

from rooflens import api  # noqa: E402
from rooflens.core.hardware import Hardware, KernelShape  # noqa: E402
from rooflens.core.op import DType  # noqa: E402
from rooflens.core.profile import PhaseProfile, Profile  # noqa: E402
from rooflens.core.scenario import Conventions, Fusion, Logits  # noqa: E402
from rooflens.errors import UnknownHardwareError  # noqa: E402
from rooflens.live.ceilings import measure  # noqa: E402
from rooflens.live.device import Device  # noqa: E402
from rooflens.live.memory import free_bytes  # noqa: E402
from rooflens.live.trace import phase_range, traced  # noqa: E402
from rooflens.sources.hardware import from_device_name  # noqa: E402
from rooflens.sources.kineto import read_kineto  # noqa: E402

DEVICE = os.environ.get("ROOFLENS_CHECK_DEVICE", "cuda")
GPU = DEVICE.partition(":")[0] == "cuda"

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(GPU and not torch.cuda.is_available(), reason="torch sees no GPU of CUDA or ROCm"),
]
on_gpu = pytest.mark.skipif(not GPU, reason=f"{DEVICE} is no GPU of CUDA or ROCm")

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 1024,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "intermediate_size": 2816,
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}
LAYER = 2 * 1024 * (1024 + 256 + 256 + 1024 + 3 * 2816)
"""FLOP of the products of a layer for one token: q, k, v, o, and the three of the MLP."""

PAIR = 16 * 4 * 64
"""FLOP of attention for one pair of tokens in a layer: 16 heads, two products of 64 at 2 FLOP."""

PREFILL = 512 * (8 * LAYER + 2 * 1024 * 32000) + 8 * PAIR * (512 * 513 // 2)
DECODE = 8 * LAYER + 2 * 1024 * 32000 + 8 * PAIR * 513


@pytest.fixture(scope="module")
def part() -> Hardware:
    """The ceilings of the device, in bf16 alone."""
    return measure(DEVICE, dtypes=[DType.BF16])


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("llama") / "config.json"
    path.write_text(json.dumps(CONFIG))
    return path


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


@pytest.fixture(scope="module")
def ran(config: Path, part: Hardware, traces: Path) -> Profile:
    return run(config, part, output=2, keep=traces)


def run(config: Path, part: Hardware, **options: Any) -> Profile:
    """Prompt of 512 tokens, logits of all of them."""
    conventions = Conventions(logits=Logits.ALL, fusion=Fusion.FRAMEWORK)
    given = {"warmup": 2, "repeat": 5, "random_weights": True, "dtype": "bf16", "conventions": conventions}
    return api.profile(config, prompt=512, device=DEVICE, hardware=part, **{**given, **options})


def phases(profile: Profile) -> Iterator[tuple[str, PhaseProfile]]:
    for phase in profile.phases:
        yield str(phase.phase.kind), phase


def test_counts_on_paper() -> None:
    assert (PREFILL, DECODE) == (130_199_584_768, 262_701_056)


# Ceilings


def test_ceilings_are_those_of_a_gpu(part: Hardware) -> None:
    assert part.matrix[DType.BF16].value > (1e13 if GPU else 0)
    assert part.memory.bandwidth is not None
    for shape in KernelShape:
        assert 0 < part.kernels[shape, DType.BF16].value < 1.1 * part.memory.bandwidth.value * (1 if GPU else 99)


@on_gpu
def test_ceilings_are_near_the_data_sheet(part: Hardware) -> None:
    try:
        sheet = from_device_name(torch.cuda.get_device_name(DEVICE))
    except UnknownHardwareError as unknown:
        pytest.skip(str(unknown))
    stated, read = sheet.peak(DType.BF16), sheet.memory.bandwidth
    assert stated is not None
    assert read is not None
    assert part.memory.bandwidth is not None
    assert 0.4 < part.matrix[DType.BF16].value / stated.value < 1.02
    assert 0.6 < part.memory.bandwidth.value / read.value < 1.02
    best = max(part.kernels[shape, DType.BF16].value for shape in (KernelShape.M1_LINEAR, KernelShape.SKINNY_LINEAR))
    assert best / part.memory.bandwidth.value > 0.6, "launches are not hidden, or the layers are too small"


# A model


@pytest.mark.parametrize(("name", "flops"), [("prefill", PREFILL), ("decode", DECODE)])
def test_flop_are_those_on_paper(ran: Profile, name: str, flops: int) -> None:
    phase = dict(phases(ran))[name]
    assert phase.model_flops == flops
    assert phase.predicted is not None
    assert phase.predicted.model_flops == flops
    assert not [finding.text for finding in ran.findings if finding.code == "flops_differ"]


def test_kernels_are_attributed_and_add_up(ran: Profile) -> None:
    assert not [f.text for f in ran.findings if f.code in ("no_breakdown", "interrupted", "above_ideal")]
    for name, phase in phases(ran):
        measured = phase.measured
        assert measured is not None, name
        assert measured.traced is not None, name
        traced_ = measured.traced
        assert traced_.gpu is GPU, name
        assert traced_.coverage > 0.9, (name, traced_.unknown)
        assert traced_.busy_s <= traced_.wall_s, name
        assert traced_.busy_s > 0, name
        assert traced_.op_s == pytest.approx(traced_.busy_s, rel=0.03), name
        ops = sum(float(point.time_s) for point in phase.points)
        idle = (traced_.gap_s + (0 if GPU else traced_.dispatch_s)) * measured.scale
        assert ops + idle == pytest.approx(measured.time_s, rel=0.03), name
        assert sum(float(share) for share in phase.bound_share.values()) == pytest.approx(1)


def test_decode_takes_longer_than_its_bytes(ran: Profile) -> None:
    for name, phase in phases(ran):
        assert float(phase.time_s) > float(phase.ideal_s), name


def test_energy_is_there_or_says_why(ran: Profile) -> None:
    joules = {name: phase.measured.joules for name, phase in phases(ran) if phase.measured}
    assert all(value is None or value > 0 for value in joules.values())
    assert None not in joules.values() or dict(ran.conditions)["energy"]


def test_counters_are_there_or_say_why(ran: Profile) -> None:
    assert [text for name, text in ran.conditions if name.startswith("hardware counters")]


def test_kept_traces_hold_both_phases(ran: Profile, traces: Path) -> None:
    assert {path.name for path in traces.iterdir()} >= {"prefill.json", "decode.json"}
    for name in ("prefill", "decode"):
        (phase,) = read_kineto(traces / f"{name}.json", [name])
        assert phase.gpu is GPU
        assert phase.busy_s > 0


def test_several_decode_steps(config: Path, part: Hardware) -> None:
    phase = dict(phases(run(config, part, output=24, repeat=2)))["decode"]
    assert phase.measured is not None
    assert phase.measured.traced is not None
    assert phase.measured.traced.passes > 8
    assert phase.measured.traced.coverage > 0.9


@on_gpu
def test_compiled(config: Path, part: Hardware) -> None:
    pytest.importorskip("triton", reason="torch.compile needs Triton on a GPU")
    profile = run(config, part, output=3, repeat=2, compiled=True)
    for name, phase in phases(profile):
        assert phase.measured is not None, name
        assert phase.measured.traced is not None, [finding.text for finding in profile.findings]
        assert phase.measured.traced.gpu, name
        assert phase.measured.traced.busy_s <= phase.measured.traced.wall_s, name


@on_gpu
def test_kernels_of_a_graph_are_seen(tmp_path: Path) -> None:
    """A graph of four products is one launch; its kernels run, though no op is around each."""
    a, b = (torch.randn(2048, 2048, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    out = torch.mm(a, b)
    torch.cuda.synchronize(DEVICE)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(4):
            torch.mm(a, b, out=out)
    device = Device(DEVICE)
    with traced(device, tmp_path / "graph.json"), phase_range("decode"):
        graph.replay()
        device.synchronize()
    (phase,) = read_kineto(tmp_path / "graph.json", ["decode"])
    assert phase.gpu
    assert sum(timed.op.count for timed in phase.ops) >= 4
    assert 0 < phase.busy_s <= phase.wall_s


@on_gpu
def test_ranges_are_opened_once_a_phase(config: Path, part: Hardware, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    push = torch.cuda.nvtx.range_push

    def pushed(name: str) -> Any:
        opened.append(name)
        return push(name)

    monkeypatch.setattr(torch.cuda.nvtx, "range_push", pushed)
    run(config, part, output=3, warmup=0, repeat=2)
    assert opened == ["prefill", "decode"] * 2


@on_gpu
def test_memory_is_checked_against_what_is_free() -> None:
    free, total = free_bytes(Device(DEVICE)), torch.cuda.get_device_properties(DEVICE).total_memory
    assert free is not None
    assert 0 < free <= total


@on_gpu
def test_another_gpu(config: Path, part: Hardware) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("this machine has one GPU")
    profile = api.profile(
        config, prompt=64, output=3, device="cuda:1", hardware=part, dtype="bf16", random_weights=True, repeat=2
    )
    for name, phase in phases(profile):
        assert phase.measured is not None, name
        assert phase.measured.traced is not None, name
        assert phase.measured.traced.gpu, name
