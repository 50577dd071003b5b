"""Attention: scores and weighted sums over the tokens that a query sees.

Sources: MHA, Vaswani et al., 1706.03762; MQA, Shazeer, 1911.02150; GQA, Ainslie et al., 2305.13245;
tiled without the score matrix in memory, Dao et al., 2205.14135.
"""

from __future__ import annotations

from rooflens.core.arrays import Count, least, most
from rooflens.core.model import Attention
from rooflens.core.op import AttentionShape, Op, OpKind, Traffic
from rooflens.core.scenario import AttentionFlops, Batch
from rooflens.count.setting import Setting

SOFTMAX_FLOPS = 5
"""FLOP per score: scale, running maximum, subtraction, exponential, running sum (2205.14135, algorithm 1)."""


def causal_pairs(new: Count, cached: Count, window: int | None) -> Count:
    """(query, key) pairs of one sequence and head under a causal mask.

    Query i of `new` sees min(cached + i, window) keys, i from 1. Derivation: the first
    n = clamp(window - cached, 0, new) queries see a growing prefix, n cached + n (n + 1) / 2 pairs; the
    others see `window` keys each.
    """
    if window is None:
        return new * cached + new * (new + 1) // 2
    growing = most(least(window - cached, new), 0)
    return growing * cached + growing * (growing + 1) // 2 + (new - growing) * window


def full_pairs(new: Count, cached: Count, window: int | None) -> Count:
    """Pairs of a dense mask: every query against every new token and all that the cache holds."""
    return new * (kv_tokens_read(cached, window) + new)


def kv_tokens_read(cached: Count, window: int | None) -> Count:
    """Cached tokens that a pass reads: all of them, or the `window` - 1 before the first new token."""
    return cached if window is None else least(cached, window - 1)


def kv_tokens_held(context: Count, window: int | None) -> Count:
    """Tokens that the cache of one layer holds after `context` tokens: min(context, window)."""
    return context if window is None else least(context, window)


def pairs(batch: Batch, window: int | None, convention: AttentionFlops) -> Count:
    """(query, key) pairs of one sequence and head by the convention that is asked for."""
    count = causal_pairs if convention is AttentionFlops.CAUSAL else full_pairs
    return count(batch.new_tokens, batch.cached_tokens, window)


def shape_of(layer: Attention, setting: Setting) -> AttentionShape:
    """The shape of one layer's attention in this pass."""
    batch = setting.batch
    return AttentionShape(
        sequences=batch.sequences,
        q_tokens=batch.new_tokens,
        kv_tokens=kv_tokens_read(batch.cached_tokens, layer.window),
        pairs=pairs(batch, layer.window, setting.conventions.attention_flops),
        heads=layer.heads,
        kv_heads=layer.kv_heads,
        d_k=layer.d_k,
        d_v=layer.d_v,
    )


def attention(name: str, layer: Attention, setting: Setting) -> Op:
    """Count one fused attention kernel: q, new K and V in, output out, cache read and written once.

    Derivation: q.k is d_k multiply-adds for each pair and head, the weighted sum d_v more:
    2 (d_k + d_v) FLOP; the softmax adds `SOFTMAX_FLOPS`, which are no part of `model_flops`.
    It runs in `precision.attention`: quantised linear layers leave it alone.
    """
    shape = shape_of(layer, setting)
    scores = shape.sequences * shape.pairs * shape.heads
    model_flops = 2 * scores * (layer.d_k + layer.d_v)
    return Op(
        name=name,
        kind=OpKind.ATTENTION,
        dtype=setting.precision.attention,
        flops=model_flops + SOFTMAX_FLOPS * scores,
        model_flops=model_flops,
        traffic=setting.charged(_traffic(layer, shape, setting)),
        shape=shape,
    )


def _traffic(layer: Attention, shape: AttentionShape, setting: Setting) -> Traffic:
    tokens, precision = setting.tokens, setting.precision
    per_token = layer.heads * (layer.d_k + layer.d_v) + layer.values_per_token
    return Traffic(
        kv_read=precision.kv.bytes_of(shape.sequences * shape.kv_tokens * layer.values_per_token),
        kv_write=precision.kv.bytes_of(tokens * layer.values_per_token),
        activations=precision.activations.bytes_of(tokens * per_token),
    )
