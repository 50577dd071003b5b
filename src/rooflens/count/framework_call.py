"""What every formula of a framework op needs: its Op, the size and dtype of a result, the numbers in a text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

from rooflens.core.call import Call, Tensor
from rooflens.core.op import DType, Op, OpKind, Shape, Traffic

INT64 = DType("int64")
_POSITIONS = frozenset({INT64, DType("int32"), DType("int16")})
"""Dtypes of positions and token numbers: arithmetic runs in another operand's dtype."""

_SCALAR_TYPES: dict[str, DType] = dict(
    [(number, DType.INT8) for number in ("0", "1", "11")]
    + [("2", DType("int16")), ("3", DType("int32")), ("4", INT64)]
    + [("5", DType.FP16), ("6", DType.FP32), ("7", DType.FP64), ("15", DType.BF16)]
    + [(number, DType.FP8) for number in ("23", "24", "25", "26")]
)
"""How Kineto prints an argument that is a dtype. Source: c10/core/ScalarType.h, AT_FORALL_SCALAR_TYPES."""


def op_of(call: Call, kind: OpKind, shape: Shape, traffic: Traffic, *, flops: int = 0, model_flops: int = 0) -> Op:
    """The Op of `call`: its arithmetic runs in the dtype of its first operand of floats, if it has one."""
    order = sorted(call.tensors, key=lambda t: (not t.is_float, t.dtype in _POSITIONS))
    return Op(call.name, kind, order[0].dtype, flops, model_flops, traffic, shape)


def broadcast(shapes: Sequence[tuple[int, ...]]) -> int | None:
    """Values of a result of `shapes` together, dimension by dimension from the last; None where they do not fit."""
    sizes: list[int] = []
    for shape in shapes:
        for axis, size in enumerate(reversed(shape)):
            if axis == len(sizes):
                sizes.append(size)
            elif sizes[axis] != size and 1 not in (sizes[axis], size):
                return None
            elif sizes[axis] == 1:
                sizes[axis] = size
    return prod(sizes)


def promoted(tensors: Sequence[Tensor]) -> DType:
    """The dtype of what `tensors` make together: the widest float, else the widest.

    One without dimensions takes part where it alone is a float. Source: torch.result_type.
    """
    with_sizes = [tensor for tensor in tensors if tensor.shape]
    floats = any(tensor.is_float for tensor in tensors) and not any(tensor.is_float for tensor in with_sizes)
    return max(tensors if floats or not with_sizes else with_sizes, key=lambda t: (t.is_float, t.dtype.bits)).dtype


def dtype_in(text: str, otherwise: DType) -> DType:
    """The dtype that a trace prints as a number ("6"); `otherwise` where it prints none."""
    return _SCALAR_TYPES.get(text, otherwise)


def bytes_in(dtype: DType, values: int) -> int:
    """Bytes of `values` values of `dtype`."""
    return int(dtype.bytes_of(values))


def numbers(text: str) -> tuple[int, ...]:
    """The whole numbers in what a trace prints of a list: "[2, 1]" or "-1"."""
    return tuple(int(word) for word in re.findall(r"-?\d{1,18}", text))


def without(shape: tuple[int, ...], axes: tuple[int, ...]) -> int | None:
    """Values of `shape` without its `axes`, negative ones from the end; None where it has no such axis."""
    rank = max(1, len(shape))
    if any(not -rank <= axis < rank for axis in axes):
        return None
    gone = {axis % rank for axis in axes}
    return prod(size for axis, size in enumerate(shape) if axis not in gone)
