"""The law: attainable performance, ridge point, and an op under its roof. Knows no model.

Source: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model", CACM 52(4), 2009.
"""

from __future__ import annotations

from collections.abc import Sequence

from rooflens.core.arrays import Count, add_where, is_array, least, most, negate, plus, ratio, where
from rooflens.core.hardware import Hardware, Roof
from rooflens.core.op import DType, Op, Traffic
from rooflens.core.profile import Bound, PhaseProfile, Point
from rooflens.core.scenario import Phase


def attainable(intensity: Count, roof: Roof) -> Count:
    """Performance in FLOP/s that `roof` allows at `intensity` FLOP/byte.

    Source: Williams, Waterman, Patterson, CACM 52(4), 2009, section 3.
    """
    return least(roof.peak, roof.bandwidth * intensity)


def ridge_point(roof: Roof) -> float:
    """Intensity in FLOP/byte from which `roof` is flat: peak / bandwidth.

    Source: Williams, Waterman, Patterson, CACM 52(4), 2009, section 3.
    """
    return roof.peak / roof.bandwidth


def place(op: Op, roof: Roof, *, link_bandwidth: float | None = None) -> Point:
    """Put `op` under `roof`.

    `floor_s` is the largest of compute, memory and link time in seconds (perfect overlap), so it also
    holds for an op without FLOP (a copy), where FLOP / attainable would be 0 / 0.

    Raises:
        ValueError: the op moves bytes over a link and no `link_bandwidth` (byte/s) is given.
    """
    if link_bandwidth is None and (is_array(op.traffic.link) or op.traffic.link):
        raise ValueError(f"{op.name} moves bytes over a link: give its bandwidth")
    return Point(op, roof, link_bandwidth)


def place_phase(phase: Phase, ops: Sequence[Op], hardware: Hardware, dtype: DType) -> PhaseProfile:
    """Put every op of a phase under its roof on `hardware` and add them up.

    Matrix multiplications run under the roof of their dtype, everything else under the vector units'.
    `dtype` is the compute dtype of the linear layers: its ridge point is the phase's.

    Raises:
        UnknownPeakError: `hardware` has no published peak for a dtype of `ops`.
    """
    vector = hardware.vector_roof(dtype)
    points = tuple(place(op, hardware.roof(op.dtype) if op.kind.on_matrix_units else vector) for op in ops)
    return place_ops(phase, points, hardware, dtype)


def place_ops(phase: Phase, points: tuple[Point, ...], hardware: Hardware, dtype: DType) -> PhaseProfile:
    """Add up the points of a phase. `dtype` selects the roof whose ridge point is the phase's.

    Raises:
        UnknownPeakError: `hardware` has no peak for `dtype`.
    """
    ops = [point.op for point in points]
    traffic = Traffic.total_of([op.traffic for op in ops])
    floor_s, shares = serial_floor(points)
    flops = plus(*(op.flops for op in ops))
    roof = hardware.roof(dtype)
    return PhaseProfile(
        phase=phase,
        points=points,
        roof=roof,
        flops=flops,
        model_flops=plus(*(op.model_flops for op in ops)),
        traffic=traffic,
        compulsory_bytes=plus(*(op.compulsory_bytes for op in ops)),
        matrix_s=matrix_seconds(points),
        floor_s=floor_s,
        ideal_s=ideal_seconds(points),
        intensity=ratio(flops, traffic.memory),
        ridge_point=ridge_point(roof),
        bound_share=shares,
    )


def matrix_seconds(points: Sequence[Point]) -> Count:
    """Seconds that the matrix units are busy for at least: model FLOP over the peak that each runs under."""
    return _sum_over([(point.roof.peak, point.op.model_flops) for point in points])


def ideal_seconds(points: Sequence[Point]) -> Count:
    """Seconds below which no schedule of `points` gets: every kernel overlapped with every other.

    max(matrix FLOP / peak, compulsory bytes / bandwidth), in which activations stay on chip and the
    vector units work beside the matrix units. Link time is compulsory and overlaps with both.
    """
    compute_s = matrix_seconds(points)
    memory_s = _sum_over([(point.roof.bandwidth, point.op.compulsory_bytes) for point in points])
    link_s = plus(*(point.timing.link_s for point in points))
    return most(most(compute_s, memory_s), link_s)


def serial_floor(points: Sequence[Point]) -> tuple[Count, dict[Bound, Count]]:
    """Seconds of `points` one after another, and the share in 0..1 of them that each bound holds.

    An op belongs to the bound whose time is its floor, to memory at the ridge point itself. Shares add up to
    1, or are all 0 where no time passes.
    """
    seconds: dict[Bound, Count] = dict.fromkeys(Bound, 0.0)
    for timing in (point.timing for point in points):
        computes, rest = timing.compute_s > timing.memory_s, most(timing.compute_s, timing.memory_s)
        if is_array(timing.link_s) or timing.link_s:
            on_link = timing.link_s > rest
            seconds[Bound.LINK] = add_where(seconds[Bound.LINK], on_link, timing.link_s)
            rest = where(on_link, 0.0, rest)
        seconds[Bound.COMPUTE] = add_where(seconds[Bound.COMPUTE], computes, rest)
        seconds[Bound.MEMORY] = add_where(seconds[Bound.MEMORY], negate(computes), rest)
    total = plus(*seconds.values())
    return total, {bound: _share(held, total) for bound, held in seconds.items()}


def _share(held: Count, total: Count) -> Count:
    return held / total if is_array(held) or held else 0.0


def envelope(roofs: Sequence[Roof], intensities: Sequence[float]) -> list[float]:
    """Highest performance in FLOP/s that any of `roofs` allows at each intensity in FLOP/byte."""
    return [max(float(attainable(intensity, roof)) for roof in roofs) for intensity in intensities]


def _sum_over(terms: Sequence[tuple[float, Count]]) -> Count:
    """Sum of counts over their rates; counts of one rate are added before they are divided."""
    rates = dict.fromkeys(rate for rate, _ in terms)
    return plus(*(plus(*(count for own, count in terms if own == rate)) / rate for rate in rates))
