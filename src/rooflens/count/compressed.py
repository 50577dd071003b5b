"""Attention over a window and compressed entries, its indexer and compressors, and hyper-connections (DeepSeek-V4).

A stretch of m tokens becomes one entry when it is full, so that the query at position p (from 1) sees floor(p / m)
entries; an indexer keeps the best `top_k` of them. Source: DeepSeek-V4 technical report, sections 2.2 and 2.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rooflens.core.arrays import Count, least, most
from rooflens.core.blocks import Linear
from rooflens.core.compressed import CompressedAttention, CompressedIndexer, Compressor, HyperConnection
from rooflens.core.op import AttentionShape, DType, GemmShape, Op, OpKind, PointwiseShape, Traffic
from rooflens.core.scenario import AttentionFlops, Batch
from rooflens.count.attention import fused
from rooflens.count.gemm import linear
from rooflens.count.setting import Setting
from rooflens.count.span import kv_tokens_held, kv_tokens_read, pairs

_SCALED = 64
"""Values that share a scale of one byte in the packed layout, whose scales are padded to 8 bytes."""
_COMPRESSION_FLOPS = 8
"""FLOP of each value: bias of the gate (1), softmax over the stretch (5), product with the gate and sum (2)."""


def compressed_attention(name: str, layer: CompressedAttention, grouped: Linear, setting: Setting) -> Iterator[Op]:
    """Yield the kernels between the projections: compressors, indexer, attention, and the grouped projection."""
    for compressor in layer.compressors:
        yield _compress(f"{compressor.name}_compress", compressor, setting)
    if layer.indexer is not None:
        yield _scores("indexer_scores", layer.indexer, setting)
    yield _attend(name, layer, setting)
    yield _grouped(layer, grouped, setting)


def entries(tokens: Count, rate: int) -> Count:
    """Entries that `tokens` tokens have made: one for each full stretch."""
    return tokens // rate


def entry_pairs(batch: Batch, rate: int, top_k: int | None, convention: AttentionFlops) -> Count:
    """(query, entry) pairs of one sequence and head.

    Derivation: with n = q m + r, the sum of floor(p / m) over p = 1..n is m q (q - 1) / 2 + q (r + 1). A cap of k
    entries holds from p = m k on: the sum up to m k, and k for each position after it. A dense mask has every query
    against every entry.
    """
    new, cached = batch.new_tokens, batch.cached_tokens
    if convention is AttentionFlops.FULL:
        return new * entries(cached + new, rate)
    return _visible(cached + new, rate, top_k) - _visible(cached, rate, top_k)


def _visible(tokens: Count, rate: int, top_k: int | None) -> Count:
    """Sum over positions 1..tokens of the entries that each sees."""
    growing = tokens if top_k is None else least(tokens, rate * top_k)
    full, rest = growing // rate, growing % rate
    met = rate * (full * (full - 1) // 2) + full * (rest + 1)
    return met if top_k is None else met + top_k * most(tokens - rate * top_k, 0)


def key_bytes(layer: CompressedAttention, keys: Count, kv: DType) -> Count:
    """Bytes of `keys` cached keys or entries, each read once as key and value.

    In the packed fp8 layout the part without rotation is fp8 with a scale of one byte for each 64 values, padded to
    8 bytes, and the rotated part stays in bf16: 448 + 8 + 128 = 584 bytes (FlashMLA's and vLLM's fp8_ds_mla).
    """
    if kv is not DType.FP8_DS_MLA:
        return kv.bytes_of(keys * layer.head_dim)
    plain = layer.head_dim - layer.rope
    scales = 8 * -(-plain // (8 * _SCALED))
    return keys * (plain + scales + int(DType.BF16.bytes_of(layer.rope)))


def held_bytes(layer: CompressedAttention, context: Count, kv: DType) -> Count:
    """Bytes that one layer caches of one sequence: keys of the window, entries, and the indexer's keys."""
    held = key_bytes(layer, kv_tokens_held(context, layer.span), kv)
    if layer.compressor is not None:
        held = held + key_bytes(layer, entries(context, layer.compressor.rate), kv)
    if layer.indexer is not None:
        held = held + _index_bytes(layer.indexer, entries(context, layer.indexer.compressor.rate), kv)
    return held


def growth_bytes(layer: CompressedAttention, kv: DType, *, windowed: bool) -> int:
    """Bytes that one more token adds: its share of an entry, rounded up, and its own key where windows count."""
    key = int(key_bytes(layer, 1, kv)) if windowed else 0
    if layer.compressor is None:
        return key
    entry = int(key_bytes(layer, 1, kv))
    entry += int(_index_bytes(layer.indexer, 1, kv)) if layer.indexer else 0
    return key - (-entry // layer.compressor.rate)


def _index_bytes(indexer: CompressedIndexer, keys: Count, kv: DType) -> Count:
    """Bytes of the indexer's compressed keys; in the packed layout fp8 with an fp32 scale for each 128 values."""
    return kv.bytes_of(keys * indexer.width)


def _attend(name: str, layer: CompressedAttention, setting: Setting) -> Op:
    """One kernel: each head's queries against keys of the window and entries, both key and value at once."""
    batch, convention, precision = setting.batch, setting.conventions.attention_flops, setting.precision
    met = pairs(batch, layer.span, convention)
    read = kv_tokens_read(batch.new_tokens, batch.cached_tokens, layer.span)
    written = batch.new_tokens
    if layer.compressor is not None:
        rate, top_k = layer.compressor.rate, layer.indexer.top_k if layer.indexer else None
        before = entries(batch.cached_tokens, rate)
        met = met + entry_pairs(batch, rate, top_k, convention)
        read = read + (before if top_k is None else least(before, batch.new_tokens * top_k))
        written = written + entries(batch.cached_tokens + batch.new_tokens, rate) - before
    shape = AttentionShape(
        sequences=batch.sequences,
        q_tokens=batch.new_tokens,
        kv_tokens=read,
        pairs=met,
        heads=layer.heads,
        kv_heads=1,
        d_k=layer.head_dim,
        d_v=layer.head_dim,
    )
    fresh = setting.tokens * (2 * layer.heads * layer.head_dim) + batch.sequences * written * layer.head_dim
    moved = Traffic(
        kv_read=key_bytes(layer, batch.sequences * read, precision.kv),
        kv_write=key_bytes(layer, batch.sequences * written, precision.kv),
        activations=precision.activations.bytes_of(fresh),
    )
    return fused(name, shape, moved, setting)


def _grouped(layer: CompressedAttention, grouped: Linear, setting: Setting) -> Op:
    """One batched GEMM over the groups: weights and FLOP of `grouped`, but every group has its own input."""
    op = linear(grouped.name, setting.tokens, (grouped,), setting)
    values = setting.tokens * (layer.heads * layer.head_dim + grouped.d_out)
    moved = Traffic(weights=op.traffic.weights, activations=setting.precision.activations.bytes_of(values))
    return replace(op, traffic=setting.charged(moved))


def _compress(name: str, layer: Compressor, setting: Setting) -> Op:
    """Count the gated means of one compressor; no part of `model_flops`.

    Values and gates of the new tokens are read, entries are written (the attention kernel's `kv_write` counts them).
    Those of an unfinished stretch wait in fp32 (and, with overlap, those of the stretch before): they are read when
    a stretch that began in an earlier pass is filled, and written at the end of a pass.
    """
    batch, kept = setting.batch, setting.precision.state or DType.FP32
    read, left = rows_waiting(layer, batch)
    width = layer.series * layer.width
    moved = Traffic(
        state=kept.bytes_of(batch.sequences * (read + left) * layer.row_values),
        activations=setting.precision.activations.bytes_of(setting.tokens * layer.row_values),
    )
    return Op(
        name=name,
        kind=OpKind.ACTIVATION,
        dtype=setting.precision.activations,
        flops=setting.tokens * (width * _COMPRESSION_FLOPS),
        model_flops=0,
        traffic=setting.charged(moved),
        shape=PointwiseShape(setting.tokens, width, _COMPRESSION_FLOPS),
    )


def rows_waiting(layer: Compressor, batch: Batch) -> tuple[Count, Count]:
    """Rows of one sequence that a pass reads back to fill a stretch, and those that it leaves waiting."""
    new, cached, rate = batch.new_tokens, batch.cached_tokens, layer.rate
    filled = least(entries(cached + new, rate) - entries(cached, rate), 1)
    before = rate if layer.overlap else 0
    waiting = cached % rate + least(entries(cached, rate), 1) * before
    return filled * waiting, least(new, (cached + new) % rate + before)


def _scores(name: str, indexer: CompressedIndexer, setting: Setting) -> Op:
    """Count the scores of every compressed key and the choice of `top_k` entries.

    Derivation: q.k is `width` multiply-adds for each pair and head; a ReLU, a scale and the weighted sum over heads
    4 more FLOP, which the reference runs value by value: no part of `model_flops`. Positions of 4 bytes are written.
    """
    batch, precision, rate = setting.batch, setting.precision, indexer.compressor.rate
    met = entry_pairs(batch, rate, None, setting.conventions.attention_flops)
    scores = batch.sequences * met * indexer.heads
    before = entries(batch.cached_tokens, rate)
    made = entries(batch.cached_tokens + batch.new_tokens, rate) - before
    values = setting.tokens * (indexer.heads * (indexer.width + 1)) + batch.sequences * made * indexer.width
    moved = Traffic(
        kv_read=_index_bytes(indexer, batch.sequences * before, precision.kv),
        kv_write=_index_bytes(indexer, batch.sequences * made, precision.kv),
        activations=precision.activations.bytes_of(values) + 4 * setting.tokens * indexer.top_k,
    )
    shape = AttentionShape(
        sequences=batch.sequences,
        q_tokens=batch.new_tokens,
        kv_tokens=before,
        pairs=met,
        heads=indexer.heads,
        kv_heads=1,
        d_k=indexer.width,
        d_v=1,
    )
    model_flops = 2 * scores * indexer.width
    return Op(name, OpKind.INDEXER, precision.attention, model_flops + 4 * scores, model_flops,
              setting.charged(moved), shape)  # fmt: skip


def hyper_mix(name: str, layer: HyperConnection, setting: Setting) -> Op:
    """Count what connects n streams of h values to a block: they are mixed among themselves by an n x n matrix.

    Derivation: the mix is n n h multiply-adds a token, a matrix product in the reference; the weighted sum into the
    block and the spread out of it n h multiply-adds each. The streams and the block's output are read, the streams
    and the block's input written (the projection to the weights has read the streams already).
    """
    streams, hidden = layer.streams, layer.hidden
    mixed = setting.tokens * (2 * streams * streams * hidden)
    values = setting.tokens * (2 * streams * hidden + 2 * hidden)
    return Op(
        name=name,
        kind=OpKind.GEMM,
        dtype=setting.precision.attention,
        flops=mixed + setting.tokens * (4 * streams * hidden),
        model_flops=mixed,
        traffic=setting.charged(Traffic(activations=setting.precision.activations.bytes_of(values))),
        shape=GemmShape(setting.tokens, streams * hidden, streams),
    )
