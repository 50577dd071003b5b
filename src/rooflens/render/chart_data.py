"""Profile -> the marks of a roofline chart, and the kernels that have no place on logarithmic axes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rooflens.core.arrays import is_array
from rooflens.core.profile import PhaseProfile, Point, Profile
from rooflens.errors import InputError
from rooflens.render.figures import figure, percent
from rooflens.units import si

KERNEL = "one kernel"
FLOOR = "predicted floor"
LEAST_SHARE = 0.002
PHASE = "whole phase"


@dataclass(frozen=True, slots=True)
class Mark:
    """A kernel or a phase on the axes.

    x: intensity in FLOP/byte of memory traffic. y: performance in FLOP/s, FLOP over the time that was measured, or
    over the floor where nothing ran. share: of the phase's time, 0..1. tip: what hovering shows, printed figures by
    title.
    """

    phase: str
    name: str
    kind: str
    x: float
    y: float
    share: float
    tip: dict[str, str]

    def row(self) -> dict[str, Any]:
        """The mark as a row of plain data."""
        place = {"x": self.x, "y": self.y, "share": self.share}
        return {"phase": self.phase, "mark": self.kind, **place, **self.tip}


@dataclass(frozen=True, slots=True)
class OffAxes:
    """A kernel without a place on logarithmic axes, and why."""

    phase: str
    name: str
    reason: str
    share: float


def single(profile: Profile) -> None:
    """Refuse a profile of many scenarios.

    Raises:
        InputError: a figure of `profile` is an array.
    """
    if any(is_array(phase.floor_s) for phase in profile.phases):
        raise InputError("a chart draws one scenario, and this profile holds an array of them: predict one at a time")


def kernel_marks(profile: Profile) -> tuple[Mark, ...]:
    """Every kernel with FLOP and bytes, largest share of its phase first, so that small marks lie on top.

    Of ops that ran, those with at least `LEAST_SHARE` of a phase: a framework runs dozens of tiny ones.
    """
    marks = [
        _kernel(phase, point)
        for phase in profile.phases
        for point in phase.points
        if not _off(point) and (point.measured_s is None or share_of(point, phase) >= LEAST_SHARE)
    ]
    return tuple(sorted(marks, key=lambda mark: -mark.share))


def phase_marks(profile: Profile) -> tuple[Mark, ...]:
    """One mark for each phase that has FLOP and bytes."""
    return tuple(_phase(phase) for phase in profile.phases if phase.flops and phase.traffic.memory)


def floor_marks(profile: Profile) -> tuple[Mark, ...]:
    """Where the prediction puts each phase that ran: at the floor of the counted kernels."""
    return tuple(replace(_phase(p.predicted), kind=FLOOR) for p in profile.phases if p.measured and p.predicted)


def off_axes(profile: Profile) -> tuple[OffAxes, ...]:
    """Every kernel that `kernel_marks` leaves out."""
    return tuple(
        OffAxes(str(phase.phase.kind), clean(point.op.name), _off(point), share_of(point, phase))
        for phase in profile.phases
        for point in phase.points
        if _off(point)
    )


def share_of(point: Point, phase: PhaseProfile) -> float:
    """Share of the phase's time that `point` takes, 0..1: of its floor where nothing ran."""
    whole = float(phase.floor_s if point.measured_s is None else phase.time_s)
    return float(point.time_s) / whole if whole else 0.0


def clean(text: str, longest: int = 60) -> str:
    """`text` on one line without control, bidirectional and unpaired characters, shortened in the middle."""
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    if len(plain) <= longest:
        return plain
    half = (longest - 1) // 2
    return f"{plain[:half]}…{plain[-half:]}"


def _off(point: Point) -> str:
    if not point.known:
        return "no formula"
    if not point.op.flops:
        return "0 FLOP"
    return "" if point.op.traffic.memory else "no bytes of their own"


def _kernel(phase: PhaseProfile, point: Point) -> Mark:
    op, kind, share = point.op, str(phase.phase.kind), share_of(point, phase)
    flops, seconds, x = float(op.flops), float(point.time_s), float(op.intensity)
    name = clean(op.name)
    tip = {
        "name": name,
        "runs": f"{op.count:,}",
        **_figures(flops, float(op.traffic.memory), x, seconds),
        "floor": si(float(point.floor_s), "s"),
        **_ran(point.measured_s, point.roof_share),
        "bound": f"{point.timing.bound} ({op.dtype})",
        "time": f"{percent(share)} of {kind}",
    }
    return Mark(kind, name, KERNEL, x, flops / seconds, share, tip)


def _phase(phase: PhaseProfile) -> Mark:
    kind, x = str(phase.phase.kind), float(phase.intensity)
    flops, seconds, floor_s = float(phase.flops), float(phase.time_s), float(phase.floor_s)
    measured_s = None if phase.measured is None else phase.measured.time_s
    tip = {
        "name": f"{kind}, the whole phase",
        "runs": f"{sum(point.op.count for point in phase.points):,}",
        **_figures(flops, float(phase.traffic.memory), x, seconds),
        "floor": si(floor_s, "s"),
        **_ran(measured_s, None if measured_s is None else floor_s / measured_s),
        "bound": f"{phase.bound} ({percent(float(phase.bound_share[phase.bound]))} of the time)",
        "time": "all of it",
    }
    return Mark(kind, kind, PHASE, x, flops / seconds, 1.0, tip)


def _ran(measured_s: float | None, share: float | None) -> dict[str, str]:
    """What hovering shows of a mark that ran."""
    return {} if measured_s is None else {"measured": si(measured_s, "s"), "of its roof": percent(share or 0.0)}


def _figures(flops: float, moved: float, intensity: float, seconds: float) -> dict[str, str]:
    return {
        "flops": si(flops, "FLOP"),
        "bytes": si(moved, "B"),
        "intensity": f"{figure(intensity)} FLOP/byte",
        "performance": si(flops / seconds, "FLOP/s"),
    }
