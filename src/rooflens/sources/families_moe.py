"""Mixture-of-experts architectures with ordinary attention, by `model_type`.

Defaults are those of the reference framework's configuration classes (transformers 5.24) for fields that
a config.json leaves out; tests/data/reference_moe.jsonl holds its counts for each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rooflens.core.blocks import Block, Linear, Mlp, Norm
from rooflens.sources.adjust import dbrx
from rooflens.sources.family import LAYER, LAYER_UNBIASED, Family, flag
from rooflens.sources.fields import Fields
from rooflens.sources.reading import Reading
from rooflens.sources.windows import (
    after_prefix,
    all_or_none,
    alternating,
    always_from_layer,
    chunked,
    every_layer,
    first_odd,
    flagged,
)

_ATTENTION = ("attention_bias", False)
_POST_NORMS = ("post_attention_norm", "post_feedforward_norm")
_FOUR_NORMS = ("input_norm", "post_attention_norm", "pre_feedforward_norm", "post_feedforward_norm")

Routed = Callable[[Fields, int], bool]


def always(_fields: Fields, _index: int) -> bool:
    """Every layer has experts."""
    return True


def after_first(default: int) -> Routed:
    """Layers from `first_k_dense_replace` on have experts; `mlp_layer_types` wins where it is there."""

    def rule(fields: Fields, index: int) -> bool:
        types = fields.strings("mlp_layer_types")
        if types is not None:
            return index < len(types) and types[index] == "sparse"
        return index >= fields.number("first_k_dense_replace", default)

    return rule


def sparse_step(fields: Fields, index: int) -> bool:
    """Qwen: each `decoder_sparse_step`-th layer has experts unless `mlp_only_layers` names it."""
    step = fields.size("layers", "decoder_sparse_step", default=1)
    return (index + 1) % step == 0 and index not in fields.members("mlp_only_layers")


def mixture(
    width: tuple[str, ...],
    *,
    routed: Routed = always,
    dense: tuple[str, ...] = (),
    shared: str = "",
    shared_times: str = "",
    shared_gate: bool = False,
    router_bias: bool = False,
    expert_bias: bool = False,
) -> Callable[[Reading, int], tuple[Block, ...]]:
    """Attention and experts, or a dense MLP where `routed` says so.

    width: field of an expert's width. dense: field of a dense layer's width. shared: field of the shared expert's
    width; shared_times: field of how many shared experts of an expert's width there are.
    """

    def blocks(reading: Reading, index: int) -> tuple[Block, ...]:
        fields = reading.fields
        if not routed(fields, index):
            wide = fields.size("intermediate", *dense) if dense else None
            return reading.attention(index), reading.mlp(wide)
        own = fields.size("intermediate", *width)
        both = fields.number(shared, 0) if shared else own * fields.number(shared_times, 0) if shared_times else 0
        expert = Mlp(reading.sizes.hidden, own, reading.family.gated, expert_bias, expert_bias)
        moe = reading.moe(
            own, shared=both, expert=expert, shared_gate=shared_gate and both > 0, router_bias=router_bias
        )
        return reading.attention(index), moe

    return blocks


def _llama4(reading: Reading, index: int) -> tuple[Block, ...]:
    """Llama 4: experts each `interleave_moe_layer_step`-th layer, with one shared expert as wide as they are."""
    fields = reading.fields
    step = fields.size("layers", "interleave_moe_layer_step", default=1)
    listed = fields.members("moe_layers")
    routed = index in listed if listed else (index + 1) % step == 0
    if not routed:
        return reading.attention(index), reading.mlp(fields.size("intermediate", "intermediate_size_mlp"))
    return reading.attention(index), reading.moe(reading.sizes.width, shared=reading.sizes.width)


def _ernie(reading: Reading, index: int) -> tuple[Block, ...]:
    """Ernie 4.5: experts between two layers, each `moe_layer_interval`-th; a correction bias that is a parameter."""
    fields = reading.fields
    last = fields.values.get("moe_layer_end_index")
    end = reading.sizes.depth - 1 if last in (None, -1) else fields.number("moe_layer_end_index", 0)
    interval = fields.size("layers", "moe_layer_interval", default=1)
    start = fields.number("moe_layer_start_index", 1)
    if (index + 1) % interval or not start <= index <= end:
        return reading.attention(index), reading.mlp()
    own = fields.size("intermediate", "moe_intermediate_size", default=1536)
    moe = reading.moe(own, shared=own * fields.number("moe_num_shared_experts", 2))
    bias = flag(fields, ("use_bias", False))
    shared = replace(moe.shared, up_bias=bias, down_bias=bias) if moe.shared else None
    return reading.attention(index), replace(moe, routing_params=moe.experts, shared=shared)


def _afmoe(reading: Reading, index: int) -> tuple[Block, ...]:
    """AFMoE: dense layers first, then experts with a correction bias that is a parameter."""
    fields = reading.fields
    if index < fields.number("num_dense_layers", 1):
        return reading.attention(index), reading.mlp()
    own = fields.size("intermediate", "moe_intermediate_size", default=1408)
    moe = reading.moe(own, shared=own * fields.number("num_shared_experts", 2))
    return reading.attention(index), replace(moe, routing_params=moe.experts)


def _mimo(reading: Reading, index: int) -> tuple[Block, ...]:
    """MiMo-V2-Flash: K wider than V; windowed layers have their own KV heads, and sinks."""
    fields, sizes = reading.fields, reading.sizes
    windowed = reading.spans[index].window is not None
    value = fields.size("head width", "v_head_dim", default=128)
    kv = fields.size("heads", "swa_num_key_value_heads", default=2 * sizes.kv_heads) if windowed else sizes.kv_heads
    attention = reading.attention(index, kv_heads=kv, d_v=value, sinks=windowed)
    if _dense(fields, index):
        return attention, reading.mlp()
    return attention, reading.moe(fields.size("intermediate", "moe_intermediate_size", default=2048))


def _dense(fields: Fields, index: int) -> bool:
    """Whether a layer has no experts: by `mlp_layer_types`, by `moe_layer_freq` (0 or 1 a layer), or as the first."""
    types = fields.strings("mlp_layer_types")
    if types is not None:
        return types[index] == "dense"
    marks = fields.values.get("moe_layer_freq")
    return not fields.numbers("moe_layer_freq")[index] if isinstance(marks, list) else index == 0


def _gemma4(reading: Reading, index: int) -> tuple[Block, ...]:
    """Gemma 4: full layers with wider heads, K and V from one projection; experts beside the dense MLP."""
    fields, sizes = reading.fields, reading.sizes
    windowed = reading.spans[index].window is not None
    owns = index < sizes.depth - fields.number("num_kv_shared_layers", 0)
    attention = reading.attention(index, owns_cache=owns)
    if not windowed:
        width = fields.size("head width", "global_head_dim", default=512)
        same = fields.flag("attention_k_eq_v", False)
        kv = fields.size("heads", "num_global_key_value_heads", default=sizes.kv_heads) if same else sizes.kv_heads
        changed = {"d_k": width, "d_v": width, "kv_heads": kv, "value_proj": not same}
        attention = reading.attention(index, owns_cache=owns, **changed)
    wide = 2 if not owns and fields.flag("use_double_wide_mlp", False) else 1
    blocks: list[Block] = [attention, reading.mlp(sizes.width * wide)]
    if fields.flag("enable_moe_block", False):
        moe = reading.moe(fields.size("intermediate", "moe_intermediate_size"))
        blocks.append(replace(moe, routing_params=sizes.hidden + moe.experts))
    if _per_layer(reading):
        blocks.append(Mlp(sizes.hidden, _per_layer(reading), gated=False, name="per_layer_"))
    return tuple(blocks)


def _gemma4_norms(reading: Reading, _index: int) -> tuple[Norm, ...]:
    """Four norms a layer, three more beside experts, and one of the inputs of each layer."""
    names = list(_FOUR_NORMS)
    if reading.fields.flag("enable_moe_block", False):
        names += ["post_feedforward_norm_1", "pre_feedforward_norm_2", "post_feedforward_norm_2"]
    if _per_layer(reading):
        names.append("per_layer_input_norm")
    return reading.norms(*names)


def _gemma4_extra(reading: Reading) -> int:
    """The table of the inputs of each layer, which a lookup reads, and the norm of their projection."""
    width = _per_layer(reading)
    if not width:
        return 0
    rows = reading.fields.size("vocabulary", "vocab_size_per_layer_input", default=262144)
    return rows * reading.sizes.depth * width + width


def _gemma4_inputs(reading: Reading) -> tuple[Linear, ...]:
    """The projection of the hidden state to the inputs of every layer."""
    width = _per_layer(reading) * reading.sizes.depth
    return (Linear("per_layer_model_projection", reading.sizes.hidden, width),) if width else ()


def _per_layer(reading: Reading) -> int:
    """Width of Gemma's inputs of each layer; 0 turns them off."""
    return reading.fields.number("hidden_size_per_layer_input", 256)


_GEMMA4 = Family(
    tied=True,
    qkv_bias=_ATTENTION,
    out_bias=_ATTENTION,
    head_dim=256,
    kv_heads=4,
    qk_norm="head",
    spans=alternating(512, 6, last_full=True),
    blocks=_gemma4,
    norms=_gemma4_norms,
    model_extra=_gemma4_extra,
    inputs=_gemma4_inputs,
)

_QWEN_MOE: dict[str, Any] = {"dense": ("intermediate_size",), "routed": sparse_step}
_SHARED: dict[str, Any] = {"dense": ("intermediate_size",), "shared_times": "n_shared_experts"}

MOE: dict[str, Family] = {
    "afmoe": Family(
        qkv_bias=_ATTENTION,
        out_bias=_ATTENTION,
        head_dim=128,
        qk_norm="head",
        gate="own",
        block_norms=_FOUR_NORMS,
        spans=alternating(1024, 4, key="global_attn_every_n_layers"),
        blocks=_afmoe,
    ),
    "cohere2_moe": Family(
        norm=LAYER_UNBIASED,
        tied=True,
        parallel=True,
        qkv_bias=_ATTENTION,
        out_bias=_ATTENTION,
        head_dim=128,
        spans=after_prefix(4096, 4),
        blocks=mixture(
            ("intermediate_size",),
            routed=after_first(0),
            dense=("prefix_dense_intermediate_size",),
            shared_times="num_shared_experts",
        ),
    ),
    "dbrx": Family(
        norm=LAYER_UNBIASED, fused_qkv=True, head_dim_read=False, adjust=dbrx, blocks=mixture(("intermediate_size",))
    ),
    "dots1": Family(
        qkv_bias=_ATTENTION,
        out_bias=_ATTENTION,
        kv_heads=32,
        qk_norm="head",
        spans=always_from_layer,
        blocks=mixture(("moe_intermediate_size",), routed=after_first(0), **_SHARED),
    ),
    "ernie4_5_moe": Family(
        tied=True,
        qkv_bias=("use_bias", False),
        out_bias=("use_bias", False),
        up_bias=("use_bias", False),
        down_bias=("use_bias", False),
        head_bias=("use_bias", False),
        kv_heads=4,
        blocks=_ernie,
    ),
    "exaone_moe": Family(
        kv_heads=32,
        qk_norm="head",
        spans=alternating(4096, 4),
        blocks=mixture(
            ("moe_intermediate_size",),
            routed=after_first(1),
            dense=("intermediate_size",),
            shared_times="num_shared_experts",
        ),
    ),
    "flex_olmo": Family(
        qkv_bias=_ATTENTION,
        out_bias=_ATTENTION,
        block_norms=_POST_NORMS,
        qk_norm="whole",
        blocks=mixture(("intermediate_size",)),
    ),
    "gemma4_text": _GEMMA4,
    "glm4_moe": Family(
        qkv_bias=_ATTENTION,
        kv_heads=8,
        qk_norm="head",
        qk_norm_if=("use_qk_norm", False),
        blocks=mixture(("moe_intermediate_size",), routed=after_first(1), **_SHARED),
    ),
    "gpt_oss": Family(
        qkv_bias=("attention_bias", True),
        out_bias=("attention_bias", True),
        head_dim=64,
        kv_heads=8,
        sinks=True,
        spans=alternating(128, 2),
        blocks=mixture(("intermediate_size",), router_bias=True, expert_bias=True),
    ),
    "granitemoe": Family(qkv_bias=_ATTENTION, out_bias=_ATTENTION, blocks=mixture(("intermediate_size",))),
    "granitemoeshared": Family(
        qkv_bias=_ATTENTION,
        out_bias=_ATTENTION,
        blocks=mixture(("intermediate_size",), shared="shared_intermediate_size"),
    ),
    "hunyuan_v1_moe": Family(
        qkv_bias=_ATTENTION,
        out_bias=_ATTENTION,
        qk_norm="head",
        blocks=mixture(("intermediate_size",), shared="intermediate_size"),
    ),
    "hy_v3": Family(
        qkv_bias=_ATTENTION,
        out_bias=_ATTENTION,
        head_dim=128,
        kv_heads=8,
        qk_norm="head",
        blocks=mixture(
            ("moe_intermediate_size",),
            routed=after_first(1),
            dense=("intermediate_size",),
            shared_times="num_shared_experts",
        ),
    ),
    "llama4_text": Family(
        qkv_bias=_ATTENTION, out_bias=_ATTENTION, head_dim=128, kv_heads=8, spans=chunked, blocks=_llama4
    ),
    "mimo_v2_flash": Family(
        qkv_bias=_ATTENTION, head_dim=192, kv_heads=4, spans=flagged("hybrid_layer_pattern", 129, 6), blocks=_mimo
    ),
    "minimax_m2": Family(head_dim=128, kv_heads=8, qk_norm="whole", blocks=mixture(("intermediate_size",))),
    "mixtral": Family(kv_heads=8, spans=every_layer(None), blocks=mixture(("intermediate_size",))),
    "olmoe": Family(qkv_bias=_ATTENTION, out_bias=_ATTENTION, qk_norm="whole", blocks=mixture(("intermediate_size",))),
    "phimoe": Family(
        norm=LAYER,
        qkv_bias=_ATTENTION,
        out_bias=_ATTENTION,
        head_bias=("lm_head_bias", False),
        kv_heads=8,
        spans=every_layer(None),
        blocks=mixture(("intermediate_size",)),
    ),
    "qwen2_moe": Family(
        qkv_bias=("qkv_bias", True),
        kv_heads=16,
        spans=first_odd,
        blocks=mixture(
            ("moe_intermediate_size",), shared="shared_expert_intermediate_size", shared_gate=True, **_QWEN_MOE
        ),
    ),
    "qwen3_moe": Family(
        qkv_bias=_ATTENTION,
        out_bias=_ATTENTION,
        kv_heads=4,
        qk_norm="head",
        spans=all_or_none,
        blocks=mixture(("moe_intermediate_size",), **_QWEN_MOE),
    ),
    "qwen3_vl_moe_text": Family(
        qkv_bias=_ATTENTION,
        out_bias=_ATTENTION,
        kv_heads=16,
        qk_norm="head",
        blocks=mixture(("moe_intermediate_size",), **_QWEN_MOE),
    ),
    "solar_open": Family(
        qkv_bias=_ATTENTION,
        out_bias=_ATTENTION,
        head_dim=128,
        kv_heads=8,
        blocks=mixture(("moe_intermediate_size",), shared_times="n_shared_experts"),
    ),
}
