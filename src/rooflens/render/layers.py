"""Layers of a model to their documents: what each block is called, and the figures that its kind has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rooflens.core.attention import Attention, LatentAttention, Reach
from rooflens.core.blocks import Block, Mlp
from rooflens.core.compressed import CompressedAttention, HyperConnection
from rooflens.core.cross import CrossAttention
from rooflens.core.experts import Moe
from rooflens.core.gated_recurrence import RgLru, Rwkv4, RwkvChannelMix
from rooflens.core.linear_attention import DeltaNet, LightningAttention, ShortConv
from rooflens.core.model import Layer, ModelSpec
from rooflens.core.op import DType
from rooflens.core.recurrent import Mamba, Mamba2, Recurrent
from rooflens.count.sizes import block_kv_bytes, state_bytes
from rooflens.render.document_layers import BlockDocument, LayerDocument

RECURRENT_NAMES: dict[type[Recurrent], str] = {
    Mamba: "Mamba",
    Mamba2: "Mamba-2",
    DeltaNet: "gated delta net",
    ShortConv: "short convolution",
    LightningAttention: "lightning attention",
    RgLru: "RG-LRU",
    Rwkv4: "RWKV-4 time mixing",
    RwkvChannelMix: "RWKV-4 channel mixing",
}
"""What a reader calls each kind of recurrent layer."""

_REACHES = {
    Reach.FULL: "full ",
    Reach.WINDOW: "window ",
    Reach.CHUNK: "chunked ",
    Reach.SPARSE: "sparse ",
    Reach.COMPRESSED: "compressed ",
}


def layer_document(model: ModelSpec, layer: Layer, *, kv: DType, state: DType | None, kept: DType) -> LayerDocument:
    """Return one kind of layer of `model`, its cache in `kv` and its states as `count.state_bytes` takes them."""
    blocks = [block_document(block, kv, _state(model, block, state, kept)) for block in layer.blocks]
    attention = next((block for block in blocks if block.heads), None)
    mlp = next((block for block in layer.blocks if isinstance(block, Mlp)), None)
    return LayerDocument(
        kind=", ".join(dict.fromkeys(block.kind for block in blocks)) or "nothing but norms",
        count=layer.count,
        params=layer.params,
        heads=attention.heads if attention else None,
        kv_heads=attention.kv_heads if attention else None,
        head_dim=attention.head_dim if attention else None,
        value_head_dim=attention.value_head_dim if attention else None,
        window=attention.window if attention else None,
        mlp=None if mlp is None else "gated" if mlp.gated else "plain",
        intermediate=mlp.width if mlp else None,
        kv_bytes_per_token=sum(block.kv_bytes_per_token or 0 for block in blocks),
        state_bytes=sum(block.state_bytes or 0 for block in blocks),
        blocks=blocks,
    )


def block_document(block: Block, kv: DType, state: int) -> BlockDocument:
    """Return one block: its part, what it is called, its parameters, and the figures of its kind."""
    cached = block_kv_bytes(block, kv) or None
    kind, figures = block_kind(block), _figures(block)
    return BlockDocument(
        block.part, kind, block.params, kv_bytes_per_token=cached, state_bytes=state or None, **figures
    )


def _state(model: ModelSpec, block: Block, state: DType | None, kept: DType) -> int:
    return state_bytes(replace(model, layers=(Layer(1, (block,), ()),)), state, kept)


def block_kind(block: Block) -> str:
    """What a reader calls `block`."""
    match block:
        case Attention():
            shared = "" if block.owns_cache else " over a shared cache"
            return f"{_REACHES[block.span.reach]}attention{shared}"
        case LatentAttention():
            return "latent attention" if block.top_k is None else "sparse latent attention"
        case CompressedAttention():
            return f"{_REACHES[block.reach]}attention"
        case CrossAttention():
            return "cross-attention"
        case Mlp():
            return "gated mlp" if block.gated else "plain mlp"
        case Moe():
            return f"{block.experts:,} experts"
        case Recurrent():
            return RECURRENT_NAMES.get(type(block), "recurrent")
        case HyperConnection():
            return "hyper-connections"
        case _:
            return block.part


def _figures(block: Block) -> dict[str, Any]:
    match block:
        case Attention():
            return _heads(block) | _indexer(block)
        case LatentAttention():
            return _latent(block) | _indexer(block)
        case CompressedAttention():
            return _compressed(block)
        case CrossAttention():
            width = block.head_dim
            return {"heads": block.heads, "kv_heads": block.kv_heads, "head_dim": width, "value_head_dim": width}
        case Mlp():
            return {"gated": block.gated, "width": block.width}
        case Moe():
            return _experts(block)
        case Recurrent():
            return _recurrent(block)
        case HyperConnection():
            return {"streams": block.streams}
        case _:
            return {}


def _heads(block: Attention) -> dict[str, Any]:
    return {
        "heads": block.heads,
        "kv_heads": block.kv_heads,
        "head_dim": block.d_k,
        "value_head_dim": block.d_v,
        "window": block.span.window,
        "chunk": block.span.chunk,
        "top_k": block.span.top_k,
    }


def _indexer(block: Attention | LatentAttention) -> dict[str, Any]:
    if block.indexer is None:
        return {}
    return {"indexer_heads": block.indexer.heads, "indexer_width": block.indexer.width}


def _latent(block: LatentAttention) -> dict[str, Any]:
    """Widths of a head are those of expanded keys and values; there are no KV heads, one latent serves all."""
    return {
        "heads": block.heads,
        "head_dim": block.d_k,
        "value_head_dim": block.d_v,
        "top_k": block.top_k,
        "q_rank": block.q_rank,
        "kv_rank": block.kv_rank,
        "rope_dim": block.rope,
    }


def _compressed(block: CompressedAttention) -> dict[str, Any]:
    indexer = block.indexer
    return {
        "heads": block.heads,
        "kv_heads": 1,
        "head_dim": block.head_dim,
        "value_head_dim": block.head_dim,
        "window": block.window,
        "q_rank": block.q_rank,
        "rope_dim": block.rope,
        "entry_tokens": block.compressor.rate if block.compressor else None,
        "top_k": indexer.top_k if indexer else None,
        "indexer_heads": indexer.heads if indexer else None,
        "indexer_width": indexer.width if indexer else None,
        "state_values": block.state_values or None,
    }


def _experts(block: Moe) -> dict[str, Any]:
    return {
        "gated": block.expert.gated,
        "experts": block.experts,
        "top_k": block.top_k,
        "expert_width": block.expert.width,
        "shared_width": block.shared.width if block.shared else None,
        "latent_width": block.latent,
    }


def _recurrent(block: Recurrent) -> dict[str, Any]:
    convolves = block.conv_kernel > 1
    return {
        "state_values": block.state_values,
        "conv_channels": block.conv_channels if convolves else None,
        "conv_kernel": block.conv_kernel if convolves else None,
    }
