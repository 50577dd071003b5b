"""Measured ops under their roofs: what was achieved, what it was bound by, and what that is a share of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rooflens.core.hardware import Hardware, KernelShape, Roof
from rooflens.core.op import AttentionShape, DType, GemmShape, Op, OpKind, Traffic
from rooflens.core.profile import Bound, KernelShare, Measurement, PhaseProfile, Point
from rooflens.core.scenario import Phase
from rooflens.core.timed import TimedOp
from rooflens.roofline import place_ops


def place_measured(
    phase: Phase, measured: Measurement, hardware: Hardware, dtype: DType, *, predicted: PhaseProfile | None
) -> PhaseProfile:
    """Put what ran of a phase under its roofs on `hardware`, beside what was `predicted` of it, if the model is known.

    Times of the instrumented run are scaled to those without the instrument. FLOP and bytes are those of the ops that
    ran; compulsory bytes are the prediction's, since a trace does not tell what has to move. Without an instrumented
    run the ops are the predicted ones and have no times of their own.

    bound_share: overhead is the time in which no op worked, over the whole; each op's time goes to the larger of its
    floors, and that of ops without a formula to what holds most of the others.

    Raises:
        ValueError: neither a breakdown nor a prediction: there is nothing to place.
    """
    if measured.traced is None:
        if predicted is None:
            raise ValueError("a phase that ran needs a breakdown or a prediction")
        return replace(predicted, measured=measured, predicted=predicted)
    points = tuple(_point(timed, hardware, dtype, measured.scale) for timed in measured.traced.ops)
    placed = place_ops(phase, points, hardware, dtype)
    known = placed if predicted is None else predicted
    return replace(
        placed,
        compulsory_bytes=known.compulsory_bytes,
        ideal_s=known.ideal_s,
        bound_share=_shares(measured, points),
        measured=measured,
        predicted=predicted,
        kernel_shares=kernel_shares(points, hardware),
    )


def kernel_shares(points: Sequence[Point], hardware: Hardware) -> tuple[KernelShare, ...]:
    """How near the kernels of each shape came to what `hardware` was measured to reach with that shape.

    Longest first; only shapes and dtypes that have such a ceiling.
    """
    groups: dict[tuple[KernelShape, DType], list[Point]] = {}
    for point in points:
        shape = shape_of(point.op)
        if shape is not None and (shape, point.op.dtype) in hardware.kernels:
            groups.setdefault((shape, point.op.dtype), []).append(point)
    found = []
    for (shape, dtype), held in groups.items():
        seconds = sum(float(point.time_s) for point in held)
        moved = sum(float(point.op.traffic.memory) for point in held)
        if seconds:
            found.append(KernelShare(shape, dtype, seconds, moved / seconds, hardware.kernels[shape, dtype].value))
    return tuple(sorted(found, key=lambda share: -share.seconds))


def shape_of(op: Op) -> KernelShape | None:
    """Which of the shapes with ceilings of their own `op` has: by its rows, or its one query of each sequence."""
    match op.shape:
        case GemmShape() if op.kind is OpKind.GEMM:
            rows = int(op.shape.m)
            return KernelShape.M1_LINEAR if rows == 1 else KernelShape.SKINNY_LINEAR if rows <= SKINNY_ROWS else None
        case AttentionShape() if op.kind is OpKind.ATTENTION and int(op.shape.q_tokens) == 1:
            return KernelShape.DECODE_ATTENTION
        case _:
            return None


SKINNY_ROWS = 16
"""Rows of a linear layer up to which the ceiling of such layers is its own: the ceiling is measured with 16."""


def _point(timed: TimedOp, hardware: Hardware, dtype: DType, scale: float) -> Point:
    roof, link = _roof(timed.op, hardware, dtype), _link(timed.op, hardware)
    return Point(timed.op, roof, link, measured_s=timed.seconds * scale, known=timed.known)


def _link(op: Op, hardware: Hardware) -> float | None:
    """Byte/s, one direction, of the part's fastest link for an op that moves bytes over one; None without."""
    rates = [link.per_direction.value for link in hardware.links if link.per_direction is not None]
    return max(rates, default=None) if op.traffic.link else None


def _roof(op: Op, hardware: Hardware, dtype: DType) -> Roof:
    """The roof of its dtype where the machine has one; else that of the phase, which `unplaced` says."""
    if not op.kind.on_matrix_units:
        return hardware.vector_roof(dtype)
    return hardware.roof(op.dtype if hardware.peak(op.dtype) is not None else dtype)


def unplaced(points: Iterable[Point]) -> dict[DType, float]:
    """Dtypes of matrix multiplications without a peak of their own, and the seconds that they took."""
    found: dict[DType, float] = {}
    for point in points:
        if point.op.kind.on_matrix_units and point.roof.dtype is not point.op.dtype:
            found[point.op.dtype] = found.get(point.op.dtype, 0.0) + float(point.time_s)
    return found


def _shares(measured: Measurement, points: Sequence[Point]) -> dict[Bound, float]:
    traced = measured.traced
    assert traced is not None
    shares = dict.fromkeys(Bound, 0.0)
    for point in points:
        if point.known:
            shares[point.timing.bound] += float(point.time_s)
    held = sum(shares.values())
    works = min(1.0, traced.busy_s / traced.wall_s) if traced.wall_s else 0.0
    shares = {bound: works * seconds / held if held else 0.0 for bound, seconds in shares.items()}
    shares[Bound.OVERHEAD] = 1.0 - works if held else 1.0
    return shares


def scale_to_depth(measured: Measurement, depth: int, layers: int) -> Measurement | None:
    """What the whole model of `depth` layers takes, from a run of its first `layers`; None without a breakdown.

    Ops inside a layer (a module whose path has a number) count depth / layers times; embedding, last norm and output
    head once. Time outside ops grows as the number of ops does.
    """
    traced, ratio = measured.traced, depth / layers
    if traced is None:
        return None
    ops = tuple(_repeated(timed, ratio) if _LAYER in timed.module else timed for timed in traced.ops)
    seconds = sum(timed.seconds for timed in ops)
    calls = sum(timed.op.count for timed in ops) / max(1, sum(timed.op.count for timed in traced.ops))
    busy = traced.busy_s * seconds / traced.op_s if traced.op_s else 0.0
    wall = busy + (traced.wall_s - traced.busy_s) * calls
    whole = replace(traced, ops=ops, busy_s=busy, dispatch_s=traced.dispatch_s * calls, wall_s=wall)
    factor = wall / traced.wall_s if traced.wall_s else ratio
    joules = None if measured.joules is None else measured.joules * factor
    return replace(measured, traced=whole, times_s=tuple(s * factor for s in measured.times_s), joules=joules)


_LAYER = ".*."
"""What the path of a module inside a layer holds."""


def _repeated(timed: TimedOp, ratio: float) -> TimedOp:
    op = timed.op
    kinds = {kind: getattr(op.traffic, kind) * ratio for kind in Traffic.__dataclass_fields__}
    count = max(1, round(op.count * ratio))
    flops, model_flops = op.flops * ratio, op.model_flops * ratio
    more = replace(op, flops=flops, model_flops=model_flops, traffic=Traffic(**kinds), count=count)
    return replace(timed, op=more, seconds=timed.seconds * ratio)
