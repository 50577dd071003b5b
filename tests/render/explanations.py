"""Holds every formula that an explanation prints against the op that it explains."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import isclose
from typing import Any

from rooflens.core.hardware import Ceiling, Hardware
from rooflens.core.model import ModelSpec
from rooflens.core.op import AttentionShape, DType, ExpertShape, Op
from rooflens.core.profile import PhaseProfile, Point, Profile
from rooflens.core.scenario import Conventions, Precision
from rooflens.count import forward
from rooflens.metrics import phase_metrics, profile_metrics
from rooflens.render.explain import explain_profile, serving_formulas
from rooflens.render.explain_formula import Formula
from rooflens.render.explain_phase import kernel_formulas, phase_formulas
from rooflens.render.explain_view import views
from rooflens.roofline import place_phase
from rooflens.workload import scenario
from tests.conftest import SOURCE, part
from tests.render.formula_text import check_line, evaluate

RECORD: dict[str, Callable[[Op], Any]] = {
    "FLOP": lambda op: op.flops,
    "model FLOP": lambda op: op.model_flops,
    "weights": lambda op: op.traffic.weights,
    "KV read": lambda op: op.traffic.kv_read,
    "KV written": lambda op: op.traffic.kv_write,
    "activations": lambda op: op.traffic.activations,
    "state": lambda op: op.traffic.state,
    "bytes": lambda op: op.traffic.memory,
    "experts read": lambda op: op.shape.experts if isinstance(op.shape, ExpertShape) else None,
    "pairs": lambda op: op.shape.pairs if isinstance(op.shape, AttentionShape) else None,
}
"""What each label of a kernel's formulas stands for in its Op."""


def exact(op: Op) -> bool:
    """Whether the figures of `op` are whole numbers: bytes of an expected number of experts are not."""
    return isinstance(op.traffic.memory, int)


def gives(numbers: str, want: Any, *, whole: bool) -> bool:
    """Whether an expression gives `want`: to the last digit, or as far as expected figures are printed."""
    value = evaluate(numbers)
    if not whole:
        return isclose(value, want, rel_tol=1e-5)
    return (float(value) if isinstance(want, float) else value) == want


def check_kernel(formulas: list[Formula], point: Point) -> None:
    """Numbers as printed give the op's own value, and no figure that is not 0 goes unexplained."""
    labels = [formula.label for formula in formulas]
    assert len(set(labels)) == len(labels)
    for formula in formulas:
        if formula.label in RECORD:
            want = RECORD[formula.label](point.op)
            assert formula.value == want
            whole = exact(point.op) or formula.label in ("FLOP", "model FLOP", "activations")
            assert gives(formula.numbers, want, whole=whole and formula.label != "experts read"), str(formula)
    for label in ("FLOP", "weights", "KV read", "KV written", "activations", "state"):
        assert (label in labels) == bool(RECORD[label](point.op)), (label, point.op)
    times = {formula.label: formula for formula in formulas}
    for label, want in (("compute time", point.timing.compute_s), ("memory time", point.timing.memory_s)):
        if want:
            assert times[label].value == want
            assert isclose(evaluate(times[label].numbers), want, rel_tol=1e-11 if exact(point.op) else 1e-5)
    assert times["floor"].value == point.floor_s
    if "intensity" in times:
        assert gives(times["intensity"].numbers, point.op.intensity, whole=exact(point.op))


def check_profile(profile: Profile) -> None:
    """Every kernel, every sum and every line of the text."""
    for phase in profile.phases:
        for view, point in zip(views(profile, phase), phase.points, strict=True):
            check_kernel(list(kernel_formulas(view, point)), point)
        check_sums(phase)
    text = explain_profile(profile)
    assert text.endswith("\n")
    for line in text.splitlines():
        if " = " in line:
            check_line(line)
    check_sections(text, profile)
    check_serving(profile)


def check_sums(phase: PhaseProfile) -> None:
    formulas = {formula.label: formula for formula in phase_formulas(phase)}
    rates = phase_metrics(phase)
    whole = isinstance(phase.traffic.memory, int)
    assert gives(formulas["bytes"].numbers, phase.traffic.memory, whole=whole)
    assert gives(formulas["compulsory"].numbers, phase.compulsory_bytes, whole=whole)
    assert gives(formulas["intensity"].numbers, phase.intensity, whole=whole)
    assert isclose(evaluate(formulas["ridge point"].numbers), phase.ridge_point, rel_tol=1e-11)
    assert isclose(evaluate(formulas["ideal time"].numbers), phase.ideal_s, rel_tol=1e-11 if whole else 1e-5)
    assert (formulas["MFU"].value, formulas["MBU"].value) == (rates.mfu, rates.mbu)
    assert formulas["tokens/s"].value == rates.tokens_per_s


def check_serving(profile: Profile) -> None:
    metrics, formulas = profile_metrics(profile), {f.label: f for f in serving_formulas(profile)}
    for label, held in (("KV cache", metrics.kv_cache_bytes), ("state", metrics.state_bytes)):
        assert (label in formulas) == bool(held)
        assert not held or evaluate(formulas[label].numbers) == held
    assert evaluate(formulas["memory"].numbers) == metrics.memory_needed_bytes
    if metrics.tpot_s is not None:
        assert formulas["end to end"].value == metrics.e2e_s


def check_sections(text: str, profile: Profile) -> None:
    """The printed table of kernels adds up, and the printed sections come in the order of the points."""
    points = [point for phase in profile.phases for point in phase.points]
    found = re.findall(r"^(\S+): .*; runs ([\d,]+) x ", text, re.MULTILINE)
    assert found == [(point.op.name, f"{point.op.count:,}") for point in points]
    rows = re.findall(r"^(all kernels|\S+) +([\d,]+)  +([\d,.]+)  +\S+ [pnµm]?s", text, re.MULTILINE)
    sums = [Fraction(0), Fraction(0)]
    for name, flops, moved in rows:
        figures = [Fraction(figure.replace(",", "")) for figure in (flops, moved)]
        if name == "all kernels":
            assert figures[0] == sums[0]
            assert abs(figures[1] - sums[1]) <= _rounded(profile)
            sums = [Fraction(0), Fraction(0)]
        else:
            sums = [a + b for a, b in zip(sums, figures, strict=True)]
    assert len(rows) == len(points) + len(profile.phases)


def _rounded(profile: Profile) -> int:
    """By how many bytes a printed sum may miss: large expected figures are printed to a whole byte."""
    ops = [point.op for phase in profile.phases for point in phase.points]
    return sum(not exact(op) for op in ops)


def wide_part() -> Hardware:
    """A part with a peak for every dtype that the cases compute in."""
    peaks = {"bf16": 100e12, "fp16": 98.3e12, "fp8": 197.9e12, "fp4": 400e12, "int8": 201e12, "fp32": 10e12}
    return part(matrix={DType(name): Ceiling(peak, SOURCE) for name, peak in peaks.items()})


def predicted(
    model: ModelSpec,
    dtypes: Precision,
    counted: Conventions,
    work: tuple[int, int, int, int | None],
    images: int = 0,
) -> Profile:
    """A profile of `model` on a part that has a peak for every dtype."""
    batch, prompt, output, context = work
    run = scenario(batch=batch, prompt=prompt, output=output, context=context, precision=dtypes, conventions=counted)
    run = replace(run, image_tokens=images)
    phases = tuple(
        place_phase(phase, forward(model, phase, dtypes, counted), wide_part(), dtypes.compute) for phase in run.phases
    )
    return Profile(model, wide_part(), run, phases)
