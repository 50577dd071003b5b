"""What a measurement comes to: figures, notes, conditions; probes beside a run; all without measuring for long."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rooflens.core.hardware import Hardware, KernelShape
from rooflens.core.op import DType
from rooflens.errors import InputError
from rooflens.live import ceilings, levels as level_rooms, probe as probes
from rooflens.live.ceilings import measure
from rooflens.live.levels import Levels, measured_levels
from rooflens.live.machine import Machine
from rooflens.live.probe import Probe, agreed
from rooflens.live.processor import CacheLevel
from rooflens.live.repeats import Repeats
from rooflens.render.hardware_toml import hardware_toml
from rooflens.sources.hardware import read_hardware
from tests.live.kept import measured_part

FACTS = Machine(
    "cpu", "Example 9000", "Example", 4, (0, 2), (CacheLevel("L1", 32768, 1, 2), CacheLevel("L2", 1 << 20, 2, 1)),
    1 << 34, "2.9.0", 2, unknown=("the size of nothing could not be found out",),
)  # fmt: skip
GPU = Machine("cuda:0", "Example GPU", "NVIDIA", 8, (0,), (CacheLevel("L2", 40 << 20, 1, 1),), 1 << 36, "2.9.0", 8, 100)


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Every measurement answers at once; `refuse` holds what torch says of a dtype or shape."""
    asked = SimpleNamespace(refuse={}, facts=FACTS, kernels=[])

    def peak(_device: str, dtype: DType) -> Repeats:
        if dtype in asked.refuse:
            raise asked.refuse[dtype]
        return Repeats((2e11, 2e11), "torch, n = 1024")

    def rate(_device: str, shape: KernelShape, dtype: DType, *, beyond: int) -> Repeats:
        asked.kernels.append((shape, dtype, beyond))
        if shape in asked.refuse:
            raise asked.refuse[shape]
        return Repeats((1e10, 1.5e10))

    def rates(_facts: Machine, say: Any) -> Levels:
        for name in ("L1", "L2", "memory"):
            say(name)
        read = {"read": Repeats((2e10,)), "copy": Repeats((3e10,))}
        return Levels(read, "2 pinned threads", {"L1": {"read": Repeats((4e11,))}}, ("L2 was not measured",))

    monkeypatch.setattr(ceilings, "machine", lambda _device: asked.facts)
    monkeypatch.setattr(ceilings.matmul, "gemm_peak", peak)
    monkeypatch.setattr(ceilings.shaped, "shaped_rate", rate)
    monkeypatch.setattr(ceilings, "measured_levels", rates)
    monkeypatch.setattr(ceilings, "architecture", lambda _facts: "AVX512")
    return asked


def test_every_figure_says_how_it_was_measured(still: SimpleNamespace) -> None:
    part = measure()
    assert part.name == "example-9000-measured"
    assert part.origin == "measured"
    assert set(part.matrix) == {DType.FP32, DType.BF16, DType.FP16, DType.FP64, DType.INT8, DType.FP8}
    assert not part.vector
    assert part.matrix[DType.FP32].provenance.note == "torch, n = 1024; 2 threads"
    assert part.memory.bandwidth == part.memory.patterns["read"]
    assert part.memory.bandwidth is not None
    assert part.memory.bandwidth.value == 2e10
    assert part.memory_driver is not None
    assert (part.memory_driver.value, part.memory_driver.provenance.kind) == (1 << 34, "driver")
    assert [(c.name, c.bandwidth and c.bandwidth.value) for c in part.caches] == [("L1", 4e11), ("L2", None)]
    assert part.kernels[KernelShape.M1_LINEAR, DType.BF16].value == 1.5e10
    assert part.kernels[KernelShape.M1_LINEAR, DType.BF16].spread == 0.4  # 0.5e10 / 1.25e10
    assert len(part.kernels) == 9
    assert {beyond for *_, beyond in still.kernels} == {64 << 20}, "four times 1 MiB is less than 64 MiB"
    assert "L2 was not measured" in part.notes
    assert FACTS.unknown[0] in part.notes
    conditions = dict(part.conditions)
    assert conditions["processor"] == "Example 9000"
    assert conditions["cores"] == "2 of 4 usable"
    assert conditions["affinity"] == "0, 2"
    assert conditions["torch"] == "2.9.0"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", conditions["date"])


def test_what_was_measured_survives_its_file(still: SimpleNamespace, tmp_path: Path) -> None:
    part = measure(conditions=(("power", ""), ("clock", "3.5\n GHz \x07")))
    assert part.conditions[-1] == ("clock", "3.5 GHz")
    assert "power" not in dict(part.conditions)
    path = tmp_path / "machine.toml"
    path.write_text(hardware_toml(part), encoding="utf-8")
    assert read_hardware(path) == part


def test_progress_grows_to_one(still: SimpleNamespace) -> None:
    steps: list[tuple[str, float]] = []
    measure(progress=lambda step, done: steps.append((step, done)))
    shares = [share for _, share in steps]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert ("fp32 products", 3 / 18) in steps  # 3 levels, 6 products, 9 kernels


def test_what_torch_refuses_is_a_note(still: SimpleNamespace) -> None:
    still.refuse = {DType.FP8: RuntimeError("no\tkernel\nsecond line"), KernelShape.SKINNY_LINEAR: TypeError("")}
    part = measure()
    assert DType.FP8 not in part.matrix
    assert "fp8 has no peak: torch does not multiply it here (no kernel)" in part.notes
    assert "skinny_linear in fp16 has no rate: torch does not run it here (TypeError)" in part.notes
    assert {shape for shape, _ in part.kernels} == {KernelShape.M1_LINEAR, KernelShape.DECODE_ATTENTION}


def test_a_product_that_crawls_is_no_peak(still: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings.matmul, "gemm_peak", lambda *_: Repeats((5e8,)))
    assert "fp16 has no peak: torch emulates it here, at 5e+08 FLOP/s" in measure().notes


@pytest.mark.parametrize("error", [RuntimeError("DefaultCPUAllocator: can't allocate memory: 8"), MemoryError()])
def test_memory_that_runs_out_is_one_sentence(still: SimpleNamespace, error: Exception) -> None:
    still.refuse = {DType.FP32: error}
    with pytest.raises(InputError, match="the memory of cpu ran out while it was measured; close what holds it"):
        measure()


def test_dtypes_that_cannot_be_measured_are_refused(still: SimpleNamespace) -> None:
    with pytest.raises(InputError, match=r"the dtype fp4 cannot be measured; fp32, .* can"):
        measure(dtypes=[DType.FP4])
    with pytest.raises(InputError, match="tf32 cannot be measured on cpu"):
        measure(dtypes=[DType.TF32])
    still.refuse = {DType.FP8: RuntimeError("no kernel")}
    with pytest.raises(InputError, match=r"no peak could be measured on cpu: fp8 has no peak.*\(no kernel\)"):
        measure(dtypes=[DType.FP8])


def test_some_dtypes_alone(still: SimpleNamespace) -> None:
    part = measure(dtypes=[DType.INT8, DType.FP32])
    assert set(part.matrix) == {DType.FP32, DType.INT8}
    assert {dtype for _, dtype in part.kernels} == {DType.FP32}


def test_a_gpu_has_tf32_and_its_multiprocessors(still: SimpleNamespace) -> None:
    still.facts = GPU
    part = measure("cuda")
    assert DType.TF32 in part.matrix
    assert part.multiprocessors is not None
    assert part.multiprocessors.value == 100
    assert part.device_names == ("Example GPU",)
    assert part.memory.name == "device memory"
    assert {beyond for *_, beyond in still.kernels} == {512 << 20}
    assert "cores" not in dict(part.conditions)


# Levels


def test_without_llvmlite_memory_alone_is_measured_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(level_rooms, "compiles", lambda: False)
    monkeypatch.setattr(level_rooms, "torch_rates", lambda _device, _total: {"read": Repeats((1e10,))})
    found = measured_levels(FACTS, lambda _step: None)
    assert not found.caches
    assert found.how == "2 torch threads"
    assert "caches were not measured: llvmlite is missing" in found.notes[0]
    assert "rooflens[measure]" in found.notes[0]


def test_a_gpu_is_measured_over_its_memory_and_half_of_its_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    def rates(device: str, total: int) -> dict[str, Repeats]:
        asked.append((device, total))
        return {"read": Repeats((1e12,))}

    monkeypatch.setattr(level_rooms, "torch_rates", rates)
    found = measured_levels(GPU, lambda _step: None)
    assert asked == [("cuda:0", 1 << 30), ("cuda:0", 20 << 20)]
    assert set(found.caches) == {"L2"}


# Probes


def test_probes_that_agree_change_nothing() -> None:
    part = measured_part()
    assert agreed(part, [Probe(109e9, 18.1e9), Probe(92e9, 21e9), Probe(10e9, 1e9)], DType.FP32) == (part, ())
    assert agreed(part, [], DType.FP32) == (part, ())


def test_a_ceiling_that_moved_is_replaced_and_said() -> None:
    """Medians of three probes: 80 GFLOP/s beside 100, 24 GB/s beside 20; (90 - 60) / 80 is 0.375."""
    seen = [Probe(60e9, 24e9), Probe(80e9, 23e9), Probe(90e9, 25e9)]
    part, findings = agreed(measured_part(), seen, DType.FP32)
    assert part.matrix[DType.FP32].value == 80e9
    assert part.matrix[DType.FP32].spread == 0.375
    assert part.matrix[DType.FP32].provenance.kind == "measured"
    assert "in place of the kept 100 GFLOP" in part.matrix[DType.FP32].provenance.note
    assert part.matrix[DType.BF16] == measured_part().matrix[DType.BF16]
    assert part.memory.bandwidth is not None
    assert part.memory.bandwidth.value == 24e9
    assert [(f.level, f.code) for f in findings] == [("warning", "ceiling_moved")] * 2
    assert "80 GFLOP/s beside this run and 100 GFLOP/s in the stored" in findings[0].text
    assert "24 GB/s beside this run and 20 GB/s in the stored" in findings[1].text


def test_a_peak_that_is_not_stored_or_not_probed_stays() -> None:
    part = replace(measured_part(), matrix={})
    assert agreed(part, [Probe(1.0, 20e9)], DType.FP32) == (part, ())
    whole: Hardware = measured_part()
    assert agreed(whole, [Probe(None, 20e9)], DType.FP32) == (whole, ())


def test_a_probe_measures_both(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="a probe multiplies with torch (extra measure)")
    monkeypatch.setattr(probes, "memory_set", lambda _facts: 1 << 20)
    monkeypatch.setattr(probes.matmul, "_CPU_SIZES", (32, 64))
    found = probes.probe("cpu", DType.FP32, seconds=0.01)
    assert found.gemm_flops_per_s is not None
    assert found.gemm_flops_per_s > 0
    assert found.read_bytes_per_s > 0
    assert probes.probe("cpu", DType.INT4, seconds=0.01).gemm_flops_per_s is None
