"""Architectures whose fields mean something else: each becomes the usual fields before it is read."""

from __future__ import annotations

from typing import Any

from rooflens.sources.fields import LIMITS, Fields, show


def _with(fields: Fields, **values: Any) -> Fields:
    return Fields({**fields.values, **values}, fields.origin)


def bloom(fields: Fields) -> Fields:
    """BLOOM: `n_embed` overrides `hidden_size`, and the MLP is always four times as wide."""
    hidden = fields.size("hidden", "n_embed", "hidden_size", "n_embd")
    return _with(fields, hidden_size=hidden, intermediate_size=4 * hidden, n_inner=None)


def mpt(fields: Fields) -> Fields:
    """MPT: the MLP is always four times as wide; key-value heads are nested in `attn_config`."""
    kv = fields.nested("attn_config").get("kv_n_heads")
    return _with(fields, intermediate_size=4 * fields.size("hidden", "d_model"), num_key_value_heads=kv)


def dbrx(fields: Fields) -> Fields:
    """DBRX: key-value heads are nested in `attn_config`, experts in `ffn_config`."""
    attention, experts = fields.nested("attn_config"), fields.nested("ffn_config")
    return _with(
        fields,
        num_key_value_heads=attention.get("kv_n_heads", 1),
        intermediate_size=experts.get("ffn_hidden_size", 3584),
        num_experts=experts.get("moe_num_experts", 4),
        num_experts_per_tok=experts.get("moe_top_k", 1),
    )


def gpt_neo(fields: Fields) -> Fields:
    """GPT-Neo: `attention_types` lists patterns and how often each repeats; `window_size` is the window."""
    types = fields.values.get("attention_types", [[["global", "local"], 12]])
    spread: list[str] = []
    try:
        for pattern, repeats in types:
            spread += [str(kind) for kind in pattern] * min(int(repeats), LIMITS["layers"])
    except (OverflowError, TypeError, ValueError) as cause:
        raise fields.fail(f"attention_types is {show(types)}; expected pairs of a pattern and a number") from cause
    return _with(fields, attention_layers=spread[: LIMITS["layers"]])


def gpt_bigcode(fields: Fields) -> Fields:
    """StarCoder 1: `multi_query` (default true) is one key-value head."""
    return _with(fields, num_key_value_heads=1 if fields.flag("multi_query", True) else None)


def falcon(fields: Fields) -> Fields:
    """Falcon: the old decoder has one key-value head or as many as heads, the new one `num_kv_heads`.

    A parallel layer has one norm in the old decoder; two in the new one unless `num_ln_in_parallel_attn` is 1.
    """
    new = fields.flag("new_decoder_architecture", False)
    if new:
        kv: int | None = fields.values.get("num_kv_heads")
    else:
        kv = 1 if fields.flag("multi_query", True) else None
    norms = fields.size("layers", "num_ln_in_parallel_attn", default=2 if new else 1)
    parallel = new or fields.flag("parallel_attn", True)
    return _with(fields, num_key_value_heads=kv, parallel_norms=min(norms, 2), parallel_attn=parallel)


def chatglm(fields: Fields) -> Fields:
    """ChatGLM: `multi_query_group_num` key-value heads of `kv_channels` each where `multi_query_attention` is set."""
    groups = fields.values.get("multi_query_group_num") if fields.flag("multi_query_attention", False) else None
    return _with(
        fields,
        num_key_value_heads=groups,
        head_dim=fields.values.get("kv_channels"),
        intermediate_size=fields.values.get("ffn_hidden_size"),
        vocab_size=fields.values.get("padded_vocab_size", fields.values.get("vocab_size")),
    )


def lfm2(fields: Fields) -> Fields:
    """LFM2: `tie_embedding` wins over the usual field."""
    tied = fields.values.get("tie_embedding", fields.values.get("tie_word_embeddings"))
    return _with(fields, tie_word_embeddings=tied)


def recurrent_gemma(fields: Fields) -> Fields:
    """RecurrentGemma: the window has a name of its own."""
    return _with(fields, sliding_window=fields.values.get("attention_window_size", 2048))


def nemotron_nas(fields: Fields) -> Fields:
    """Nemotron NAS: `block_configs` gives heads and widths layer by layer; the config's own are null."""
    return _with(fields, num_key_value_heads=fields.values.get("num_attention_heads"))


def deepseek_v4(fields: Fields) -> Fields:
    """DeepSeek-V4: defaults of the configuration class for what every mixture of experts states.

    Raises:
        ConfigError: fewer of the fields that make it a V4 than are needed to tell.
    """
    marks = ("o_groups", "o_lora_rank", "q_lora_rank")
    missing = [name for name in marks if not fields.has(name)]
    if missing:
        raise fields.fail(f"the field {missing[0]} is missing; DeepSeek-V4 states {', '.join(marks)}")
    return fields


def nemotron_h(fields: Fields) -> Fields:
    """Nemotron-H: what each layer is, as one character: M Mamba-2, * attention, - MLP, E experts.

    `layers_block_type` (or `layer_types`) wins over `hybrid_override_pattern`, as in the reference.

    Raises:
        ConfigError: a layer that is none of the four, neither field, or a `num_hidden_layers` that is not its length.
    """
    named = fields.strings("layers_block_type") or fields.strings("layer_types")
    if named:
        unknown = sorted(set(named) - set(_NEMOTRON_H))
        if unknown:
            raise fields.fail(f"layers_block_type names {unknown[0][:40]!r}; expected {', '.join(_NEMOTRON_H)}")
        pattern = "".join(_NEMOTRON_H[name] for name in named)
    else:
        pattern = fields.text("hybrid_override_pattern", "")
    odd = sorted(set(pattern) - set("M*-E"))
    if odd or not pattern:
        shown = f"holds {''.join(odd)[:40]!r}" if odd else "is missing"
        raise fields.fail(f"hybrid_override_pattern {shown}; expected M, *, - and E, one for each layer")
    depth = fields.size("layers", "num_hidden_layers", default=len(pattern))
    if depth != len(pattern):
        name = fields.first("layers_block_type", "layer_types") if named else "hybrid_override_pattern"
        raise fields.fail(f"{name} has {len(pattern):,} layers, num_hidden_layers is {depth:,}; they must agree")
    return _with(fields, hybrid_override_pattern=pattern, num_hidden_layers=depth, layer_types=None)


_NEMOTRON_H = {"mamba": "M", "linear_attention": "M", "attention": "*", "full_attention": "*", "mlp": "-", "moe": "E"}
"""Names of layers, those of older configs among them."""


def step3(fields: Fields) -> Fields:
    """Step 3.5 and 3.7: older names of heads and of layers with experts.

    Raises:
        ConfigError: sliding layers in a flattened config that does not say how many heads they have.
    """
    other = fields.child("attention_other_setting")
    stated = bool(other.values) or fields.has("num_sliding_attention_heads")
    if fields.values.get("model_type") == "step3p7" and fields.has("layer_types") and not stated:
        raise fields.fail(
            "num_sliding_attention_heads is missing; a Step 3.7 config without text_config must say how many heads "
            "its sliding layers have"
        )
    if other.values and not fields.has("num_sliding_attention_heads"):
        fields = _with(fields, num_sliding_attention_heads=other.values.get("num_attention_heads"))
    listed = fields.values.get("moe_layers_enum")
    if isinstance(listed, str):
        try:
            fields = _with(fields, moe_layers_enum=[int(item) for item in listed.split(",") if item.strip()])
        except ValueError as cause:
            raise fields.fail(f"moe_layers_enum is {show(listed)}; expected numbers of layers, by commas") from cause
    groups = fields.values.get("num_attention_groups", fields.values.get("num_key_value_heads", 8))
    names = {"moe_num_experts": "n_routed_experts", "moe_top_k": "num_experts_per_tok"}
    renamed = {new: fields.values[old] for old, new in names.items() if fields.has(old)}
    return _with(fields, num_key_value_heads=groups, **renamed)


def minimax_m3(fields: Fields) -> Fields:
    """MiniMax-M3: the indexer's sizes and which layers are sparse may be nested in `sparse_attention_config`."""
    nested = fields.child("sparse_attention_config")
    names = {
        "sparse_num_index_heads": "index_n_heads",
        "sparse_index_dim": "index_head_dim",
        "sparse_block_size": "index_block_size",
        "sparse_topk_blocks": "index_topk_blocks",
        "sparse_attention_freq": "sparse_attention_freq",
    }
    return _with(fields, **{new: nested.values[old] for old, new in names.items() if old in nested.values})


def kimi_linear(fields: Fields) -> Fields:
    """Kimi Linear: what each layer mixes tokens with; refused with the fields of Kimi K3.

    Raises:
        ConfigError: fields that change shapes in a way that the reference does not know.
    """
    linear = fields.child("linear_attn_config")
    newer = ("attn_res_block_size", "routed_expert_hidden_size", "mla_use_output_gate")
    found = [name for name in newer if fields.values.get(name)]
    found += ["use_full_rank_gate"] if linear.values.get("use_full_rank_gate") else []
    if found:
        raise fields.fail(
            f"{', '.join(found)} {'is' if len(found) == 1 else 'are'} set, as in Kimi K3: the shapes that follow have "
            "no reference yet; expected a Kimi Linear config without"
        )
    if fields.has("layer_types") or not linear.has("full_attn_layers") or not linear.has("kda_layers"):
        return fields
    depth = fields.size("layers", "num_hidden_layers")
    types = dict.fromkeys(linear.numbers("kda_layers"), "linear_attention")
    types |= dict.fromkeys(linear.numbers("full_attn_layers"), "full_attention")
    if set(types) != set(range(1, depth + 1)):
        raise linear.fail(
            f"full_attn_layers and kda_layers name {len(types):,} layers, num_hidden_layers is {depth:,}; expected "
            "each layer, from 1, in one of them"
        )
    return _with(fields, layer_types=[types[i + 1] for i in range(depth)])
