"""Which op runs inside which: the events of a thread nest by time, and each has a time of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rooflens.core.op import DType, Op
from rooflens.core.scenario import AttentionFlops
from rooflens.count.framework import counted
from rooflens.count.framework_names import Work, work_of
from rooflens.sources.kineto_file import Event, call_of, plain_name

OPS = "cpu_op"
RANGES = ("user_annotation",)
LAUNCHES = ("cuda_runtime", "cuda_driver", "xpu_runtime", "xpu_driver", "privateuse1_runtime")
_FLOATS = frozenset({DType.FP32, DType.BF16, DType.FP16, DType.FP64, DType.FP8})
_IDLE = frozenset({Work.FREE, Work.UNKNOWN})
_PRODUCTS = frozenset({Work.PRODUCT, Work.ATTENTION, Work.CONVOLUTION})


@dataclass(slots=True, eq=False)
class Node:
    """An event of a thread with what runs inside it.

    own_us: microseconds that are not inside another event of `children`. works: whether it computes or moves bytes
    itself: the innermost op of those that do. op: what a formula counts of it; None without shapes or formula.
    """

    event: Event
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)
    own_us: float = 0.0
    works: bool = False
    op: Op | None = None

    @property
    def name(self) -> str:
        """The name of its op without the namespace."""
        return plain_name(self.event.name)

    @property
    def is_op(self) -> bool:
        """Whether it is an op of the framework, not a range or a launch."""
        return self.event.category == OPS

    def above(self) -> Iterator[Node]:
        """What it runs inside of, innermost first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def inside(self) -> Iterator[Node]:
        """It and everything that runs inside it, in order of time."""
        yield self
        for child in self.children:
            yield from child.inside()


def forest(events: Iterable[Event], convention: AttentionFlops) -> list[Node]:
    """The nested ops, ranges and launches of every thread, in order of time, the innermost ops counted."""
    threads: dict[tuple[str, str], list[Event]] = {}
    for event in events:
        if event.category == OPS or event.category in RANGES or event.category in LAUNCHES:
            threads.setdefault((str(event.process), str(event.thread)), []).append(event)
    roots = [root for thread in threads.values() for root in _nested(thread)]
    for root in roots:
        _count(root, convention)
    return roots


def _nested(events: list[Event]) -> list[Node]:
    """The events of one thread as trees: an event lies inside the last one that has not ended."""
    roots: list[Node] = []
    open_nodes: list[Node] = []
    for event in sorted(events, key=lambda e: (e.start, -e.duration)):
        while open_nodes and event.start >= open_nodes[-1].event.end:
            open_nodes.pop()
        parent = open_nodes[-1] if open_nodes else None
        node = Node(event, parent, own_us=event.duration)
        if parent is None:
            roots.append(node)
        else:
            parent.children.append(node)
            parent.own_us -= min(event.duration, parent.event.end - event.start)
        open_nodes.append(node)
    return roots


def _count(root: Node, convention: AttentionFlops) -> None:
    """Mark the innermost ops that work, and count those with shapes and a formula; what calls them has none.

    A product may call a copy: it still is the innermost product.
    """
    order = list(root.inside())
    holds: dict[int, set[bool]] = {}
    for node in reversed(order):
        found = holds.setdefault(id(node), set())
        if node.parent is not None:
            own = {work_of(node.name) in _PRODUCTS} if node.is_op and work_of(node.name) not in _IDLE else set()
            holds.setdefault(id(node.parent), set()).update(found | own)
    listed = DType.FP32
    for node in order:
        node.own_us = max(0.0, node.own_us)
        if not node.is_op or work_of(node.name) in _IDLE:
            continue
        if True in holds[id(node)] or (holds[id(node)] and work_of(node.name) not in _PRODUCTS):
            continue
        node.works = True
        call = call_of(node.event, listed)
        if call is not None:
            listed = next((tensor.dtype for tensor in call.tensors if tensor.dtype in _FLOATS), listed)
            node.op = counted(call, convention)
