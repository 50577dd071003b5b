"""What a trace recorded while a graph was captured: the launches that became kernels of the graph, and their ops.

A capture runs hardly any kernel: those run when the graph is replayed, in another trace that has no ops for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rooflens.core.recording import Capture, Launch
from rooflens.sources.annotations import is_capture
from rooflens.sources.kineto import label_of
from rooflens.sources.kineto_tree import LAUNCHES, RANGES, Node

_STARTS = re.compile(r"StreamBeginCapture")
_ENDS = re.compile(r"StreamEndCapture")
_LAUNCHES = re.compile(r"Launch\w*Kernel|LaunchKernel|LaunchCooperative|Memcpy|Memset|GraphAdd")


def captures_of(roots: Sequence[Node]) -> tuple[Capture, ...]:
    """The captures of a trace: of each the launches in order, with what the op around it counts.

    They lie between the begin and the end of a capture, where the trace has those, inside a range that is named after
    one; else in the whole range.
    """
    ranges = [node for root in roots for node in root.inside() if node.event.category in RANGES]
    found = (_capture(node) for node in ranges if is_capture(node.event.name))
    return tuple(capture for capture in found if capture.launches)


def _capture(frame: Node) -> Capture:
    launches, calls = [], dict[int, int]()
    for launch in _recorded(frame):
        owner = next((node for node in launch.above() if node.op is not None), None)
        if owner is None or owner.op is None:
            launches.append(Launch())
            continue
        call = calls.setdefault(id(owner), len(calls))
        launches.append(Launch(label_of(owner), owner.op, call))
    return Capture(frame.event.name, tuple(launches))


def _recorded(frame: Node) -> Iterator[Node]:
    """The launches that a capture records."""
    nodes = [node for node in frame.inside() if node.event.category in LAUNCHES]
    begins = any(_STARTS.search(node.event.name) for node in nodes)
    inside = not begins
    for node in nodes:
        if _STARTS.search(node.event.name):
            inside = True
        elif _ENDS.search(node.event.name):
            inside = not begins
        elif inside and _LAUNCHES.search(node.event.name):
            yield node
