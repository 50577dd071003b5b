"""A dense decoder's config, read by its family, to a ModelSpec."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from rooflens.core.model import Attention, Layer, Mlp, ModelSpec, Norm
from rooflens.sources.family import Family, flag
from rooflens.sources.fields import Fields
from rooflens.sources.quantization import Storage

_HIDDEN = ("hidden_size", "n_embd", "d_model")
_LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_KV_HEADS = ("num_key_value_heads",)
_WIDTH = ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")
_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "seq_length", "n_ctx")


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes that every dense decoder has."""

    hidden: int
    depth: int
    heads: int
    kv_heads: int
    head_dim: int
    width: int
    vocab: int


def build(fields: Fields, family: Family, storage: Storage, *, name: str, architecture: str) -> ModelSpec:
    """Return the ModelSpec of a dense decoder.

    Raises:
        ConfigError: a field is missing, not a positive whole number, out of range, or contradicts another.
    """
    fields = family.adjust(fields) if family.adjust else fields
    sizes = read_sizes(fields, family)
    windows = family.windows(fields, sizes.depth)
    style = family.norm
    has_final = flag(fields, family.final_norm) and not fields.flag("_remove_final_layer_norm", False)
    return ModelSpec(
        name=name,
        architecture=architecture,
        hidden=sizes.hidden,
        vocab=sizes.vocab,
        layers=tuple(_layer(fields, family, sizes, window, count) for window, count in Counter(windows).items()),
        tied=fields.flag("tie_word_embeddings", family.tied),
        weights_dtype=storage.weights,
        kept_dtype=storage.kept,
        dtype_stated=storage.stated,
        weight_only=storage.weight_only,
        final_norm=style.norm("final_norm", sizes.hidden) if has_final else None,
        positions=family.positions(fields) if family.positions else 0,
        embedding_norm=style.norm("embedding_norm", sizes.hidden) if family.embedding_norm else None,
        embedding_width=fields.size("hidden", "word_embed_proj_dim", default=0),
        head_bias=family.head_bias,
        max_context=fields.size("positions", *_CONTEXT) if fields.has(*_CONTEXT) else None,
        notes=storage.notes + _window_notes(fields, windows),
        source=fields.origin,
    )


def read_sizes(fields: Fields, family: Family) -> Sizes:
    """The sizes of a config, checked against each other.

    An explicit `head_dim` wins over hidden / heads; without key-value heads the family's default holds,
    which is one for each head unless its configuration class says otherwise.
    """
    hidden = fields.size("hidden", *_HIDDEN)
    heads = fields.size("heads", *_HEADS)
    kv_heads = _kv_heads(fields, family, heads)
    if heads % kv_heads:
        raise fields.fail(
            f"{heads} attention heads cannot share {kv_heads} key-value heads; num_attention_heads must be a "
            "multiple of num_key_value_heads"
        )
    return Sizes(
        hidden=hidden,
        depth=fields.size("layers", *_LAYERS),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=_head_dim(fields, family, hidden, heads),
        width=fields.size("intermediate", *_WIDTH, default=4 * hidden if family.gelu_width else None),
        vocab=fields.size("vocabulary", "vocab_size"),
    )


def _kv_heads(fields: Fields, family: Family, heads: int) -> int:
    stated = next((name for name in _KV_HEADS if name in fields.values), None)
    if stated and family.adjust is None and fields.is_null(stated) and fields.has("block_configs"):
        raise fields.fail(f"{stated} is null and block_configs gives it layer by layer; this needs a per-layer reader")
    default = heads if stated or not family.kv_heads else family.kv_heads
    return fields.size("heads", *_KV_HEADS, default=default)


def _head_dim(fields: Fields, family: Family, hidden: int, heads: int) -> int:
    stated = family.head_dim_read and fields.has("head_dim")
    if stated:
        return fields.size("head width", "head_dim")
    if family.head_dim and "head_dim" not in fields.values:
        return family.head_dim
    if hidden % heads:
        raise fields.fail(f"hidden size {hidden:,} is no multiple of {heads} attention heads and no head_dim is given")
    return hidden // heads


def _layer(fields: Fields, family: Family, sizes: Sizes, window: int | None, count: int) -> Layer:
    parallel = flag(fields, family.parallel)
    kept = fields.size("layers", "parallel_norms", default=family.parallel_norms)
    names = family.block_norms[:kept] if parallel else family.block_norms
    return Layer(
        count=count,
        attention=_attention(fields, family, sizes, window),
        mlp=_mlp(fields, family, sizes),
        norms=tuple(family.norm.norm(name, sizes.hidden) for name in names),
        parallel=parallel,
        extra_params=family.extra_params,
    )


def _attention(fields: Fields, family: Family, sizes: Sizes, window: int | None) -> Attention:
    return Attention(
        hidden=sizes.hidden,
        heads=sizes.heads,
        kv_heads=sizes.kv_heads,
        d_k=sizes.head_dim,
        d_v=sizes.head_dim,
        window=window,
        qkv_bias=flag(fields, family.qkv_bias),
        out_bias=flag(fields, family.out_bias),
        fused_qkv=family.fused_qkv,
        rotary=family.rotary,
        norms=_qk_norms(fields, family, sizes),
    )


def _mlp(fields: Fields, family: Family, sizes: Sizes) -> Mlp:
    return Mlp(
        hidden=sizes.hidden,
        width=sizes.width,
        gated=family.gated,
        up_bias=flag(fields, family.up_bias),
        down_bias=flag(fields, family.down_bias),
        fused=family.fused_mlp,
    )


def _qk_norms(fields: Fields, family: Family, sizes: Sizes) -> tuple[Norm, ...]:
    """Norms of q and k: over each head with one shared vector, with a vector a head, or over the whole projection."""
    if not family.qk_norm or not flag(fields, family.qk_norm_if):
        return ()
    style = family.qk_style or family.norm
    both = (("q_norm", sizes.heads), ("k_norm", sizes.kv_heads))
    if family.qk_norm == "whole":
        return tuple(style.norm(name, heads * sizes.head_dim) for name, heads in both)
    own = family.qk_norm == "rows"
    return tuple(style.norm(name, sizes.head_dim, rows=heads, own_rows=own) for name, heads in both)


def _window_notes(fields: Fields, windows: tuple[int | None, ...]) -> tuple[str, ...]:
    stated = fields.values.get("sliding_window")
    if stated is None or any(window is not None for window in windows):
        return ()
    return (f"sliding_window {stated} is off, or no shorter than the longest context: full attention",)
