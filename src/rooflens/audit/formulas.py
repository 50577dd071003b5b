"""FLOP of the framework's products, each from the shapes of one call; a multiply-add is 2.

A formula takes the arguments of the call and what it returned, and gives FLOP, or None where shapes do not tell.
Every pair that is multiplied counts, masked ones included: a kernel's causal flag changes nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

Formula = Callable[[Sequence[Any], Mapping[str, Any], Any], "int | None"]


def _product(left: int, right: int) -> Formula:
    """left[..., m, k] @ right[..., k, n]: every value on the left meets the n values of a row on the right.

    A vector on the right has n = 1, so that mv and dot follow from the same sentence.
    """

    def flops(args: Sequence[Any], _kwargs: Mapping[str, Any], _result: Any) -> int:
        columns = args[right].shape[-1] if args[right].dim() > 1 else 1
        return int(2 * args[left].numel() * columns)

    return flops


def _linear(args: Sequence[Any], _kwargs: Mapping[str, Any], _result: Any) -> int:
    """x[..., k] @ W[n, k]^T: every value of x meets the n rows of W. The bias is no product."""
    return int(2 * args[0].numel() * args[1].shape[0])


def _outer(args: Sequence[Any], _kwargs: Mapping[str, Any], _result: Any) -> int:
    """A[m, n] + x[m] y[n]^T: a multiply-add for each of m n values."""
    return int(2 * args[1].numel() * args[2].numel())


def _grouped(args: Sequence[Any], _kwargs: Mapping[str, Any], _result: Any) -> int:
    """Products of groups of rows (or columns, or of the summed width) with a matrix each.

    rows[m, k] by groups[g, k, n]: each row meets one of the g matrices, 2 m k n. groups[g, m, k] by columns[k, n]:
    each column meets one, 2 m k n. left[m, k] by right[k, n] with k divided among groups: each piece is a product of
    its own, 2 m k n again. Three-dimensional on both sides: a batched product, 2 g m k n.
    """
    left, right = args[0], args[1]
    if left.dim() == 3 and right.dim() == 2:
        return int(2 * left.shape[1] * right.numel())
    return int(2 * left.numel() * right.shape[-1])


def _attention(args: Sequence[Any], _kwargs: Mapping[str, Any], _result: Any) -> int | None:
    """q[b, h, s, d] on k[b, h', t, d] and v[b, h', t, e]: scores 2 b h s t d, weighted sum 2 b h s t e."""
    q, k, v = args[:3]
    if not q.dim() == k.dim() == v.dim() == 4:
        return None
    return int(2 * prod(q.shape[:3]) * k.shape[2] * (q.shape[3] + v.shape[3]))


def _packed_attention(args: Sequence[Any], _kwargs: Mapping[str, Any], _result: Any) -> int | None:
    """The same with q[b, s, h, d]; sequences of different length packed in one tensor do not tell how many meet."""
    q, k, v = args[:3]
    if not q.dim() == k.dim() == v.dim() == 4:
        return None
    return int(2 * prod(q.shape[:3]) * k.shape[1] * (q.shape[3] + v.shape[3]))


def _convolution(args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> int:
    """x[b, c, ...] with W[o, c / groups, kernel...]: each output is a dot product of c / groups x kernel values.

    Transposed, it is each input that meets o / groups x kernel values: W is [c, o / groups, kernel...] then.
    """
    transposed = args[6] if len(args) > 6 else kwargs.get("transposed", False)
    outer = args[0] if transposed else result
    return int(2 * outer.numel() * prod(args[1].shape[1:]))


PRODUCTS: dict[str, Formula] = {
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "vdot", "matmul", "_int_mm", "_scaled_mm"), _product(0, 1)),
    **dict.fromkeys(("addmm", "addmv", "baddbmm", "addbmm", "_addmm_activation"), _product(1, 2)),
    **dict.fromkeys(("_grouped_mm", "_scaled_grouped_mm"), _grouped),
    "linear": _linear,
    "addr": _outer,
    "scaled_dot_product_attention": _attention,
    "_scaled_dot_product_attention_math": _attention,
    "_scaled_dot_product_flash_attention": _attention,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_efficient_attention": _attention,
    "_scaled_dot_product_cudnn_attention": _attention,
    "_scaled_dot_product_fused_attention_overrideable": _attention,
    "_flash_attention_forward": _packed_attention,
    "_efficient_attention_forward": _packed_attention,
}
"""Matrix products and attention, by the name of the framework's op."""

CONVOLUTIONS: dict[str, Formula] = dict.fromkeys(("convolution", "_convolution"), _convolution)
"""Convolutions, which are counted apart."""
