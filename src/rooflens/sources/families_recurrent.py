"""Recurrent and hybrid architectures, by `model_type`.

Defaults are those of the reference framework's configuration classes (transformers 5.24).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rooflens.core.blocks import Block, Mlp, Norm
from rooflens.core.gated_recurrence import RgLru, Rwkv4, RwkvChannelMix
from rooflens.core.linear_attention import DeltaNet, LightningAttention, ShortConv
from rooflens.core.recurrent import Mamba, Mamba2
from rooflens.sources.adjust import kimi_linear, lfm2, nemotron_h, recurrent_gemma
from rooflens.sources.families_latent import Widths, latent
from rooflens.sources.families_moe import after_first, always, sparse_step
from rooflens.sources.family import LAYER, Family
from rooflens.sources.fields import Fields
from rooflens.sources.reading import Reading
from rooflens.sources.windows import every_layer

_ATTENTION = ("attention_bias", False)
_MLP = ("mlp_bias", False)


def kind(reading: Reading, index: int, default: Callable[[int], str], *names: str) -> str:
    """The kind of layer `index`: by the first of the fields `names` that is there, else `default`.

    Raises:
        ConfigError: a list of another length than there are layers.
    """
    fields = reading.fields
    for name in names:
        listed = fields.strings(name)
        if listed is not None:
            fields.for_each_layer(name, len(listed), reading.sizes.depth)
            return listed[index]
    return default(index)


# Mamba


def _mamba(reading: Reading, prefix: str, **changed: Any) -> Mamba:
    fields, hidden = reading.fields, reading.sizes.hidden
    inner = hidden * fields.size("layers", f"{prefix}expand", "expand", default=2)
    rank = math.ceil(hidden / 16)
    if isinstance(fields.values.get(f"{prefix}dt_rank", fields.values.get("time_step_rank")), int):
        rank = fields.size("hidden", f"{prefix}dt_rank", "time_step_rank")
    return replace(
        Mamba(
            hidden=hidden,
            inner=inner,
            state=fields.size("head width", f"{prefix}d_state", "state_size", default=16),
            conv=fields.size("layers", f"{prefix}d_conv", "conv_kernel", default=4),
            rank=rank,
        ),
        **changed,
    )


def _mamba_only(reading: Reading, _index: int) -> tuple[Block, ...]:
    fields = reading.fields
    biases = {"proj_bias": fields.flag("use_bias", False), "conv_bias": fields.flag("use_conv_bias", True)}
    return (_mamba(reading, "", **biases),)


def _jamba(reading: Reading, index: int) -> tuple[Block, ...]:
    """Jamba: one attention layer in eight, experts in every other layer; no rotary embedding."""
    fields = reading.fields
    attends = index % fields.size("layers", "attn_layer_period", default=8) == fields.number("attn_layer_offset", 4)
    routed = index % fields.size("layers", "expert_layer_period", default=2) == fields.number("expert_layer_offset", 1)
    mixer: Block = reading.attention(index)
    if not attends:
        biases = {
            "proj_bias": fields.flag("mamba_proj_bias", False),
            "conv_bias": fields.flag("mamba_conv_bias", True),
        }
        mixer = _mamba(reading, "mamba_", inner_norms=True, **biases)
    several = fields.number("num_experts", 16) > 1
    return mixer, reading.moe(reading.sizes.width) if routed and several else reading.mlp()


# Mamba-2


def _mamba2(reading: Reading, prefix: str, **changed: Any) -> Mamba2:
    """Mamba-2 under the names that start with `mamba_` (Bamba, Falcon-H1, Granite hybrid), or plain ones."""
    fields = reading.fields
    heads = fields.size("heads", f"{prefix}n_heads", "mamba_num_heads", "num_heads", default=128)
    inner = reading.sizes.hidden * fields.size("layers", f"{prefix}expand", "expand", default=2)
    stated = [n for n in (f"{prefix}d_head", "mamba_head_dim", "head_dim") if isinstance(fields.values.get(n), int)]
    if stated:
        width = fields.size("head width", stated[0])
    elif inner % heads == 0 or "head_dim" in changed:
        width = inner // heads
    else:
        raise fields.fail(f"{prefix}n_heads is {heads}, the inner width is {inner:,}; expected a divisor of it")
    return replace(
        Mamba2(
            hidden=reading.sizes.hidden,
            heads=heads,
            head_dim=width,
            groups=fields.size("heads", f"{prefix}n_groups", "n_groups", default=1),
            state=fields.size("head width", f"{prefix}d_state", "ssm_state_size", "state_size", default=256),
            conv=fields.size("layers", f"{prefix}d_conv", "conv_kernel", default=4),
            chunk=fields.size("window", f"{prefix}chunk_size", "chunk_size", default=256),
            proj_bias=fields.flag(f"{prefix}proj_bias", False),
            conv_bias=fields.flag(f"{prefix}conv_bias", True),
        ),
        **changed,
    )


def _mamba2_only(reading: Reading, _index: int) -> tuple[Block, ...]:
    fields = reading.fields
    return (
        _mamba2(
            reading,
            "",
            head_dim=fields.size("head width", "head_dim", default=64),
            groups=fields.size("heads", "n_groups", default=8),
            state=fields.size("head width", "state_size", default=128),
            proj_bias=fields.flag("use_bias", False),
            conv_bias=fields.flag("use_conv_bias", True),
        ),
    )


def _bamba(reading: Reading, index: int) -> tuple[Block, ...]:
    attends = index in reading.fields.members("attn_layer_indices")
    return reading.attention(index) if attends else _mamba2(reading, "mamba_"), reading.mlp()


def _falcon_h1(reading: Reading, index: int) -> tuple[Block, ...]:
    """Falcon-H1: attention and Mamba-2 side by side on the same input."""
    fields = reading.fields
    inner = fields.size("intermediate", "mamba_d_ssm", default=1024)
    if "mamba_d_ssm" in fields.values and fields.is_null("mamba_d_ssm"):
        inner = reading.sizes.hidden * fields.size("layers", "mamba_expand", default=2)
    heads = fields.size("heads", "mamba_n_heads", default=128)
    if inner % heads:
        raise fields.fail(f"mamba_n_heads is {heads}, mamba_d_ssm is {inner:,}; expected a divisor of it")
    mixer = _mamba2(reading, "mamba_", head_dim=inner // heads, gated_norm=fields.flag("mamba_rms_norm", False))
    return reading.attention(index), mixer, reading.mlp()


def _granite_hybrid(reading: Reading, index: int) -> tuple[Block, ...]:
    """Granite 4: Mamba-2 or attention by `layer_types`; experts beside a shared MLP, or the shared MLP alone."""
    fields = reading.fields
    mixes = kind(reading, index, lambda _: "mamba", "layer_types", "layers_block_type")
    mixer = reading.attention(index) if mixes == "attention" else _mamba2(reading, "mamba_")
    shared = fields.size("intermediate", "shared_intermediate_size", default=1024)
    if not fields.number("num_local_experts", 8):
        return mixer, reading.mlp(shared)
    return mixer, reading.moe(reading.sizes.width, shared=shared)


def _nemotron_h(reading: Reading, index: int) -> tuple[Block, ...]:
    """Nemotron-H: one block a layer; Nemotron 3 Super projects to a narrower latent before its experts."""
    fields = reading.fields
    block = fields.text("hybrid_override_pattern", "")[index]
    if block == "M":
        biases = {"proj_bias": fields.flag("use_bias", False), "conv_bias": fields.flag("use_conv_bias", True)}
        groups = fields.size("heads", "n_groups", default=8)
        return (
            _mamba2(
                reading, "", head_dim=fields.size("head width", "mamba_head_dim", default=64), groups=groups, **biases
            ),
        )
    if block == "*":
        return (reading.attention(index),)
    if block == "-":
        return (reading.mlp(),)
    return (_nemotron_experts(reading),)


def _nemotron_experts(reading: Reading) -> Block:
    fields = reading.fields
    own = fields.size("intermediate", "moe_intermediate_size", default=7688)
    shared = fields.size("intermediate", "moe_shared_expert_intermediate_size", default=7688)
    count = fields.number("n_shared_experts", 1)
    latent_width = fields.number("moe_latent_size", 0) or None
    expert = Mlp(latent_width or reading.sizes.hidden, own, gated=False)
    return reading.moe(own, shared=shared * count, expert=expert, latent=latent_width)


def _one_norm(reading: Reading, _index: int) -> tuple[Norm, ...]:
    return reading.norms("norm")


# Gated delta net


def _delta(reading: Reading) -> DeltaNet:
    fields = reading.fields
    return _divided(
        fields,
        DeltaNet(
            hidden=reading.sizes.hidden,
            k_heads=fields.size("heads", "linear_num_key_heads", default=16),
            d_k=fields.size("head width", "linear_key_head_dim", default=128),
            v_heads=fields.size("heads", "linear_num_value_heads", default=32),
            d_v=fields.size("head width", "linear_value_head_dim", default=128),
            conv=fields.size("layers", "linear_conv_kernel_dim", default=4),
        ),
    )


def _divided(fields: Fields, mixer: DeltaNet) -> DeltaNet:
    if mixer.v_heads % mixer.k_heads:
        raise fields.fail(
            f"linear_num_value_heads is {mixer.v_heads}, linear_num_key_heads is {mixer.k_heads}; expected a multiple"
        )
    return mixer


def _interval(reading: Reading, index: int) -> bool:
    """Whether layer `index` is linear: by `layer_types`, else all but each `full_attention_interval`-th."""
    fields = reading.fields
    every = fields.size("layers", "full_attention_interval", default=4)
    default = lambda i: "full_attention" if (i + 1) % every == 0 else "linear_attention"  # noqa: E731
    return kind(reading, index, default, "layer_types") == "linear_attention"


def _qwen_next(routed: Callable[[Fields, int], bool] | None) -> Callable[[Reading, int], tuple[Block, ...]]:
    """Qwen3-Next and Qwen3.5: three linear layers, then one with gated attention; experts where `routed` says so."""

    def blocks(reading: Reading, index: int) -> tuple[Block, ...]:
        fields = reading.fields
        mixer = _delta(reading) if _interval(reading, index) else reading.attention(index)
        if routed is None or not routed(fields, index):
            return mixer, reading.mlp()
        own = fields.size("intermediate", "moe_intermediate_size", default=512)
        shared = fields.size("intermediate", "shared_expert_intermediate_size", default=512)
        return mixer, reading.moe(own, shared=shared, shared_gate=True)

    return blocks


def _olmo_hybrid(reading: Reading, index: int) -> tuple[Block, ...]:
    """OLMo hybrid: three gated delta layers with narrow keys, then one attention layer."""
    fields, sizes = reading.fields, reading.sizes
    default = lambda i: "full_attention" if i % 4 == 3 else "linear_attention"  # noqa: E731
    if kind(reading, index, default, "layer_types") != "linear_attention":
        return reading.attention(index), reading.mlp()
    heads = fields.size("heads", "linear_num_key_heads", default=sizes.heads)
    key = fields.size("head width", "linear_key_head_dim", default=3 * sizes.hidden // (4 * heads))
    mixer = DeltaNet(
        hidden=sizes.hidden,
        k_heads=heads,
        d_k=key,
        v_heads=fields.size("heads", "linear_num_value_heads", default=sizes.heads),
        d_v=fields.size("head width", "linear_value_head_dim", default=2 * key),
        conv=fields.size("layers", "linear_conv_kernel_dim", default=4),
    )
    return _divided(fields, mixer), reading.mlp()


def _kimi_linear(reading: Reading, index: int) -> tuple[Block, ...]:
    """Kimi Linear: delta layers with low-rank gates, latent attention without rotation, experts after the first."""
    fields = reading.fields
    linear = fields.child("linear_attn_config")
    width = linear.size("head width", "head_dim", default=fields.size("head width", "linear_head_dim", default=128))
    heads = linear.size("heads", "num_heads", default=fields.size("heads", "linear_num_heads", default=32))
    conv = fields.size("layers", "linear_conv_kernel_dim", default=4)
    mixer: Block = replace(latent(reading, index, Widths(q_rank=0)), rotary=False)
    default = lambda i: "full_attention" if i and i % 4 == 0 else "linear_attention"  # noqa: E731
    if kind(reading, index, default, "layer_types") != "full_attention":
        mixer = DeltaNet(
            hidden=reading.sizes.hidden,
            k_heads=heads,
            d_k=width,
            v_heads=heads,
            d_v=width,
            conv=linear.size("layers", "short_conv_kernel_size", default=conv),
            low_rank=width,
        )
    if not after_first(1)(fields, index):
        return mixer, reading.mlp()
    own = fields.size("intermediate", "moe_intermediate_size", default=1024)
    return mixer, reading.moe(own, shared=own * fields.number("num_shared_experts", 1))


# Others


def _minimax(reading: Reading, index: int) -> tuple[Block, ...]:
    """MiniMax-01: lightning attention, softmax attention by `layer_types` (every other layer), experts everywhere."""
    fields, sizes = reading.fields, reading.sizes
    default = lambda i: "linear_attention" if i % 2 else "full_attention"  # noqa: E731
    linear = kind(reading, index, default, "layer_types") == "linear_attention"
    mixer: Block = reading.attention(index)
    if linear:
        chunk = fields.size("window", "block_size", default=256)
        mixer = LightningAttention(sizes.hidden, sizes.heads, sizes.head_dim, chunk)
    return mixer, reading.moe(sizes.width)


def _lfm2(reading: Reading, index: int) -> tuple[Block, ...]:
    """LFM2: gated short convolutions, attention by `layer_types` or `full_attn_idxs`."""
    fields, sizes = reading.fields, reading.sizes
    listed = fields.members("full_attn_idxs")
    attends = fields.values.get("full_attn_idxs") is None
    default = lambda i: "full_attention" if attends or i in listed else "conv"  # noqa: E731
    mixer: Block = reading.attention(index)
    if kind(reading, index, default, "layer_types") != "full_attention":
        mixer = ShortConv(
            sizes.hidden, fields.size("layers", "conv_L_cache", default=3), fields.flag("conv_bias", False)
        )
    if fields.has("num_experts"):
        if index < fields.number("num_dense_layers", 2):
            return mixer, reading.mlp()
        return mixer, reading.moe(fields.size("intermediate", "moe_intermediate_size", default=1792))
    return mixer, reading.mlp(_lfm2_width(fields))


def _lfm2_width(fields: Fields) -> int:
    """Two thirds of the width, times a factor, rounded up to a multiple, unless the adjustment is off."""
    width = fields.size("intermediate", "block_ff_dim", "intermediate_size", default=12288)
    if not fields.flag("block_auto_adjust_ff_dim", True):
        return width
    factor = fields.values.get("block_ffn_dim_multiplier", 1.0)
    scaled = int(2 * width / 3)
    if isinstance(factor, (int, float)) and not isinstance(factor, bool) and 0 < factor < 100:
        scaled = int(factor * scaled)
    multiple = fields.size("intermediate", "block_multiple_of", default=256)
    return multiple * -(-scaled // multiple)


def _recurrent_gemma(reading: Reading, index: int) -> tuple[Block, ...]:
    """RecurrentGemma: two recurrent layers, then one with windowed attention; the MLP is half as wide as stated."""
    fields, sizes = reading.fields, reading.sizes
    pattern = fields.strings("block_types") or fields.strings("_block_types") or ("recurrent", "recurrent", "attention")
    feed = reading.mlp(sizes.width // 2, up_bias=True, down_bias=True)
    if pattern[index % len(pattern)] == "attention":
        return reading.attention(index), feed
    width = fields.size("hidden", "lru_width", default=sizes.hidden)
    conv = fields.size("layers", "conv1d_width", default=4)
    if width % sizes.heads:
        raise fields.fail(f"num_attention_heads is {sizes.heads}, lru_width is {width:,}; expected a divisor of it")
    return RgLru(sizes.hidden, width, sizes.heads, conv), feed


def _rwkv(reading: Reading, _index: int) -> tuple[Block, ...]:
    fields, hidden = reading.fields, reading.sizes.hidden
    wide = fields.size("intermediate", "intermediate_size", default=4 * hidden)
    return Rwkv4(hidden, fields.size("hidden", "attention_hidden_size", default=hidden)), RwkvChannelMix(hidden, wide)


_QWEN_NEXT = Family(
    qkv_bias=_ATTENTION, out_bias=_ATTENTION, head_dim=256, kv_heads=2, qk_norm="head", gate="query",
    blocks=_qwen_next(sparse_step),
)  # fmt: skip
_HYBRID = Family(qkv_bias=_ATTENTION, out_bias=_ATTENTION, up_bias=_MLP, down_bias=_MLP, kv_heads=8)
_MAMBA = Family(tied=True, attends=False, feeds=False, norms=_one_norm, blocks=_mamba_only)

RECURRENT: dict[str, Family] = {
    "bamba": replace(_HYBRID, blocks=_bamba),
    "falcon_h1": replace(_HYBRID, blocks=_falcon_h1),
    "falcon_mamba": _MAMBA,
    "granitemoehybrid": Family(qkv_bias=_ATTENTION, out_bias=_ATTENTION, blocks=_granite_hybrid),
    "jamba": Family(kv_heads=8, rotary=False, blocks=_jamba),
    "kimi_linear": Family(blocks=_kimi_linear, adjust=kimi_linear),
    "lfm2": Family(tied=True, kv_heads=8, qk_norm="head", blocks=_lfm2, gelu_width=True, adjust=lfm2),
    "lfm2_moe": Family(tied=True, kv_heads=8, qk_norm="head", blocks=_lfm2, adjust=lfm2),
    "mamba": _MAMBA,
    "mamba2": replace(_MAMBA, tied=False, blocks=_mamba2_only),
    "minimax": Family(kv_heads=8, spans=every_layer(None), blocks=_minimax),
    "nemotron_h": Family(
        qkv_bias=_ATTENTION, out_bias=_ATTENTION, up_bias=_MLP, down_bias=_MLP, gated=False, rotary=False,
        head_dim=128, kv_heads=8, norms=_one_norm, blocks=_nemotron_h, adjust=nemotron_h,
    ),
    "olmo_hybrid": Family(qkv_bias=_ATTENTION, out_bias=_ATTENTION, qk_norm="whole", blocks=_olmo_hybrid),
    "qwen3_5_moe_text": replace(_QWEN_NEXT, blocks=_qwen_next(always), feeds=False),
    "qwen3_5_text": replace(_QWEN_NEXT, kv_heads=4, blocks=_qwen_next(None)),
    "qwen3_next": _QWEN_NEXT,
    "recurrent_gemma": Family(tied=True, qkv_bias=_ATTENTION, out_bias=True, spans=every_layer(2048),
        blocks=_recurrent_gemma, adjust=recurrent_gemma),
    "rwkv": Family(norm=LAYER, attends=False, feeds=False, blocks=_rwkv, embedding_norm=True),
}  # fmt: skip
"""Recurrent and hybrid architectures."""
