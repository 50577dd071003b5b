"""Kernels of a trace that have names and no shapes, matched with the kernels that a model's pass must run.

Kernels that have shapes keep them, and take the place of what is predicted of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rooflens.alignment import align, is_heavy
from rooflens.core.op import DType, Op, OpKind, PointwiseShape, Traffic
from rooflens.core.recording import KernelRun, RecordedPhase
from rooflens.core.timed import TimedOp, TimedPhase

_WITH_NORM = re.compile(r"norm|fusion", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Matched:
    """What the kernels without shapes of a pass were matched with.

    ops: timed ops of those kernels alone, with FLOP and bytes where they were matched. heavy: products and attention
    that the pass must run; found: those of them that a kernel was matched with. left: kernels that are products or
    attention by their names and have neither shapes nor a partner. score: how well the sequences agree, higher is
    better.
    """

    ops: tuple[TimedOp, ...]
    heavy: int
    found: int
    left: int
    score: int


def match(kernels: Sequence[KernelRun], predicted: Sequence[Op]) -> Matched | None:
    """Match `kernels`, in order of time, with `predicted`, in the order in which a pass runs them.

    A kernel that follows its partner's and has its class (the sum of split products, the join of split attention)
    belongs to it, and so does a norm that an all-reduce computes as well. Kernels without a partner keep their time and
    have no bytes. None where there are too many of both to align.
    """
    aligned = align(kernels, predicted)
    if aligned is None:
        return None
    partners = aligned.partners
    groups: dict[str, list[tuple[KernelRun, Op | None]]] = {}
    taken, known = set[int](), set[str]()
    for index, kernel in enumerate(kernels):
        partner = partners.get(index)
        first = partner is not None and partner not in taken
        taken |= {partner} if partner is not None else set()
        if kernel.op is not None:
            continue
        op = None if partner is None else predicted[partner]
        name = kernel.name if op is None else op.name
        known |= {name} if op is not None else set()
        whole = _with_norm(kernel, predicted, partner, partners) if first and partner is not None else None
        groups.setdefault(name, []).append((kernel, whole))
    heavy = {i for i, op in enumerate(predicted) if is_heavy(op)}
    ops = tuple(timed_group(name, rows, known=name in known) for name, rows in groups.items())
    return Matched(ops, len(heavy), len(heavy & taken), _left(kernels, partners), aligned.score)


def with_groups(recorded: RecordedPhase, groups: Sequence[TimedOp]) -> TimedPhase:
    """The mean pass of `recorded` with `groups` in place of what has no formula in it.

    `groups` are of the first pass: their seconds are scaled to the mean of all passes.
    """
    timed = recorded.timed
    kept = tuple(op for op in timed.ops if op.known)
    mean, first = timed.op_s - sum(op.seconds for op in kept), sum(op.seconds for op in groups)
    scale = mean / first if first else 1.0
    return replace(timed, ops=(*kept, *(replace(op, seconds=op.seconds * scale) for op in groups)))


def timed_group(name: str, rows: Sequence[tuple[KernelRun, Op | None]], *, known: bool) -> TimedOp:
    """One line: what the kernels of a group did together, each op once."""
    seconds = sum(kernel.seconds for kernel, _ in rows)
    ops = [op for _, op in rows if op is not None]
    if not ops:
        kind = rows[0][0].kind
        nothing = Op(
            name if known else rows[0][0].label, kind, DType.FP32, 0, 0, Traffic(), PointwiseShape(0, 0, 0), len(rows)
        )
        return TimedOp(nothing, seconds, known=known)
    total = replace(
        ops[0],
        name=name,
        count=len(ops),
        flops=sum(op.flops for op in ops),
        model_flops=sum(op.model_flops for op in ops),
        traffic=Traffic.total_of([op.traffic for op in ops]),
        leaving_bytes=sum(op.leaving_bytes for op in ops),
    )
    return TimedOp(total, seconds)


def _with_norm(kernel: KernelRun, predicted: Sequence[Op], partner: int, partners: Mapping[int, int]) -> Op:
    """The partner of a kernel, with the norm after it where the kernel is an all-reduce that computes that too."""
    op = predicted[partner]
    after = predicted[partner + 1] if partner + 1 < len(predicted) else None
    if op.kind is not OpKind.COLLECTIVE or after is None or after.kind is not OpKind.NORM:
        return op
    if not _WITH_NORM.search(kernel.name) or partner + 1 in partners.values():
        return op
    return replace(op, flops=op.flops + after.flops, traffic=op.traffic + after.traffic)


def _left(kernels: Sequence[KernelRun], partners: Mapping[int, int]) -> int:
    works = (OpKind.GEMM, OpKind.ATTENTION, OpKind.SCAN, OpKind.EXPERTS)
    return sum(k.op is None and k.kind in works and i not in partners for i, k in enumerate(kernels))
