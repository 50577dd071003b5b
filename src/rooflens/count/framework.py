"""A framework op with its shapes -> Op: FLOP and the bytes that it reads and writes, each operand once.

FLOP are those of `count.gemm` and `count.attention`. What a trace does not tell is not guessed: without shapes, or
for an op that no formula knows, there is no Op. Weights are the second operand of a product with a matrix; keys and
values of attention that are more than its queries are what a cache holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from rooflens.core.attention import EVERYTHING
from rooflens.core.call import Call, Tensor
from rooflens.core.op import AttentionShape, DType, GemmShape, Op, OpKind, PointwiseShape, Shape, Traffic
from rooflens.core.scenario import AttentionFlops, Batch
from rooflens.count.attention import SOFTMAX_FLOPS, attention_flops
from rooflens.count.framework_names import Work, work_of
from rooflens.count.gemm import gemm_flops
from rooflens.count.span import pairs

_CAUSAL_AT = {
    "scaled_dot_product_attention": 5,
    "_scaled_dot_product_attention_math": 5,
    "_scaled_dot_product_attention_math_for_mps": 5,
    "_scaled_dot_product_flash_attention": 4,
    "_scaled_dot_product_flash_attention_for_cpu": 4,
    "_scaled_dot_product_efficient_attention": 6,
    "_scaled_dot_product_cudnn_attention": 6,
    "_scaled_dot_product_fused_attention_overrideable": 5,
}
"""Position of `is_causal` among the arguments."""

_FLOPS_PER_VALUE = {"silu": 4, "gelu": 4, "where": 0, "masked_fill": 0, "addcmul": 2, "lerp": 3}
"""Operations on a value where they are not one; a transcendental function counts as one FLOP."""

_INDICES = frozenset({DType("int64"), DType("int32"), DType("int16")})
"""Dtypes of positions and token numbers: arithmetic runs in another operand's dtype."""


def counted(call: Call, convention: AttentionFlops = AttentionFlops.CAUSAL) -> Op | None:
    """Return what `call` computes and moves; None where its shapes or its formula are not known.

    flops, model_flops: FLOP of one call; model_flops those of matrix multiplication and attention. traffic: bytes
    that are read and written, each operand once, a repeated dimension (stride 0) once. convention: which pairs of
    attention with a causal flag count; one with an explicit mask multiplies them all.

    Derivation: one multiply-add is 2 FLOP; the output of an op is as large as its operands make it.
    """
    work = work_of(call.name)
    if work is Work.ATTENTION:
        return _attention(call, convention)
    formula = _FORMULAS.get(work)
    return formula(call) if formula is not None and call.tensors else None


def _op(call: Call, kind: OpKind, shape: Shape, traffic: Traffic, *, flops: int = 0, model_flops: int = 0) -> Op:
    dtype = next((t.dtype for t in call.tensors if t.dtype not in _INDICES), call.tensors[0].dtype)
    return Op(call.name, kind, dtype, flops, model_flops, traffic, shape)


def _product(call: Call) -> Op | None:
    """x[.., m, k] by W[.., k, n] (of `linear`: W[n, k]), and what is added to it.

    Derivation: each output is k multiply-adds. A batch of products has as many matrices W as there are in it.
    """
    operands = [t for t in call.tensors if t.shape]
    added = operands[:1] if call.name in ("addmm", "baddbmm", "addbmm", "addmv", "_addmm_activation") else []
    if len(operands) < len(added) + 2:
        return None
    x, w = operands[len(added) : len(added) + 2]
    turned = call.name in ("linear", "_linear_pointwise", "mkldnn_linear")
    added = added or (operands[2:3] if turned else [])
    k = x.shape[-1]
    n = (w.shape[0] if turned else w.shape[-1]) if len(w.shape) > 1 else 1
    if not k or w.values % (k * n):
        return None
    m = x.values // k
    out = x.bytes_of(m * n)
    biased = bool(added) and len(added[0].shape) <= 1
    flops = int(gemm_flops(m, k, n))
    own = call.name in ("mm", "addmm", "linear", "_linear_pointwise", "mkldnn_linear", "_int_mm", "_scaled_mm", "mv")
    reads = sum(t.held_bytes for t in added)
    traffic = Traffic(
        weights=w.held_bytes + reads if own else 0,
        activations=x.held_bytes + out + (0 if own else w.held_bytes + reads),
    )
    plus = m * n if added else 0
    return _op(call, OpKind.GEMM, GemmShape(m, n, k, biased), traffic, flops=flops + plus, model_flops=flops)


def _attention(call: Call, convention: AttentionFlops) -> Op | None:
    """q[b, h, s, d] on k[b, h', t, d] and v[b, h', t, e]; causal where the flag says so, else all pairs.

    Keys beyond the s new ones are read from a cache; K and V of the new tokens, q and the output are activations.
    """
    q, k, v = (call.tensor(index) for index in range(3))
    if q is None or k is None or v is None or not len(q.shape) == len(k.shape) == len(v.shape) == 4:
        return None
    (b, heads, s, d), (_, kv_heads, t, _), e = q.shape, k.shape, v.shape[3]
    causal = call.text(_CAUSAL_AT.get(call.name, 5)).lower() == "true" and convention is AttentionFlops.CAUSAL
    met = int(pairs(Batch(b, s, t - s), EVERYTHING, convention)) if causal and t >= s else s * t
    model_flops = int(attention_flops(b * heads * met, d, e))
    fresh = min(s, t)
    cached = k.bytes_of(b * kv_heads * (t - fresh) * d) + v.bytes_of(b * kv_heads * (t - fresh) * e)
    new = k.bytes_of(b * kv_heads * fresh * d) + v.bytes_of(b * kv_heads * fresh * e)
    traffic = Traffic(kv_read=cached, activations=q.held_bytes + q.bytes_of(b * heads * s * e) + new)
    shape = AttentionShape(b, s, t - fresh, met, heads, kv_heads, d, e)
    flops = model_flops + SOFTMAX_FLOPS * b * heads * met
    return _op(call, OpKind.ATTENTION, shape, traffic, flops=flops, model_flops=model_flops)


def _convolution(call: Call) -> Op | None:
    """x[b, c, l...] with W[o, c / g, kernel...]: each output is c / g x kernel multiply-adds.

    Derivation of the output's length: (l + 2 padding - dilation (kernel - 1) - 1) // stride + 1.
    """
    x, w = call.tensor(0), call.tensor(1)
    if x is None or w is None or len(x.shape) != len(w.shape) or len(x.shape) < 3:
        return None
    first, second = (_numbers(call.text(index)) for index in (3, 4))
    stride, padding = (second, first) if call.name == "mkldnn_convolution" else (first, second)
    dilation = _numbers(call.text(5))
    spatial = len(x.shape) - 2
    if any(len(values) not in (1, spatial) for values in (stride, padding, dilation)) or call.text(6) == "True":
        return None
    length = 1
    for axis in range(spatial):
        step, pad, spread = (values[axis % len(values)] for values in (stride, padding, dilation))
        length *= (x.shape[axis + 2] + 2 * pad - spread * (w.shape[axis + 2] - 1) - 1) // step + 1
    out = x.shape[0] * w.shape[0] * length
    each = w.values // w.shape[0]
    traffic = Traffic(weights=w.held_bytes, activations=x.held_bytes + x.bytes_of(out))
    return _op(call, OpKind.CONVOLUTION, PointwiseShape(out, 1, 2 * each), traffic, flops=2 * out * each)


def _pointwise(call: Call) -> Op | None:
    """Operands are broadcast; each is read once, the result is written once in the widest operand's dtype."""
    tensors = call.tensors
    values = _broadcast(tensors)
    if values is None:
        return None
    into = tensors[0] if call.name.endswith("_") else max(tensors, key=lambda t: (t.values, t.dtype.bits))
    per_value = _FLOPS_PER_VALUE.get(call.name.removesuffix("_"), 1)
    moved = sum(t.held_bytes for t in tensors) + into.bytes_of(values)
    shape = PointwiseShape(values, 1, per_value)
    return _op(call, OpKind.POINTWISE, shape, Traffic(activations=moved), flops=per_value * values)


def _broadcast(tensors: tuple[Tensor, ...]) -> int | None:
    """Values of the result of `tensors` together, dimension by dimension from the last; None where they do not fit."""
    sizes: list[int] = []
    for tensor in tensors:
        for axis, size in enumerate(reversed(tensor.shape)):
            if axis == len(sizes):
                sizes.append(size)
            elif sizes[axis] != size and 1 not in (sizes[axis], size):
                return None
            else:
                sizes[axis] = size if sizes[axis] == 1 else sizes[axis]
    values = 1
    for size in sizes:
        values *= size
    return values


def _reduction(call: Call) -> Op | None:
    """Every value is read and met once; what is written is as large as the dimensions that are left."""
    x = call.tensors[0]
    axes = _numbers(call.text(1)) if len(call.arguments) > 1 and call.tensor(1) is None else ()
    kept = 1
    if axes and x.shape:
        gone = {axis % len(x.shape) for axis in axes}
        for axis, size in enumerate(x.shape):
            kept *= 1 if axis in gone else size
    moved = Traffic(activations=x.held_bytes + x.bytes_of(kept))
    return _op(call, OpKind.REDUCTION, PointwiseShape(x.values, 1, 1), moved, flops=x.values)


def _norm(call: Call) -> Op | None:
    """Read, written, and its parameters read; FLOP per value as `count.pointwise.norm` has them, 5 and the weights."""
    x, parameters = call.tensors[0], call.tensors[1:]
    per_value = (3 if "rms" in call.name else 5) + len(parameters)
    traffic = Traffic(weights=sum(t.held_bytes for t in parameters), activations=2 * x.held_bytes)
    shape = PointwiseShape(x.values, 1, per_value)
    return _op(call, OpKind.NORM, shape, traffic, flops=per_value * x.values)


def _softmax(call: Call) -> Op | None:
    x = call.tensors[0]
    shape = PointwiseShape(x.values, 1, SOFTMAX_FLOPS)
    return _op(call, OpKind.SOFTMAX, shape, Traffic(activations=2 * x.held_bytes), flops=SOFTMAX_FLOPS * x.values)


def _copy(call: Call) -> Op | None:
    """What is read, and as many values written: in the destination's dtype where there is one."""
    into, source = call.tensors[0], call.tensors[min(1, len(call.tensors) - 1)]
    written = into.bytes_of(into.values)
    return _op(call, OpKind.COPY, PointwiseShape(into.values, 1, 0), Traffic(activations=source.held_bytes + written))


def _cat(call: Call) -> Op | None:
    read = sum(t.held_bytes for t in call.tensors)
    values = sum(t.values for t in call.tensors)
    written = sum(t.bytes_of(t.values) for t in call.tensors)
    return _op(call, OpKind.COPY, PointwiseShape(values, 1, 0), Traffic(activations=read + written))


def _lookup(call: Call) -> Op | None:
    """Rows of a table by their numbers: the rows are read and written, the table is not."""
    table, *rest = call.tensors
    if not rest or not table.shape:
        return None
    picked = max(t.values for t in rest)
    width = 1 if call.name in ("gather", "take") else table.values // table.shape[0]
    if call.name == "index_select" and call.text(1).lstrip("-").isdigit():
        width = table.values // table.shape[int(call.text(1))]
    moved = table.bytes_of(picked * width)
    is_table = call.name in ("embedding", "index_select") and len(table.shape) == 2
    indices = sum(t.held_bytes for t in rest)
    traffic = Traffic(weights=moved if is_table else 0, activations=indices + moved + (0 if is_table else moved))
    kind = OpKind.EMBEDDING if is_table else OpKind.COPY
    return _op(call, kind, PointwiseShape(picked, width, 0), traffic)


def _rows(call: Call) -> Op | None:
    """A write to chosen rows: the source is read and as much written; the rest of the destination is not touched."""
    into, source = call.tensors[0], call.tensors[-1]
    moved = Traffic(activations=source.held_bytes + min(into.held_bytes, into.bytes_of(source.values)))
    return _op(call, OpKind.COPY, PointwiseShape(source.values, 1, 0), moved)


def _fill(call: Call) -> Op | None:
    into = call.tensors[0]
    return _op(call, OpKind.COPY, PointwiseShape(into.values, 1, 0), Traffic(activations=into.held_bytes))


def _scan(call: Call) -> Op | None:
    x = call.tensors[0]
    moved = Traffic(activations=x.held_bytes + x.bytes_of(x.values))
    return _op(call, OpKind.REDUCTION, PointwiseShape(x.values, 1, 1), moved, flops=x.values)


_FORMULAS: dict[Work, Callable[[Call], Op | None]] = {
    Work.PRODUCT: _product,
    Work.CONVOLUTION: _convolution,
    Work.POINTWISE: _pointwise,
    Work.REDUCTION: _reduction,
    Work.NORM: _norm,
    Work.SOFTMAX: _softmax,
    Work.COPY: _copy,
    Work.CAT: _cat,
    Work.LOOKUP: _lookup,
    Work.ROWS: _rows,
    Work.FILL: _fill,
    Work.SCAN: _scan,
}


def _numbers(text: str) -> tuple[int, ...]:
    """The whole numbers in what a trace prints of a list: "[2, 1]" or "-1"."""
    return tuple(int(word) for word in re.findall(r"-?\d+", text))
