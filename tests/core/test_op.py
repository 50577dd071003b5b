"""Traffic and Op: sums, multiples, what is compulsory."""

from __future__ import annotations

import math

import numpy as np

from rooflens.core.arrays import as_count, is_array, least, most, ratio, where
from rooflens.core.op import DType, GemmShape, Op, OpKind, Traffic


def test_traffic_adds_kind_by_kind() -> None:
    total = Traffic(1, 2, 3, 4, 5, 6) + Traffic(10, 20, 30, 40, 50, 60)
    assert total == Traffic(11, 22, 33, 44, 55, 66)
    assert (total.memory, total.total) == (165, 231)
    assert total.times(2) == Traffic(22, 44, 66, 88, 110, 132)


def test_an_op_run_often_has_totals() -> None:
    op = Op("g", OpKind.GEMM, DType.BF16, 10, 8, Traffic(weights=4, activations=3), GemmShape(1, 1, 1), 2, 1)
    many = op.times(5)
    assert (many.count, many.flops, many.model_flops, many.traffic.weights, many.leaving_bytes) == (10, 50, 40, 20, 5)
    assert op.compulsory_bytes == 5
    assert op.intensity == 10 / 7


def test_intensity_without_bytes() -> None:
    assert math.isinf(Op("g", OpKind.GEMM, DType.BF16, 1, 1, Traffic(), GemmShape(1, 1, 1)).intensity)
    assert math.isnan(Op("g", OpKind.GEMM, DType.BF16, 0, 0, Traffic(), GemmShape(1, 1, 1)).intensity)


def test_quantised_blocks_are_whole() -> None:
    assert DType.MXFP4.bytes_of(33) == 34
    assert DType.NVFP4.bytes_of(16) == 9
    assert DType.MXFP4.bytes_of(np.array([32.0])).tolist() == [17.0]


def test_integers_stay_exact() -> None:
    """405B parameters x batch 512 x 131,072 tokens is beyond int64: counts are Python integers."""
    product = 2 * 405_853_388_800 * 512 * 131_072
    assert DType.BF16.bytes_of(product) == 2 * product
    assert product > 2**63


def test_arrays_are_float64() -> None:
    counts = as_count([1, 2])
    assert is_array(counts)
    assert counts.dtype == np.float64
    assert as_count(np.int64(7)) == 7
    assert isinstance(as_count(np.int64(7)), int)
    assert least(counts, 1.5).tolist() == [1.0, 1.5]
    assert most(counts, 1.5).tolist() == [1.5, 2.0]
    assert where(counts > 1, 1.0, 0.0).tolist() == [0.0, 1.0]
    assert ratio(counts, np.array([0.0, 4.0])).tolist() == [math.inf, 0.5]
