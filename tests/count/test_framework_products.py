"""Matrix products and convolutions of the framework: FLOP and bytes of each written out, bf16 (2 bytes) unless said."""

from __future__ import annotations

import pytest

from rooflens.core.op import DType, ExpertShape, GemmShape, Op, OpKind
from rooflens.count.framework import counted
from tests.count.calls import INT32, call, count, moved, t

FP32, FP8, I8 = DType.FP32, DType.FP8, DType.INT8


def held(op: Op, flops: int, model_flops: int, weights: int, activations: int) -> None:
    assert (op.flops, op.model_flops) == (flops, model_flops)
    assert op.traffic == moved(weights=weights, activations=activations)


def test_mm() -> None:
    """x[3, 4] W[4, 5]: 2 x 3 x 4 x 5 = 120; W 20 values, x 12 and y 15."""
    op = count("mm", t(3, 4), t(4, 5))
    held(op, 120, 120, 2 * 20, 2 * (12 + 15))
    assert op.shape == GemmShape(3, 5, 4)
    assert (op.kind, op.dtype) == (OpKind.GEMM, DType.BF16)


@pytest.mark.parametrize(("addend", "values", "bias"), [((5,), 5, True), ((3, 5), 15, False), ((), 1, True)])
def test_addmm(addend: tuple[int, ...], values: int, bias: bool) -> None:
    """The product of test_mm, and one add for each of 15 outputs."""
    op = count("addmm", t(*addend), t(3, 4), t(4, 5), 1, 1)
    held(op, 120 + 15, 120, 2 * (20 + values), 2 * (12 + 15))
    assert op.shape == GemmShape(3, 5, 4, bias)


def test_linear() -> None:
    """x[2, 3, 4] W[5, 4]^T: 6 tokens, 2 x 6 x 4 x 5 = 240; a bias is 30 adds and 5 values."""
    held(count("linear", t(2, 3, 4), t(5, 4), ""), 240, 240, 2 * 20, 2 * (24 + 30))
    op = count("linear", t(2, 3, 4), t(5, 4), t(5))
    held(op, 270, 240, 2 * 25, 2 * (24 + 30))
    assert op.shape == GemmShape(6, 5, 4, True)


def test_linear_of_one_row_of_weights() -> None:
    """x[2, 4] w[4]: 2 x 2 x 4 = 16, y has 2 values."""
    held(count("linear", t(2, 4), t(4)), 16, 16, 2 * 4, 2 * (8 + 2))


def test_mv_reads_its_matrix_as_weights() -> None:
    """A[3, 4] x[4]: 2 x 3 x 4 = 24, the one token x by the matrix turned."""
    op = count("mv", t(3, 4), t(4))
    held(op, 24, 24, 2 * 12, 2 * (4 + 3))
    assert op.shape == GemmShape(1, 3, 4)
    held(count("addmv", t(3), t(3, 4), t(4)), 24 + 3, 24, 2 * (12 + 3), 2 * (4 + 3))


def test_dot() -> None:
    held(count("dot", t(4), t(4)), 8, 8, 0, 2 * (4 + 4 + 1))


def test_batched_products_have_no_weights() -> None:
    """2 times [3, 4] by [4, 5]: 2 x 2 x 3 x 4 x 5 = 240; 24, 40 and 30 values. An addend of 30 is 30 adds."""
    held(count("bmm", t(2, 3, 4), t(2, 4, 5)), 240, 240, 0, 2 * (24 + 40 + 30))
    held(count("baddbmm", t(2, 3, 5), t(2, 3, 4), t(2, 4, 5), 1, 1), 270, 240, 0, 2 * (30 + 24 + 40 + 30))


def test_addbmm_adds_the_batch_up() -> None:
    """The products of test_batched, but one result [3, 5]."""
    held(count("addbmm", t(3, 5), t(2, 3, 4), t(2, 4, 5), 1, 1), 240 + 15, 240, 0, 2 * (15 + 24 + 40 + 15))


def test_bmm_of_a_repeated_matrix_reads_it_once() -> None:
    """Stride 0 over the batch: 20 values of W, not 40."""
    held(count("bmm", t(2, 3, 4), t(2, 4, 5, strides=(0, 5, 1))), 240, 240, 0, 2 * (24 + 20 + 30))


def test_matmul() -> None:
    """[2, 3, 4] by a matrix [4, 5] is 6 rows, 240; by a batch [2, 1, 4, 5] of [3, 4] it is 2 x 1 results [3, 5]."""
    held(count("matmul", t(2, 3, 4), t(4, 5)), 240, 240, 2 * 20, 2 * (24 + 30))
    held(count("matmul", t(3, 4), t(2, 1, 4, 5)), 240, 240, 0, 2 * (12 + 40 + 30))
    held(count("matmul", t(7, 1, 3, 4), t(2, 4, 5)), 7 * 240, 7 * 240, 0, 2 * (84 + 40 + 7 * 30))


def test_int_mm_adds_up_in_32_bit() -> None:
    op = count("_int_mm", t(3, 4, dtype=I8), t(4, 5, dtype=I8))
    held(op, 120, 120, 20, 12 + 4 * 15)
    assert op.dtype is I8


def test_scaled_mm_writes_the_dtype_that_it_says() -> None:
    """fp8 operands of 1 byte, two fp32 scales, bf16 out (c10's ScalarType 15), bias of 5."""
    scales = (t(1, dtype=FP32), t(1, dtype=FP32))
    held(count("_scaled_mm", t(3, 4, dtype=FP8), t(4, 5, dtype=FP8), *scales, "", "", 15, True), 120, 120, 28, 12 + 30)
    op = count("_scaled_mm", t(3, 4, dtype=FP8), t(4, 5, dtype=FP8), *scales, t(5), "", 15, True)
    held(op, 135, 120, 28 + 10, 12 + 30)
    assert op.dtype is FP8


def test_grouped_mm_meets_the_expected_number_of_experts() -> None:
    """6 rows of 4 by one each of 2 matrices [4, 5]: 2 x 6 x 4 x 5 = 240. One row misses a given one of them half of
    the time, all six with 1 / 64: 2 x 63 / 64 matrices of 20 values."""
    op = count("_grouped_mm", t(6, 4), t(2, 4, 5), t(2, dtype=INT32), "", "")
    held(op, 240, 240, 2 * 20 * 2 * 63 / 64, 2 * (24 + 30))
    assert op.shape == ExpertShape(6, 5, 4, 2 * 63 / 64)
    assert op.kind is OpKind.EXPERTS
    one = count("_grouped_mm", t(1, 4), t(2, 4, 5), t(2, dtype=INT32), "", "")
    held(one, 40, 40, 2 * 20, 2 * (4 + 5))
    held(count("_grouped_mm", t(2, 3, 4), t(2, 4, 5), "", "", ""), 240, 240, 2 * 40, 2 * (24 + 30))


@pytest.mark.parametrize(
    "wrong",
    [
        call("mm", t(3, 4), t(5, 4)),
        call("mm", t(3, 4), t(8, 5)),
        call("mm", t(3, 4)),
        call("mm", "", ""),
        call("linear", t(3, 4), t(5, 6)),
        call("linear", t(3, 4), t(2, 5, 4)),
        call("bmm", t(2, 3, 4), t(3, 4, 5)),
        call("addmm", t(3, 4), t(4, 5)),
        call("dot", t(), t(4)),
        call("_grouped_mm", t(6, 4), t(2, 5, 4)),
        call("_grouped_mm", t(3, 6, 4), t(2, 4, 5)),
        call("mkldnn_convolution", t(1, 2, 7), t(2, 1, 4)),
        call("convolution", t(1, 3, 7), t(2, 2, 4), "", "[1]", "[0]", "[1]", "False", "[0]", "1"),
        call("convolution", t(1, 2, 7), t(2, 1, 4), "", "[0]", "[0]", "[1]", "False", "[0]", "2"),
        call("convolution", t(1, 2, 7), t(2, 1, 4), "", "[1]", "[0]", "[1]", "True", "[0]", "2"),
        call("convolution", t(1, 2, 7), t(2, 1), "", "[1]", "[0]", "[1]", "False", "[0]", "2"),
    ],
    ids=lambda c: f"{c.name} {[a.shape for a in c.tensors]}",
)
def test_what_does_not_fit_is_not_counted(wrong: object) -> None:
    assert counted(wrong) is None


def test_empty_product() -> None:
    held(count("mm", t(0, 4), t(4, 5)), 0, 0, 2 * 20, 0)
    held(count("mm", t(3, 4), t(4, 0)), 0, 0, 0, 2 * 12)
    held(count("mm", t(3, 0), t(0, 5)), 0, 0, 0, 2 * 15)


def test_depthwise_convolution() -> None:
    """x[1, 2, 7], 3 zeros on both sides, kernel 4: 7 + 6 - 3 = 10 positions of 2 channels, 4 multiply-adds each."""
    op = count("convolution", t(1, 2, 7), t(2, 1, 4), "", "[1]", "[3]", "[1]", "False", "[0]", "2")
    held(op, 2 * 20 * 4, 0, 2 * 8, 2 * (14 + 20))
    assert op.kind is OpKind.CONVOLUTION
    biased = count("convolution", t(1, 2, 7), t(2, 1, 4), t(2), "[1]", "[3]", "[1]", "False", "[0]", "2")
    held(biased, 160 + 20, 0, 2 * (8 + 2), 2 * (14 + 20))


def test_convolution_with_stride_and_dilation() -> None:
    """x[1, 3, 9, 8], W[5, 3, 2, 3]: (9 - 2 - 1) // 2 + 1 = 4 rows with dilation 2 (2 x 1 + 1 = 3 wide), (8 + 2 - 3) //
    1 + 1 = 8 columns with padding 1: 160 outputs of 18 multiply-adds."""
    x, w = t(1, 3, 9, 8), t(5, 3, 2, 3)
    op = count("_convolution", x, w, "", "[2, 1]", "[0, 1]", "[2, 1]", "False", "[0, 0]", "1")
    held(op, 2 * 160 * 18, 0, 2 * 90, 2 * (216 + 160))


ORDERS = {
    "convolution": ("", "[2]", "[3]", "[1]", "False", "[0]", "2"),
    "_convolution": ("", "[2]", "[3]", "[1]", "False", "[0]", "2"),
    "conv1d": ("", "[2]", "[3]", "[1]", "2"),
    "mkldnn_convolution": ("", "[3]", "[2]", "[1]", "2"),
    "miopen_convolution": ("", "[3]", "[2]", "[1]", "2", "False", "False"),
    "cudnn_convolution": ("[3]", "[2]", "[1]", "2", "False", "False", "True"),
}


@pytest.mark.parametrize("name", ORDERS)
def test_order_of_stride_and_padding(name: str) -> None:
    """Stride 2 and padding 3 over 7: (7 + 6 - 4) // 2 + 1 = 5 positions. Stride 3 and padding 2 would be 3."""
    held(count(name, t(1, 2, 7), t(2, 1, 4), *ORDERS[name]), 2 * 10 * 4, 0, 2 * 8, 2 * (14 + 10))


def test_depthwise_2d_says_its_kernel_first() -> None:
    """x[1, 2, 7, 7], W[2, 1, 4, 4], stride 2, padding 3: 5 x 5 positions of 2 channels, 16 multiply-adds each."""
    x, w = t(1, 2, 7, 7), t(2, 1, 4, 4)
    op = count("_conv_depthwise2d", x, w, "[4, 4]", "", "[2, 2]", "[3, 3]", "[1, 1]")
    held(op, 2 * 50 * 16, 0, 2 * 32, 2 * (98 + 50))
    held(count("_slow_conv2d_forward", x, w, "[4, 4]", "", "[2, 2]", "[3, 3]"), 1600, 0, 64, 2 * (98 + 50))
