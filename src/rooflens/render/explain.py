"""`predict --explain`: how each number of a prediction came about, for a reader who is learning.

Every line that holds " = " is a formula with its numbers in it, read from the profile's own ops: its left
side gives its right side, and a test evaluates it.
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import fill

from rooflens.core.arrays import is_array
from rooflens.core.profile import Profile
from rooflens.errors import InputError
from rooflens.metrics import profile_metrics
from rooflens.render.explain_formula import Formula, duration, exact, number
from rooflens.render.explain_memory import memory_formulas
from rooflens.render.explain_phase import phase_lines, ridge_formula
from rooflens.render.words import convention_notes, precision_line

_WIDTH = 100

_OPENING = (
    "A pass through a language model costs arithmetic (FLOP) and traffic (bytes between device memory and the "
    "compute units). A machine offers a rate for each: its peak and its bandwidth. Whichever takes longer is "
    "what a kernel waits for, its bound.",
    "Prefill reads the prompt. Its tokens are all known, so that they pass through a layer together: a weight is "
    "read once and used for every token, which fills the compute units. Decode writes the answer, one token per "
    "sequence and step, because each depends on the one before it: all weights and the whole KV cache are read "
    "for a handful of tokens, which fills the memory bus and leaves the compute units waiting.",
    "Intensity is FLOP per byte: how much work each byte brings. The ridge point is the intensity at which "
    "arithmetic and traffic take equally long on this machine. Below it memory is the bound, above it compute.",
)


def explain_profile(profile: Profile) -> str:
    """Return how each number of `profile` came about: plain text, one formula a line, ending in a newline.

    Units stand on each line: FLOP, B (bytes), FLOP/byte, s with its prefix, tokens/s; shares in per cent. Counts
    are exact, times and ratios are printed to four digits.

    Raises:
        InputError: the profile holds arrays of scenarios; an explanation is of one.
    """
    if any(is_array(phase.floor_s) for phase in profile.phases):
        raise InputError(
            "the profile holds an array of scenarios; pass one batch, prompt, output and context to explain"
        )
    return "\n".join(_lines(profile)) + "\n"


def _lines(profile: Profile) -> Iterator[str]:
    title = f"{profile.model.name} on {profile.hardware.title}, step by step"
    yield from (title, "#" * len(title), "")
    for paragraph in _OPENING:
        yield from (fill(paragraph, _WIDTH), "")
    yield from _machine(profile)
    yield from _conventions(profile)
    for phase in profile.phases:
        yield ""
        yield from phase_lines(profile, phase)
    yield ""
    yield from _serving(profile)


def _machine(profile: Profile) -> Iterator[str]:
    """Peak, bandwidth and ridge point, with the sources of the two."""
    phase, hardware = profile.phases[0], profile.hardware
    roof, peak, bandwidth = phase.roof, hardware.peak(phase.roof.dtype), hardware.memory.bandwidth
    yield from ("THE MACHINE", "===========")
    sources = [c.provenance.source if c else "not stated" for c in (peak, bandwidth)]
    yield f"peak           {exact(roof.peak, 'FLOP/s')}, {roof.dtype} on the {roof.units} units, dense ({sources[0]})"
    yield f"bandwidth      {exact(roof.bandwidth, 'B/s')}, {roof.level} ({sources[1]})"
    yield str(ridge_formula(phase))
    yield f"So {number(phase.ridge_point)} FLOP can be done in the time in which one byte arrives."
    yield ""


def _conventions(profile: Profile) -> Iterator[str]:
    yield from ("HOW IT IS COUNTED", "=================")
    yield f"dtypes: {precision_line(profile.scenario.precision, profile.model)}"
    yield from (f"- {note}" for note in convention_notes(profile))


def _serving(profile: Profile) -> Iterator[str]:
    """The figures of the whole scenario, at the floor."""
    yield from ("SERVING, AT THE FLOOR", "=====================")
    metrics = profile_metrics(profile)
    yield f"TTFT           {duration(metrics.ttft_s)}, the floor of prefill, which gives the first token"
    if metrics.tpot_s is not None:
        yield f"TPOT           {duration(metrics.tpot_s)}, the floor of the decode step"
    yield from (str(formula) for formula in serving_formulas(profile))
    yield (
        "Floors are lower bounds: a real engine is slower by its kernels' efficiency and by launch overhead, and a "
        "request also waits in a queue, which is in neither TTFT nor TPOT."
    )


def serving_formulas(profile: Profile) -> Iterator[Formula]:
    """Tokens per second, end-to-end time and memory, as formulas."""
    metrics, scenario = profile_metrics(profile), profile.scenario
    assert metrics.ttft_s is not None
    assert metrics.e2e_s is not None
    batch, output = int(scenario.batch), int(scenario.output)
    ttft = duration(metrics.ttft_s)
    if metrics.tpot_s is not None and metrics.tokens_per_s is not None:
        tpot = duration(metrics.tpot_s)
        yield Formula("tokens/s", "batch / TPOT", f"{batch:,} / {tpot}", metrics.tokens_per_s, "tokens/s")
        numbers = f"{ttft} + ({output:,} - 1) x {tpot}"
        yield Formula("end to end", "TTFT + (output - 1) x TPOT", numbers, metrics.e2e_s, "s")
    yield from memory_formulas(profile, metrics)
