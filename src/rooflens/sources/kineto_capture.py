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

    They lie between the begin and the end of a capture, inside a range that is named after one; a range may hold many
    (a model in pieces). Without begin and end the whole range is one.
    """
    ranges = [node for root in roots for node in root.inside() if node.event.category in RANGES]
    frames = (node for node in ranges if is_capture(node.event.name))
    return tuple(_capture(frame.event.name, part) for frame in frames for part in _parts(frame) if part)


def _capture(name: str, recorded: Sequence[Node]) -> Capture:
    launches, calls = [], dict[int, int]()
    for launch in recorded:
        owner = next((node for node in launch.above() if node.op is not None), None)
        if owner is None or owner.op is None:
            launches.append(Launch())
            continue
        call = calls.setdefault(id(owner), len(calls))
        launches.append(Launch(label_of(owner), owner.op, call))
    return Capture(name, tuple(launches))


def _parts(frame: Node) -> Iterator[list[Node]]:
    """The launches that each capture of a range records."""
    nodes = [node for node in frame.inside() if node.event.category in LAUNCHES]
    if not any(_STARTS.search(node.event.name) for node in nodes):
        yield [node for node in nodes if _LAUNCHES.search(node.event.name)]
        return
    part: list[Node] | None = None
    for node in nodes:
        if _STARTS.search(node.event.name):
            part = []
        elif _ENDS.search(node.event.name) and part is not None:
            yield part
            part = None
        elif part is not None and _LAUNCHES.search(node.event.name):
            part.append(node)
