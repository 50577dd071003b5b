"""Framework ops that multiply: matrix products, attention and convolutions, from the shapes of one call.

Weights are the matrix of a product with one matrix; keys and values of attention that are more than its queries are
what a cache holds.
"""

from __future__ import annotations

from math import prod

from rooflens.core.attention import EVERYTHING
from rooflens.core.call import Call, Tensor
from rooflens.core.op import AttentionShape, DType, ExpertShape, GemmShape, Op, OpKind, PointwiseShape, Traffic
from rooflens.core.scenario import AttentionFlops
from rooflens.count.attention import SOFTMAX_FLOPS, attention_flops
from rooflens.count.framework_call import broadcast, bytes_in, dtype_in, numbers, op_of
from rooflens.count.gemm import gemm_flops
from rooflens.count.moe import distinct_experts
from rooflens.count.span import causal_pairs

CAUSAL_AT = {
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

WINDOW_AT: dict[str, tuple[int, int, int | None]] = {
    "mkldnn_convolution": (4, 3, 5),
    "miopen_convolution": (4, 3, 5),
    "miopen_depthwise_convolution": (4, 3, 5),
    "cudnn_convolution": (3, 2, 4),
    "_conv_depthwise2d": (4, 5, 6),
    "_slow_conv2d_forward": (4, 5, None),
    "thnn_conv2d": (4, 5, None),
}
"""Positions of stride, padding and dilation among the arguments; 3, 4 and 5 for the others."""

_ADDS = ("addmm", "baddbmm", "addbmm", "addmv", "_addmm_activation")
_TURNED = ("linear", "_linear_pointwise", "mkldnn_linear")
_OWN = ("mm", "addmm", "_addmm_activation", "_int_mm", "_scaled_mm", "mv", "addmv", *_TURNED)
"""Products with one matrix, which is taken for the weights: batched products have a matrix for each of a batch."""


def product(call: Call) -> Op | None:
    """x[.., m, k] by W[.., k, n] (of `linear`: W[n, k]), and what is added to it.

    Derivation: each output is k multiply-adds. A batch of products has as many matrices W as there are in it; one of
    a matrix by a vector is that of the vector by the matrix turned.
    """
    first = 1 if call.name in _ADDS else 0
    x, w = call.tensor(first), call.tensor(first + 1)
    if x is None or w is None or not x.shape or not w.shape:
        return None
    added = call.tensor({"_scaled_mm": 4, **dict.fromkeys(_ADDS, 0), **dict.fromkeys(_TURNED, 2)}.get(call.name, 99))
    sizes = _sizes(x, w, turned=call.name in _TURNED)
    if sizes is None:
        return None
    m, k, n = sizes
    out = x.shape[-2] * n if call.name == "addbmm" and len(x.shape) > 1 else m * n
    if len(w.shape) == 1 and len(x.shape) == 2 and call.name not in _TURNED:
        x, w, m, n = w, x, 1, m
    own = call.name in _OWN or (call.name == "matmul" and len(w.shape) == 2)
    besides = [t for t in call.tensors if call.name == "_scaled_mm" or t is added]
    besides = [t for t in besides if t is not x and t is not w]
    traffic = Traffic(
        weights=w.held_bytes + sum(t.held_bytes for t in besides) if own else 0,
        activations=x.held_bytes
        + bytes_in(_result(call, x), out)
        + (0 if own else w.held_bytes + sum(t.held_bytes for t in besides)),
    )
    flops = int(gemm_flops(m, k, n))
    shape = GemmShape(m, n, k, added is not None and len(added.shape) <= 1)
    return op_of(call, OpKind.GEMM, shape, traffic, flops=flops + (out if added else 0), model_flops=flops)


def _sizes(x: Tensor, w: Tensor, *, turned: bool) -> tuple[int, int, int] | None:
    """m, k and n of a product, m over the whole batch; None where the operands do not fit."""
    if turned and len(w.shape) > 2:
        return None
    wide, n = (w.shape[-1], prod(w.shape[:-1])) if turned else (w.shape[-min(2, len(w.shape))], w.shape[-1])
    if len(w.shape) == 1:
        n = 1
    if x.shape[-1] != wide:
        return None
    if len(w.shape) <= 2:
        return prod(x.shape[:-1]), wide, n
    batch = broadcast((x.shape[:-2], w.shape[:-2]))
    rows = x.shape[-2] if len(x.shape) > 1 else 1
    return None if batch is None else (batch * rows, wide, n)


def _result(call: Call, x: Tensor) -> DType:
    """The dtype of a product: integers are added up in 32 bit, scaled products say theirs."""
    if call.name == "_int_mm":
        return DType("int32")
    return dtype_in(call.text(6), x.dtype) if call.name == "_scaled_mm" else x.dtype


def grouped(call: Call) -> Op | None:
    """rows[m, k], each by one of the matrices W[g, k, n]; or a batch x[g, m, k] by W[g, k, n].

    Derivation: a row meets one matrix, 2 m k n. How many matrices are met the shapes do not tell: the expected number
    under uniform routing, g (1 - (1 - 1 / g)^m), is taken (`count.moe.distinct_experts`).
    """
    x, w = call.tensor(0), call.tensor(1)
    if x is None or w is None or len(w.shape) != 3 or len(x.shape) not in (2, 3) or x.shape[-1] != w.shape[1]:
        return None
    if len(x.shape) == 3 and x.shape[0] != w.shape[0]:
        return None
    (g, k, n), m = w.shape, prod(x.shape[:-1])
    batched = len(x.shape) == 3 or g <= 1
    touched = g if batched else distinct_experts(g, 1, m)
    assert isinstance(touched, (int, float))
    held = w.held_bytes * touched / g if g and touched != g else w.held_bytes
    out = dtype_in(call.text(7 if call.name == "_scaled_grouped_mm" else 4), x.dtype)
    traffic = Traffic(weights=held, activations=x.held_bytes + bytes_in(out, m * n))
    flops = int(gemm_flops(m, k, n))
    return op_of(call, OpKind.EXPERTS, ExpertShape(m, n, k, touched), traffic, flops=flops, model_flops=flops)


def attention(call: Call, convention: AttentionFlops) -> Op | None:
    """q[b, h, s, d] on k[b, h', t, d] and v[b, h', t, e]; causal where the flag says so, else all pairs.

    Keys beyond the s new ones are read from a cache; K and V of the new tokens, q, a mask and the output are
    activations. With the flag query i of s meets keys 1 to i, however many there are.

    Source: torch.nn.functional.scaled_dot_product_attention: `attn_mask = torch.ones(L, S).tril(diagonal=0)`.
    """
    q, k, v = (call.tensor(index) for index in range(3))
    if q is None or k is None or v is None or not _attends(q, k, v):
        return None
    (b, heads, s, d), (_, kv_heads, t, _), e = q.shape, k.shape, v.shape[3]
    causal = call.text(CAUSAL_AT.get(call.name, 5)).lower() == "true" and convention is AttentionFlops.CAUSAL
    fresh = min(s, t)
    met = int(causal_pairs(fresh, 0, EVERYTHING)) + (s - fresh) * t if causal else s * t
    model_flops = int(attention_flops(b * heads * met, d, e))
    held = k.held_bytes + v.held_bytes
    cached = held * (t - fresh) // t if t else 0
    masks = sum(argument.held_bytes for argument in call.arguments[3:] if isinstance(argument, Tensor))
    moved = q.held_bytes + q.bytes_of(b * heads * s * e) + held - cached + masks
    shape = AttentionShape(b, s, t - fresh, met, heads, kv_heads, d, e)
    flops = model_flops + SOFTMAX_FLOPS * b * heads * met
    traffic = Traffic(kv_read=cached, activations=moved)
    return op_of(call, OpKind.ATTENTION, shape, traffic, flops=flops, model_flops=model_flops)


def _attends(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether queries, keys and values fit: one width of q and k, as many keys as values, groups of heads."""
    if not len(q.shape) == len(k.shape) == len(v.shape) == 4:
        return False
    fits = q.shape[3] == k.shape[3] and k.shape[2] == v.shape[2]
    batches = all(tensor.shape[0] in (1, q.shape[0]) for tensor in (k, v))
    return fits and batches and all(t.shape[1] and q.shape[1] % t.shape[1] == 0 for t in (k, v))


def convolution(call: Call) -> Op | None:
    """x[b, c, l...] with W[o, c / g, kernel...]: each output is c / g x kernel multiply-adds.

    Derivation of the output's length: (l + 2 padding - dilation (kernel - 1) - 1) // stride + 1.
    """
    x, w = call.tensor(0), call.tensor(1)
    if x is None or w is None or len(x.shape) != len(w.shape) or len(x.shape) < 3 or not w.shape[1]:
        return None
    length = _length(call, x, w)
    if x.shape[1] % w.shape[1] or length is None or (call.name.endswith("convolution") and call.text(6) == "True"):
        return None
    out = x.shape[0] * w.shape[0] * length
    each = prod(w.shape[1:])
    biases = call.tensors[2:3]
    traffic = Traffic(
        weights=w.held_bytes + sum(t.held_bytes for t in biases), activations=x.held_bytes + x.bytes_of(out)
    )
    flops = 2 * out * each + (out if biases else 0)
    return op_of(call, OpKind.CONVOLUTION, PointwiseShape(out, 1, 2 * each), traffic, flops=flops)


def _length(call: Call, x: Tensor, w: Tensor) -> int | None:
    """Positions of a channel of the output; None where stride, padding or dilation are not told."""
    at = WINDOW_AT.get(call.name, (3, 4, 5))
    stride, padding, dilation = ((1,) if index is None else numbers(call.text(index)) for index in at)
    spatial = len(x.shape) - 2
    if any(len(values) not in (1, spatial) for values in (stride, padding, dilation)) or min(stride) < 1:
        return None
    length = 1
    for axis in range(spatial):
        step, pad, spread = (values[axis % len(values)] for values in (stride, padding, dilation))
        length *= max(0, (x.shape[axis + 2] + 2 * pad - spread * (w.shape[axis + 2] - 1) - 1) // step + 1)
    return length
