"""Architectures whose fields mean something else: each becomes the usual fields before it is read."""

from __future__ import annotations

from typing import Any

from rooflens.sources.fields import Fields


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
