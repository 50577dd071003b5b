"""Sentences about what was measured: the verdict of a phase, its coverage, and how it was timed."""

from __future__ import annotations

from rooflens.core.hardware import KernelShape
from rooflens.core.profile import Bound, KernelShare, Measurement, PhaseProfile
from rooflens.metrics import phase_metrics
from rooflens.render.figures import percent
from rooflens.units import si

SHAPES = {
    KernelShape.M1_LINEAR: "M=1 linear",
    KernelShape.SKINNY_LINEAR: "tall-skinny linear",
    KernelShape.DECODE_ATTENTION: "decode attention",
}
"""What a reader calls each shape with a ceiling of its own."""


def measured_verdict(phase: PhaseProfile) -> str:
    """One sentence: what limits a phase that ran, and how far from that limit it runs."""
    measured, bound = phase.measured, phase.bound
    assert measured is not None
    took, held = si(measured.time_s, "s"), percent(phase.bound_share[bound])
    claim = f"{phase.phase.kind} is {bound}-bound: "
    if measured.traced is None:
        return f"{claim}{_reached(phase)} in {took}; without a breakdown, overhead is not told apart"
    if bound is Bound.OVERHEAD:
        return (
            f"{claim}for {held} of its {took} no kernel runs and the machine waits for the framework; {_reached(phase)}"
        )
    overhead = percent(phase.bound_share[Bound.OVERHEAD])
    return f"{claim}{_reached(phase)}; {held} of its {took} goes to {bound}, {overhead} to overhead{_slow(phase)}"


SLOW = 0.5
"""Share of their roofs below which the kernels themselves are what a reader should look at."""


def _slow(phase: PhaseProfile) -> str:
    """Where kernels stay far below their roofs: by how much, and which takes longest."""
    share, longest = phase.kernel_roof_share, phase.slowest
    if share is None or share >= SLOW or longest is None or nearest_kernel(phase) is not None:
        return ""
    part = percent(float(longest.time_s) / float(phase.time_s))
    reach = f" at {percent(longest.roof_share)} of its roof" if longest.known and longest.roof_share else ""
    return f"; its kernels reach {percent(share)} of their roofs, the longest, {longest.op.name}, takes {part}{reach}"


def _reached(phase: PhaseProfile) -> str:
    """What was achieved, as a share of the ceiling that is nearest."""
    nearest = nearest_kernel(phase)
    if nearest is not None and phase.bound is not Bound.COMPUTE:
        width = nearest.achieved / phase.roof.bandwidth
        return (
            f"{SHAPES[nearest.shape]} at {percent(nearest.share)} of its own ceiling "
            f"({si(nearest.achieved, 'B/s')} of {si(nearest.ceiling, 'B/s')}), {percent(width)} of the read bandwidth"
        )
    rates, seconds = phase_metrics(phase), float(phase.time_s)
    if phase.bound is Bound.COMPUTE:
        reached = si(float(phase.model_flops) / seconds, "FLOP/s")
        return f"{percent(rates.mfu)} of the {phase.roof.dtype} peak ({reached} of {si(phase.roof.peak, 'FLOP/s')})"
    moved = si(float(phase.compulsory_bytes) / seconds, "B/s")
    return f"{percent(rates.mbu)} of the read bandwidth ({moved} of {si(phase.roof.bandwidth, 'B/s')})"


def nearest_kernel(phase: PhaseProfile) -> KernelShare | None:
    """The shape that most of the phase's time goes to, where its own ceiling is nearer than the bandwidth."""
    if not phase.kernel_shares:
        return None
    first = phase.kernel_shares[0]
    works = sum(float(point.time_s) for point in phase.points)
    nearer = first.ceiling < phase.roof.bandwidth and first.seconds > 0.5 * works
    return first if nearer and first.share <= BEATEN else None


BEATEN = 1.05
"""Share of its own ceiling beyond which a shape has beaten it: the ceiling was measured too low and is not named."""


def coverage_line(phase: PhaseProfile) -> str:
    """How much of the ops' time is understood, first of what a breakdown says."""
    traced = phase.measured.traced if phase.measured else None
    if traced is None:
        return "no breakdown"
    unknown = ", ".join(f"{name} {percent(share)}" for name, share in traced.unknown[:5])
    rest = f"; without a formula: {unknown}" if unknown else ""
    return f"coverage {percent(traced.coverage)}, GEMM and attention {percent(traced.matrix_share)}{rest}"


def timing_line(measured: Measurement) -> str:
    """How a phase was timed, how its repeats spread, and what the instrument added."""
    many = len(measured.times_s)
    spread = f", spread {percent(measured.spread)}" if many > 1 else ""
    first = f"median of {many} repeat{'s' if many > 1 else ''}{spread}"
    if measured.instrumented:
        return f"{first}, with the instrument on"
    if measured.overhead is None:
        return f"{first}; not traced"
    assert measured.traced is not None
    passes = measured.traced.passes
    return (
        f"{first}; traced in {passes} pass{'es' if passes > 1 else ''} of {si(measured.traced.wall_s, 's')}, "
        f"{_sign(measured.overhead)} than without the instrument"
    )


def _sign(share: float) -> str:
    return f"{percent(abs(share))} {'longer' if share >= 0 else 'shorter'}"
