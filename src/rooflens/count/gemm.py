"""Projections: GEMM where many tokens share the weights, GEMV where one does."""

from __future__ import annotations

from collections.abc import Sequence

from rooflens.core.arrays import Count
from rooflens.core.blocks import Linear
from rooflens.core.op import DType, GemmShape, Op, OpKind, Traffic
from rooflens.count.setting import Setting


def gemm_flops(m: Count, k: int, n: int) -> Count:
    """FLOP of x[m, k] @ W[k, n]. Derivation: one multiply-add (2 FLOP) for each (m, k, n)."""
    return m * (2 * k * n)


def linear(name: str, tokens: Count, parts: Sequence[Linear], setting: Setting) -> Op:
    """Count y[tokens, n] = x[tokens, k] @ W[k, n] (+ b[n]), n over all `parts` (run as one GEMM).

    `tokens` may be an array: every count then has its shape. Each operand crosses memory once, W
    included: a lower bound that holds while nothing is re-read after eviction from the last-level cache.

    Derivation: one multiply-add (2 FLOP) for each (token, k, n); a bias adds 1 FLOP for each (token, n),
    which is no part of `model_flops`. PyTorch's FlopCounterMode counts both the same way.
    """
    d_in = parts[0].d_in
    d_out = sum(part.d_out for part in parts)
    biased = sum(part.d_out for part in parts if part.bias)
    model_flops = gemm_flops(tokens, d_in, d_out)
    arithmetic = setting.arithmetic(parts[0])
    traffic = Traffic(
        weights=sum(weight_bytes(part, setting) for part in parts),
        activations=activation_bytes(tokens, d_in, d_out, arithmetic, setting),
    )
    return Op(
        name=name,
        kind=OpKind.GEMM,
        dtype=arithmetic,
        flops=model_flops + tokens * biased if biased else model_flops,
        model_flops=model_flops,
        traffic=setting.charged(traffic),
        shape=GemmShape(tokens, d_out, d_in, bool(biased)),
    )


def output_head(head: Linear, setting: Setting) -> Op:
    """Count the output head over the tokens whose logits are wanted.

    A tied head is still a GEMM over the whole table. Quantisation leaves it alone, so that it runs in the
    dtype of the activations. The logits leave the model: their bytes are compulsory.
    """
    tokens, precision = setting.logit_tokens, setting.precision
    model_flops = gemm_flops(tokens, head.d_in, head.d_out)
    logits = precision.activations.bytes_of(tokens * head.d_out)
    traffic = Traffic(
        weights=weight_bytes(head, setting),
        activations=precision.activations.bytes_of(tokens * head.d_in) + logits,
    )
    charged = setting.charged(traffic)
    return Op(
        name=head.name,
        kind=OpKind.GEMM,
        dtype=precision.attention,
        flops=model_flops + tokens * head.d_out if head.bias else model_flops,
        model_flops=model_flops,
        traffic=charged,
        shape=GemmShape(tokens, head.d_out, head.d_in, head.bias),
        leaving_bytes=logits if charged is traffic else 0,
    )


def activation_bytes(tokens: Count, d_in: int, d_out: int, arithmetic: DType, setting: Setting) -> Count:
    """Input in the GEMM's own dtype (a fused kernel before it quantised it), output in the activations' dtype."""
    kept = setting.precision.activations
    if arithmetic.bits >= 16:
        return kept.bytes_of(tokens * (d_in + d_out))
    return arithmetic.bytes_of(tokens * d_in) + kept.bytes_of(tokens * d_out)


def weight_bytes(part: Linear, setting: Setting) -> int | float:
    """Bytes of the weights of `part`, scales included, and of its bias; a mean where experts differ."""
    bias = setting.precision.kept.bytes_of(part.d_out) if part.bias else 0
    size = setting.stored(part).matrix_bytes(part.d_in, part.d_out) + int(bias)
    return size if isinstance(size, int) else float(size)
