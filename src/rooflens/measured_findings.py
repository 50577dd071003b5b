"""Findings of a phase that ran: what lies above its roof, what is not understood, and what the timing is worth."""

from __future__ import annotations

from collections.abc import Iterator

from rooflens.core.hardware import Hardware
from rooflens.core.profile import Finding, PhaseProfile, Point
from rooflens.measured import unplaced
from rooflens.units import binary, si

ABOVE = 1.02
"""Share of its roof beyond which an op counts as above it: clocks are read to about this."""
_LEAST_TIME = 0.002
_LEAST_COVERAGE = 0.95
_MOST_SPREAD = 0.10
_MOST_OVERHEAD = 0.05
_MOST_NAMED = 4


def measured_findings(phase: PhaseProfile, hardware: Hardware) -> Iterator[Finding]:
    """What a reader should know of a measured phase."""
    yield from _above(phase, hardware)
    yield from _beaten(phase)
    yield from _not_understood(phase)
    yield from _timing(phase)
    yield from _disagreement(phase)


def _above(phase: PhaseProfile, hardware: Hardware) -> Iterator[Finding]:
    """Ops that were faster than their roof allows, each with what explains it: they are shown where they are."""
    least = _LEAST_TIME * float(phase.time_s)
    high = [p for p in phase.points if (p.roof_share or 0.0) > ABOVE and p.known and float(p.time_s) >= least]
    cached = [p for p in high if p.timing.memory_s > p.timing.compute_s and _fits_cache(p, hardware)]
    for points, why in ((cached, _cache_words(hardware)), ([p for p in high if p not in cached], _PEAK_WORDS)):
        if points:
            named = ", ".join(f"{p.op.name} ({100 * (p.roof_share or 0.0):.0f} %)" for p in points[:_MOST_NAMED])
            more = f" and {len(points) - _MOST_NAMED} more" if len(points) > _MOST_NAMED else ""
            yield Finding("info", "above_roof", f"{phase.phase.kind}: above the roof: {named}{more}; {why}")
    if phase.predicted is not None and float(phase.time_s) < float(phase.ideal_s):
        text = f"{phase.phase.kind} took {si(float(phase.time_s), 's')}, less than any schedule can by the ceilings"
        yield Finding("warning", "above_ideal", f"{text} ({si(float(phase.ideal_s), 's')}): a ceiling is too low")


def _beaten(phase: PhaseProfile) -> Iterator[Finding]:
    """Shapes that were faster than what such kernels were measured to reach: that ceiling is too low."""
    for share in phase.kernel_shares:
        if share.share > _MOST_SHARE:
            ran, kept = si(share.achieved, "B/s"), si(share.ceiling, "B/s")
            text = (
                f"{phase.phase.kind}: {share.shape} kernels in {share.dtype} ran at {ran}, above the {kept} of their "
                "kept ceiling, which a busier machine gave; `rooflens ceilings --fresh` measures again"
            )
            yield Finding("warning", "kernel_ceiling", text)


_MOST_SHARE = 1.05
_PEAK_WORDS = "the peak or the bandwidth that was measured is too low for them, or what they move was in a cache"


def _fits_cache(point: Point, hardware: Hardware) -> bool:
    """Whether one run moves no more than the last cache holds."""
    sizes = [level.capacity.value for level in hardware.caches if level.capacity is not None]
    return bool(sizes) and float(point.op.traffic.memory) / point.op.count <= max(sizes)


def _cache_words(hardware: Hardware) -> str:
    sizes = [level for level in hardware.caches if level.capacity is not None]
    last = max(sizes, key=lambda level: level.capacity.value if level.capacity else 0.0, default=None)
    size = f" ({last.name}, {binary(last.capacity.value)})" if last is not None and last.capacity is not None else ""
    return f"what they move fits the cache{size}, which is faster than memory"


def _not_understood(phase: PhaseProfile) -> Iterator[Finding]:
    traced = phase.measured.traced if phase.measured else None
    if traced is None:
        return
    if traced.coverage < _LEAST_COVERAGE:
        named = ", ".join(f"{name} {100 * share:.1f} %" for name, share in traced.unknown[:_MOST_NAMED])
        text = f"{phase.phase.kind}: {100 * (1 - traced.coverage):.1f} % of the ops' time has no formula: {named}"
        yield Finding("warning", "coverage", text)
    for dtype, seconds in unplaced(phase.points).items():
        text = f"{phase.phase.kind}: no {dtype} peak was measured; {si(seconds, 's')} of its products stand under "
        yield Finding("warning", "no_peak", f"{text}the {phase.roof.dtype} roof")


def _timing(phase: PhaseProfile) -> Iterator[Finding]:
    measured = phase.measured
    assert measured is not None
    if measured.spread > _MOST_SPREAD and len(measured.times_s) > 1:
        text = f"{phase.phase.kind}: not stable: repeats spread by {100 * measured.spread:.0f} % around the median"
        yield Finding("warning", "spread", text)
    if measured.overhead is not None and abs(measured.overhead) > _MOST_OVERHEAD:
        much = f"{100 * abs(measured.overhead):.1f} % {'longer' if measured.overhead > 0 else 'shorter'}"
        text = f"{phase.phase.kind}: the instrumented run took {much} than the runs without the instrument: "
        yield Finding("warning", "instrument", f"{text}times of single ops are as uncertain")


def _disagreement(phase: PhaseProfile) -> Iterator[Finding]:
    """Where the ops that ran multiply otherwise than the counts say."""
    predicted, measured = phase.predicted, phase.measured
    if predicted is None or measured is None or measured.traced is None:
        return
    counted, run = float(predicted.model_flops), float(phase.model_flops)
    if counted and abs(run / counted - 1) > 1e-3:
        text = f"{phase.phase.kind}: the ops that ran multiply {si(run, 'FLOP')}, the counts say {si(counted, 'FLOP')}"
        why = "ops without a formula, another attention mask, or padding explain a difference"
        yield Finding("warning", "flops_differ", f"{text} ({100 * (run / counted - 1):+.2f} %): {why}")
