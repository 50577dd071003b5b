"""Profile: the record that prediction and measurement both end in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from statistics import median
from typing import Any

from rooflens.core.arrays import Count, is_array, most
from rooflens.core.hardware import Hardware, KernelShape, Roof
from rooflens.core.model import ModelSpec
from rooflens.core.op import DType, Op, Traffic
from rooflens.core.scenario import Phase, Scenario
from rooflens.core.timed import TimedPhase


class Bound(str, Enum):
    """What limits a kernel or a phase."""

    COMPUTE = "compute"
    MEMORY = "memory"
    LINK = "link"
    OVERHEAD = "overhead"

    def __str__(self) -> str:
        return self.value


def largest(held: Mapping[Bound, Count]) -> Any:
    """The first of the largest in `held`: a `Bound`, or an array of their names where one is an array."""
    if not any(is_array(value) for value in held.values()):
        return max(held, key=lambda bound: held[bound])
    import numpy as np

    rows = np.broadcast_arrays(*held.values())
    return np.array([bound.value for bound in held])[np.argmax(np.stack(rows), axis=0)]


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds that an op takes at least on each resource, a total over its count."""

    compute_s: Count
    memory_s: Count
    link_s: Count

    @property
    def floor_s(self) -> Count:
        """The largest of the three: perfect overlap."""
        return most(most(self.compute_s, self.memory_s), self.link_s)

    @property
    def bound(self) -> Any:
        """The resource whose time is the floor; memory where compute time equals it.

        A `Bound`, or an array of their names for arrays of scenarios.
        """
        held = {Bound.MEMORY: self.memory_s, Bound.COMPUTE: self.compute_s, Bound.LINK: self.link_s}
        return largest(held)


@dataclass(frozen=True, slots=True)
class Point:
    """An op under its roof, and under its link where it moves bytes over one (byte/s).

    measured_s: seconds that it took, a total over its count; None where it was counted and did not run. known: whether
    a formula gave its FLOP and bytes; where none did, it has no place under the roof.
    """

    op: Op
    roof: Roof
    link_bandwidth: float | None = None
    measured_s: float | None = None
    known: bool = True

    @property
    def timing(self) -> Timing:
        """Seconds on each resource."""
        traffic = self.op.traffic
        link_s = 0.0 if self.link_bandwidth is None else traffic.link / self.link_bandwidth
        return Timing(self.op.flops / self.roof.peak, traffic.memory / self.roof.bandwidth, link_s)

    @property
    def floor_s(self) -> Count:
        """Ideal roofline time in seconds, a total over the op's count."""
        return self.timing.floor_s

    @property
    def time_s(self) -> Count:
        """Seconds that it took where it ran, else its floor."""
        return self.floor_s if self.measured_s is None else self.measured_s

    @property
    def roof_share(self) -> float | None:
        """Share of its roof that it reached, floor over time: above 1 above the roof; None unless it ran."""
        return float(self.floor_s) / self.measured_s if self.measured_s else None


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one pass of a phase took.

    times_s: seconds of each repeat, without an instrument; of decode the mean step of a repeat. traced: the mean pass
    of the instrumented run, as it ran; None where there was none. joules: of one pass, where the machine counts them.
    instrumented: whether `times_s` are those of the instrumented run itself, for want of another.
    """

    times_s: tuple[float, ...]
    traced: TimedPhase | None = None
    joules: float | None = None
    instrumented: bool = False

    @property
    def time_s(self) -> float:
        """Median seconds of one pass."""
        return median(self.times_s)

    @property
    def spread(self) -> float:
        """(Largest - smallest) / median of the repeats, 0.."""
        return (max(self.times_s) - min(self.times_s)) / self.time_s

    @property
    def overhead(self) -> float | None:
        """What the instrument added, as a share of the time without it; None where that is not known."""
        return None if self.traced is None or self.instrumented else self.traced.wall_s / self.time_s - 1

    @property
    def scale(self) -> float:
        """What the times of the instrumented run are multiplied by to add up to `time_s`."""
        return self.time_s / self.traced.wall_s if self.traced is not None else 1.0


@dataclass(frozen=True, slots=True)
class KernelShare:
    """How near kernels of one shape came to what such kernels reach on the machine.

    seconds: that they took together. achieved, ceiling: byte/s; `ceiling` of kernels of that shape, measured alone.
    """

    shape: KernelShape
    dtype: DType
    seconds: float
    achieved: float
    ceiling: float

    @property
    def share(self) -> float:
        """Share of their own ceiling that they reach, 0.."""
        return self.achieved / self.ceiling


@dataclass(frozen=True, slots=True)
class PhaseProfile:
    """A phase: its kernels under their roofs, and their sums.

    flops, model_flops: FLOP. traffic: bytes by kind. intensity: FLOP per byte of memory traffic.
    ridge_point: of the roof that the matrix multiplications run under, FLOP/byte.
    matrix_s: model FLOP over the peak that each runs under, summed: what the matrix units are busy for at least.
    floor_s: serial floor, the sum of the kernels' floors. ideal_s: max(sum of FLOP / peak, compulsory
    bytes / bandwidth); only a time below it is impossible. bound_share: share of the time by bound.
    measured: what a real run took, None where nothing ran; `points` are then the ops of that run. predicted: the same
    phase as it is counted from the model's shapes, beside a measured one. kernel_shares: of what ran, by shape.
    """

    phase: Phase
    points: tuple[Point, ...]
    roof: Roof
    flops: Count
    model_flops: Count
    traffic: Traffic
    compulsory_bytes: Count
    matrix_s: Count
    floor_s: Count
    ideal_s: Count
    intensity: Count
    ridge_point: float
    bound_share: Mapping[Bound, Count]
    measured: Measurement | None = None
    predicted: PhaseProfile | None = None
    kernel_shares: tuple[KernelShare, ...] = ()

    @property
    def time_s(self) -> Count:
        """Seconds of one pass: measured where it ran, else the serial floor."""
        return self.floor_s if self.measured is None else self.measured.time_s

    @property
    def bound(self) -> Any:
        """The bound that holds the largest share of the time: a `Bound`, or an array of their names."""
        return largest(self.bound_share)

    @property
    def slowest(self) -> Point | None:
        """The op that ran longest, None where nothing ran with a breakdown."""
        ran = [point for point in self.points if point.measured_s is not None]
        return max(ran, key=lambda point: float(point.time_s), default=None)

    @property
    def kernel_roof_share(self) -> float | None:
        """Share of their roofs that the ops which ran reach together, their floors over what they took; else None."""
        ran = [point for point in self.points if point.measured_s is not None and point.known]
        seconds = sum(float(point.time_s) for point in ran)
        return sum(float(point.floor_s) for point in ran) / seconds if seconds else None


@dataclass(frozen=True, slots=True)
class Finding:
    """Something the reader should know: `level` is "info" or "warning"."""

    level: str
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Profile:
    """A model on a machine under a workload: what every later room takes.

    conditions: (name, text) of what held while it ran: framework, threads, clocks, why a counter is not there.
    """

    model: ModelSpec
    hardware: Hardware
    scenario: Scenario
    phases: tuple[PhaseProfile, ...]
    findings: tuple[Finding, ...] = ()
    conditions: tuple[tuple[str, str], ...] = ()
