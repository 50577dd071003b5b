"""A decoder's config, read by its family, to a ModelSpec."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from rooflens.core.attention import EVERYTHING, Span
from rooflens.core.blocks import Norm
from rooflens.core.model import Layer, ModelSpec
from rooflens.sources.contradictions import check_experts, check_layers, check_widths
from rooflens.sources.family import Family, flag
from rooflens.sources.fields import Fields, show
from rooflens.sources.quantization import Storage
from rooflens.sources.reading import Reading, Sizes, dense_blocks

_HIDDEN = ("hidden_size", "n_embd", "d_model")
_LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_KV_HEADS = "num_key_value_heads"
_WIDTH = ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")
_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "seq_length", "n_ctx")


def build(fields: Fields, family: Family, storage: Storage, *, name: str, architecture: str) -> ModelSpec:
    """Return the ModelSpec of a decoder.

    Raises:
        ConfigError: a field is missing, not a positive whole number, out of range, or contradicts another.
    """
    fields = family.adjust(fields) if family.adjust else fields
    sizes = read_sizes(fields, family)
    check_layers(fields, sizes.depth)
    spans = family.spans(fields, sizes.depth)
    reading = Reading(fields, family, sizes, spans)
    style = family.norm
    layers = _layers(reading, storage)
    check_widths(fields, layers)
    check_experts(fields, layers)
    has_final = flag(fields, family.final_norm) and not fields.flag("_remove_final_layer_norm", False)
    return ModelSpec(
        name=name,
        architecture=architecture,
        hidden=sizes.hidden,
        vocab=sizes.vocab,
        layers=layers,
        tied=fields.flag("tie_word_embeddings", family.tied),
        weights_dtype=storage.weights,
        kept_dtype=storage.kept,
        dtype_stated=storage.stated,
        weight_only=storage.weight_only,
        final_norm=style.norm("final_norm", sizes.hidden) if has_final else None,
        positions=family.positions(fields) if family.positions else 0,
        embedding_norm=style.norm("embedding_norm", sizes.hidden) if family.embedding_norm else None,
        embedding_width=fields.size("hidden", "word_embed_proj_dim", default=0),
        head_bias=flag(fields, family.head_bias),
        max_context=fields.size("positions", *_CONTEXT) if fields.has(*_CONTEXT) else None,
        extra_params=family.model_extra(reading) if family.model_extra else 0,
        inputs=family.inputs(reading) if family.inputs else (),
        notes=storage.notes + _window_notes(fields, spans),
        source=fields.origin,
    )


def read_sizes(fields: Fields, family: Family) -> Sizes:
    """The sizes of a config, checked against each other.

    An explicit `head_dim` wins over hidden / heads; without key-value heads the family's default holds,
    which is one for each head unless its configuration class says otherwise.
    """
    hidden = fields.agreed("hidden", *_HIDDEN)
    heads, kv_heads, head_dim = _heads(fields, family, hidden) if family.attends else (0, 0, 0)
    width = (
        fields.size("intermediate", *_WIDTH, default=4 * hidden if family.gelu_width else None) if family.feeds else 0
    )
    return Sizes(
        hidden=hidden,
        depth=fields.agreed("layers", *_LAYERS),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        width=width,
        vocab=fields.size("vocabulary", "vocab_size"),
    )


def _heads(fields: Fields, family: Family, hidden: int) -> tuple[int, int, int]:
    heads = fields.agreed("heads", *_HEADS)
    kv_heads = _kv_heads(fields, family, heads)
    if heads % kv_heads:
        raise fields.fail(
            f"{heads} attention heads cannot share {kv_heads} key-value heads; num_attention_heads must be a "
            "multiple of num_key_value_heads"
        )
    return heads, kv_heads, _head_dim(fields, family, hidden, heads)


def _kv_heads(fields: Fields, family: Family, heads: int) -> int:
    stated = _KV_HEADS in fields.values
    if stated and fields.is_null(_KV_HEADS) and fields.has("block_configs"):
        raise fields.fail(f"{_KV_HEADS} is null and block_configs gives it layer by layer; expected a number of heads")
    default = heads if stated or not family.kv_heads else family.kv_heads
    return fields.size("heads", _KV_HEADS, default=default)


def _head_dim(fields: Fields, family: Family, hidden: int, heads: int) -> int:
    if family.head_dim_read and fields.has("head_dim"):
        return fields.size("head width", "head_dim")
    if family.head_dim and "head_dim" not in fields.values:
        return family.head_dim
    if hidden % heads:
        raise fields.fail(f"hidden size {hidden:,} is no multiple of {heads} attention heads and no head_dim is given")
    return hidden // heads


def _layers(reading: Reading, storage: Storage) -> tuple[Layer, ...]:
    """The layers, equal ones put together, in order of first appearance."""
    layers = Counter(storage.apply(_layer(reading, i), i) for i in range(reading.sizes.depth))
    return tuple(replace(layer, count=count) for layer, count in layers.items())


def _layer(reading: Reading, index: int) -> Layer:
    family = reading.family
    return Layer(
        count=1,
        blocks=(family.blocks or dense_blocks)(reading, index),
        norms=family.norms(reading, index) if family.norms else _norms(reading),
        parallel=flag(reading.fields, family.parallel),
        extra_params=family.extra_params,
    )


def _norms(reading: Reading) -> tuple[Norm, ...]:
    fields, family = reading.fields, reading.family
    kept = fields.size("layers", "parallel_norms", default=family.parallel_norms)
    names = family.block_norms[:kept] if flag(fields, family.parallel) else family.block_norms
    return reading.norms(*names)


def _window_notes(fields: Fields, spans: tuple[Span, ...]) -> tuple[str, ...]:
    stated = fields.values.get("sliding_window")
    if stated is None or any(span != EVERYTHING for span in spans):
        return ()
    return (f"sliding_window {show(stated)} is off, or no shorter than the longest context: full attention",)
