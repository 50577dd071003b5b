"""A Kineto trace -> the timed ops of its phases: live runs and files are read here alike.

A phase is a range of the program named after it ("prefill", "decode"). On a CPU an op's time is its own, without what
it calls; on a GPU it is that of the kernels that it launched, which are found through their correlation with the
launch and the op around it (`External id` of a kernel is not trusted: older files write the correlation there).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rooflens.core.op import DType, GemmShape, Op, OpKind, PointwiseShape, Traffic
from rooflens.core.scenario import AttentionFlops
from rooflens.core.timed import MODULE_RANGE, TimedOp, TimedPhase
from rooflens.count.framework_names import Work, work_of
from rooflens.errors import InputError
from rooflens.sources.kineto_file import Event, read_events
from rooflens.sources.kineto_tree import LAUNCHES, RANGES, Node, forest

KERNELS = ("kernel", "gpu_memcpy", "gpu_memset")


@dataclass(frozen=True, slots=True)
class Reference:
    """An op of a pass that was traced for names and shapes: its name, the module it ran in, and what it counts."""

    name: str
    module: str
    op: Op | None


References = Mapping[str, Sequence[Reference]]
"""By phase: every op that works in one pass, in order."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """An op of one pass with what it took: a CPU op itself, or one kernel on a GPU."""

    node: Node | None
    name: str
    seconds: float


def read_kineto(
    path: Path,
    phases: Iterable[str],
    *,
    convention: AttentionFlops = AttentionFlops.CAUSAL,
    references: References | None = None,
) -> tuple[TimedPhase, ...]:
    """Return the phases of the trace at `path` that are named in `phases`: one pass each, the mean over its ranges.

    convention: which pairs of causal attention count. references: of a pass with the same ops (`read_references`):
    each op is then called after its module, and counted by the reference's shapes where the trace has none.

    Raises:
        InputError: no trace of PyTorch's profiler, or none of the phases is in it.
    """
    events = read_events(path)
    roots = forest(events, convention)
    kernels = [event for event in events if event.category in KERNELS]
    found = [_phase(name, roots, kernels, (references or {}).get(name, ())) for name in phases]
    if not any(found):
        named = sorted({event.name for event in events if event.category in RANGES})[:5]
        has = f"its ranges are {', '.join(named)}" if named else "it has no ranges"
        raise InputError(f"{path} has no range named {' or '.join(phases)}; {has}")
    return tuple(phase for phase in found if phase)


def read_references(path: Path, phase: str, *, convention: AttentionFlops) -> list[Reference]:
    """Return every op that works in the first range of `phase`, with its module, from a trace whose ranges name them.

    Raises:
        InputError: no trace of PyTorch's profiler.
    """
    ranges = _ranges(forest(read_events(path), convention), phase)
    return [Reference(node.name, _module(node), node.op) for range_ in ranges[:1] for node in _working(range_)]


def _module(node: Node) -> str:
    """The module of the innermost range around `node` that names one."""
    ranges = (above.event.name for above in node.above() if above.event.category in RANGES)
    return next((name.removeprefix(MODULE_RANGE) for name in ranges if name.startswith(MODULE_RANGE)), "")


def _ranges(roots: Sequence[Node], name: str) -> list[Node]:
    """The ranges that are named `name`, in order of time."""
    found = [node for root in roots for node in root.inside() if node.event.category in RANGES]
    return sorted((node for node in found if node.event.name == name), key=lambda node: node.event.start)


def _working(range_: Node) -> Iterator[Node]:
    """The ops inside a range that compute or move bytes, and those that no formula knows and that call nothing."""
    for node in range_.inside():
        if node.is_op and (node.works or _unknown(node)):
            yield node


def _unknown(node: Node) -> bool:
    """Whether an op does something that has no formula: it calls no other op, and is not known to be free."""
    calls = any(child.is_op for child in node.children)
    return not node.works and not calls and work_of(node.name) is not Work.FREE


def _phase(
    name: str, roots: Sequence[Node], kernels: Sequence[Event], references: Sequence[Reference]
) -> TimedPhase | None:
    ranges = _ranges(roots, name)
    if not ranges:
        return None
    modules = dict(found for range_ in ranges for found in _described(range_, references))
    launched = _launched(ranges, kernels)
    gpu = bool(launched)
    pieces = launched if gpu else [_Piece(n, n.name, n.own_us / 1e6) for r in ranges for n in _working(r)]
    passes = len(ranges)
    wall_s = sum(range_.event.duration for range_ in ranges) / 1e6 / passes
    ops = tuple(_per_pass(group, passes) for group in _grouped(pieces, modules))
    busy = _union([(e.start, e.end) for e in kernels if _within(e, ranges)]) if gpu else 0.0
    idle = sum(n.own_us for r in ranges for n in r.inside() if n.is_op and not n.works and not _unknown(n)) / 1e6
    return TimedPhase(
        name=name,
        passes=passes,
        wall_s=wall_s,
        ops=ops,
        dispatch_s=0.0 if gpu else idle / passes,
        busy_s=busy / 1e6 / passes if gpu else sum(timed.seconds for timed in ops),
        gpu=gpu,
    )


def _launched(ranges: Sequence[Node], kernels: Sequence[Event]) -> list[_Piece]:
    """The kernels of `ranges` with the op that launched each, through the correlation of launch and kernel."""
    launches: dict[int, Node] = {}
    for range_ in ranges:
        for node in range_.inside():
            args = node.event.args
            if node.event.category in LAUNCHES and args is not None and args.correlation is not None:
                launches[args.correlation] = node
    pieces = []
    for kernel in kernels:
        correlation = kernel.args.correlation if kernel.args else None
        launch = launches.get(correlation) if correlation is not None else None
        if launch is not None:
            owner = next((node for node in launch.above() if node.op is not None), None)
            pieces.append(_Piece(owner, kernel.name, kernel.duration / 1e6))
        elif _within(kernel, ranges) and correlation is None:
            pieces.append(_Piece(None, kernel.name, kernel.duration / 1e6))
    return pieces


def _within(event: Event, ranges: Sequence[Node]) -> bool:
    return any(node.event.start <= event.start < node.event.end for node in ranges)


def _union(intervals: list[tuple[float, float]]) -> float:
    """Length of what `intervals` cover together."""
    covered, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        covered += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return covered


def _described(range_: Node, references: Sequence[Reference]) -> Iterator[tuple[int, str]]:
    """The module of each op of a pass, and its count where it has none, by a reference that ran the same ops."""
    nodes = list(_working(range_))
    if len(nodes) != len(references) or any(n.name != r.name for n, r in zip(nodes, references, strict=True)):
        return
    for node, reference in zip(nodes, references, strict=True):
        if node.op is None:
            node.op = reference.op
        yield id(node), reference.module


def _label(node: Node, module: str) -> str:
    """A product is called after its module, any other op after its module and itself; layers are not named."""
    op, short = node.op, module.rpartition("*.")[2]
    if op is not None and op.kind is OpKind.GEMM:
        shape = op.shape
        sizes = f" {shape.n:,} x {shape.k:,}" if isinstance(shape, GemmShape) else ""
        return short or f"{node.name}{sizes}"
    name = "attention" if op is not None and op.kind is OpKind.ATTENTION else node.name
    return f"{short}.{name}" if short else name


def _grouped(pieces: Sequence[_Piece], modules: Mapping[int, str]) -> list[tuple[str, str, list[_Piece]]]:
    """(name, module, pieces) of those of one name, module and dtype together, in order of their first."""
    groups: dict[tuple[str, str, str], tuple[str, str, list[_Piece]]] = {}
    for piece in pieces:
        node = piece.node
        module = modules.get(id(node), "") if node is not None else ""
        label = _label(node, module) if node is not None else piece.name
        kind = f"{node.op.dtype} {node.op.kind}" if node is not None and node.op is not None else ""
        groups.setdefault((label, module, kind), (label, module, []))[2].append(piece)
    return list(groups.values())


def _per_pass(group: tuple[str, str, list[_Piece]], passes: int) -> TimedOp:
    """One op of the mean pass: counts and seconds of a group over the number of passes."""
    label, module, pieces = group
    seconds = sum(piece.seconds for piece in pieces) / passes
    nodes = list({id(piece.node): piece.node for piece in pieces if piece.node is not None}.values())
    ops = [node.op for node in nodes if node.op is not None]
    if not ops:
        count = max(1, round(len(pieces) / passes))
        nothing = PointwiseShape(0, 0, 0)
        op = Op(label, OpKind.OTHER, DType.FP32, 0, 0, Traffic(), nothing, count)
        return TimedOp(op, seconds, known=False, module=module)
    traffic = Traffic.total_of([op.traffic for op in ops])
    kinds = {kind: _mean(getattr(traffic, kind), passes) for kind in Traffic.__dataclass_fields__}
    op = replace(
        ops[0],
        name=label,
        flops=_mean(sum(op.flops for op in ops), passes),
        model_flops=_mean(sum(op.model_flops for op in ops), passes),
        traffic=Traffic(**kinds),
        count=max(1, round(len(ops) / passes)),
    )
    return TimedOp(op, seconds, module=module)


def _mean(total: object, passes: int) -> int | float:
    """An exact integer where the passes share `total` evenly."""
    assert isinstance(total, (int, float))
    return total // passes if isinstance(total, int) and total % passes == 0 else total / passes
