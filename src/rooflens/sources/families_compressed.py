"""DeepSeek-V4: shared keys in a window, compressed entries, and residual streams.

Shapes and defaults are those of the reference framework's class (transformers 5.24).
"""

from __future__ import annotations

from rooflens.core.attention import Span
from rooflens.core.blocks import Block, Linear, Norm
from rooflens.core.compressed import CompressedAttention, CompressedIndexer, Compressor, HyperConnection
from rooflens.sources.adjust import deepseek_v4
from rooflens.sources.family import Family
from rooflens.sources.fields import Fields
from rooflens.sources.reading import Reading

_WINDOW, _SPARSE, _HEAVY = "sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"
_RATIOS = {0: _WINDOW, 4: _SPARSE, 128: _HEAVY}


def _kind(reading: Reading, index: int) -> str:
    """What a layer attends to: by `layer_types`, `compress_ratios`, else two heavy ones and then either in turn.

    Raises:
        ConfigError: a kind, or a ratio, that is not known.
    """
    fields = reading.fields
    types = fields.strings("layer_types")
    if types is not None:
        if types[index] not in _RATIOS.values():
            raise fields.fail(f"layer_types names {types[index]!r}; expected {', '.join(_RATIOS.values())}")
        return types[index]
    ratios = fields.numbers("compress_ratios")
    if ratios:
        if ratios[index] not in _RATIOS:
            raise fields.fail(f"compress_ratios holds {ratios[index]}; expected 0, 4 or 128")
        return _RATIOS[ratios[index]]
    return _SPARSE if index >= 2 and index % 2 else _HEAVY


def _rate(fields: Fields, kind: str) -> int:
    """Tokens of one entry: 4 or 128 unless `compress_rates` or a field of its own says otherwise."""
    short, default = ("compress_rate_csa", 4) if kind == _SPARSE else ("compress_rate_hca", 128)
    if fields.has(short):
        return fields.size("window", short)
    return fields.child("compress_rates").size("window", kind, default=default)


def _attention(reading: Reading, index: int) -> CompressedAttention:
    fields, sizes, kind = reading.fields, reading.sizes, _kind(reading, index)
    rank = fields.size("hidden", "q_lora_rank", default=1024)
    groups = fields.size("heads", "o_groups", default=8)
    rope = fields.size("head width", "qk_rope_head_dim", default=max(sizes.head_dim // 8, 1))
    _check(fields, sizes.heads, sizes.kv_heads, groups)
    if rope > sizes.head_dim:
        raise fields.fail(f"qk_rope_head_dim is {rope}, head_dim is {sizes.head_dim}; expected at most as many")
    compressor = indexer = None
    if kind != _WINDOW:
        rate = _rate(fields, kind)
        compressor = Compressor("compressor", sizes.hidden, sizes.head_dim, rate, overlap=kind == _SPARSE)
        indexer = _indexer(fields, sizes.hidden, rank, rate) if kind == _SPARSE else None
    return CompressedAttention(
        hidden=sizes.hidden,
        heads=sizes.heads,
        head_dim=sizes.head_dim,
        rope=rope,
        q_rank=rank,
        groups=groups,
        out_rank=fields.size("hidden", "o_lora_rank", default=1024),
        window=_window(fields),
        compressor=compressor,
        indexer=indexer,
    )


def _window(fields: Fields) -> int:
    return fields.size("window", "sliding_window", default=128)


def _windows(fields: Fields, depth: int) -> tuple[Span, ...]:
    """Every layer has the window, whatever else it attends to."""
    return (Span(window=_window(fields)),) * depth


def _check(fields: Fields, heads: int, kv_heads: int, groups: int) -> None:
    if kv_heads != 1:
        raise fields.fail(f"num_key_value_heads is {kv_heads}; expected 1, which every query head shares")
    if heads % groups:
        raise fields.fail(f"o_groups is {groups}, num_attention_heads is {heads}; expected a divisor of it")


def _indexer(fields: Fields, hidden: int, rank: int, rate: int) -> CompressedIndexer:
    width = fields.size("head width", "index_head_dim", default=128)
    return CompressedIndexer(
        hidden=hidden,
        heads=fields.size("heads", "index_n_heads", default=64),
        width=width,
        q_rank=rank,
        top_k=fields.size("window", "index_topk", default=512),
        compressor=Compressor("indexer_compressor", hidden, width, rate, overlap=True),
    )


def _streams(reading: Reading) -> int:
    return reading.fields.size("heads", "hc_mult", default=4)


def _blocks(reading: Reading, index: int) -> tuple[Block, ...]:
    """Connections, attention, connections, experts with shared ones (the first layers route by a table of tokens)."""
    fields, hidden, streams = reading.fields, reading.sizes.hidden, _streams(reading)
    own = fields.size("intermediate", "moe_intermediate_size", default=2048)
    moe = reading.moe(own, shared=own * fields.number("n_shared_experts", 1))
    return (
        HyperConnection(hidden, streams, "attention_streams"),
        _attention(reading, index),
        HyperConnection(hidden, streams, "experts_streams"),
        moe,
    )


def _norms(reading: Reading, _index: int) -> tuple[Norm, ...]:
    return reading.norms("input_norm", "post_attention_norm")


def _head_streams(reading: Reading) -> tuple[Linear, ...]:
    """The projection of all streams to their weights in the last sum."""
    streams = _streams(reading)
    return (Linear("head_streams_proj", streams * reading.sizes.hidden, streams, precise=True),)


def _head_params(reading: Reading) -> int:
    """A bias for each stream, and one scale."""
    return _streams(reading) + 1


_V4 = Family(
    head_dim=512,
    kv_heads=1,
    feeds=False,
    spans=_windows,
    blocks=_blocks,
    norms=_norms,
    inputs=_head_streams,
    model_extra=_head_params,
    adjust=deepseek_v4,
)

COMPRESSED: dict[str, Family] = {"deepseek_v4": _V4}
"""Architectures with compressed attention."""
