"""The law: at the ridge point, without FLOP, without bytes, over arrays."""

from __future__ import annotations

import numpy as np
import pytest

from rooflens.core.hardware import Roof
from rooflens.core.op import DType, Op, OpKind, PointwiseShape, Traffic
from rooflens.core.profile import Bound
from rooflens.core.scenario import Batch, Conventions, Phase, PhaseKind
from rooflens.count import forward
from rooflens.roofline import attainable, envelope, ideal_seconds, place, place_phase, ridge_point, serial_floor
from tests.conftest import part, precision, tiny_model

ROOF = Roof(100e12, 1e12, DType.BF16, "memory")


def op(flops: float, moved: float, link: float = 0, kind: OpKind = OpKind.GEMM) -> Op:
    return Op("op", kind, DType.BF16, flops, flops, Traffic(activations=moved, link=link), PointwiseShape(1, 1, 0))


def test_attainable_bends_at_the_ridge_point() -> None:
    """Peak 100 TFLOP/s over 1 TB/s: the ridge point is 100 FLOP/byte."""
    assert ridge_point(ROOF) == 100
    assert attainable(10, ROOF) == 10e12
    assert attainable(100, ROOF) == 100e12
    assert attainable(1000, ROOF) == 100e12


@pytest.mark.parametrize(
    ("flops", "moved", "floor_s", "bound"),
    [
        (100e12, 1e12, 1.0, Bound.MEMORY),  # at the ridge point itself both times are equal
        (101e12, 1e12, 1.01, Bound.COMPUTE),
        (0, 2e12, 2.0, Bound.MEMORY),  # a copy
        (50e12, 0, 0.5, Bound.COMPUTE),  # nothing moves
        (0, 0, 0.0, Bound.MEMORY),
    ],
)
def test_place(flops: float, moved: float, floor_s: float, bound: Bound) -> None:
    point = place(op(flops, moved), ROOF)
    assert point.floor_s == pytest.approx(floor_s)
    assert point.timing.bound is bound


def test_a_link_is_a_bound_of_its_own() -> None:
    point = place(op(1e12, 1e9, link=1e9), ROOF, link_bandwidth=1e9)
    assert (point.floor_s, point.timing.bound) == (1.0, Bound.LINK)
    with pytest.raises(ValueError, match="link"):
        place(op(1, 1, link=1), ROOF)


def test_floor_is_serial_and_ideal_overlaps() -> None:
    """A copy of 1 s and a product of 1 s: 2 s one after another, 1 s where everything overlaps.

    Activations are no compulsory traffic: without them the copy vanishes from the ideal time.
    """
    points = (place(op(0, 1e12, kind=OpKind.COPY), ROOF), place(op(100e12, 0), ROOF))
    assert sum(point.floor_s for point in points) == 2.0
    assert ideal_seconds(points) == 1.0


def test_shares_add_up_to_one() -> None:
    seconds, share = serial_floor((place(op(300e12, 1e12), ROOF), place(op(0, 1e12), ROOF)))
    assert seconds == 4.0
    assert share == {Bound.COMPUTE: 0.75, Bound.MEMORY: 0.25, Bound.LINK: 0.0, Bound.OVERHEAD: 0.0}


def test_shares_of_nothing_are_zero() -> None:
    assert serial_floor(()) == (0, dict.fromkeys(Bound, 0.0))


def test_envelope_is_the_highest_roof() -> None:
    fast = Roof(200e12, 1e12, DType.FP8, "memory")
    assert envelope((ROOF, fast), [10, 150, 1000]) == [10e12, 150e12, 200e12]


def test_pointwise_kernels_run_under_the_vector_roof() -> None:
    phase = Phase(PhaseKind.PREFILL, Batch(1, 8, 0))
    placed = place_phase(phase, forward(tiny_model(), phase, precision(), Conventions()), part(), DType.BF16)
    units = {point.op.kind: point.roof.units for point in placed.points}
    assert units[OpKind.GEMM] == "matrix"
    assert units[OpKind.NORM] == "vector"
    assert placed.ridge_point == 100


def test_arrays_give_what_single_calls_give() -> None:
    """Every figure of an array of scenarios equals the scalar one to 1e-12, labels included."""
    batches, contexts = np.array([1.0, 64.0, 4096.0, 7.0]), np.array([0.0, 2048.0, 5.0, 131072.0])
    model, counted = tiny_model(window=16), Conventions()
    together = _decode(model, batches, contexts, counted)
    for i in range(len(batches)):
        single = _decode(model, int(batches[i]), int(contexts[i]), counted)
        for name in ("flops", "model_flops", "floor_s", "ideal_s", "intensity", "compulsory_bytes"):
            assert np.broadcast_to(getattr(together, name), 4)[i] == pytest.approx(getattr(single, name), rel=1e-12)
        assert together.bound[i] == str(single.bound)
        for mine, theirs in zip(together.points, single.points, strict=True):
            assert np.broadcast_to(mine.timing.bound, 4)[i] == str(theirs.timing.bound)


def _decode(model, batch, context, counted):
    phase = Phase(PhaseKind.DECODE, Batch(batch, 1, context))
    return place_phase(phase, forward(model, phase, precision(), counted), part(), DType.BF16)
