"""Architectures that give each layer a shape of its own, by `model_type`.

Shapes come from the reference framework's classes (transformers 5.24); those of Nemotron NAS, which it does not hold,
from the config itself and the code that its `auto_map` names (DeciLM, which is not run).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rooflens.core.attention import EVERYTHING, Span
from rooflens.core.blocks import Block, Dense, Norm
from rooflens.core.cross import CrossAttention
from rooflens.core.indexers import BlockIndexer
from rooflens.sources.adjust import minimax_m3, nemotron_nas, step3
from rooflens.sources.family import Family, flag
from rooflens.sources.fields import Fields
from rooflens.sources.reading import Reading
from rooflens.sources.windows import typed

_ATTENTION = ("attention_bias", False)
_MLP = ("mlp_bias", False)

# Nemotron NAS: every block says what it is


def _nas_parts(reading: Reading, index: int) -> tuple[Fields, Fields]:
    block = reading.fields.objects("block_configs")[index]
    return block.child("attention"), block.child("ffn")


def _nas(reading: Reading, index: int) -> tuple[Block, ...]:
    """Nemotron NAS: attention with its own number of KV heads, a plain projection, or nothing; an MLP likewise."""
    attention, feed = _nas_parts(reading, index)
    found: list[Block] = []
    if not attention.flag("no_op", False):
        found.append(_nas_attention(reading, attention, index))
    if not feed.flag("no_op", False):
        found.append(_nas_feed(reading, feed))
    return tuple(found)


def _nas_attention(reading: Reading, part: Fields, index: int) -> Block:
    sizes = reading.sizes
    if part.flag("replace_with_linear", False):
        return Dense(sizes.hidden, sizes.hidden, "attention", flag(reading.fields, _ATTENTION), "linear_attn_proj")
    if part.has("num_sink_tokens"):
        raise part.fail("num_sink_tokens is set; attention over sink tokens and a window has no mapping")
    group = part.size("heads", "n_heads_in_group")
    if sizes.heads % group:
        raise part.fail(f"n_heads_in_group is {group}, num_attention_heads is {sizes.heads}; expected a divisor of it")
    window = part.size("window", "window_length", default=0)
    span = Span(window=window) if window else EVERYTHING
    return reading.attention(index, kv_heads=sizes.heads // group, span=span)


def _nas_feed(reading: Reading, part: Fields) -> Block:
    """Width: two thirds of `ffn_mult` times the hidden size, cut to a whole number, rounded up to a multiple of 256."""
    hidden = reading.sizes.hidden
    if part.flag("replace_with_linear", False):
        return Dense(hidden, hidden, "mlp", flag(reading.fields, _MLP), "linear_mlp_proj")
    if part.has("intermediate_size"):
        return reading.mlp(part.size("intermediate", "intermediate_size"))
    wide = 256 * -(-int(2 * part.ratio("ffn_mult") * hidden / 3) // 256)
    return reading.mlp(_bounded(part, wide))


def _bounded(part: Fields, width: int) -> int:
    return Fields({"width from ffn_mult": width}, part.origin).size("intermediate", "width from ffn_mult")


def _nas_norms(reading: Reading, index: int) -> tuple[Norm, ...]:
    """One norm for each part that is there."""
    attention, feed = _nas_parts(reading, index)
    names = [] if attention.flag("no_op", False) else ["input_norm"]
    return reading.norms(*names, *([] if feed.flag("no_op", False) else ["post_attention_norm"]))


# Step 3.5 and 3.7: sliding layers with heads of their own


def _step(reading: Reading, index: int) -> tuple[Block, ...]:
    """Step 3.5: one gate value a head; sliding layers may have more query heads; experts after the first layers."""
    fields, sizes = reading.fields, reading.sizes
    heads = sizes.heads
    if reading.spans[index].window is not None:
        heads = fields.size("heads", "num_sliding_attention_heads", default=heads)
    if heads % sizes.kv_heads:
        raise fields.fail(f"{heads} heads of sliding layers cannot share num_key_value_heads {sizes.kv_heads}")
    attention = reading.attention(index, heads=heads)
    if not _step_routed(fields, index):
        return attention, reading.mlp()
    own = fields.size("intermediate", "moe_intermediate_size", default=1280)
    shared = fields.size("intermediate", "share_expert_dim", "share_expert_dims", default=1280)
    return attention, reading.moe(own, shared=shared)


def _step_routed(fields: Fields, index: int) -> bool:
    types = fields.strings("mlp_layer_types")
    if types is not None:
        return types[index] == "sparse"
    first = fields.number("first_k_dense_replace", 3)
    return index in fields.members("moe_layers_enum") if fields.has("moe_layers_enum") else index >= first


# MiniMax-M3: blocks of keys that an indexer picks


def _m3(reading: Reading, index: int) -> tuple[Block, ...]:
    """MiniMax-M3: attention over everything, or over blocks that an indexer picks; a wider MLP, or experts."""
    fields = reading.fields
    attention = reading.attention(index)
    if _m3_marked(fields, index, "layer_types", "minimax_m3_sparse", "sparse_attention_freq"):
        attention = replace(attention, **_m3_sparse(reading))
    if not _m3_marked(fields, index, "mlp_layer_types", "sparse", "moe_layer_freq", default=True):
        return attention, reading.mlp(fields.size("intermediate", "dense_intermediate_size", default=12288))
    own = fields.size("intermediate", "intermediate_size", default=3072)
    return attention, reading.moe(own, shared=fields.size("intermediate", "shared_intermediate_size", default=3072))


def _m3_marked(fields: Fields, index: int, named: str, kind: str, marked: str, *, default: bool = False) -> bool:
    """Whether a layer is of a `kind`: by the list of names, else by the list of 0 and 1."""
    types = fields.strings(named)
    if types is not None:
        return types[index] == kind
    marks = fields.numbers(marked)
    return bool(marks[index]) if marks else default


def _m3_sparse(reading: Reading) -> dict[str, Any]:
    fields, sizes = reading.fields, reading.sizes
    heads = fields.size("heads", "index_n_heads", default=4)
    if sizes.heads % heads:
        raise fields.fail(f"index_n_heads is {heads}, num_attention_heads is {sizes.heads}; expected a divisor of it")
    block = fields.size("window", "index_block_size", default=128)
    blocks = fields.size("window", "index_topk_blocks", default=16)
    indexer = BlockIndexer(sizes.hidden, heads, fields.size("head width", "index_head_dim", default=128), blocks)
    return {"indexer": indexer, "span": Span(top_k=blocks * block, block=block)}


# Llama 3.2 Vision: cross-attention over image tokens


def _mllama(reading: Reading, index: int) -> tuple[Block, ...]:
    """Llama 3.2 Vision: some layers attend to image tokens in place of the text, and each block has a gate."""
    if not _crosses(reading, index):
        return reading.attention(index), reading.mlp()
    sizes = reading.sizes
    return CrossAttention(sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim), reading.mlp()


def _crosses(reading: Reading, index: int) -> bool:
    fields = reading.fields
    listed = fields.members("cross_attention_layers") if fields.has("cross_attention_layers") else _CROSS_LAYERS
    return index in listed


_CROSS_LAYERS = frozenset(range(3, 40, 5))


def _mllama_extra(reading: Reading) -> int:
    """Eight more rows of the token table than the output head has, and two gates in each cross-attention layer."""
    gates = 2 * sum(_crosses(reading, index) for index in range(reading.sizes.depth))
    return 8 * reading.sizes.hidden + gates


_STEP = Family(
    qkv_bias=_ATTENTION, out_bias=_ATTENTION, up_bias=_MLP, down_bias=_MLP, head_dim=128, kv_heads=8, qk_norm="head",
    gate="head", spans=typed, blocks=_step, adjust=step3,
)  # fmt: skip
_M3 = Family(head_dim=128, kv_heads=4, qk_norm="head", fused_mlp=True, feeds=False, blocks=_m3, adjust=minimax_m3)

LAYERED: dict[str, Family] = {
    "minimax_m3_vl_text": _M3,
    "mllama_text_model": Family(kv_heads=8, head_dim_read=False, blocks=_mllama, model_extra=_mllama_extra),
    "nemotron-nas": Family(
        qkv_bias=_ATTENTION, out_bias=_ATTENTION, up_bias=_MLP, down_bias=_MLP, feeds=False, norms=_nas_norms,
        blocks=_nas, adjust=nemotron_nas,
    ),
    "step3p5": _STEP,
}  # fmt: skip
"""Architectures whose layers differ in shape."""
