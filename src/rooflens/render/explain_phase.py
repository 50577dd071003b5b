"""A phase explained: what passes through the model, every kernel's figures as formulas, and their sums."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import fill
from typing import Any

from rooflens.core.profile import Bound, PhaseProfile, Point, Profile
from rooflens.core.scenario import PhaseKind
from rooflens.metrics import phase_metrics
from rooflens.render.explain_bytes import byte_formulas
from rooflens.render.explain_flops import flop_formulas
from rooflens.render.explain_formula import Formula, duration, exact, number, times, whole
from rooflens.render.explain_reading import reading
from rooflens.render.explain_view import View, views
from rooflens.render.explain_words import what, why

KINDS = (
    ("weights", "weights"),
    ("kv_read", "KV read"),
    ("kv_write", "KV written"),
    ("activations", "activations"),
    ("state", "state"),
)
"""Kinds of memory traffic: field of `Traffic`, and what an explanation calls it."""

_INDENT = "  "
_WIDTH = 100


def phase_lines(profile: Profile, phase: PhaseProfile) -> Iterator[str]:
    """The explanation of one phase, line by line."""
    yield from _heading(str(phase.phase.kind).upper())
    yield from _passes(profile, phase)
    for view, point in zip(views(profile, phase), phase.points, strict=True):
        yield ""
        yield from kernel_lines(view, point)
    yield ""
    yield from _heading(f"{str(phase.phase.kind).upper()}, ALL KERNELS", "-")
    yield from sum_lines(phase)
    yield from (str(formula) for formula in phase_formulas(phase))
    yield ""
    yield from reading(profile, phase)


def _heading(text: str, line: str = "=") -> tuple[str, str]:
    return text, line * len(text)


def _passes(profile: Profile, phase: PhaseProfile) -> Iterator[str]:
    """What goes through the model in this phase."""
    batch, scenario = phase.phase.batch, profile.scenario
    sequences, new, cached = int(batch.sequences), int(batch.new_tokens), int(batch.cached_tokens)
    if phase.phase.kind is PhaseKind.PREFILL:
        yield "The prompt is read: all of its tokens pass through the layers at once, K and V of each are kept."
        yield str(Formula("tokens", "sequences x prompt", times(sequences, new), sequences * new, "tokens"))
        return
    yield "One step of generation: one new token per sequence, which attends to all that is cached before it."
    if scenario.context is None:
        middle = f"{number(scenario.prompt)} + {number(scenario.output)} // 2"
        yield "The step in the middle of the output stands for all of them."
        yield str(Formula("cached", "prompt + output // 2", middle, cached, "tokens in each sequence"))
    else:
        yield f"{cached:,} tokens are cached in each sequence, as was asked for."
    yield str(Formula("tokens", "sequences x 1", times(sequences, 1), sequences, "tokens"))


def kernel_lines(view: View, point: Point) -> Iterator[str]:
    """One kernel: what it is, then its FLOP, bytes, intensity and floor."""
    op = view.op
    yield f"{op.name}: {what(view)}; runs {op.count:,} x on the {point.roof.units} units in {point.roof.dtype}"
    if reason := why(view):
        yield fill(f"Why: {reason}.", _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)
    for formula in kernel_formulas(view, point):
        yield f"{_INDENT}{formula}"


def kernel_formulas(view: View, point: Point) -> Iterator[Formula]:
    """The formulas of one kernel: FLOP, bytes by kind and in all, intensity, and the two times with the floor."""
    yield from flop_formulas(view)
    kinds = tuple(byte_formulas(view))
    yield from kinds
    op, roof, timing = view.op, point.roof, point.timing
    if len(kinds) > 1:
        parts = " + ".join(whole(formula.value) for formula in kinds)
        yield Formula("bytes", " + ".join(formula.label for formula in kinds), parts, op.traffic.memory, "B")
    if op.flops and op.traffic.memory:
        numbers = f"{op.flops:,} / {whole(op.traffic.memory)}"
        yield Formula("intensity", "FLOP / bytes", numbers, op.intensity, "FLOP/byte")
    if op.flops:
        yield Formula("compute time", "FLOP / peak", _over(op.flops, "FLOP", roof.peak), timing.compute_s, "s")
    if op.traffic.memory:
        numbers = _over(op.traffic.memory, "B", roof.bandwidth)
        yield Formula("memory time", "bytes / bandwidth", numbers, timing.memory_s, "s")
    numbers = f"max({duration(timing.compute_s)}, {duration(timing.memory_s)})"
    yield Formula("floor", "max(compute time, memory time)", numbers, timing.floor_s, "s", f", {timing.bound}-bound")


def _over(amount: Any, unit: str, rate: float) -> str:
    return f"{whole(amount)} {unit} / {exact(rate, f'{unit}/s')}"


def sum_lines(phase: PhaseProfile) -> Iterator[str]:
    """A table: FLOP, bytes and floor of every kernel, and their sums."""
    width = max(len("all kernels"), *(len(point.op.name) for point in phase.points))
    yield f"{'kernel':<{width}}  {'FLOP':>26}  {'bytes':>26}  {'floor':>10}  bound"
    for point in phase.points:
        op = point.op
        yield _row(op.name, width, op.flops, op.traffic.memory, point.floor_s, str(point.timing.bound))
    yield _row("all kernels", width, phase.flops, phase.traffic.memory, phase.floor_s, "")


def _row(name: str, width: int, flops: Any, moved: Any, floor_s: Any, bound: str) -> str:
    return f"{name:<{width}}  {flops:>26,}  {whole(moved):>26}  {duration(floor_s):>10}  {bound}".rstrip()


def phase_formulas(phase: PhaseProfile) -> Iterator[Formula]:
    """The sums of a phase: bytes by kind, intensity, ridge point, shares, ideal time, MFU, MBU, tokens per second."""
    kinds = [(name, getattr(phase.traffic, field)) for field, name in KINDS if getattr(phase.traffic, field)]
    moved, rates = phase.traffic.memory, phase_metrics(phase)
    parts = " + ".join(whole(value) for _, value in kinds)
    yield Formula("bytes", " + ".join(name for name, _ in kinds), parts, moved, "B")
    yield Formula("intensity", "FLOP / bytes", f"{phase.flops:,} / {whole(moved)}", phase.intensity, "FLOP/byte")
    yield ridge_formula(phase)
    for bound, seconds in _seconds(phase):
        words, numbers = f"floors of {bound}-bound kernels / floor", f"{duration(seconds)} / {duration(phase.floor_s)}"
        yield Formula(f"{bound} share", words, numbers, phase.bound_share[bound], "%")
    yield from _ideal(phase)
    compulsory, floor = f"{whole(phase.compulsory_bytes)} B", duration(phase.floor_s)
    bandwidth = exact(phase.roof.bandwidth, "B/s")
    yield Formula("MFU", "(model FLOP / peak) / floor", f"({_matrix(phase)}) / {floor}", rates.mfu, "%")
    numbers = f"{compulsory} / ({times(floor, bandwidth)})"
    yield Formula("MBU", "compulsory bytes / (floor x bandwidth)", numbers, rates.mbu, "%")
    tokens = int(phase.phase.batch.tokens)
    yield Formula("tokens/s", "tokens / floor", f"{tokens:,} / {floor}", rates.tokens_per_s, "tokens/s")


def ridge_formula(phase: PhaseProfile) -> Formula:
    """The ridge point of the roof of the linear layers."""
    numbers = f"{exact(phase.roof.peak, 'FLOP/s')} / {exact(phase.roof.bandwidth, 'B/s')}"
    return Formula("ridge point", "peak / bandwidth", numbers, phase.ridge_point, "FLOP/byte")


def _seconds(phase: PhaseProfile) -> Iterator[tuple[Bound, float]]:
    """Seconds of the floor by bound, those without time left out."""
    for bound in Bound:
        seconds = sum(float(p.floor_s) for p in phase.points if p.timing.bound is bound)
        if seconds:
            yield bound, seconds


def _matrix(phase: PhaseProfile) -> str:
    """Model FLOP over the peak of their dtype, summed."""
    by_peak: dict[float, Any] = {}
    for point in phase.points:
        if point.op.model_flops:
            by_peak[point.roof.peak] = by_peak.get(point.roof.peak, 0) + point.op.model_flops
    return " + ".join(_over(flops, "FLOP", peak) for peak, flops in by_peak.items())


def _ideal(phase: PhaseProfile) -> Iterator[Formula]:
    """Compulsory bytes, then the time below which no schedule gets: everything overlaps with everything."""
    moved, leaving = phase.traffic, sum(point.op.leaving_bytes for point in phase.points)
    numbers = f"{whole(moved.memory)} - {whole(moved.activations)} + {whole(leaving)}"
    yield Formula("compulsory", "bytes - activations + logits", numbers, phase.compulsory_bytes, "B")
    memory = _over(phase.compulsory_bytes, "B", phase.roof.bandwidth)
    words = "max(model FLOP / peak, compulsory bytes / bandwidth)"
    yield Formula("ideal time", words, f"max({_matrix(phase)}, {memory})", phase.ideal_s, "s")
