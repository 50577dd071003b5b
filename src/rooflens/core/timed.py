"""Timed ops: what ran, how long each took, and how much of it is understood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from rooflens.core.op import Op, OpKind, Traffic

MODULE_RANGE = "module: "
"""What a range of a trace is named that says which module runs inside it."""

MATRIX = (OpKind.GEMM, OpKind.EXPERTS, OpKind.ATTENTION)


@dataclass(frozen=True, slots=True)
class TimedOp:
    """An op that ran, a total over its `op.count` runs in one pass.

    seconds: its own time: on a CPU without the ops that it calls, on a GPU that of its kernels.
    known: whether a formula gave its bytes; without one they are 0 and its FLOP are too. module: where it ran, numbers
    of layers as `*`; empty where that is not known.
    """

    op: Op
    seconds: float
    known: bool = True
    module: str = ""


@dataclass(frozen=True, slots=True)
class TimedPhase:
    """One pass of a phase, the mean of the `passes` that a trace holds, in seconds.

    wall_s: from its start to its end. ops: what computed or moved bytes, and what no formula knows. dispatch_s: own
    time of framework ops that only call others, make views or take memory (on a CPU). busy_s: time in which at least
    one of `ops` ran.
    """

    name: str
    passes: int
    wall_s: float
    ops: tuple[TimedOp, ...]
    dispatch_s: float
    busy_s: float
    gpu: bool = False

    def shared(self, steps: float) -> TimedPhase:
        """One of `steps` equal parts of the pass."""
        if steps == 1:
            return self
        ops = tuple(_shared(timed, steps) for timed in self.ops)
        return replace(
            self,
            ops=ops,
            wall_s=self.wall_s / steps,
            dispatch_s=self.dispatch_s / steps,
            busy_s=self.busy_s / steps,
        )

    @property
    def gap_s(self) -> float:
        """Seconds in which nothing of the framework ran (on a GPU: no kernel of the phase)."""
        return max(0.0, self.wall_s - self.busy_s - (0.0 if self.gpu else self.dispatch_s))

    @property
    def op_s(self) -> float:
        """Seconds of all ops, whether they overlapped or not."""
        return sum(timed.seconds for timed in self.ops)

    @property
    def coverage(self) -> float:
        """Share of the ops' time, 0..1, whose bytes are known."""
        return _share(self.ops, lambda timed: timed.known)

    @property
    def matrix_share(self) -> float:
        """Share of the ops' time, 0..1, in matrix multiplication and attention."""
        return _share(self.ops, lambda timed: timed.op.kind in MATRIX)

    @property
    def unknown(self) -> tuple[tuple[str, float], ...]:
        """(name, share of the ops' time) of ops that no formula knows, longest first."""
        total = self.op_s or 1.0
        shares: dict[str, float] = {}
        for timed in self.ops:
            if not timed.known:
                shares[timed.op.name] = shares.get(timed.op.name, 0.0) + timed.seconds / total
        return tuple(sorted(shares.items(), key=lambda row: -row[1]))


def _shared(timed: TimedOp, steps: float) -> TimedOp:
    op = timed.op
    kinds = {kind: getattr(op.traffic, kind) / steps for kind in Traffic.__dataclass_fields__}
    part = replace(
        op,
        flops=op.flops / steps,
        model_flops=op.model_flops / steps,
        traffic=Traffic(**kinds),
        count=max(1, round(op.count / steps)),
    )
    return replace(timed, op=part, seconds=timed.seconds / steps)


def _share(ops: tuple[TimedOp, ...], belongs: Callable[[TimedOp], bool]) -> float:
    total = sum(timed.seconds for timed in ops)
    held = sum(timed.seconds for timed in ops if belongs(timed))
    return held / total if total else 0.0
