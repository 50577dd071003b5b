"""Multi-head latent attention in its two forms, and the indexer of sparse attention.

Expanded, keys and values of every head are computed from the latents (those of a cached prefix again in every pass)
and attention is ordinary. Absorbed, the expansion is folded into queries and outputs: all heads share the latent as
key and value. Source: DeepSeek-V2, 2405.04434, section 2.1 and appendix C; V3.2, 2512.02556, section 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rooflens.core.arrays import Count
from rooflens.core.attention import EVERYTHING, Indexer, LatentAttention
from rooflens.core.blocks import Linear
from rooflens.core.dtype import Mixed
from rooflens.core.indexers import BlockIndexer
from rooflens.core.op import AttentionShape, DType, Op, OpKind, Traffic
from rooflens.count.attention import fused
from rooflens.count.gemm import linear
from rooflens.count.setting import Setting
from rooflens.count.span import kv_tokens_read, pairs


def latent_attention(name: str, layer: LatentAttention, expansion: Linear, setting: Setting) -> Iterator[Op]:
    """Yield the kernels between the projections: expansion, indexer and attention, in the form that is asked for."""
    if layer.indexer is not None:
        yield indexer_scores("indexer_scores", layer.indexer, layer.top_k or 0, setting)
    yield from (_absorbed if setting.absorbed else _expanded)(name, layer, expansion, setting)


def _expanded(name: str, layer: LatentAttention, expansion: Linear, setting: Setting) -> Iterator[Op]:
    """Latents of new and cached tokens are expanded; a query then meets `heads` keys of d_k and values of d_v."""
    batch, precision = setting.batch, setting.precision
    cached = batch.sequences * batch.cached_tokens
    shape = _shape(layer, setting, kv_heads=layer.heads, d_k=layer.d_k, d_v=layer.d_v)
    widen = linear(expansion.name, setting.tokens + cached, (expansion,), setting)
    read = latent_bytes(layer, cached, precision.kv)
    traffic = replace(widen.traffic, kv_read=setting.charged(Traffic(kv_read=read)).kv_read)
    yield replace(widen, traffic=traffic)
    keys = (setting.tokens + batch.sequences * shape.kv_tokens) * layer.heads * (layer.d_k + layer.d_v)
    queries = setting.tokens * layer.heads * (layer.d_k + layer.d_v)
    moved = Traffic(
        kv_write=latent_bytes(layer, setting.tokens, precision.kv),
        activations=precision.activations.bytes_of(keys + queries),
    )
    yield fused(name, shape, moved, setting)


def _absorbed(name: str, layer: LatentAttention, expansion: Linear, setting: Setting) -> Iterator[Op]:
    """Queries are carried into the latent, outputs back out of it; the latent is read once for K and V alike."""
    rank, heads, precision = layer.kv_rank, layer.heads, setting.precision
    shape = _shape(layer, setting, kv_heads=1, d_k=layer.latent_values, d_v=rank)
    to_keys, to_values = halves(layer, expansion)
    yield _per_head(layer.nope, rank, to_keys, setting)
    moved = Traffic(
        kv_read=latent_bytes(layer, shape.sequences * shape.kv_tokens, precision.kv),
        kv_write=latent_bytes(layer, setting.tokens, precision.kv),
        activations=precision.activations.bytes_of(
            setting.tokens * (heads * (layer.latent_values + rank) + layer.latent_values)
        ),
    )
    yield fused(name, shape, moved, setting)
    yield _per_head(rank, layer.d_v, to_values, setting)


def halves(layer: LatentAttention, expansion: Linear) -> tuple[Linear, Linear]:
    """The expansion's two halves: what carries queries into the latent, and what carries outputs out of it.

    Each is stored in its own dtype where the checkpoint has a tensor for each.
    """
    stored = expansion.stored
    keys, values = (part for part, _ in stored.parts) if isinstance(stored, Mixed) else (stored, stored)
    return (
        Linear("absorb_k_proj", layer.nope, layer.heads * layer.kv_rank, stored=keys),
        Linear("absorb_v_proj", layer.kv_rank, layer.heads * layer.d_v, stored=values),
    )


def _per_head(d_in: int, d_out: int, half: Linear, setting: Setting) -> Op:
    """One batched GEMM, d_in -> d_out in every head: half of the expansion's matrix.

    As many weights and FLOP as a projection d_in -> heads x d_out; but every head has its own input.
    """
    op = linear(half.name, setting.tokens, (half,), setting)
    values = setting.tokens * (half.d_out // d_out * (d_in + d_out))
    moved = Traffic(weights=op.traffic.weights, activations=setting.precision.activations.bytes_of(values))
    return replace(op, traffic=setting.charged(moved))


def _shape(layer: LatentAttention, setting: Setting, *, kv_heads: int, d_k: int, d_v: int) -> AttentionShape:
    batch = setting.batch
    return AttentionShape(
        sequences=batch.sequences,
        q_tokens=batch.new_tokens,
        kv_tokens=kv_tokens_read(batch.new_tokens, batch.cached_tokens, layer.span),
        pairs=pairs(batch, layer.span, setting.conventions.attention_flops),
        heads=layer.heads,
        kv_heads=kv_heads,
        d_k=d_k,
        d_v=d_v,
    )


def latent_bytes(layer: LatentAttention, tokens: Count, kv: DType) -> Count:
    """Bytes of the cached latents of `tokens` tokens in one layer.

    In the packed fp8 layout the latent is fp8 with an fp32 scale for each 128 values and the rotated key stays in
    bf16: 512 + 16 + 128 = 656 bytes for a latent of 512 and a key of 64 (vLLM's fp8_ds_mla).
    """
    if kv is not DType.FP8_DS_MLA:
        return kv.bytes_of(tokens * layer.latent_values)
    return tokens * int(kv.bytes_of(layer.kv_rank) + DType.BF16.bytes_of(layer.rope))


def indexer_scores(name: str, indexer: Indexer, top_k: int, setting: Setting) -> Op:
    """Count the scores of every earlier token and the choice of `top_k`.

    Derivation: q.k is `width` multiply-adds for each pair and indexer head, the weighted sum over heads one more;
    a ReLU for each. Keys are read from a cache of their own; positions of 4 bytes are written.
    """
    batch, precision = setting.batch, setting.precision
    met = batch.sequences * pairs(batch, EVERYTHING, setting.conventions.attention_flops) * indexer.heads
    model_flops = 2 * met * (indexer.width + 1)
    cached = batch.sequences * batch.cached_tokens
    values = setting.tokens * (indexer.heads * (indexer.width + 1) + indexer.width)
    moved = Traffic(
        kv_read=index_bytes(indexer, cached, precision.kv),
        kv_write=index_bytes(indexer, setting.tokens, precision.kv),
        activations=precision.activations.bytes_of(values) + 4 * setting.tokens * top_k,
    )
    shape = AttentionShape(
        sequences=batch.sequences,
        q_tokens=batch.new_tokens,
        kv_tokens=batch.cached_tokens,
        pairs=pairs(batch, EVERYTHING, setting.conventions.attention_flops),
        heads=indexer.heads,
        kv_heads=1,
        d_k=indexer.width,
        d_v=1,
    )
    flops = model_flops + met
    return Op(name, OpKind.INDEXER, precision.attention, flops, model_flops, setting.charged(moved), shape)


def block_scores(name: str, indexer: BlockIndexer, setting: Setting) -> Op:
    """Count the scores of every earlier token and the choice of whole blocks of them (MiniMax-M3).

    Derivation: q.k is `width` multiply-adds for each pair and indexer head; the maximum over a block 1 FLOP for each
    score, which is no part of `model_flops`. Block numbers of 4 bytes are written for each head.
    """
    batch, precision = setting.batch, setting.precision
    met = pairs(batch, EVERYTHING, setting.conventions.attention_flops)
    scores = batch.sequences * met * indexer.heads
    values = setting.tokens * (indexer.width * (indexer.heads + 1))
    moved = Traffic(
        kv_read=index_bytes(indexer, batch.sequences * batch.cached_tokens, precision.kv),
        kv_write=index_bytes(indexer, setting.tokens, precision.kv),
        activations=precision.activations.bytes_of(values) + 4 * setting.tokens * (indexer.heads * indexer.blocks),
    )
    shape = AttentionShape(
        sequences=batch.sequences,
        q_tokens=batch.new_tokens,
        kv_tokens=batch.cached_tokens,
        pairs=met,
        heads=indexer.heads,
        kv_heads=1,
        d_k=indexer.width,
        d_v=1,
    )
    model_flops = 2 * scores * indexer.width
    charged = setting.charged(moved)
    return Op(name, OpKind.INDEXER, precision.attention, model_flops + scores, model_flops, charged, shape)


def index_bytes(indexer: Indexer | BlockIndexer, tokens: Count, kv: DType) -> Count:
    """Bytes of the indexer's cached keys of `tokens` tokens in one layer."""
    return kv.bytes_of(tokens * indexer.width)
