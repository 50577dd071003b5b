"""What held while a model ran: how it ran, the machine's state before and after, and what counters say."""

from __future__ import annotations

from rooflens.live.counted import count_phases
from rooflens.live.device import Device, running
from rooflens.live.load import Loading
from rooflens.live.memory import why
from rooflens.live.passes import Runner
from rooflens.live.perf import perf_support
from rooflens.live.vitals import vitals

Conditions = tuple[tuple[str, str], ...]
"""(name, text) of each."""


def conditions(loading: Loading, depth: int | None, before: Conditions, told: Conditions) -> Conditions:
    """How a model ran, the machine's state `before` the run beside that of now, and what counters `told`.

    depth: layers of the whole model, where a slice of it ran.
    """
    after = dict(state(loading.device))
    changed = [(name, f"{text}; after the run {after[name]}") for name, text in before if after.get(name, text) != text]
    same = [row for row in before if after.get(row[0], row[1]) == row[1]]
    part = [("slice", f"{loading.layers} of {depth} layers ran, scaled to all")] if depth else []
    return (*running(loading.device, loading.attention, compiled=loading.compiled), *part, *same, *changed, *told)


def counters(runner: Runner, steps: int) -> Conditions:
    """What hardware counters say of one more run of both phases, or why they say nothing."""
    try:
        return count_phases(runner, steps, perf_support())
    except Exception as cause:  # a model's code raises whatever it runs into
        return (("hardware counters", f"the run that they count failed ({why(cause)})"),)


def state(device: Device) -> Conditions:
    """What the machine tells of its state; nothing of a device that is gone."""
    try:
        return vitals(device.name)
    except RuntimeError:
        return ()
