"""Sentences of the page: what a bound means for the reader, and what each phase is."""

from __future__ import annotations

import re

from rooflens.core.profile import Bound, KernelShare, PhaseProfile
from rooflens.core.scenario import PhaseKind
from rooflens.render.figures import percent
from rooflens.render.measured_words import SHAPES, SLOW, nearest_kernel

PASSES = {
    PhaseKind.PREFILL: "Prefill is the pass over the whole prompt; it ends with the first token.",
    PhaseKind.DECODE: "Decode is one step: one more token for each sequence, with all earlier ones in the cache.",
    PhaseKind.CHUNKED_PREFILL: "Chunked prefill is a pass over pieces of prompts and single tokens of other sequences.",
    PhaseKind.STEP: "What this pass does is not told by the recording.",
}
BYTES = {
    "weights": "weights",
    "kv_read": "KV cache read",
    "kv_write": "KV cache written",
    "activations": "activations",
    "state": "recurrent state",
    "link": "over links",
}
"""The kinds of bytes of a phase's document, as the page calls them."""

_STATE = {
    Bound.COMPUTE: "the arithmetic units are busy and set the pace: more FLOP/s, or fewer FLOP, make {it} faster",
    Bound.MEMORY: "the arithmetic units wait for bytes: more memory bandwidth, or fewer bytes for each token (a larger "
    "batch, smaller dtypes), make {it} faster",
    Bound.LINK: "it waits for the link between devices: a faster link, or fewer bytes over it, make {it} faster",
    Bound.OVERHEAD: "it waits for the framework: fewer and larger kernels make {it} faster",
}
_LEVER = {
    Bound.COMPUTE: ("more FLOP/s", "help", "do"),
    Bound.MEMORY: ("more memory bandwidth", "helps", "does"),
    Bound.LINK: ("a faster link", "helps", "does"),
    Bound.OVERHEAD: ("less overhead", "helps", "does"),
}
_RIVAL = {Bound.COMPUTE: Bound.MEMORY, Bound.MEMORY: Bound.COMPUTE}
LEAST_SHARE = 0.05
"""A bound with no more of the time than this hardly matters."""


def meaning(phase: PhaseProfile) -> str:
    """What makes `phase` faster, what helps the rest of its time or does not, and why its intensity may disagree."""
    bound, share = phase.bound, float(phase.bound_share[phase.bound])
    most = share >= 1 - LEAST_SHARE
    state = _STATE[bound].format(it="it" if most else "that part")
    first = state[0].upper() + state[1:] if most else f"For {percent(share)} of the time {state}"
    nearest = nearest_kernel(phase)
    if bound is Bound.MEMORY and nearest is not None:
        return f"{_kernel(nearest, phase)}{_rest(phase)}."
    if bound is not Bound.OVERHEAD and phase.kernel_roof_share is not None and phase.kernel_roof_share < SLOW:
        return _slow(phase)
    return ". ".join([f"{first}{_rest(phase)}", *_despite(phase)]) + "."


def _slow(phase: PhaseProfile) -> str:
    """What helps a phase whose kernels stay far below their roofs."""
    longest = phase.slowest
    assert longest is not None
    part, reach = percent(float(longest.time_s) / float(phase.time_s)), percent(phase.kernel_roof_share or 0.0)
    return (
        f"Its kernels reach {reach} of their roofs: other kernels (another dtype, layout or engine) make it faster "
        f"before more bandwidth or FLOP/s does. The longest, {longest.op.name}, takes {part}."
    )


def _kernel(nearest: KernelShare, phase: PhaseProfile) -> str:
    """What makes a phase faster whose kernels have a ceiling of their own below the bandwidth."""
    reached = percent(nearest.ceiling / phase.roof.bandwidth)
    return (
        f"Neither the bus nor the framework sets the pace: {SHAPES[nearest.shape]} kernels reach no more than "
        f"{reached} of the read bandwidth on this machine; another kernel, another dtype or a larger batch makes it "
        "faster before more bandwidth does"
    )


def _rest(phase: PhaseProfile) -> str:
    """What the levers of the other bounds do."""
    shares = {other: float(held) for other, held in phase.bound_share.items() if other is not phase.bound}
    large = {other: held for other, held in shares.items() if held > LEAST_SHARE}
    which = "the other" if len(large) == 1 else "another"
    helps = [f"{_LEVER[other][0]} {_LEVER[other][1]} {which} {percent(held)}" for other, held in large.items()]
    rival = _RIVAL.get(phase.bound)
    if rival and rival not in large:
        lever, _, does = _LEVER[rival]
        helps.append(f"{lever} {'hardly ' if shares.get(rival) else ''}{does}{'' if shares.get(rival) else ' not'}")
    return "".join(f"; {text}" for text in helps)


def _despite(phase: PhaseProfile) -> list[str]:
    """Why time and total intensity point to different bounds, if they do."""
    below = bool(phase.intensity < phase.ridge_point)
    if phase.bound not in _RIVAL or below is (phase.bound is Bound.MEMORY):
        return []
    return [
        f"Its total intensity lies {'below' if below else 'above'} the ridge point all the same: {_why(phase, below)}"
    ]


def _why(phase: PhaseProfile, below: bool) -> str:
    busy = [point for point in phase.points if point.timing.bound is Bound.COMPUTE]
    lower = sum(float(point.floor_s) for point in busy if point.roof.peak < phase.roof.peak)
    if below and lower > 0.5 * sum(float(point.floor_s) for point in busy):
        return "most of its compute time runs under a lower roof, which has a lower ridge point"
    which = "memory-bound kernels lower" if below else "compute-bound kernels raise"
    return f"time is summed kernel by kernel, and a few {which} the total intensity"


def glued(text: str) -> str:
    """`text` with each number tied to the word behind it, so that no line ends between a number and its unit."""
    return re.sub(r"(?<=\d) (?=[%A-Za-z\u00b5])", "\N{NO-BREAK SPACE}", text)
