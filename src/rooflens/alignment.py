"""Two sequences of kernels aligned: those that ran, in order of time, and those that a pass must run.

The alignment keeps the order of both and pairs kernels of one class. It is the one that pairs most products and
attention, found by dynamic programming (Needleman, Wunsch, J. Mol. Biol. 48(3), 1970), a row at a time: the best score
in a row after skipping predicted kernels is a running maximum.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rooflens.core.op import GemmShape, Op, OpKind, PointwiseShape
from rooflens.core.recording import KernelRun
from rooflens.count.sequence import QUANTISE, ROUTE, STORE, SUM

if TYPE_CHECKING:
    from numpy import bool_, int64, uint8
    from numpy.typing import NDArray

_HEAVY = frozenset({OpKind.GEMM, OpKind.EXPERTS, OpKind.ATTENTION, OpKind.SCAN, OpKind.INDEXER})
_PAIR, _UNLIKE, _NAMED, _LIGHT, _MISSED, _HELPER = 100, 80, 20, 10, -60, 3
"""What counts: a pair of heavy kernels, one whose dtypes differ, a light one that names its work, any other light one,
a heavy kernel without a partner, and a second kernel of a pair."""

MOST_CELLS = 200_000_000
"""Kernels times predicted kernels, at most, that are aligned: a byte of memory each."""

_LEFT, _HELD, _HELPS = 2, 3, 4
_NEVER = -(2**40)

_ROUTING = re.compile(r"rout|top_?k|align|sort|histogram|permute|count|offset|gating|expert_?map", re.IGNORECASE)
_SUMMING = re.compile(r"finalize|moe_?sum|combine|unpermute|moe_?reduce", re.IGNORECASE)
_STORING = re.compile(r"cache|kv", re.IGNORECASE)
_QUANTISING = re.compile(r"quant", re.IGNORECASE)
_OWN_NAMES = {STORE: _STORING, QUANTISE: _QUANTISING}


@dataclass(frozen=True, slots=True)
class Alignment:
    """Partners by number: which predicted kernel each kernel that has one goes with. score: higher is better."""

    partners: dict[int, int]
    score: int


def is_heavy(op: Op) -> bool:
    """Whether `op` is a product, attention or a scan, which a pass cannot do without."""
    return op.kind in _HEAVY and not isinstance(op.shape, PointwiseShape)


def align(kernels: Sequence[KernelRun], predicted: Sequence[Op]) -> Alignment | None:
    """Return the alignment with the highest score, or None where the two are too long to be aligned."""
    import numpy as np

    width = len(predicted) + 1
    if len(kernels) * width > MOST_CELLS:
        return None
    skipped = np.array([0] + [_MISSED if is_heavy(op) else 0 for op in predicted], dtype=np.int64).cumsum()
    best, held = skipped.copy(), np.full(width, _NEVER, dtype=np.int64)
    moves = np.zeros((len(kernels), width), dtype=np.uint8)
    kinds = {(op.name, op.kind, op.dtype, op.shape): op for op in predicted}
    numbers = {key: number for number, key in enumerate(kinds)}
    which = np.array([numbers[op.name, op.kind, op.dtype, op.shape] for op in predicted], dtype=np.int64)
    values: dict[tuple[object, ...], NDArray[int64]] = {}
    for row, kernel in enumerate(kernels):
        key = _signature(kernel)
        if key not in values:
            values[key] = np.array([_value(kernel, op) for op in kinds.values()], dtype=np.int64)
        best, held = _step(best, held, values[key][which], skipped, moves[row])
    return Alignment(_traced_back(moves, width), int(best[-1]))


def _step(
    best: NDArray[int64], held: NDArray[int64], value: NDArray[int64], skipped: NDArray[int64], move: NDArray[uint8]
) -> tuple[NDArray[int64], NDArray[int64]]:
    """One more kernel: the best scores up to each predicted kernel, and those that end in a pair with it."""
    import numpy as np

    pair, works = np.full_like(best, _NEVER), np.zeros(len(best), dtype=np.bool_)
    pair[1:], works[1:] = best[:-1] + value, value > 0
    helper = held + _HELPER
    helps: NDArray[bool_] = helper > pair
    held = np.where(works, np.maximum(pair, helper), _NEVER)
    ends = np.maximum(best, held)
    row = np.maximum.accumulate(ends - skipped) + skipped
    move[:] = np.where(row > ends, _LEFT, np.where(held >= best, _HELD, 1))
    move |= (helps & works).astype(np.uint8) * np.uint8(_HELPS)
    return row, held


def _signature(kernel: KernelRun) -> tuple[object, ...]:
    shape = kernel.op.shape if kernel.op is not None else None
    return kernel.name, kernel.kind, kernel.op is not None and kernel.op.kind, shape


def _value(kernel: KernelRun, op: Op) -> int:
    """What a pair counts: 0 for kernels of different work."""
    if kernel.op is not None and (kernel.kind is not kernel.op.kind or not _fits(kernel.op, op)):
        return 0
    own = _OWN_NAMES.get(op.name)
    if own is not None:
        return _NAMED if kernel.kind is op.kind and own.search(kernel.name) else 0
    if kernel.kind is OpKind.EXPERTS:
        return _expert_value(kernel, op)
    if kernel.kind is not op.kind:
        return 0
    if not is_heavy(op):
        return _LIGHT
    return _PAIR if kernel.dtype in (None, op.dtype) or op.dtype.bits < 16 else _UNLIKE


def _expert_value(kernel: KernelRun, op: Op) -> int:
    """Kernels of experts choose them, multiply, or add up what they return: their names tell which."""
    if _SUMMING.search(kernel.name):
        return _NAMED if op.name == SUM else 0
    if _ROUTING.search(kernel.name):
        return _NAMED if op.name == ROUTE else 0
    return _PAIR if op.kind is OpKind.EXPERTS and op.name != ROUTE else 0


def _fits(ran: Op, op: Op) -> bool:
    """Whether an op whose shapes are known is the predicted one: of products the sizes must agree."""
    if ran.kind is not op.kind:
        return False
    if isinstance(ran.shape, GemmShape) and isinstance(op.shape, GemmShape):
        return (ran.shape.m, ran.shape.n, ran.shape.k) == (op.shape.m, op.shape.n, op.shape.k)
    return True


def _traced_back(moves: NDArray[uint8], width: int) -> dict[int, int]:
    partners: dict[int, int] = {}
    i, j = len(moves), width - 1
    holding = False
    while i > 0 and j >= 0:
        move = int(moves[i - 1, j])
        choice = _HELD if holding else move & 3
        if choice == _HELD:
            partners[i - 1] = j - 1
            holding = bool(move & _HELPS)
            i, j = i - 1, j if holding else j - 1
        elif choice == _LEFT:
            j -= 1
        else:
            i -= 1
    return partners
