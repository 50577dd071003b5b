"""Architectures with multi-head latent attention, sparse ones among them, by `model_type`.

Defaults are those of the reference framework's configuration classes (transformers 5.24).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rooflens.core.attention import Indexer, LatentAttention
from rooflens.core.blocks import Block
from rooflens.sources.families_moe import after_first
from rooflens.sources.family import Family, flag
from rooflens.sources.fields import Fields
from rooflens.sources.reading import Reading


@dataclass(frozen=True, slots=True)
class Widths:
    """Widths of latent attention where the config leaves them out; `q_rank` 0 is a plain query projection."""

    q_rank: int
    kv_rank: int = 512
    nope: int = 128
    rope: int = 64
    value: int = 128
    index_heads: int = 0
    index_width: int = 128
    top_k: int = 2048


_V3 = Widths(q_rank=1536)


def latent(reading: Reading, index: int, widths: Widths) -> LatentAttention:
    """The latent attention of layer `index`, with its indexer where the architecture has one."""
    fields = reading.fields
    stated = "q_lora_rank" in fields.values
    q_rank = fields.size("hidden", "q_lora_rank") if fields.has("q_lora_rank") else 0 if stated else widths.q_rank
    return LatentAttention(
        hidden=reading.sizes.hidden,
        heads=reading.sizes.heads,
        q_rank=q_rank or None,
        kv_rank=fields.size("hidden", "kv_lora_rank", default=widths.kv_rank),
        nope=fields.size("head width", "qk_nope_head_dim", default=widths.nope),
        rope=fields.size("head width", "qk_rope_head_dim", default=widths.rope),
        d_v=_value_width(reading, widths),
        bias=flag(fields, ("attention_bias", False)),
        **_sparse(reading, index, widths, q_rank),
    )


def _value_width(reading: Reading, widths: Widths) -> int:
    fields = reading.fields
    default = widths.value or reading.sizes.hidden // reading.sizes.heads
    return fields.size("head width", "v_head_dim", default=default)


def _sparse(reading: Reading, index: int, widths: Widths, q_rank: int) -> dict[str, Any]:
    """Indexer and top k of a sparse layer; layers that share the indexer of an earlier one have none of their own."""
    if not widths.index_heads:
        return {}
    fields = reading.fields
    if not q_rank:
        raise fields.fail("q_lora_rank is null; expected the width of the query latent that the indexer reads")
    indexer = Indexer(
        hidden=reading.sizes.hidden,
        heads=fields.size("heads", "index_n_heads", default=widths.index_heads),
        width=fields.size("head width", "index_head_dim", default=widths.index_width),
        q_rank=q_rank,
    )
    top_k = fields.size("window", "index_topk", default=widths.top_k)
    return {"indexer": indexer if _has_indexer(fields, index) else None, "top_k": top_k}


def _has_indexer(fields: Fields, index: int) -> bool:
    types = fields.strings("indexer_types")
    if types is not None:
        return index < len(types) and types[index] == "full"
    pattern = fields.text("index_topk_pattern", "")
    if pattern:
        return pattern[index % len(pattern)] == "F"
    every = fields.size("layers", "index_topk_freq", default=1)
    skipped = fields.number("index_skip_topk_offset", 2)
    return max(index - skipped + 1, 0) % every == 0


def latent_layers(
    widths: Widths, routed: Callable[[Fields, int], bool] | None
) -> Callable[[Reading, int], tuple[Block, ...]]:
    """Latent attention with an MLP, or with experts and shared ones where `routed` says so."""

    def blocks(reading: Reading, index: int) -> tuple[Block, ...]:
        fields, attention = reading.fields, latent(reading, index, widths)
        if routed is None or not routed(fields, index):
            return attention, reading.mlp()
        own = fields.size("intermediate", "moe_intermediate_size")
        return attention, reading.moe(own, shared=own * fields.number("n_shared_experts", 0))

    return blocks


def _first_dense(fields: Fields, index: int) -> bool:
    """GLM-4 MoE Lite: by `mlp_layer_types`, else every layer but the first."""
    types = fields.strings("mlp_layer_types")
    return types[index] == "sparse" if types is not None and index < len(types) else index > 0


LATENT: dict[str, Family] = {
    "deepseek_v2": Family(blocks=latent_layers(Widths(q_rank=1536), after_first(0))),
    "deepseek_v3": Family(blocks=latent_layers(_V3, after_first(3))),
    "deepseek_v32": Family(blocks=latent_layers(Widths(q_rank=1536, index_heads=64), after_first(3))),
    "glm4_moe_lite": Family(
        blocks=latent_layers(Widths(q_rank=768, nope=192, value=256), _first_dense), head_dim_read=False
    ),
    "glm_moe_dsa": Family(
        blocks=latent_layers(Widths(q_rank=2048, nope=192, value=256, index_heads=32), after_first(3))
    ),
    "kimi_k2": Family(blocks=latent_layers(_V3, after_first(1))),
    "minicpm3": Family(
        tied=True,
        blocks=latent_layers(Widths(q_rank=768, kv_rank=256, nope=64, rope=32, value=0), None),
    ),
}
"""Architectures with latent attention."""
