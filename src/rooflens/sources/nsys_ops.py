"""Activities of a pass as timed ops: copies with their bytes, kernels by name, ops of emit_nvtx by their sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from rooflens.core.op import DType, GemmShape, Op, OpKind, PointwiseShape, Traffic
from rooflens.core.timed import TimedOp, TimedPhase
from rooflens.count.framework import counted
from rooflens.sources.kernel_names import kernel_class, kernel_dtype
from rooflens.sources.nsys_nvtx import Node, call_of, plain_call, sized
from rooflens.sources.nsys_phases import Key, Pass
from rooflens.sources.nsys_rows import Activity

_NOTHING = PointwiseShape(0, 0, 0)
_ON_DEVICE = frozenset({5, 6, 7, 8, 13})
_OVER_LINK = frozenset({1, 2, 3, 4, 10, 11, 12})
"""Kinds of copies (ENUM_CUDA_MEMCPY_OPER): inside a device's memory; between host and device, or two devices."""


@dataclass(slots=True)
class Sized:
    """Ops of emit_nvtx that were met: how many were counted, and how many have a kernel whose name tells no dtype."""

    counted: int = 0
    without_dtype: int = 0


@dataclass(frozen=True, slots=True)
class _Piece:
    activity: Activity
    owner: Node | None
    op: Op


def timed_phase(name: str, passes: Sequence[Pass], nodes: Mapping[Key, Node], met: Sized) -> TimedPhase:
    """The mean pass of a phase, in seconds: a kernel's time is its own, an op's that of the kernels it launched."""
    owners: dict[int, Op | None] = {}
    pieces = [_piece(a, nodes.get(a.launch), owners, met) for one in passes for a in one.activities]
    groups: dict[tuple[str, OpKind, DType, bool], list[_Piece]] = {}
    for piece in pieces:
        op, named = piece.op, piece.owner is not None
        groups.setdefault((op.name if named else piece.activity.name, op.kind, op.dtype, named), []).append(piece)
    ops = tuple(_per_pass(group, len(passes)) for group in groups.values())
    return TimedPhase(
        name=name,
        passes=len(passes),
        wall_s=covered([(one.begin, one.finish) for one in passes]) / 1e9 / len(passes),
        ops=ops,
        dispatch_s=0.0,
        busy_s=covered(_busy(passes)) / 1e9 / len(passes),
        gpu=True,
    )


def _busy(passes: Sequence[Pass]) -> list[tuple[int, int]]:
    """What ran within each pass, from its begin to its finish."""
    return [
        (max(a.start, one.begin), min(a.end, one.finish)) for one in passes for a in one.activities if a.end > one.begin
    ]


def covered(intervals: Sequence[tuple[int, int]]) -> int:
    """Length of what `intervals` cover together, in their unit."""
    total, reached = 0, None
    for start, end in sorted(intervals):
        if reached is None or start > reached:
            total, reached = total + max(0, end - start), end
        elif end > reached:
            total, reached = total + end - reached, end
    return total


def _piece(activity: Activity, node: Node | None, owners: dict[int, Op | None], met: Sized) -> _Piece:
    if activity.table in ("MEMCPY", "MEMSET"):
        return _Piece(activity, None, _copy(activity))
    owner = sized(node)
    if owner is not None:
        op = _owned(owner, activity.name, owners, met)
        if op is not None:
            return _Piece(activity, owner, op)
    return _Piece(activity, None, _kernel(activity))


def _owned(owner: Node, kernel: str, owners: dict[int, Op | None], met: Sized) -> Op | None:
    """What the op around a kernel counts; its dtype is that of the first of its kernels whose name tells one."""
    if owners.get(id(owner)) is None:
        dtype = kernel_dtype(kernel)
        op = _counted(plain_call(owner.range.text), dtype) if dtype is not None else None
        if id(owner) not in owners and dtype is None:
            met.without_dtype += 1
        met.counted += op is not None
        owners[id(owner)] = op
    return owners[id(owner)]


@lru_cache(maxsize=4096)
def _counted(text: str, dtype: DType) -> Op | None:
    """What the op counts that a text of emit_nvtx describes."""
    call = call_of(text, dtype)
    op = counted(call) if call is not None else None
    return replace(op, name=_label(op)) if op is not None else None


def _label(op: Op) -> str:
    shape = op.shape
    return f"{op.name} {shape.n:,} x {shape.k:,}" if isinstance(shape, GemmShape) else op.name


def _kernel(activity: Activity) -> Op:
    dtype = kernel_dtype(activity.name) or DType.FP32
    return Op(activity.short, kernel_class(activity.name), dtype, 0, 0, Traffic(), _NOTHING)


def _copy(activity: Activity) -> Op:
    """A copy inside a device reads and writes its bytes; one from or to the host moves them over the link.

    Derivation: bytes of the record, which a set writes; twice for a copy in the same memory. Of a copy over the link
    the bytes are the link's: the device's memory, 50 times as fast, does not limit it.
    """
    moved, kind = activity.moved, activity.copy_kind
    if activity.table == "MEMSET":
        traffic = Traffic(activations=moved)
    elif kind in _ON_DEVICE:
        traffic = Traffic(activations=2 * moved)
    else:
        traffic = Traffic(link=moved) if kind in _OVER_LINK else Traffic()
    return Op(activity.short, OpKind.COPY, DType.INT8, 0, 0, traffic, PointwiseShape(moved, 1, 0))


def _per_pass(group: Sequence[_Piece], passes: int) -> TimedOp:
    """One op of the mean pass: counts, bytes and seconds of a group over the number of passes; an op counts once."""
    ops = list({id(piece.owner or piece): piece.op for piece in group}.values())
    traffic = Traffic.total_of([op.traffic for op in ops])
    kinds = {kind: _mean(getattr(traffic, kind), passes) for kind in Traffic.__dataclass_fields__}
    first = group[0]
    op = replace(
        first.op,
        flops=_mean(sum(op.flops for op in ops), passes),
        model_flops=_mean(sum(op.model_flops for op in ops), passes),
        traffic=Traffic(**kinds),
        count=max(1, round(len(ops) / passes)),
    )
    seconds = sum(piece.activity.end - piece.activity.start for piece in group) / 1e9 / passes
    known = first.owner is not None or bool(traffic.total) or first.activity.table == "MEMSET"
    return TimedOp(op, seconds, known=known)


def _mean(total: object, passes: int) -> int | float:
    """An exact integer where the passes share `total` evenly."""
    assert isinstance(total, (int, float))
    return total // passes if isinstance(total, int) and total % passes == 0 else total / passes
