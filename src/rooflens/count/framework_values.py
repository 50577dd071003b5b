"""Framework ops that compute value by value: pointwise, reductions, norms, softmax and scans."""

from __future__ import annotations

from rooflens.core.call import Call
from rooflens.core.op import DType, Op, OpKind, PointwiseShape, Traffic
from rooflens.count.attention import SOFTMAX_FLOPS
from rooflens.count.framework_call import INT64, broadcast, bytes_in, dtype_in, numbers, op_of, promoted, without

_FLOPS_PER_VALUE = {"silu": 4, "gelu": 4, "where": 0, "masked_fill": 0, "addcmul": 2, "addcdiv": 2, "lerp": 3}
"""Operations on a value where they are not one; a transcendental function counts as one FLOP."""

_TESTS = frozenset(
    [
        *("eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "isneginf", "isposinf"),
        *("logical_and", "logical_or", "logical_xor", "logical_not"),
    ]
)
"""Ops whose result is true or false: a byte."""

_WITH_DTYPE = ("sum", "mean", "prod")
_WITH_ORDER = ("norm", "linalg_vector_norm")
_WITH_BINS = {"histc": 1, "bincount": 2}


def pointwise(call: Call) -> Op | None:
    """Operands are broadcast; each is read once, the result is written once.

    It has the dtype that the operands make together; that of the first in place, a byte where it is true or false.
    """
    name = call.name.removesuffix("_")
    tensors = call.tensors[:3] if name == "where" else call.tensors
    values = broadcast([tensor.shape for tensor in tensors])
    if values is None:
        return None
    if call.name.endswith("_") or name == "masked_fill":
        into = tensors[0].dtype
    elif name in _TESTS:
        into = DType.INT8
    else:
        into = promoted(tensors[1:] if name == "where" and len(tensors) > 1 else tensors)
    per_value = _FLOPS_PER_VALUE.get(name, 1)
    moved = sum(t.held_bytes for t in tensors) + bytes_in(into, values)
    shape = PointwiseShape(values, 1, per_value)
    return op_of(call, OpKind.POINTWISE, shape, Traffic(activations=moved), flops=per_value * values)


def reduction(call: Call) -> Op | None:
    """Every value is read and met once; what is written is as large as the dimensions that are left."""
    x, axes = call.tensors[0], _axes(call)
    if call.name in ("max", "min") and call.tensor(1) is not None:
        return pointwise(call)
    kept = without(x.shape, axes) if axes else 1
    if call.name in _WITH_BINS:
        kept = next(iter(numbers(call.text(_WITH_BINS[call.name]))), 1)
    if kept is None:
        return None
    written = bytes_in(x.dtype, kept)
    if call.name in ("argmax", "argmin"):
        written = bytes_in(INT64, kept)
    elif call.name in ("any", "all"):
        written = kept
    elif call.name in ("max", "min") and axes:
        written += bytes_in(INT64, kept)
    elif call.name in _WITH_DTYPE:
        written = bytes_in(dtype_in(call.text(len(call.arguments) - 1), x.dtype), kept)
    moved = Traffic(activations=x.held_bytes + written)
    return op_of(call, OpKind.REDUCTION, PointwiseShape(x.values, 1, 1), moved, flops=x.values)


def _axes(call: Call) -> tuple[int, ...]:
    """Dimensions that a reduction folds; none where it folds all.

    A call of two arguments has no dimensions, but a dtype or a flag: sum(x, dtype), std(x, unbiased).
    """
    if len(call.arguments) < 3 and call.name != "count_nonzero":
        return ()
    return numbers(call.text(2 if call.name in _WITH_ORDER else 1)) if call.name not in _WITH_BINS else ()


def norm(call: Call) -> Op | None:
    """Read, written, and its parameters read; FLOP per value as `count.pointwise.norm` has them.

    Those are 3 of an RMS norm, 5 of any other, and 1 each for weight and bias.
    """
    x, parameters = call.tensors[0], call.tensors[1:]
    per_value = (3 if "rms" in call.name else 5) + min(2, len(parameters))
    traffic = Traffic(
        weights=sum(t.held_bytes for t in parameters), activations=x.held_bytes + bytes_in(x.dtype, x.values)
    )
    return op_of(call, OpKind.NORM, PointwiseShape(x.values, 1, per_value), traffic, flops=per_value * x.values)


def softmax(call: Call) -> Op | None:
    """Read and written, in fp32 where it is asked for (`half_to_float`) or in the dtype that is named."""
    x, text = call.tensors[0], call.text(2)
    into = DType.FP32 if text == "True" else dtype_in(text, x.dtype)
    moved = Traffic(activations=x.held_bytes + bytes_in(into, x.values))
    shape = PointwiseShape(x.values, 1, SOFTMAX_FLOPS)
    return op_of(call, OpKind.SOFTMAX, shape, moved, flops=SOFTMAX_FLOPS * x.values)


def scan(call: Call) -> Op | None:
    """Every value is read and met once; as many are written, of topk k of each row, with their positions if sorted.

    How many positions `nonzero` finds the shapes do not tell: they are left out.
    """
    x, written = call.tensors[0], call.tensors[0].values
    each = bytes_in(x.dtype, 1)
    if call.name == "topk":
        rows, chosen = without(x.shape, numbers(call.text(2))[:1] or (-1,)), numbers(call.text(1))
        if rows is None or not chosen or chosen[0] < 0:
            return None
        written = rows * chosen[0]
    if call.name in ("topk", "sort", "cummax", "cummin"):
        each += 8
    elif call.name == "argsort" or (call.name == "cumsum" and not x.is_float):
        each = 8
    out = 0 if call.name == "nonzero" else written * each
    moved = Traffic(activations=x.held_bytes + out)
    return op_of(call, OpKind.REDUCTION, PointwiseShape(x.values, 1, 1), moved, flops=x.values)
