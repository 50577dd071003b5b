"""Framework ops that compute value by value or move values: bytes and FLOP written out, bf16 (2 bytes) unless said."""

from __future__ import annotations

import pytest

from rooflens.core.call import Call
from rooflens.core.op import DType, OpKind
from rooflens.count.framework import counted
from tests.count.calls import BOOL, INT64, call, count, moved, t

FP32 = DType.FP32
I = INT64  # noqa: E741

POINTWISE: dict[str, tuple[tuple[object, ...], int, int]] = {
    "mul of two": (("mul", t(3, 4), t(3, 4)), 12, 2 * 36),
    "mul by a row": (("mul", t(3, 4), t(4)), 12, 2 * (12 + 4 + 12)),
    "mul of column and row": (("mul", t(3, 1), t(4)), 12, 2 * (3 + 4 + 12)),
    "mul by a number": (("mul", t(3, 4), "2.0"), 12, 2 * 24),
    "add of an expanded row": (("add", t(3, 4), t(3, 4, strides=(0, 1)), "1"), 12, 2 * (12 + 4 + 12)),
    "add in place": (("add_", t(3, 4), t(3, 4), "1"), 12, 2 * 36),
    "add of fp32 to bf16": (("add", t(3, 4), t(4, dtype=FP32), "1"), 12, 24 + 16 + 48),
    "add in place of fp32 to bf16": (("add_", t(3, 4), t(3, 4, dtype=FP32), "1"), 12, 24 + 48 + 24),
    "mul by a tensor without dimensions": (("mul", t(3, 4), t(dtype=FP32)), 12, 24 + 4 + 24),
    "mul of positions by a float": (("mul", t(3, dtype=I), t(dtype=FP32)), 3, 24 + 4 + 12),
    "silu": (("silu", t(3, 4)), 4 * 12, 2 * 24),
    "gelu": (("gelu", t(3, 4), "none"), 4 * 12, 2 * 24),
    "pow": (("pow", t(3, 4, dtype=FP32), "2"), 12, 4 * 24),
    "eq gives a byte": (("eq", t(3, 4), t(3, 4)), 12, 24 + 24 + 12),
    "isneginf gives a byte": (("isneginf", t(3, 4)), 12, 24 + 12),
    "where": (("where", t(3, 4, dtype=BOOL), t(3, 4), t(3, 4)), 0, 12 + 24 + 24 + 24),
    "where with its output": (("where", t(3, 1, dtype=BOOL), t(), t(3, 4), t(3, 4)), 0, 3 + 2 + 24 + 24),
    "masked_fill": (("masked_fill", t(3, 4), t(1, 4, dtype=BOOL), "-inf"), 0, 24 + 4 + 24),
    "masked_fill in place": (("masked_fill_", t(3, 4), t(3, 4, dtype=BOOL), "0"), 0, 24 + 12 + 24),
    "nothing": (("mul", t(0, 4), t(4)), 0, 8),
}


@pytest.mark.parametrize("name", POINTWISE)
def test_pointwise(name: str) -> None:
    arguments, flops, activations = POINTWISE[name]
    op = count(*arguments)
    assert (op.flops, op.model_flops, op.kind) == (flops, 0, OpKind.POINTWISE)
    assert op.traffic == moved(activations=activations)


def test_arithmetic_runs_in_the_operands_of_floats() -> None:
    assert count("where", t(3, dtype=BOOL), t(3), t(3)).dtype is DType.BF16
    assert count("mul", t(3, dtype=I), t(3, dtype=FP32)).dtype is FP32
    assert count("add", t(3, dtype=I), t(3, dtype=BOOL)).dtype is DType.INT8


REDUCTIONS: dict[str, tuple[tuple[object, ...], int, int]] = {
    "sum over rows": (("sum", t(3, 4), "[1]", "False", ""), 12, 2 * (12 + 3)),
    "mean from the end": (("mean", t(2, 3, 4), "[-1]", "True", ""), 24, 2 * (24 + 6)),
    "sum over two": (("sum", t(2, 3, 4), "[0, -1]", "False", ""), 24, 2 * (24 + 3)),
    "sum of all": (("sum", t(3, 4), ""), 12, 2 * (12 + 1)),
    "sum of all into fp32": (("sum", t(3, 4), "6"), 12, 24 + 4),
    "sum over rows into fp32": (("sum", t(3, 4), "[1]", "False", "6"), 12, 24 + 12),
    "std of all": (("std", t(3, 4), "True"), 12, 2 * 13),
    "argmax": (("argmax", t(3, 4), "1", "False"), 12, 24 + 3 * 8),
    "argmax of all": (("argmax", t(3, 4), "", "False"), 12, 24 + 8),
    "max with positions": (("max", t(3, 4), "-1", "False"), 12, 24 + 3 * (2 + 8)),
    "max of all": (("max", t(3, 4)), 12, 24 + 2),
    "all": (("all", t(3, 4, dtype=BOOL)), 12, 12 + 1),
    "norm of order 2": (("norm", t(3, 4), "2"), 12, 2 * 13),
    "norm over rows": (("linalg_vector_norm", t(3, 4), "2", "[1]", "False", ""), 12, 2 * 15),
    "histogram of 4 bins": (("histc", t(12, dtype=FP32), "4", "0", "3"), 12, 4 * (12 + 4)),
    "of one number": (("sum", t(), "[0]", "False", ""), 1, 2 * 2),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduction(name: str) -> None:
    arguments, flops, activations = REDUCTIONS[name]
    op = count(*arguments)
    assert (op.flops, op.model_flops, op.kind) == (flops, 0, OpKind.REDUCTION)
    assert op.traffic == moved(activations=activations)


def test_softmax() -> None:
    """5 FLOP a score; in fp32 where it is asked for."""
    for name, last, written in (("_softmax", "False", 24), ("_softmax", "True", 48), ("softmax", "6", 48)):
        op = count(name, t(3, 4), "-1", last)
        assert (op.flops, op.kind, op.traffic) == (60, OpKind.SOFTMAX, moved(activations=24 + written))


def test_norms() -> None:
    """LayerNorm 5 FLOP a value and 1 each for weight and bias, RMSNorm 3 and 1 (count.pointwise.norm)."""
    op = count("native_layer_norm", t(3, 4), "[4]", t(4), t(4), "1e-5")
    assert (op.flops, op.kind, op.traffic) == (12 * 7, OpKind.NORM, moved(weights=16, activations=48))
    assert count("native_layer_norm", t(3, 4), "[4]", "", "", "1e-5").flops == 12 * 5
    op = count("_fused_rms_norm", t(3, 4), "[4]", t(4), "1e-5")
    assert (op.flops, op.traffic) == (12 * 4, moved(weights=8, activations=48))


MOVES: dict[str, tuple[tuple[object, ...], int, int]] = {
    "copy": (("copy_", t(3, 4), t(3, 4), "False"), 0, 2 * 24),
    "copy that converts": (("copy_", t(3, 4, dtype=FP32), t(3, 4), "False"), 0, 24 + 48),
    "copy of an expanded row": (("copy_", t(3, 4), t(3, 4, strides=(0, 1)), "False"), 0, 8 + 24),
    "copy of a row": (("copy_", t(3, 4), t(4), "False"), 0, 8 + 24),
    "cat": (("cat", [t(3, 4), t(2, 4)], "0"), 0, 2 * 2 * 20),
    "embedding": (("embedding", t(10, 4), t(2, 3, dtype=I), "-1"), 2 * 24, 48 + 48),
    "index_select of rows": (("index_select", t(10, 4), "0", t(3, dtype=I)), 2 * 12, 24 + 24),
    "index_select of columns": (("index_select", t(10, 4), "1", t(3, dtype=I)), 0, 2 * 2 * 30 + 24),
    "index_select from the end": (("index_select", t(2, 10, 4), "-1", t(3, dtype=I)), 0, 2 * 2 * 60 + 24),
    "index by two lists": (("index", t(5, 6, 4), [t(3, dtype=I), t(3, dtype=I)]), 0, 2 * 2 * 12 + 48),
    "gather": (("gather", t(3, 4), "1", t(3, 2, dtype=I), "False"), 0, 2 * 2 * 6 + 48),
    "index_put_": (("index_put_", t(10, 4), [t(3, dtype=I)], t(3, 4), "False"), 0, 24 + 24 + 24),
    "index_copy_": (("index_copy_", t(10, 4), "0", t(3, dtype=I), t(3, 4)), 0, 24 + 24 + 24),
    "index_fill_": (("index_fill_", t(10, 4), "0", t(3, dtype=I), "0"), 0, 24 + 24),
    "scatter_": (("scatter_", t(3, 4), "1", t(3, 2, dtype=I), "1"), 0, 48 + 12),
    "fill_": (("fill_", t(3, 4), "0"), 0, 24),
    "zero_": (("zero_", t(3, 4)), 0, 24),
    "arange into a tensor": (("arange", "0", "5", "1", t(5, dtype=I)), 0, 40),
}


@pytest.mark.parametrize("name", MOVES)
def test_moves(name: str) -> None:
    arguments, weights, activations = MOVES[name]
    op = count(*arguments)
    assert (op.flops, op.model_flops) == (0, 0)
    assert op.traffic == moved(weights=weights, activations=activations)
    assert op.kind is (OpKind.EMBEDDING if weights else OpKind.COPY)


def test_index_by_a_list_whose_result_is_told() -> None:
    """rows [16, 4] by 32 positions: 32 x 4 values read and written, 32 x 8 bytes of positions."""
    op = counted(call("index", t(16, 4), [t(32, dtype=I)]))
    told = counted(Call("index", (t(16, 4), (t(32, dtype=I),)), ("", "[32, 4]")))
    assert op is not None
    assert told is not None
    assert op.traffic == told.traffic == moved(activations=2 * 2 * 128 + 256)


def test_index_add_reads_what_it_adds_to() -> None:
    """3 rows of 4 are read, the destination's 3 read and written: 3 x 24 bytes, 24 of positions, 12 adds."""
    op = count("index_add_", t(10, 4), "0", t(3, dtype=I), t(3, 4), "1")
    assert (op.flops, op.traffic) == (12, moved(activations=3 * 24 + 24))


SCANS: dict[str, tuple[tuple[object, ...], int]] = {
    "cumsum": (("cumsum", t(3, 4), "-1", ""), 24 + 24),
    "cumsum of positions": (("cumsum", t(3, dtype=DType("int32")), "0", ""), 12 + 24),
    "topk": (("topk", t(3, 8), "2", "-1", "True", "True"), 48 + 6 * 10),
    "topk of columns": (("topk", t(3, 8), "2", "0", "True", "True"), 48 + 16 * 10),
    "sort": (("sort", t(3, 4), "-1", "False"), 24 + 12 * 10),
    "argsort": (("argsort", t(3, 4), "-1", "False"), 24 + 12 * 8),
    "nonzero": (("nonzero", t(12, dtype=BOOL)), 12),
}


@pytest.mark.parametrize("name", SCANS)
def test_scan(name: str) -> None:
    arguments, activations = SCANS[name]
    op = count(*arguments)
    assert op.traffic == moved(activations=activations)
    assert op.model_flops == 0


@pytest.mark.parametrize(
    "wrong",
    [
        call("mul", t(3, 4), t(5)),
        call("mul", "2", "3"),
        call("sum", t(3, 4), "[2]", "False", ""),
        call("copy_", t(4), t(3, 4), "False"),
        call("copy_", t(3, 4)),
        call("cat", "", "0"),
        call("index", t(10, 4), ""),
        call("index_select", t(10, 4), "2", t(3, dtype=I)),
        call("index_select", t(10, 4), "", t(3, dtype=I)),
        call("embedding", t(10, 4)),
        call("index_put_", t(10, 4), "", "0"),
        call("topk", t(3, 8)),
        call("topk", t(3, 8), "2", "5"),
        call("my_op", t(3, 4)),
        call("view", t(3, 4)),
    ],
    ids=lambda c: f"{c.name} {c.texts}",
)
def test_what_is_not_told_is_not_counted(wrong: object) -> None:
    assert counted(wrong) is None
