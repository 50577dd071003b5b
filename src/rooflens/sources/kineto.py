"""A Kineto trace -> the timed ops of its phases: live runs and files are read here alike.

A phase is a range of the program named after it ("prefill", "decode"). On a CPU an op's time is its own, without what
it calls; on a GPU it is that of the kernels that it launched, which are found through their correlation with the
launch and the op around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rooflens.core.op import DType, GemmShape, Op, OpKind, PointwiseShape, Traffic
from rooflens.core.scenario import AttentionFlops
from rooflens.core.timed import MODULE_RANGE, TimedOp, TimedPhase
from rooflens.errors import InputError
from rooflens.sources.kernel_names import kernel_class, short_name
from rooflens.sources.kineto_file import read_events
from rooflens.sources.kineto_gpu import KERNELS, Gpu, Piece
from rooflens.sources.kineto_tree import RANGES, Node, forest


@dataclass(frozen=True, slots=True)
class Reference:
    """An op of a pass that was traced for names and shapes: its name, the module it ran in, and what it counts."""

    name: str
    module: str
    op: Op | None


References = Mapping[str, Sequence[Reference]]
"""By phase: every op that works in one pass, in order."""


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
    events, phases = read_events(path), tuple(phases)
    roots = forest(events, convention)
    gpu = Gpu.of(roots, [event for event in events if event.category in KERNELS])
    found = [timed_phase(ranges_named(roots, name), gpu, (references or {}).get(name, ())) for name in phases]
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
    ranges = ranges_named(forest(read_events(path), convention), phase)
    return [Reference(node.name, _module(node), node.op) for range_ in ranges[:1] for node in _working(range_)]


def _module(node: Node) -> str:
    """The module of the innermost range around `node` that names one."""
    ranges = (above.event.name for above in node.above() if above.event.category in RANGES)
    return next((name.removeprefix(MODULE_RANGE) for name in ranges if name.startswith(MODULE_RANGE)), "")


def ranges_named(roots: Sequence[Node], name: str) -> list[Node]:
    """The ranges that are named `name`, in order of time; one inside another of that name is part of it."""
    found = [n for root in roots for n in root.inside() if n.event.name == name and n.event.category in RANGES]
    mine = {id(node) for node in found}
    outer = (node for node in found if not any(id(above) in mine for above in node.above()))
    return sorted(outer, key=lambda node: node.event.start)


def _working(range_: Node) -> Iterator[Node]:
    """The ops inside a range that compute or move bytes, and those that no formula knows and that call nothing."""
    for node in range_.inside():
        if node.works or node.unknown:
            yield node


def timed_phase(ranges: Sequence[Node], gpu: Gpu, references: Sequence[Reference] = ()) -> TimedPhase | None:
    """The mean pass of `ranges`; on a GPU it ends when the last kernel that it launched does."""
    if not ranges:
        return None
    passes = len(ranges)
    modules = dict(found for range_ in ranges for found in _described(range_, references))
    launched = gpu.launched(ranges)
    pieces = launched.pieces or [Piece(n, n.name, n.own_us / 1e6) for r in ranges for n in _working(r)]
    on_gpu = bool(launched.pieces)
    ops = tuple(_per_pass(group, passes) for group in _grouped(pieces, modules))
    wall_us = launched.wall_us if on_gpu else sum(range_.event.duration for range_ in ranges)
    idle = sum(n.own_us for r in ranges for n in r.inside() if n.is_op and not n.works and not n.unknown) / 1e6
    return TimedPhase(
        name=ranges[0].event.name,
        passes=passes,
        wall_s=wall_us / 1e6 / passes,
        ops=ops,
        dispatch_s=0.0 if on_gpu else idle / passes,
        busy_s=launched.busy_us / 1e6 / passes if on_gpu else sum(timed.seconds for timed in ops),
        gpu=on_gpu,
    )


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
    op, short = node.op, "layer" if module.endswith(".*") else module.rpartition("*.")[2]
    if op is not None and op.kind is OpKind.GEMM:
        shape = op.shape
        sizes = f" {shape.n:,} x {shape.k:,}" if isinstance(shape, GemmShape) else ""
        return short or f"{node.name}{sizes}"
    name = "attention" if op is not None and op.kind is OpKind.ATTENTION else node.name
    return f"{short}.{name}" if short else name


def label_of(node: Node) -> str:
    """What an op is called where no module is known: a product by its sizes."""
    return _label(node, "")


def _grouped(pieces: Sequence[Piece], modules: Mapping[int, str]) -> list[tuple[str, str, list[Piece]]]:
    """(name, module, pieces) of those of one name, module and dtype together, in order of their first."""
    groups: dict[tuple[str, str, str], tuple[str, str, list[Piece]]] = {}
    for piece in pieces:
        node = piece.node
        module = modules.get(id(node), "") if node is not None else ""
        label = _label(node, module) if node is not None else piece.name
        kind = f"{node.op.dtype} {node.op.kind}" if node is not None and node.op is not None else ""
        groups.setdefault((label, module, kind), (label, module, []))[2].append(piece)
    return list(groups.values())


def _per_pass(group: tuple[str, str, list[Piece]], passes: int) -> TimedOp:
    """One op of the mean pass: counts and seconds of a group over the number of passes."""
    label, module, pieces = group
    seconds = sum(piece.seconds for piece in pieces) / passes
    nodes = list({id(piece.node): piece.node for piece in pieces if piece.node is not None}.values())
    ops = [node.op for node in nodes if node.op is not None]
    if not ops:
        count = max(1, round(len(pieces) / passes))
        name, kind = (label, OpKind.OTHER) if nodes else (short_name(label), kernel_class(label))
        op = Op(name, kind, DType.FP32, 0, 0, Traffic(), PointwiseShape(0, 0, 0), count)
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
