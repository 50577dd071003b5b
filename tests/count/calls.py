"""Calls of framework ops written as short as the framework's own."""

from __future__ import annotations

from rooflens.core.call import Argument, Call, Tensor
from rooflens.core.op import DType, Op, Traffic
from rooflens.count.framework import counted

INT64, INT32, BOOL = DType("int64"), DType("int32"), DType.INT8


def t(*shape: int, dtype: DType = DType.BF16, strides: tuple[int, ...] = ()) -> Tensor:
    """A tensor of two bytes a value unless another dtype is said."""
    return Tensor(shape, dtype, strides)


def call(name: str, *arguments: object) -> Call:
    """A call with tensors, lists of them, and anything else as the trace prints it; "" for what was not given."""
    given: list[Argument] = [
        tuple(a) if isinstance(a, list) and a and isinstance(a[0], Tensor) else a if isinstance(a, Tensor) else None
        for a in arguments
    ]
    texts = ["" if got is not None else str(a) for got, a in zip(given, arguments, strict=True)]
    return Call(name, tuple(given), tuple(texts))


def count(name: str, *arguments: object) -> Op:
    op = counted(call(name, *arguments))
    assert op is not None, f"{name} is not counted"
    return op


def moved(**kinds: int) -> Traffic:
    return Traffic(**kinds)
