"""Counted kernels under the roofs of every level of memory: which level, or the arithmetic, is nearest to its limit.

Source: Yang, Kurth, Williams, "Hierarchical Roofline analysis for GPUs", CCPE 32(20), 2020; levels after Ilic, Pratas,
Sousa, "Cache-aware Roofline model", IEEE CAL 13(1), 2014.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rooflens.core.counters import LEVELS, KernelCounters
from rooflens.core.hardware import Ceiling, Hardware
from rooflens.core.op import DType

COMPUTE = "compute"


@dataclass(frozen=True, slots=True)
class LevelPoint:
    """One launch at one level of memory.

    level: one of `LEVELS`. bandwidth: byte/s of that level, None where it is not known. compute_share: share of the
    peak of the pipe that is busiest, 0.., None where FLOP or peak are not known. bound: of all levels of the launch
    the one whose share is largest, or "compute"; None where no share is known.
    """

    counters: KernelCounters
    level: str
    bandwidth: float | None
    compute_share: float | None
    bound: str | None = None

    @property
    def moved(self) -> float:
        """Bytes at this level."""
        return self.counters.bytes_by_level[self.level]

    @property
    def intensity(self) -> float | None:
        """FLOP per byte of this level; None where the FLOP are not known or no byte moved."""
        flops = self.counters.flops
        return None if flops is None or not self.moved else flops / self.moved

    @property
    def performance(self) -> float | None:
        """FLOP/s that the kernel reached."""
        return _rate(self.counters.flops, self.counters.seconds)

    @property
    def achieved(self) -> float | None:
        """Byte/s at this level."""
        return _rate(self.moved, self.counters.seconds)

    @property
    def share(self) -> float | None:
        """Share of this level's bandwidth, 0..; above 1 where the bandwidth is another clock's."""
        return None if self.bandwidth is None or self.achieved is None else self.achieved / self.bandwidth


def place_levels(counters: Iterable[KernelCounters], hardware: Hardware | None) -> tuple[LevelPoint, ...]:
    """Return a point for each launch and each level of memory that was counted, in order.

    A level's bandwidth is that of `hardware`: of its device memory, of its cache named L2 or L1. Without hardware, and
    for a level that it has no figure of, the peak that the report itself names stands in.
    """
    return tuple(point for launch in counters for point in _levels(launch, hardware))


def _levels(launch: KernelCounters, hardware: Hardware | None) -> Iterable[LevelPoint]:
    compute = _compute_share(launch, hardware)
    counted = [level for level in LEVELS if level in launch.bytes_by_level]
    points = [LevelPoint(launch, level, _bandwidth(launch, level, hardware), compute) for level in counted]
    shares = {point.level: point.share for point in points} | {COMPUTE: compute}
    known = {name: share for name, share in shares.items() if share is not None}
    bound = max(known, key=lambda name: known[name]) if any(known.values()) else None
    return [LevelPoint(launch, point.level, point.bandwidth, compute, bound) for point in points]


def _bandwidth(launch: KernelCounters, level: str, hardware: Hardware | None) -> float | None:
    known: Ceiling | None = None
    if hardware is not None:
        named = [cache.bandwidth for cache in hardware.caches if cache.name.lower() == level]
        known = hardware.memory.bandwidth if level == "dram" else next(iter(named), None)
    return known.value if known is not None else launch.peaks.get(level)


def _compute_share(launch: KernelCounters, hardware: Hardware | None) -> float | None:
    """The largest share of a pipe's peak: pipes work beside each other, so the busiest is the limit."""
    if hardware is None or launch.flops is None or not launch.seconds:
        return None
    shares = []
    for pipe, flops in launch.flops_by_pipe.items():
        peak = _peak(pipe, launch.dtype, hardware)
        if flops and peak is None:
            return None
        shares.append(flops / launch.seconds / peak.value if peak else 0.0)
    return max(shares)


def _peak(pipe: str, dtype: DType | None, hardware: Hardware) -> Ceiling | None:
    if pipe == "tensor":
        return hardware.matrix.get(dtype) if dtype is not None else None
    return hardware.vector.get({"ffma": DType.FP32, "hfma": DType.FP16, "dfma": DType.FP64}[pipe])


def _rate(count: float | None, seconds: float | None) -> float | None:
    return None if count is None or not seconds else count / seconds
