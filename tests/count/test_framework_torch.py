"""The counts held against torch: its schemas, its FLOP counter, and what its ops return on small tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the reference framework (extra torch)")

from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from rooflens.core.call import Argument, Call, Tensor  # noqa: E402
from rooflens.core.op import DType  # noqa: E402
from rooflens.core.scenario import AttentionFlops  # noqa: E402
from rooflens.count.framework import counted  # noqa: E402
from rooflens.count.framework_names import _NAMES  # noqa: E402
from rooflens.count.framework_products import CAUSAL_AT, WINDOW_AT  # noqa: E402

_DTYPES = {
    torch.float32: DType.FP32,
    torch.bfloat16: DType.BF16,
    torch.int64: DType("int64"),
    torch.int8: DType.INT8,
    torch.int32: DType("int32"),
    torch.bool: DType.INT8,
}


def schema(name: str) -> list[str]:
    packet = getattr(torch.ops.aten, name, None)
    if packet is None:
        pytest.skip(f"this torch has no {name}")
    return [argument.name for argument in packet.default._schema.arguments]


@pytest.mark.parametrize("name", CAUSAL_AT)
def test_position_of_the_causal_flag(name: str) -> None:
    assert schema(name)[CAUSAL_AT[name]] == "is_causal"
    assert schema(name)[:3] == ["query", "key", "value"]


@pytest.mark.parametrize("name", [*WINDOW_AT, "convolution", "_convolution", "conv1d", "conv2d", "conv3d"])
def test_positions_of_a_convolution(name: str) -> None:
    at = WINDOW_AT.get(name, (3, 4, 5))
    names = schema(name)
    assert [names[index] for index in at if index is not None] == ["stride", "padding", "dilation"][
        : 2 if at[2] is None else 3
    ]
    assert ("dilation" in names) == (at[2] is not None)
    if "transposed" in names:
        assert names.index("transposed") == 6


def test_positions_of_other_arguments() -> None:
    assert [schema("_scaled_mm")[i] for i in (4, 6)] == ["bias", "out_dtype"]
    assert schema("_grouped_mm")[4] == schema("_scaled_grouped_mm")[7] == "out_dtype"
    assert schema("_softmax")[2] == "half_to_float"
    assert schema("topk")[1:3] == ["k", "dim"]
    assert schema("linalg_vector_norm")[2] == "dim"
    for name in ("sum", "mean"):
        overloads = getattr(torch.ops.aten, name)
        dims = overloads.dim if name == "mean" else overloads.dim_IntList
        assert [a.name for a in dims._schema.arguments][1] == "dim"


@pytest.mark.parametrize("name", sorted(name for names in _NAMES.values() for name in names.split()))
def test_every_name_is_one_of_torch(name: str) -> None:
    """Ops of aten, of mkldnn's own namespace, or properties of a tensor; `_for_mps` and miopen are in every build."""
    spaces = (torch.ops.aten, torch.ops.mkldnn, torch.Tensor)
    assert any(hasattr(space, name) for space in spaces) or name in ("stride", "size", "mkldnn_linear"), name


def argument(value: Any) -> tuple[Argument, str]:
    if isinstance(value, torch.Tensor):
        return Tensor(tuple(value.shape), _DTYPES[value.dtype], tuple(value.stride())), ""
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], torch.Tensor):
        return tuple(argument(entry)[0] for entry in value), ""  # type: ignore[misc]
    return None, "" if value is None else str(value)


def called(op: Any, *values: Any) -> Call:
    """The call as Kineto records it: every argument of the schema, defaults too."""
    defaults = [a.default_value for a in op._schema.arguments][len(values) :]
    given = [argument(value) for value in (*values, *defaults)]
    return Call(op._overloadpacket.__name__, tuple(a for a, _ in given), tuple(text for _, text in given))


def flops_of(op: Any, *values: Any) -> int:
    """By torch's counter; attention as matrix products, since it has no word for the processor's kernel."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        op(*values)
    return int(counter.get_total_flops())


def r(*shape: int) -> Any:
    return torch.zeros(shape)


A = torch.ops.aten
PRODUCTS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "mm": lambda: (A.mm.default, r(3, 4), r(4, 5)),
    "addmm": lambda: (A.addmm.default, r(5), r(3, 4), r(4, 5)),
    "bmm": lambda: (A.bmm.default, r(2, 3, 4), r(2, 4, 5)),
    "baddbmm": lambda: (A.baddbmm.default, r(2, 3, 5), r(2, 3, 4), r(2, 4, 5)),
    "matmul of 3-d by 2-d": lambda: (A.matmul.default, r(2, 3, 4), r(4, 5)),
    "matmul that broadcasts": lambda: (A.matmul.default, r(2, 1, 3, 4), r(6, 4, 5)),
    "linear": lambda: (A.linear.default, r(2, 3, 4), r(5, 4), r(5)),
    "linear without bias": lambda: (A.linear.default, r(3, 4), r(5, 4), None),
    "attention": lambda: (A.scaled_dot_product_attention.default, *(r(2, 3, 4, 8),) * 3, None, 0.0, False),
    "causal attention": lambda: (A.scaled_dot_product_attention.default, *(r(2, 3, 4, 8),) * 3, None, 0.0, True),
    "decode": lambda: (A.scaled_dot_product_attention.default, r(2, 3, 1, 8), r(2, 3, 9, 8), r(2, 3, 9, 8)),
    "attention of d_v": lambda: (A.scaled_dot_product_attention.default, r(2, 3, 4, 8), r(2, 3, 4, 8), r(2, 3, 4, 6)),
    "attention with a mask": lambda: (A.scaled_dot_product_attention.default, *(r(2, 3, 4, 8),) * 3, r(4, 4)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_flops_of_the_framework_s_counter(name: str) -> None:
    op = counted(called(*PRODUCTS[name]()), AttentionFlops.FULL)
    assert op is not None
    assert op.model_flops == flops_of(*PRODUCTS[name]())


CONVOLUTIONS: dict[str, tuple[Any, ...]] = {
    "depthwise": (r(1, 2, 7), r(2, 1, 4), None, [1], [3], [1], False, [0], 2),
    "strided": (r(2, 4, 9, 8), r(6, 2, 2, 3), None, [2, 1], [0, 1], [2, 1], False, [0, 0], 2),
    "3-d": (r(1, 3, 4, 6, 6), r(5, 3, 2, 3, 3), None, [2, 3, 3], [0, 0, 0], [1, 1, 1], False, [0, 0, 0], 1),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_flops_of_convolutions(name: str) -> None:
    op = counted(called(A.convolution.default, *CONVOLUTIONS[name]))
    assert op is not None
    assert op.flops == flops_of(A.convolution.default, *CONVOLUTIONS[name])


def test_causal_pairs_are_those_of_torch_s_mask() -> None:
    """Every query's row of weights has as many non-zero values as it meets keys: V of ones and zeros shows them."""
    for s, t in ((4, 4), (3, 5), (5, 3)):
        q, k, v = torch.zeros(1, 1, s, t), torch.zeros(1, 1, t, t), torch.eye(t)[None, None]
        values = (A.scaled_dot_product_attention.default, q, k, v, None, 0.0, True)
        weights = values[0](*values[1:])
        op = counted(called(*values))
        assert op is not None
        assert op.shape.pairs == int((weights > 0).sum())


RESULTS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "add of two dtypes": lambda: (A.add.Tensor, torch.zeros(3, 4, dtype=torch.bfloat16), r(4)),
    "mul by one value": lambda: (A.mul.Tensor, torch.zeros(3, 4, dtype=torch.bfloat16), r()),
    "mul of positions": lambda: (A.mul.Tensor, torch.zeros(3, dtype=torch.int64), r()),
    "eq": lambda: (A.eq.Tensor, r(3, 4), r(3, 1)),
    "where": lambda: (A.where.self, torch.zeros(3, 1, dtype=torch.bool), r(3, 4), r(1)),
    "masked_fill": lambda: (A.masked_fill.Scalar, r(3, 4), torch.zeros(3, 4, dtype=torch.bool), 0.0),
    "silu": lambda: (A.silu.default, r(3, 4)),
    "sum": lambda: (A.sum.dim_IntList, r(2, 3, 4), [0, -1]),
    "sum of all": lambda: (A.sum.default, r(2, 3, 4)),
    "argmax": lambda: (A.argmax.default, r(3, 4), 1),
    "max": lambda: (A.max.dim, r(3, 4), -1),
    "any": lambda: (A.any.default, r(3, 4)),
    "softmax": lambda: (A._softmax.default, r(3, 4), -1, False),
    "cumsum": lambda: (A.cumsum.default, r(3, 4), -1),
    "cumsum of int32": lambda: (A.cumsum.default, torch.zeros(3, dtype=torch.int32), 0),
    "topk": lambda: (A.topk.default, r(3, 8), 2),
    "sort": lambda: (A.sort.default, r(3, 4)),
    "argsort": lambda: (A.argsort.default, r(3, 4)),
    "cat": lambda: (A.cat.default, [r(3, 4), r(2, 4)]),
    "mm": lambda: (A.mm.default, r(3, 4), r(4, 5)),
    "addbmm": lambda: (A.addbmm.default, r(3, 5), r(2, 3, 4), r(2, 4, 5)),
    "mv": lambda: (A.mv.default, r(3, 4), r(4)),
    "_int_mm": lambda: (A._int_mm.default, *(torch.zeros(32, 32, dtype=torch.int8),) * 2),
    "convolution": lambda: (A.convolution.default, *CONVOLUTIONS["strided"]),
    "attention": lambda: (A.scaled_dot_product_attention.default, r(1, 2, 4, 8), r(1, 2, 4, 8), r(1, 2, 4, 6)),
}


@pytest.mark.parametrize("name", RESULTS)
def test_bytes_are_operands_and_results(name: str) -> None:
    """Each operand is read once and each result written once, by the sizes that torch itself gives them."""
    op, *values = RESULTS[name]()
    result = op(*values)
    made = result if isinstance(result, tuple) else (result,)
    operands = [t for value in values for t in (value if isinstance(value, list) else [value])]
    tensors = [t for t in (*operands, *made) if isinstance(t, torch.Tensor)]
    counted_op = counted(called(op, *values))
    assert counted_op is not None
    assert counted_op.traffic.total == sum(t.numel() * t.element_size() for t in tensors)
