"""Which op runs inside which: the events of a thread nest by time, and each has a time of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from rooflens.core.call import Call
from rooflens.core.op import DType, Op
from rooflens.core.scenario import AttentionFlops
from rooflens.count.framework import counted
from rooflens.count.framework_names import Work, work_of
from rooflens.sources.kineto_file import Event, call_of, plain_name

OPS = "cpu_op"
RANGES = ("user_annotation",)
LAUNCHES = ("cuda_runtime", "cuda_driver", "xpu_runtime", "xpu_driver", "privateuse1_runtime")
_IDLE = frozenset({Work.FREE, Work.UNKNOWN})
_PRODUCTS = frozenset({Work.PRODUCT, Work.GROUPED, Work.ATTENTION, Work.CONVOLUTION})
_MOVES = frozenset({Work.COPY, Work.CAT, Work.FILL})
_BY_LIST = ("index", "_index_put_impl_")
_CHOICES = frozenset({Work.LOOKUP, Work.ROWS})


@dataclass(slots=True, eq=False)
class Node:
    """An event of a thread with what runs inside it.

    own_us: microseconds that are not inside another event of `children`. works: whether it computes or moves bytes
    itself: the innermost op of those that do. unknown: whether it does something that has no formula and calls no op
    that has one. op: what a formula counts of it; None without shapes or formula.
    """

    event: Event
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)
    own_us: float = 0.0
    works: bool = False
    unknown: bool = False
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
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))


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
    """The events of one thread as trees: an event lies inside the last one that has not ended.

    Of two with the same times the launch lies inside, else the one that was numbered later.
    """
    roots: list[Node] = []
    open_nodes: list[Node] = []
    for event in sorted(events, key=_outer_first):
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


def _outer_first(event: Event) -> tuple[float, float, bool, int]:
    number = event.args.external_id if event.args is not None else None
    return event.start, -event.duration, event.category in LAUNCHES, number or 0


def _count(root: Node, convention: AttentionFlops) -> None:
    """Mark the innermost ops that work, and count those with shapes and a formula; what calls them has none."""
    order = list(root.inside())
    inside: dict[int, set[Work]] = {id(node): set() for node in order}
    for node in reversed(order):
        node.own_us, held = max(0.0, node.own_us), inside[id(node)]
        work = work_of(node.name) if node.is_op else Work.FREE
        node.works = work not in _IDLE and _by_itself(work, held - {Work.UNKNOWN})
        node.unknown = work is Work.UNKNOWN and not held
        if node.parent is not None:
            inside[id(node.parent)] |= held | ({work} - {Work.FREE})
    listed = DType.FP32
    for node in order:
        if node.unknown:
            _absorb(node)
        call = call_of(node.event, listed) if node.works else None
        if call is not None:
            listed = next((tensor.dtype for tensor in call.tensors if tensor.is_float), listed)
            node.op = counted(_indexed(node, call), convention)


def _by_itself(work: Work, held: set[Work]) -> bool:
    """Whether an op of kind `work` does its work itself although ops of the kinds `held` run inside it.

    A product may call anything but a product, and what computes may call copies and fills (a scalar that becomes a
    tensor, a sum that starts at 0); a lookup by a mask finds the positions first. A copy made of others is theirs.
    """
    if work in _PRODUCTS:
        return not held & _PRODUCTS
    if work in _MOVES:
        return not held
    return not held - _MOVES - ({Work.SCAN} if work in _CHOICES else set())


def _indexed(node: Node, call: Call) -> Call:
    """The call with its list of indices, which a trace does not print, and the shape of what they pick as its text.

    Source: ATen/native/TensorAdvancedIndexing.cpp, AdvancedIndex: the table is strided to the shape of the result, and
    each index is reshaped to it; the trace has both calls.
    """
    if call.name not in _BY_LIST or len(call.arguments) < 2:
        return call
    inner = [made for child in node.children if child.is_op and (made := call_of(child.event, DType.FP32))]
    picked = next((made.text(1) for made in inner if made.name == "as_strided"), "")
    indices = tuple(made.tensors[0] for made in inner if made.name == "reshape" and made.tensors)
    if not picked or not indices:
        return call
    texts = ("", picked, *call.texts[2:])
    return replace(call, arguments=(call.arguments[0], indices, *call.arguments[2:]), texts=texts)


def _absorb(node: Node) -> None:
    """Give the time of an op without a formula to the op that works around it, whose part it is."""
    owner = next((above for above in node.above() if above.works), None)
    if owner is not None:
        owner.own_us += node.own_us
        node.own_us, node.unknown = 0.0, False
