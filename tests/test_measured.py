"""Measured ops under their roofs: shares, scaling, shapes with ceilings of their own, and what a reader is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rooflens.core.hardware import Ceiling, Hardware, KernelShape, MemoryLevel
from rooflens.core.op import AttentionShape, DType, GemmShape, Op, OpKind, PointwiseShape, Provenance, Traffic
from rooflens.core.profile import Bound, Measurement, PhaseProfile
from rooflens.core.scenario import Batch, Phase, PhaseKind
from rooflens.core.timed import TimedOp, TimedPhase
from rooflens.measured import place_measured, scale_to_depth, shape_of
from rooflens.measured_findings import measured_findings
from rooflens.render.measured_words import coverage_line, measured_verdict, timing_line

HERE = Provenance("measured", "measured here")
FP32 = DType.FP32


def figure(value: float) -> Ceiling:
    return Ceiling(value, HERE)


def part(**changed: object) -> Hardware:
    """100 FLOP/s over 10 byte/s: a ridge point of 10, so that counts stay in the head; M=1 linear reaches 4 byte/s."""
    given = {
        "name": "card",
        "title": "Card",
        "vendor": "",
        "architecture": "",
        "memory": MemoryLevel("memory", figure(10.0)),
        "matrix": {FP32: figure(100.0)},
        "caches": (MemoryLevel("L3", capacity=figure(64.0)),),
        "kernels": {(KernelShape.M1_LINEAR, FP32): figure(4.0)},
    }
    return Hardware(**{**given, **changed})


def gemm(name: str, m: int, flops: int, moved: int, *, count: int = 1) -> Op:
    return Op(name, OpKind.GEMM, FP32, flops, flops, Traffic(weights=moved), GemmShape(m, 2, 3), count)


def copy(name: str, moved: int) -> Op:
    return Op(name, OpKind.COPY, FP32, 0, 0, Traffic(activations=moved), PointwiseShape(1, 1, 0))


DECODE = Phase(PhaseKind.DECODE, Batch(1, 1, 7))


def ran(*ops: TimedOp, wall_s: float = 10.0, dispatch_s: float = 1.0) -> TimedPhase:
    return TimedPhase("decode", 3, wall_s, ops, dispatch_s, sum(op.seconds for op in ops))


def placed(traced: TimedPhase, *times: float, hardware: Hardware | None = None) -> PhaseProfile:
    measured = Measurement(times or (traced.wall_s,), traced)
    return place_measured(DECODE, measured, hardware or part(), FP32, predicted=None)


def test_time_goes_to_the_larger_floor_and_the_rest_is_overhead() -> None:
    """400 FLOP and 20 bytes: 4 s against 2 s, compute. 1 FLOP and 10 bytes: memory. 4 and 2 of 10 s are in them."""
    traced = ran(TimedOp(gemm("a", 5, 400, 20), 4.0), TimedOp(gemm("b", 1, 1, 10), 2.0))
    shares = placed(traced).bound_share
    assert shares[Bound.COMPUTE] == pytest.approx(0.4)
    assert shares[Bound.MEMORY] == pytest.approx(0.2)
    assert shares[Bound.OVERHEAD] == pytest.approx(0.4)
    assert sum(shares.values()) == pytest.approx(1)


def test_overhead_is_a_bound_of_its_own() -> None:
    phase = placed(ran(TimedOp(copy("a", 10), 1.0)))
    assert phase.bound is Bound.OVERHEAD
    assert "waits for the framework" in measured_verdict(phase)
    nothing = placed(ran())
    assert nothing.bound_share[Bound.OVERHEAD] == 1
    assert "overhead-bound" in measured_verdict(nothing)


def test_ops_without_a_formula_take_no_side() -> None:
    """They work, so that their time is no overhead; which bound it goes to follows the others."""
    other = Op("mystery", OpKind.OTHER, FP32, 0, 0, Traffic(), PointwiseShape(0, 0, 0))
    traced = ran(TimedOp(gemm("b", 1, 1, 10), 2.0), TimedOp(other, 6.0, known=False))
    phase = placed(traced)
    assert phase.bound_share[Bound.MEMORY] == pytest.approx(0.8)
    assert traced.coverage == 0.25
    assert traced.unknown == (("mystery", 0.75),)
    assert "mystery 75.0 %" in coverage_line(phase)
    texts = [finding.text for finding in measured_findings(phase, part()) if finding.code == "coverage"]
    assert len(texts) == 1
    assert "75.0 %" in texts[0]


def test_times_are_scaled_to_the_run_without_an_instrument() -> None:
    """8 s without and 10 s with: each op's time counts 0.8 times, and parts still add up to the phase."""
    traced = ran(TimedOp(gemm("a", 5, 400, 20), 4.0), TimedOp(copy("c", 10), 2.0))
    phase = placed(traced, 7.0, 8.0, 9.0)
    measured = phase.measured
    assert measured is not None
    assert [point.measured_s for point in phase.points] == pytest.approx([3.2, 1.6])
    assert measured.overhead == pytest.approx(0.25)
    assert measured.spread == pytest.approx(0.25)
    parts = (traced.busy_s + traced.dispatch_s + traced.gap_s) * measured.scale
    assert parts == pytest.approx(measured.time_s) == 8
    assert "25.0 % longer than without the instrument" in timing_line(measured)


def test_a_point_above_its_roof_is_shown_and_explained() -> None:
    """40 bytes at 10 byte/s take 4 s; they took 1 s, four times the roof, and fit a cache of 64 bytes; 400 do not."""
    phase = placed(ran(TimedOp(copy("small", 40), 1.0), TimedOp(copy("large", 400), 5.0)))
    assert [point.roof_share for point in phase.points] == pytest.approx([4.0, 8.0])
    texts = [finding.text for finding in measured_findings(phase, part()) if finding.code == "above_roof"]
    assert any("small (400 %)" in text and "fits the cache" in text for text in texts)
    assert any("large (800 %)" in text and "too low" in text for text in texts)


def test_the_nearest_ceiling_is_named() -> None:
    """One row: 12 bytes in 4 s are 3 byte/s, 75 % of the 4 that such kernels reach and 30 % of the 10 of the memory."""
    phase = placed(ran(TimedOp(gemm("proj", 1, 6, 12), 4.0), wall_s=5.0, dispatch_s=0.5))
    (share,) = phase.kernel_shares
    assert (share.shape, share.achieved, share.share) == (KernelShape.M1_LINEAR, 3.0, 0.75)
    verdict = measured_verdict(phase)
    assert "M=1 linear at 75.0 % of its own ceiling" in verdict
    assert "30.0 % of the read bandwidth" in verdict
    beaten = part(kernels={(KernelShape.M1_LINEAR, FP32): figure(2.0)})
    fast = placed(ran(TimedOp(gemm("proj", 1, 6, 12), 4.0)), hardware=beaten)
    assert "own ceiling" not in measured_verdict(fast)  # 3 byte/s of 2: that ceiling was measured too low
    assert [f.code for f in measured_findings(fast, beaten)].count("kernel_ceiling") == 1
    wide = placed(ran(TimedOp(gemm("proj", 1, 6, 12), 4.0)), hardware=part(kernels={}))
    assert "own ceiling" not in measured_verdict(wide)


@pytest.mark.parametrize(
    ("rows", "shape"),
    [(1, KernelShape.M1_LINEAR), (2, KernelShape.SKINNY_LINEAR), (16, KernelShape.SKINNY_LINEAR), (17, None)],
)
def test_rows_tell_the_shape(rows: int, shape: KernelShape | None) -> None:
    assert shape_of(gemm("a", rows, 1, 1)) is shape


def test_one_query_is_decode_attention() -> None:
    step = AttentionShape(1, 1, 7, 8, 2, 1, 4, 4)
    op = Op("attention", OpKind.ATTENTION, FP32, 1, 1, Traffic(), step)
    assert shape_of(op) is KernelShape.DECODE_ATTENTION
    assert shape_of(replace(op, shape=replace(step, q_tokens=2))) is None
    assert shape_of(copy("c", 1)) is None


def test_a_slice_is_scaled_to_the_whole_depth() -> None:
    """2 of 10 layers: what is inside a layer counts five times. 3 s of it and 1 s outside make 16 s of ops.

    6 calls become 5 x 4 + 2 = 22, so that the 1 s outside ops become 22 / 6 s.
    """
    inside = TimedOp(gemm("q", 1, 8, 20, count=4), 3.0, module="layers.*.q")
    outside = TimedOp(gemm("lm_head", 1, 8, 20, count=2), 1.0, module="lm_head")
    measured = Measurement((5.0,), ran(inside, outside, wall_s=5.0, dispatch_s=0.25))
    whole = scale_to_depth(measured, 10, 2)
    assert whole is not None
    assert whole.traced is not None
    layer, head = whole.traced.ops
    assert (layer.op.count, layer.op.flops, layer.op.traffic.weights, layer.seconds) == (20, 40, 100, 15.0)
    assert (head.op.count, head.seconds) == (2, 1.0)
    assert whole.traced.busy_s == pytest.approx(16)
    assert whole.traced.wall_s == pytest.approx(16 + 22 / 6)
    assert whole.time_s == pytest.approx(16 + 22 / 6)
    assert scale_to_depth(replace(measured, traced=None), 10, 2) is None


def test_a_gpu_has_no_dispatch_between_kernels() -> None:
    """Kernels that overlap: 3 + 3 s of kernels in 4 s of the device's time, of 10."""
    ops = (TimedOp(copy("a", 10), 3.0), TimedOp(copy("b", 10), 3.0))
    traced = TimedPhase("decode", 1, 10.0, ops, 0.0, 4.0, gpu=True)
    assert traced.gap_s == 6.0
    assert placed(traced).bound_share[Bound.OVERHEAD] == pytest.approx(0.6)


def test_spread_and_instrument_are_findings() -> None:
    traced = ran(TimedOp(copy("a", 10), 8.0))
    codes = {finding.code for finding in measured_findings(placed(traced, 5.0, 8.0, 9.0), part())}
    assert {"spread", "instrument"} <= codes
    quiet = {finding.code for finding in measured_findings(placed(traced, 9.9, 10.0, 10.1), part())}
    assert not quiet & {"spread", "instrument"}


def test_a_phase_needs_a_breakdown_or_a_prediction() -> None:
    with pytest.raises(ValueError, match="breakdown or a prediction"):
        place_measured(DECODE, Measurement((1.0,)), part(), FP32, predicted=None)
