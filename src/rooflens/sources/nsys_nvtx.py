"""NVTX ranges of a recording: which encloses a launch, and what torch.autograd.profiler.emit_nvtx writes into them.

Its texts are "aten::mm, op_id = 3, sizes = [[8, 16], [16, 4]]" (sizes with record_shapes=True): name, sequence number,
number of the op and sizes of its arguments; no dtypes, no values of arguments that are no tensors.

Source: PyTorch, torch/csrc/profiler/util.cpp, getNvtxStr.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from rooflens.core.call import Call, Tensor
from rooflens.core.op import DType
from rooflens.count.framework_names import Work, work_of
from rooflens.sources.kineto_file import plain_name
from rooflens.sources.nsys_rows import Launch, Range

_ADDED = re.compile(r", (seq|op_id|sizes|input_op_ids) = ")
_SIZES = re.compile(r", sizes = (\[[\[\]\d, ]*\])")
_COUNTED = (Work.PRODUCT, Work.NORM, Work.SOFTMAX, Work.POINTWISE)
"""Work whose count needs sizes alone; copies and lookups mix dtypes, reductions and scans need their arguments."""

Key = TypeVar("Key")


@dataclass(slots=True, eq=False)
class Node:
    """A range with the one around it."""

    range: Range
    parent: Node | None = None

    def outward(self) -> Iterator[Node]:
        """It and those around it, innermost first."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent


def plain_text(text: str) -> str:
    """The text of a range without what emit_nvtx adds to it."""
    return _ADDED.split(text, maxsplit=1)[0].strip()


def plain_call(text: str) -> str:
    """The name and the sizes in a text of emit_nvtx, the same for every op alike."""
    found = _SIZES.search(text)
    return plain_text(text) + (found[0] if found is not None else "")


def enclosing(ranges: Iterable[Range], launches: Mapping[Key, Launch]) -> dict[Key, Node]:
    """The innermost range around each launch, on its thread."""
    threads: dict[int, list[Range]] = {}
    for range_ in ranges:
        if range_.nests:
            threads.setdefault(range_.thread, []).append(range_)
    calls: dict[int, list[tuple[int, Key]]] = {}
    for key, launch in launches.items():
        if launch.thread in threads:
            calls.setdefault(launch.thread, []).append((launch.start, key))
    found: dict[Key, Node] = {}
    for thread, starts in calls.items():
        found.update(_swept(threads[thread], starts))
    return found


def _swept(ranges: list[Range], calls: list[tuple[int, Key]]) -> Iterator[tuple[Key, Node]]:
    """Both in order of time, the open ranges on a stack."""
    waiting = sorted(ranges, key=lambda r: (r.start, -r.end))
    at, top = 0, None
    for start, key in sorted(calls, key=lambda call: call[0]):
        while at < len(waiting) and waiting[at].start <= start:
            top = Node(waiting[at], _open(top, waiting[at].start))
            at += 1
        top = _open(top, start)
        if top is not None:
            yield key, top


def _open(node: Node | None, moment: int) -> Node | None:
    """The innermost of `node` and those around it that has not ended by `moment`."""
    while node is not None and node.range.end <= moment:
        node = node.parent
    return node


def sized(node: Node | None) -> Node | None:
    """The innermost range around a launch that is an op with sizes and a formula; None where there is none.

    An op that does something else (a copy inside a product) ends the search: its kernel is not the product's.
    """
    for around in node.outward() if node is not None else ():
        text = around.range.text
        if "::" not in text:
            continue
        work = work_of(plain_name(plain_text(text)))
        if _SIZES.search(text) and (work in _COUNTED or (work is Work.ATTENTION and _one_query(text))):
            return around
        if work not in (Work.FREE, Work.UNKNOWN):
            return None
    return None


def call_of(text: str, dtype: DType) -> Call | None:
    """The call that a text of emit_nvtx describes, every tensor of it in `dtype`; None without sizes."""
    found = _SIZES.search(text)
    if found is None:
        return None
    try:
        sizes = json.loads(found[1])
    except (ValueError, RecursionError):
        return None
    arguments = tuple(Tensor(tuple(size), dtype) if _is_size(size) else None for size in sizes)
    return Call(plain_name(plain_text(text)), arguments)


def _is_size(size: Any) -> bool:
    return isinstance(size, list) and bool(size) and all(isinstance(n, int) and 0 < n < 2**40 for n in size)


def _one_query(text: str) -> bool:
    """Whether attention has one query: whether it is causal, which the text does not tell, then makes no difference."""
    call = call_of(text, DType.FP32)
    query = call.tensor(0) if call is not None else None
    return query is not None and len(query.shape) == 4 and query.shape[2] == 1
