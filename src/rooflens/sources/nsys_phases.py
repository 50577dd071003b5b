"""Which activities of a GPU belong to which pass of a phase: through the launch, else by time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from rooflens.sources.nsys_nvtx import plain_text
from rooflens.sources.nsys_rows import Activity, Launch, Range

NAMES = ("prefill", "decode")
"""Phases that are looked for unless others are named."""

ALL = "all"
"""The phase of a recording without a range of a phase."""

Key = tuple[int, int | None]


@dataclass(slots=True, eq=False)
class Pass:
    """One pass: its range on the CPU in ns, and what it ran.

    begin: where it begins, which is after the work that was launched before its range. finish: its range's end, or
    that of its last activity where that is later.
    """

    start: int
    end: int
    thread: int = 0
    process: int = 0
    activities: list[Activity] = field(default_factory=list)
    begin: int = 0
    finish: int = 0


@dataclass(frozen=True, slots=True)
class Placed:
    """The passes of each phase, and how many activities were placed by their time for want of a launch."""

    phases: Mapping[str, Sequence[Pass]]
    by_time: int = 0
    absent: tuple[str, ...] = ()
    outside: int = 0


def placed(
    activities: Sequence[Activity],
    launches: Mapping[Key, Launch],
    ranges: Iterable[Range],
    names: Sequence[str],
) -> Placed:
    """Put `activities` into the ranges that are called one of `names`, whatever their case; empty ones are dropped.

    A range holds what its thread launched inside it, what threads without ranges of that phase launched meanwhile in
    the same process, and what has no launch and began meanwhile.
    """
    found: dict[str, list[Pass]] = {}
    wanted = {name.casefold(): name for name in names}
    for range_ in sorted(ranges, key=lambda r: (r.start, -r.end)):
        name = wanted.get(plain_text(range_.text).casefold())
        if name is not None:
            found.setdefault(name, []).append(Pass(range_.start, range_.end, range_.thread, range_.process))
    by_time: set[int] = set()
    for passes in found.values():
        _fill(_Index(passes), activities, launches, by_time)
    full = {name: [one for one in found[name] if one.activities] for name in names if name in found}
    full = {name: passes for name, passes in full.items() if passes}
    _bound((one for passes in full.values() for one in passes), activities, launches)
    return Placed(full, len(by_time), tuple(name for name in names if name not in full))


def whole(activities: Sequence[Activity]) -> Placed:
    """Everything as one pass, from the start of the first kernel to the end of the last, without copies outside."""
    kernels = [activity for activity in activities if activity.table in ("KERNEL", "GRAPH_TRACE")]
    start, end = min(kernel.start for kernel in kernels), max(kernel.end for kernel in kernels)
    inside = [activity for activity in activities if start <= activity.start <= end]
    one = Pass(start, end, activities=inside, begin=start, finish=end)
    return Placed({ALL: [one]}, outside=len(activities) - len(inside))


class _Index:
    """The outermost passes of one phase by thread, for a search by time."""

    def __init__(self, passes: Iterable[Pass]) -> None:
        self.threads: dict[int, list[Pass]] = {}
        self.processes: dict[int, list[list[Pass]]] = {}
        for one in passes:
            own = self.threads.get(one.thread)
            if own is None:
                own = self.threads[one.thread] = []
                self.processes.setdefault(one.process, []).append(own)
            if not own or one.start >= own[-1].end:
                own.append(one)

    def on_thread(self, thread: int, moment: int) -> Pass | None:
        """The pass of a thread at `moment`."""
        return _at(self.threads.get(thread, []), moment)

    def in_process(self, process: int, moment: int) -> Pass | None:
        """The first pass of a process at `moment`; of any where an old schema does not tell the process (0)."""
        threads = self.processes.get(process, []) if process else self.threads.values()
        passes = (_at(own, moment) for own in threads)
        return next((one for one in passes if one is not None), None)


def _at(passes: list[Pass], moment: int) -> Pass | None:
    at = bisect_right(passes, moment, key=lambda one: one.start) - 1
    return passes[at] if at >= 0 and moment < passes[at].end else None


def _fill(index: _Index, activities: Sequence[Activity], launches: Mapping[Key, Launch], by_time: set[int]) -> None:
    for activity in activities:
        launch = launches.get(activity.launch)
        if launch is None:
            one = index.in_process(activity.process, activity.start)
            if one is not None:
                by_time.add(id(activity))
        elif launch.thread in index.threads:
            one = index.on_thread(launch.thread, launch.start)
        else:
            one = index.in_process(activity.process, launch.start)
        if one is not None:
            one.activities.append(activity)


def _bound(passes: Iterable[Pass], activities: Sequence[Activity], launches: Mapping[Key, Launch]) -> None:
    """A pass begins with its range, or later, when the GPU is done with what was launched before: it waits for that.

    It never begins after its own first activity, and ends with its last.
    """
    moments = sorted((_launched(activity, launches), activity.end) for activity in activities)
    reached = list(accumulate((end for _, end in moments), max))
    for one in passes:
        before = bisect_left(moments, (one.start,))
        waited = reached[before - 1] if before else one.start
        first = min(activity.start for activity in one.activities)
        one.begin = max(one.start, min(waited, first))
        one.finish = max(one.end, *(activity.end for activity in one.activities))


def _launched(activity: Activity, launches: Mapping[Key, Launch]) -> int:
    launch = launches.get(activity.launch)
    return launch.start if launch is not None else activity.start
