"""The law: attainable performance, ridge point, and an op under its roof. Knows no model.

Source: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model", CACM 52(4), 2009.
"""

from __future__ import annotations

from collections.abc import Sequence

from rooflens.core.arrays import Count, is_array, least, most, ratio, where
from rooflens.core.hardware import Hardware, Roof
from rooflens.core.op import DType, Op, Traffic
from rooflens.core.profile import Bound, PhaseProfile, Point, Timing
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
    compute_s = op.flops / roof.peak
    memory_s = op.traffic.memory / roof.bandwidth
    link_s: Count = 0.0
    if is_array(op.traffic.link) or op.traffic.link:
        if link_bandwidth is None:
            raise ValueError(f"{op.name} moves bytes over a link: give its bandwidth")
        link_s = op.traffic.link / link_bandwidth
    return Point(op, roof, Timing(compute_s, memory_s, link_s, most(most(compute_s, memory_s), link_s)))


def place_phase(phase: Phase, ops: Sequence[Op], hardware: Hardware, dtype: DType) -> PhaseProfile:
    """Put every op of a phase under its roof on `hardware` and add them up.

    Matrix multiplications run under the roof of their dtype, everything else under the vector units'.
    `dtype` is the compute dtype of the linear layers: its ridge point is the phase's.

    Raises:
        UnknownPeakError: `hardware` has no published peak for a dtype of `ops`.
    """
    vector = hardware.vector_roof(dtype)
    points = tuple(place(op, hardware.roof(op.dtype) if op.kind.on_matrix_units else vector) for op in ops)
    traffic = _total_traffic(ops)
    flops = sum(op.flops for op in ops)
    floor_s = sum(point.floor_s for point in points)
    roof = hardware.roof(dtype)
    return PhaseProfile(
        phase=phase,
        points=points,
        roof=roof,
        flops=flops,
        model_flops=sum(op.model_flops for op in ops),
        traffic=traffic,
        compulsory_bytes=sum(op.compulsory_bytes for op in ops),
        floor_s=floor_s,
        ideal_s=ideal_seconds(points),
        intensity=ratio(flops, traffic.memory),
        ridge_point=ridge_point(roof),
        bound_share=bound_share(points),
    )


def ideal_seconds(points: Sequence[Point]) -> Count:
    """Seconds below which no schedule of `points` gets: every kernel overlapped with every other.

    max(matrix FLOP / peak, compulsory bytes / bandwidth), in which activations stay on chip and the
    vector units work beside the matrix units. Link time is compulsory and overlaps with both.
    """
    compute_s = sum(point.op.model_flops / point.roof.peak for point in points)
    memory_s = sum(point.op.compulsory_bytes / point.roof.bandwidth for point in points)
    link_s = sum(point.timing.link_s for point in points)
    return most(most(compute_s, memory_s), link_s)


def bound_share(points: Sequence[Point]) -> dict[Bound, Count]:
    """Share of the serial floor that is held by each bound; a share is in [0, 1] and they add up to 1.

    An op belongs to the bound whose time is its floor, to memory at the ridge point itself.
    """
    seconds: dict[Bound, Count] = dict.fromkeys(Bound, 0.0)
    for point in points:
        t = point.timing
        on_link = t.link_s > most(t.compute_s, t.memory_s)
        computes = t.compute_s > t.memory_s
        seconds[Bound.LINK] = seconds[Bound.LINK] + where(on_link, t.floor_s, 0.0)
        rest = where(on_link, 0.0, t.floor_s)
        seconds[Bound.COMPUTE] = seconds[Bound.COMPUTE] + where(computes, rest, 0.0)
        seconds[Bound.MEMORY] = seconds[Bound.MEMORY] + where(computes, 0.0, rest)
    total = sum(seconds.values())
    return {bound: s / total if is_array(total) or total else 0.0 for bound, s in seconds.items()}


def envelope(roofs: Sequence[Roof], intensities: Sequence[float]) -> list[float]:
    """Highest performance in FLOP/s that any of `roofs` allows at each intensity in FLOP/byte."""
    return [max(float(attainable(intensity, roof)) for roof in roofs) for intensity in intensities]


def _total_traffic(ops: Sequence[Op]) -> Traffic:
    total = Traffic()
    for op in ops:
        total = total + op.traffic
    return total
