"""Attention: scores and weighted sums over the tokens that a query sees.

Sources: MHA, Vaswani et al., 1706.03762; MQA, Shazeer, 1911.02150; GQA, Ainslie et al., 2305.13245;
tiled without the score matrix in memory, Dao et al., 2205.14135.
"""

from __future__ import annotations

from rooflens.core.arrays import Count
from rooflens.core.attention import Attention
from rooflens.core.op import AttentionShape, Op, OpKind, Traffic
from rooflens.count.setting import Setting
from rooflens.count.span import kv_tokens_read, pairs

SOFTMAX_FLOPS = 5
"""FLOP per score: scale, running maximum, subtraction, exponential, running sum (2205.14135, algorithm 1)."""


def shape_of(layer: Attention, setting: Setting) -> AttentionShape:
    """The shape of one layer's attention in this pass."""
    batch = setting.batch
    return AttentionShape(
        sequences=batch.sequences,
        q_tokens=batch.new_tokens,
        kv_tokens=kv_tokens_read(batch.new_tokens, batch.cached_tokens, layer.span),
        pairs=pairs(batch, layer.span, setting.conventions.attention_flops),
        heads=layer.heads,
        kv_heads=layer.kv_heads,
        d_k=layer.d_k,
        d_v=layer.d_v,
    )


def attention(name: str, layer: Attention, setting: Setting) -> Op:
    """Count one fused attention kernel: q, new K and V in, output out, cache read and written once."""
    shape = shape_of(layer, setting)
    return fused(name, shape, _traffic(layer, shape, setting), setting)


def attention_flops(pairs: Count, d_k: int, d_v: int) -> Count:
    """FLOP of scores and weighted sum over `pairs` (query, key) pairs of all sequences and heads.

    Derivation: q.k is d_k multiply-adds for each pair, the weighted sum d_v more: 2 (d_k + d_v) FLOP.
    """
    return 2 * pairs * (d_k + d_v)


def fused(name: str, shape: AttentionShape, traffic: Traffic, setting: Setting) -> Op:
    """Count a tiled kernel of `shape` that moves `traffic`.

    The softmax adds `SOFTMAX_FLOPS` for each pair and head, which are no part of `model_flops`.
    It runs in `precision.attention`: quantised linear layers leave it alone.
    """
    scores = shape.sequences * shape.pairs * shape.heads
    model_flops = attention_flops(scores, shape.d_k, shape.d_v)
    return Op(
        name=name,
        kind=OpKind.ATTENTION,
        dtype=setting.precision.attention,
        flops=model_flops + SOFTMAX_FLOPS * scores,
        model_flops=model_flops,
        traffic=setting.charged(traffic),
        shape=shape,
    )


def _traffic(layer: Attention, shape: AttentionShape, setting: Setting) -> Traffic:
    """K and V that were just computed are activations; a layer that uses another's cache reads it and writes none."""
    tokens, precision = setting.tokens, setting.precision
    fresh = layer.values_per_token
    return Traffic(
        kv_read=precision.kv.bytes_of(shape.sequences * shape.kv_tokens * fresh),
        kv_write=precision.kv.bytes_of(tokens * fresh) if layer.owns_cache else 0,
        activations=precision.activations.bytes_of(tokens * (layer.heads * (layer.d_k + layer.d_v) + fresh)),
    )
