"""The words around a roofline chart: title, scenario, and which kernels are not on its axes."""

from __future__ import annotations

from collections.abc import Sequence

from rooflens.core.profile import Profile
from rooflens.render.chart_data import OffAxes, clean, off_axes
from rooflens.render.figures import percent

MOST_NAMES = 4
"""Kernels off the axes for one reason that are all named in the foot of the chart."""


def title(profile: Profile) -> str:
    """Model and part."""
    return f"{clean(profile.model.name)} on {clean(profile.hardware.title)}"


def description(profile: Profile) -> str:
    """What the chart says, for those who cannot see it."""
    bounds = "; ".join(f"{phase.phase.kind} is {phase.bound}-bound" for phase in profile.phases)
    return f"Roofline of {title(profile)}: {bounds}."


def phase_names(profile: Profile) -> list[str]:
    """The phases in their order."""
    return [str(phase.phase.kind) for phase in profile.phases]


def scenario_notes(profile: Profile) -> list[str]:
    """The workload, the dtypes and the conventions, a few words each."""
    work, counted = profile.scenario, profile.scenario.conventions
    precision = work.precision
    decode = [f"decode step at context {work.decode_context:,}"] if len(profile.phases) > 1 else []
    stored = {"weights": precision.weights, "KV": precision.kv}
    other = [f"{name} {dtype}" for name, dtype in stored.items() if dtype is not precision.compute]
    return [
        f"batch {work.batch:,}",
        f"prompt {work.prompt:,}",
        f"output {work.output:,}",
        *decode,
        ", ".join([str(precision.compute), *other]),
        f"attention {counted.attention_flops.value}",
        f"logits {counted.logits.value}",
        f"traffic {counted.traffic.value}",
        f"fusion {counted.fusion.value}",
    ]


def foot_notes(profile: Profile) -> list[str]:
    """One note for each reason to be off logarithmic axes: the kernels, and their share of each phase's time."""
    notes: list[str] = []
    off = off_axes(profile)
    for reason in dict.fromkeys(kernel.reason for kernel in off):
        alike = [kernel for kernel in off if kernel.reason == reason]
        shares = {
            phase: sum(kernel.share for kernel in alike if kernel.phase == phase) for phase in phase_names(profile)
        }
        times = ", ".join(f"{_small(share)} of {phase}" for phase, share in shares.items())
        notes.append(f"{_named(alike)} ({reason}; {times})")
    return [f"Not on these axes: {notes[0]}", *notes[1:]] if notes else []


def _named(kernels: Sequence[OffAxes]) -> str:
    """The names of `kernels`, largest share of a phase first; past a few, those under a thousandth are only counted."""
    shares: dict[str, float] = {}
    for kernel in kernels:
        shares[kernel.name] = max(kernel.share, shares.get(kernel.name, 0.0))
    names = sorted(shares, key=lambda name: -shares[name]) if len(shares) > MOST_NAMES else list(shares)
    count = max(2, sum(share >= 0.001 for share in shares.values()))
    shown = names if len(names) <= MOST_NAMES else names[: min(count, MOST_NAMES)]
    rest = len(names) - len(shown)
    text = ", ".join(clean(name, 24) for name in shown)
    return f"{text} and {rest} other{'s' * (rest > 1)}" if rest else text


def _small(share: float) -> str:
    text = percent(share) if share >= 0.001 or not share else "< 0.1 %"
    return text.replace(" ", "\N{NO-BREAK SPACE}")
