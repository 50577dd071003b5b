"""Kernels at every level of memory: which limit is nearest, and how that is printed."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from rooflens.core.counters import KernelCounters
from rooflens.core.hardware import Ceiling, Hardware, MemoryLevel
from rooflens.core.op import DType, Provenance
from rooflens.hierarchy import place_levels
from rooflens.render.hierarchy import hierarchy_document, hierarchy_table
from rooflens.sources.ncu import read_ncu
from rooflens.sources.rocprof import read_rocprof_counters, read_rocprof_roofline

TRACES = Path(__file__).resolve().parents[2] / "shared" / "data" / "traces"
sample = pytest.mark.skipif(not TRACES.is_dir(), reason="the samples are not beside this checkout")


def ceiling(value: float) -> Ceiling:
    return Ceiling(value, Provenance("user", "test"))


PART = Hardware(
    "part", "part", "", "", MemoryLevel("HBM", ceiling(1e12)),
    matrix={DType.BF16: ceiling(100e12)}, vector={DType.FP32: ceiling(10e12)},
    caches=(MemoryLevel("L2", ceiling(4e12)), MemoryLevel("L1")),
)  # fmt: skip
NONE = dict.fromkeys(("tensor", "ffma", "hfma", "dfma"), 0)
LAUNCH = KernelCounters("k", 3, 1e-3, {**NONE, "tensor": 50e9}, {"dram": 0.2e9, "l2": 3e9, "l1": 5e9}, dtype=DType.BF16)
"""In 1 ms 0.2 of 1 TB/s, 3 of 4 TB/s, 50 of 100 TFLOP/s."""


def test_the_largest_share_is_the_bound() -> None:
    dram, l2, l1 = place_levels([LAUNCH], PART)
    assert [point.level for point in (dram, l2, l1)] == ["dram", "l2", "l1"]
    assert [point.share for point in (dram, l2, l1)] == [pytest.approx(0.2), pytest.approx(0.75), None]
    assert [point.intensity for point in (dram, l2, l1)] == [
        pytest.approx(250),
        pytest.approx(50 / 3),
        pytest.approx(10),
    ]
    assert all(point.performance == pytest.approx(50e12) for point in (dram, l2, l1))
    assert all(point.compute_share == pytest.approx(0.5) and point.bound == "l2" for point in (dram, l2, l1))


@pytest.mark.parametrize(
    ("flops", "dtype", "moved", "bound"),
    [
        ({**NONE, "tensor": 90e9}, DType.BF16, 3e9, "compute"),
        ({**NONE, "ffma": 9e9}, DType.FP32, 3e9, "compute"),
        ({**NONE, "tensor": 90e9}, None, 3e9, "l2"),
        ({**NONE, "tensor": 90e9}, DType.FP8, 3e9, "l2"),
        ({"tensor": 0}, None, 3e9, "l2"),
        (NONE, None, 3e9, "l2"),
        (NONE, None, 0.1e9, "dram"),
    ],
)
def test_bounds(flops: dict[str, float], dtype: DType | None, moved: float, bound: str) -> None:
    launch = replace(LAUNCH, flops_by_pipe=flops, dtype=dtype, bytes_by_level={"dram": 0.2e9, "l2": moved})
    assert {point.bound for point in place_levels([launch], PART)} == {bound}


def test_what_is_not_known_stays_unknown() -> None:
    unknown = replace(LAUNCH, seconds=None, flops_by_pipe={"tensor": 0}, bytes_by_level={"dram": 0})
    (point,) = place_levels([unknown], PART)
    assert (point.intensity, point.performance, point.achieved, point.share, point.bound) == (None,) * 5
    assert place_levels([replace(LAUNCH, bytes_by_level={})], PART) == ()
    (point,) = place_levels([replace(unknown, seconds=1.0)], None)
    assert (point.bandwidth, point.achieved) == (None, 0)


def test_the_reports_own_peak_stands_in_without_hardware() -> None:
    (point,) = place_levels([replace(LAUNCH, bytes_by_level={"dram": 1e9}, peaks={"dram": 2e12})], None)
    assert point.share == pytest.approx(0.5)
    assert point.bound == "dram"
    (point,) = place_levels([replace(LAUNCH, bytes_by_level={"dram": 1e9}, peaks={"dram": 2e12})], PART)
    assert point.bandwidth == 1e12


def printed(points: object) -> str:
    out = io.StringIO()
    Console(file=out, width=150).print(hierarchy_table(points))
    return out.getvalue()


def test_table() -> None:
    text = printed(place_levels([LAUNCH], PART))
    assert "50 TFLOP/s" in text
    assert "75.0 %" in text
    partly = replace(LAUNCH, flops_by_pipe={"tensor": 50e9}, notes=("one note",), name="void k[int]" + "x" * 60)
    text = printed(place_levels([partly, replace(LAUNCH, flops_by_pipe={})], PART))
    assert ">=250" in text
    assert "void k[int]" in text
    assert "one note." in text
    assert "1 kernel has no FLOP" in text
    assert "No kernel has bytes" in printed([])


def test_document() -> None:
    document = msgspec.json.decode(
        msgspec.json.encode(hierarchy_document(place_levels([LAUNCH, replace(LAUNCH, id=4)], PART)))
    )
    assert document["schema"] == "rooflens.hierarchy/1"
    assert [kernel["id"] for kernel in document["kernels"]] == [3, 4]
    kernel = document["kernels"][0]
    assert (kernel["flops"], kernel["bound"], kernel["dtype"], kernel["flops_complete"]) == (50e9, "l2", "bf16", True)
    assert [level["level"] for level in kernel["levels"]] == ["dram", "l2", "l1"]
    assert kernel["levels"][2]["share"] is None


@sample
def test_sample_of_a_decode_product_under_its_own_roof() -> None:
    """128 B/cycle x 13.72 GHz = 1,756 GB/s; ncu itself prints 19.66 % of peak and 345.14 GB/s."""
    parts = ("details", "section_SpeedOfLight_RooflineChart")
    counters = read_ncu(*(TRACES / "ncu" / f"dsocr_cc120_k0001_ncu.{part}.csv" for part in parts))
    hardware = replace(PART, memory=MemoryLevel("GDDR7", ceiling(128 * 13.72e9)))
    (point,) = place_levels(counters, hardware)
    assert point.bandwidth == pytest.approx(1.756e12, rel=1e-3)
    assert point.achieved == pytest.approx(345.14e9, rel=1e-3)
    assert point.share == pytest.approx(0.1966, abs=5e-4)
    assert point.intensity == pytest.approx(1.0, abs=0.01)
    assert place_levels(counters, None)[0].share == pytest.approx(point.share)


@sample
def test_sample_of_a_copy_under_measured_roofs() -> None:
    """16,777,728 B in 20.16 us are 832 GB/s of 1,388 that the same machine was measured to read."""
    counters = read_rocprof_counters(TRACES / "rocprof" / "mi200_vcopy_pmc_perf.csv")
    roofs = read_rocprof_roofline(TRACES / "rocprof" / "mi200_empirical_roofline.csv", device=2)
    points = place_levels(counters, roofs)
    assert len(points) == 9
    assert points[0].share == pytest.approx(16_777_728 / 20.16e-6 / 1388.4871e9)
    assert {point.bound for point in points} == {"dram"}
