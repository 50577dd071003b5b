"""Whatever a trace says of a call: a count that holds together, or none."""

from __future__ import annotations

from math import isfinite

import pytest
from hypothesis import given, strategies as st

from rooflens.core.call import Argument, Call, Tensor
from rooflens.core.op import DType
from rooflens.core.scenario import AttentionFlops
from rooflens.count.framework import counted
from rooflens.count.framework_names import _NAMES, Work, work_of
from tests.count.calls import INT64, t

NAMES = sorted(name for names in _NAMES.values() for name in names.split())
READ_IN_PART = {Work.LOOKUP, Work.ROWS, Work.GROUPED}
"""Of a table and of experts only what is met is read."""

_sizes = st.lists(st.integers(0, 5), max_size=5).map(tuple)
_tensors = st.builds(
    Tensor, _sizes, st.sampled_from([DType.BF16, DType.FP32, DType.INT8, DType.FP8, INT64]), _sizes | st.just(())
)
_arguments = st.none() | _tensors | st.lists(_tensors, max_size=3).map(tuple)
_texts = st.sampled_from(
    [
        "",
        "True",
        "False",
        "0",
        "1",
        "-1",
        "7",
        "[]",
        "[0]",
        "[1, 1]",
        "[-9]",
        "[99999999999999999999]",
        "nan",
        "15",
        "6",
    ]
)


@given(st.sampled_from(NAMES), st.lists(_arguments, max_size=8).map(tuple), st.lists(_texts, max_size=9).map(tuple))
def test_any_call_is_counted_or_not(name: str, arguments: tuple[Argument, ...], texts: tuple[str, ...]) -> None:
    call = Call(name, arguments, texts)
    op = counted(call)
    if op is None:
        return
    assert op.flops >= op.model_flops >= 0
    assert 0 <= op.traffic.total < float("inf")
    assert isfinite(op.flops)


@given(st.sampled_from(NAMES), st.data())
def test_operands_are_read_whole(name: str, data: st.DataObject) -> None:
    """Bytes are at least those of the largest operand that the op takes, lookups apart."""
    if work_of(name) in READ_IN_PART:
        return
    arguments = tuple(data.draw(st.lists(_tensors, min_size=1, max_size=3)))
    op = counted(Call(name, arguments, ("",) * 8))
    if op is None:
        return
    taken = arguments if work_of(name) in (Work.PRODUCT, Work.ATTENTION, Work.POINTWISE) else arguments[:1]
    taken = arguments[:2] if name in ("dot", "vdot", "mm", "bmm", "mv", "_int_mm", "matmul") else taken
    taken = () if name == "copy_" else taken
    assert op.traffic.total >= max((tensor.held_bytes for tensor in taken), default=0)


def test_strides_of_another_length_are_not_used() -> None:
    assert Tensor((3, 4), DType.BF16, (0,)).held_bytes == 24
    assert Tensor((3, 4), DType.BF16, (0, 1)).held_bytes == 8
    assert Tensor((3, 0), DType.BF16, (1, 0)).held_bytes == 0


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_known_without_shapes(name: str) -> None:
    assert counted(Call(name, ())) is None
    assert counted(Call(name, (None, None, None), ("", "True"))) is None


@pytest.mark.parametrize("name", NAMES)
def test_huge_sizes_are_exact(name: str) -> None:
    """Sizes beyond int64 are no overflow."""
    huge = 2**70
    call = Call(name, (t(huge, huge), t(huge, huge), t(huge)), ("", "0", "1"))
    for convention in AttentionFlops:
        op = counted(call, convention)
        assert op is None or op.traffic.total >= 0


def test_every_name_stands_once() -> None:
    assert len(NAMES) == len(set(NAMES))


def test_in_place_forms_of_pointwise_ops() -> None:
    assert work_of("mul_") is Work.POINTWISE
    assert work_of("cat_") is Work.UNKNOWN
    assert work_of("copy_") is Work.COPY
    assert work_of("") is Work.UNKNOWN
    assert work_of("_") is Work.UNKNOWN
