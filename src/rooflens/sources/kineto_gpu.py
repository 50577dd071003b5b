"""Kernels of a trace: which op launched each, through the correlation of launch and kernel.

`External id` of a kernel is not trusted: older files write the correlation there. A graph launch has one correlation
for all kernels of the graph: they keep their names and belong to no op.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rooflens.sources.kineto_file import Event
from rooflens.sources.kineto_tree import LAUNCHES, Node

KERNELS = ("kernel", "gpu_memcpy", "gpu_memset")


@dataclass(frozen=True, slots=True)
class Piece:
    """An op of one pass with what it took: a CPU op itself, or one kernel on a GPU.

    graph: the launch of the graph that it is a part of, None outside of any.
    """

    node: Node | None
    name: str
    seconds: float
    graph: int | None = None


@dataclass(frozen=True, slots=True)
class Launched:
    """The kernels of a phase. wall_us: from the start of its ranges to their end or that of their last kernel.

    busy_us: microseconds in which at least one of them ran.
    """

    pieces: list[Piece]
    wall_us: float
    busy_us: float


@dataclass(frozen=True, slots=True)
class Gpu:
    """The kernels of a trace, and its launches by their correlation."""

    kernels: Sequence[Event]
    launches: dict[int, Node]

    @classmethod
    def of(cls, roots: Iterable[Node], kernels: Sequence[Event]) -> Gpu:
        """The kernels with the launches of every thread."""
        launches: dict[int, Node] = {}
        for root in roots if kernels else ():
            for node in root.inside():
                args = node.event.args
                if node.event.category in LAUNCHES and args is not None and args.correlation is not None:
                    launches[args.correlation] = node
        return cls(sorted(kernels, key=lambda kernel: kernel.start), launches)

    def launched(self, ranges: Sequence[Node]) -> Launched:
        """The kernels that were launched during `ranges`, by any thread.

        One whose launch the trace does not have is taken where it ran during them, unless it ran before all others:
        it was launched before the trace began then.
        """
        spans = _merged((node.event.start, node.event.end) for node in ranges)
        starts = [start for start, _ in spans]
        ends = [end for _, end in spans]
        taken: list[tuple[Event, Node | None, int]] = []
        for kernel in self.kernels:
            launch = self._launch(kernel)
            when = (launch.event if launch is not None else kernel).start
            index = bisect_right(starts, when) - 1
            if index >= 0 and when < spans[index][1]:
                taken.append((kernel, launch, index))
        first = min((kernel.start for kernel, launch, _ in taken if launch is not None), default=float("-inf"))
        taken = [row for row in taken if row[1] is not None or row[0].start >= first]
        for kernel, _, index in taken:
            ends[index] = max(ends[index], kernel.end)
        return Launched(
            [Piece(_owner(launch), kernel.name, kernel.duration / 1e6, _graph(launch)) for kernel, launch, _ in taken],
            wall_us=_length(_merged(zip(starts, ends, strict=True))),
            busy_us=_length(_merged((kernel.start, kernel.end) for kernel, _, _ in taken)),
        )

    def _launch(self, kernel: Event) -> Node | None:
        correlation = kernel.args.correlation if kernel.args is not None else None
        return self.launches.get(correlation) if correlation is not None else None


def _owner(launch: Node | None) -> Node | None:
    """The counted op around a launch; a graph's kernels have none."""
    if launch is None or _graph(launch) is not None:
        return None
    return next((node for node in launch.above() if node.op is not None), None)


def _graph(launch: Node | None) -> int | None:
    """The correlation of a launch of a graph."""
    if launch is None or "GraphLaunch" not in launch.event.name or launch.event.args is None:
        return None
    return launch.event.args.correlation


def _merged(intervals: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """What `intervals` cover, in order, those that touch as one."""
    merged: list[tuple[float, float]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


def _length(intervals: Iterable[tuple[float, float]]) -> float:
    return sum(end - start for start, end in intervals)
