"""Attention as a framework runs it without a fused kernel: the score matrix goes through memory.

Bytes are those that the reference framework's eager attention reads and writes; FLOP are the fused
kernel's, by the convention that is asked for (what eager execution really multiplies is `full`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rooflens.core.arrays import Count
from rooflens.core.attention import Attention
from rooflens.core.op import AttentionShape, DType, Op, OpKind, PointwiseShape, Traffic
from rooflens.count.attention import SOFTMAX_FLOPS, attention
from rooflens.count.setting import Setting
from rooflens.count.span import full_pairs


def eager_attention(name: str, layer: Attention, setting: Setting) -> Iterator[Op]:
    """Yield cache update, K and V repeated per query head, scores, softmax and weighted sum."""
    fused = attention(name, layer, setting)
    shape = fused.shape
    assert isinstance(shape, AttentionShape)
    batch, act = setting.batch, setting.precision.activations
    scores = batch.sequences * layer.heads * full_pairs(batch.new_tokens, batch.cached_tokens, layer.span)
    keys = batch.sequences * (shape.kv_tokens + batch.new_tokens)
    yield _cache_update(name, layer, setting, keys)
    if layer.heads != layer.kv_heads:
        yield _repeat_kv(name, layer, setting, keys)
    yield _product(
        f"{name}.scores", fused, layer.d_k, act.bytes_of(_operands(setting, layer, keys, layer.d_k) + scores)
    )
    yield _softmax(name, fused, scores, keys * batch.new_tokens, act)
    out = setting.tokens * layer.heads * layer.d_v
    moved = _operands(setting, layer, keys, layer.d_v) + scores + 2 * out
    yield _product(f"{name}.values", fused, layer.d_v, act.bytes_of(moved))


def _operands(setting: Setting, layer: Attention, keys: Count, width: int) -> Count:
    """Values of one side of a product: rows of the queries (or outputs) and of the repeated K or V."""
    return (setting.tokens + keys) * layer.heads * width


def _cache_update(name: str, layer: Attention, setting: Setting, keys: Count) -> Op:
    """The cache grows by concatenation: what it holds is read and written anew, new K and V are appended.

    Reading it once and writing what is new is compulsory KV traffic; the rest of the copy counts as activations.
    """
    kv, fresh = setting.precision.kv, setting.tokens * layer.values_per_token
    held = keys * layer.values_per_token - fresh
    traffic = Traffic(
        kv_read=kv.bytes_of(held),
        kv_write=kv.bytes_of(fresh) if layer.owns_cache else 0,
        activations=setting.precision.activations.bytes_of(fresh) + kv.bytes_of(held),
    )
    return _copy(f"{name}.cache_update", setting, traffic, keys * layer.values_per_token)


def _repeat_kv(name: str, layer: Attention, setting: Setting, keys: Count) -> Op:
    """K and V of each KV head are copied for every query head of its group: read once, written for each head."""
    read = setting.precision.kv.bytes_of(keys * layer.values_per_token)
    repeated = keys * layer.heads * (layer.d_k + layer.d_v)
    written = setting.precision.activations.bytes_of(repeated)
    return _copy(f"{name}.repeat_kv", setting, Traffic(activations=read + written), repeated)


def _copy(name: str, setting: Setting, traffic: Traffic, values: Count) -> Op:
    return Op(name, OpKind.COPY, setting.precision.activations, 0, 0, traffic, PointwiseShape(values, 1, 0))


def _product(name: str, fused: Op, width: int, moved: Count) -> Op:
    """One of the two matrix products: its share of the fused kernel's FLOP."""
    shape = fused.shape
    assert isinstance(shape, AttentionShape)
    flops = 2 * shape.sequences * shape.pairs * shape.heads * width
    return replace(fused, name=name, flops=flops, model_flops=flops, traffic=Traffic(activations=moved))


def _softmax(name: str, fused: Op, scores: Count, mask: Count, act: DType) -> Op:
    """Scale (read, write), add the mask (read, read, write), softmax to fp32 (read, write), cast (read, write).

    Where the activations are fp32 already there is no cast.
    """
    moved = act.bytes_of(6 * scores + mask) + (0 if act is DType.FP32 else 2 * DType.FP32.bytes_of(scores))
    return Op(
        name=f"{name}.softmax",
        kind=OpKind.SOFTMAX,
        dtype=act,
        flops=fused.flops - fused.model_flops,
        model_flops=0,
        traffic=Traffic(activations=moved),
        shape=PointwiseShape(_kept_scores(fused), 1, SOFTMAX_FLOPS),
    )


def _kept_scores(fused: Op) -> Count:
    """Scores that count by the convention that is asked for; memory holds all of them."""
    shape = fused.shape
    assert isinstance(shape, AttentionShape)
    return shape.sequences * shape.pairs * shape.heads
