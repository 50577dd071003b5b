"""Kernels of a trace that have names and no shapes, matched with the kernels that a model's pass must run.

Both are sequences. The alignment keeps their order, pairs kernels of one class, and skips what has no partner: extra
copies of an engine on one side, kernels that it fused away on the other. It is the one that pairs most products and
attention, found by dynamic programming (Needleman, Wunsch, J. Mol. Biol. 48(3), 1970).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rooflens.core.op import DType, Op, OpKind, PointwiseShape, Traffic
from rooflens.core.recording import KernelRun
from rooflens.core.timed import TimedOp
from rooflens.count.sequence import STORE

_HEAVY = frozenset({OpKind.GEMM, OpKind.EXPERTS, OpKind.ATTENTION, OpKind.SCAN, OpKind.INDEXER})
_PAIR, _LIGHT_PAIR, _MISSED, _HELPER = 10.0, 1.0, -6.0, 0.3
"""What a pair of heavy kernels, a pair of others, a heavy kernel without a partner, and a second kernel count."""

MOST_CELLS = 30_000_000
"""Kernels times predicted kernels, at most, that are aligned."""


@dataclass(frozen=True, slots=True)
class Matched:
    """What each kernel of a pass was matched with.

    ops: timed ops, those that were matched with FLOP and bytes. heavy: products and attention that the pass must run;
    found: those of them that a kernel was matched with.
    """

    ops: tuple[TimedOp, ...]
    heavy: int
    found: int


def match(kernels: Sequence[KernelRun], predicted: Sequence[Op]) -> Matched:
    """Match `kernels`, in order of time, with `predicted`, in the order in which a pass runs them.

    A kernel that follows its partner's and has its class (the sum of split products, the join of split attention)
    belongs to it. Kernels without a partner keep their time and have no bytes.
    """
    partners = _align(kernels, predicted) if len(kernels) * len(predicted) <= MOST_CELLS else {}
    groups: dict[str, list[tuple[KernelRun, Op | None]]] = {}
    first: set[int] = set()
    for index, kernel in enumerate(kernels):
        partner = partners.get(index)
        op = None if partner is None else predicted[partner]
        counts = partner is not None and partner not in first
        first |= {partner} if partner is not None else set()
        name = op.name if op is not None else kernel.name
        groups.setdefault(name, []).append((kernel, op if counts else None))
    known = {predicted[partner].name for partner in partners.values()}
    heavy = [i for i, op in enumerate(predicted) if op.kind in _HEAVY]
    return Matched(
        tuple(_timed(name, rows, known=name in known) for name, rows in groups.items()),
        heavy=len(heavy),
        found=len(set(heavy) & set(partners.values())),
    )


def _timed(name: str, rows: Sequence[tuple[KernelRun, Op | None]], *, known: bool) -> TimedOp:
    """One line: what the kernels of a group did together."""
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
        count=len(ops),
        flops=sum(op.flops for op in ops),
        model_flops=sum(op.model_flops for op in ops),
        traffic=Traffic.total_of([op.traffic for op in ops]),
        leaving_bytes=sum(op.leaving_bytes for op in ops),
    )
    return TimedOp(total, seconds)


def _align(kernels: Sequence[KernelRun], predicted: Sequence[Op]) -> dict[int, int]:
    """The partner of each kernel that has one: by number, the alignment with the highest score."""
    width = len(predicted) + 1
    skipped = [_MISSED if op.kind in _HEAVY else 0.0 for op in predicted]
    best = [0.0] * width
    for j in range(1, width):
        best[j] = best[j - 1] + skipped[j - 1]
    held = [float("-inf")] * width
    moves: list[bytearray] = []
    for index, kernel in enumerate(kernels):
        before, best_row, held_row, move = best, [0.0] * width, [float("-inf")] * width, bytearray(width)
        best_row[0] = before[0]
        for j in range(1, width):
            value = _value(kernel, predicted[j - 1])
            if value > 0:
                pair = before[j - 1] + value
                helper = held[j] + _HELPER
                held_row[j] = max(pair, helper)
                move[j] = 4 if helper > pair else 0
            score, choice = before[j], 1
            left = best_row[j - 1] + skipped[j - 1]
            if left > score:
                score, choice = left, 2
            if held_row[j] >= score:
                score, choice = held_row[j], 3
            best_row[j] = score
            move[j] |= choice
        best, held = best_row, held_row
        moves.append(move)
        del index
    return _traced_back(moves, width)


def _value(kernel: KernelRun, op: Op) -> float:
    """What a pair counts: 0 for different classes; a kernel that names the cache goes with the write to it."""
    if kernel.kind is not op.kind:
        return 0.0
    if op.name == STORE:
        name = kernel.name.lower()
        return 2 * _LIGHT_PAIR if "cache" in name or "kv" in name else 0.0
    return _PAIR if op.kind in _HEAVY else _LIGHT_PAIR


def _traced_back(moves: Sequence[bytearray], width: int) -> dict[int, int]:
    partners: dict[int, int] = {}
    i, j = len(moves), width - 1
    holding = False
    while i > 0 and j >= 0:
        move = moves[i - 1][j]
        choice = 3 if holding else move & 3
        if choice == 3:
            partners[i - 1] = j - 1
            holding = bool(move & 4)
            i, j = i - 1, j if holding else j - 1
        elif choice == 2:
            j -= 1
        else:
            i -= 1
    return partners
