"""One more run of both phases under hardware counters of the processor: instructions per cycle, and cache misses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rooflens.core.scenario import PhaseKind
from rooflens.live.passes import Runner, State, inference
from rooflens.live.perf import Counted, PerfSupport, counting

EVENTS = ("instructions", "cycles", "cache-misses")
"""What is counted. Source: man perf_event_open; cache-misses are those of the last-level cache on most processors."""

LINE_BYTES = 64
"""Bytes that a miss brings in: a cache line of x86, and of most Arm cores."""


def count_phases(runner: Runner, steps: int, support: PerfSupport) -> tuple[tuple[str, str], ...]:
    """Run prefill and `steps` decode steps once more, counted by perf; what it counted of each as (name, text).

    Where it cannot count, the text is the reason, and nothing is run.
    """
    if not runner.device.is_cpu:
        reason = f"perf counts the processor, and the model ran on {runner.device.name}"
        return (("hardware counters", reason),)
    if not support.available:
        return (("hardware counters", support.reason),)
    events = [event for event in EVENTS if event in support.events]
    with inference():
        tokens = runner.tokens()
        prefill, state = _counted(events, lambda: runner.prefill(tokens))
        found = [(str(PhaseKind.PREFILL), counter_words(prefill, 1))]
        if steps:
            decode, _ = _counted(events, lambda: _decode(runner, state, steps))
            found.append((str(PhaseKind.DECODE), counter_words(decode, steps)))
    return tuple((f"hardware counters, {phase}", text) for phase, text in found)


def counter_words(counted: Counted, passes: int) -> str:
    """Instructions per cycle, and misses and bytes of one of `passes` passes; for what is missing the reason."""
    if counted.reason:
        return counted.reason
    values = counted.values
    words = [counted.notes[event] for event in EVENTS if event not in values and event in counted.notes]
    if "cache-misses" in values:
        misses = values["cache-misses"] / passes
        moved = f"{misses * LINE_BYTES:.4g} B at {LINE_BYTES} B each"
        words.insert(0, f"{misses:,.0f} last-level-cache misses a pass ({moved})")
    if values.get("cycles") and "instructions" in values:
        words.insert(0, f"{values['instructions'] / values['cycles']:.2f} instructions per cycle")
    return "; ".join(words) or "perf counted nothing"


def _counted(events: list[str], work: Callable[[], Any]) -> tuple[Counted, Any]:
    with counting(events) as counted:
        result = work()
    return counted, result


def _decode(runner: Runner, state: State, steps: int) -> None:
    for _ in range(steps):
        state = runner.step(*state)
