"""Sizes that do not depend on a pass: parameters, weight bytes, cache bytes."""

from __future__ import annotations

from rooflens.core.arrays import Count
from rooflens.core.model import Layer, Linear, ModelSpec
from rooflens.core.op import DType
from rooflens.count.attention import kv_tokens_held


def embedding_params(model: ModelSpec) -> int:
    """Values of the token table, counted once also where the output head shares it."""
    return model.vocab * model.table_width


def params(model: ModelSpec) -> int:
    """Parameters as the reference framework's `parameters()` holds them: tied tables once, buffers not."""
    return sum(size for _, size in parts(model))


def active_params(model: ModelSpec) -> int:
    """Parameters that one token passes through, embedding and output head included."""
    return params(model)


def parts(model: ModelSpec) -> tuple[tuple[str, int], ...]:
    """Parameters by part: (name, number)."""
    head = (model.vocab if model.head_bias else 0) + (0 if model.tied else embedding_params(model))
    norms = sum(norm.params for norm in (model.embedding_norm, model.final_norm) if norm)
    return (
        ("embedding", embedding_params(model)),
        ("positions", model.positions * model.hidden),
        ("attention", sum(layer.count * _params(layer.attention.linears) for layer in model.layers)),
        ("mlp", sum(layer.count * _params(layer.mlp.linears) for layer in model.layers)),
        ("norms", norms + sum(layer.count * _norm_params(layer) for layer in model.layers)),
        ("other", sum(layer.count * layer.extra_params for layer in model.layers) + _projected(model)),
        ("output head", head),
    )


def weight_bytes(model: ModelSpec, weights: DType, kept: DType) -> int:
    """Bytes of all parameters: linear layers in `weights` (scales included), the rest in `kept`.

    Biases stay in `kept`, as quantised checkpoints store them.
    """
    linears = [(layer.count, linear) for layer in model.layers for linear in layer.linears]
    linears += [(1, linear) for linear in model.table_projections]
    quantised = sum(count * int(weights.bytes_of(linear.d_in * linear.d_out)) for count, linear in linears)
    values = sum(count * linear.d_in * linear.d_out for count, linear in linears)
    return quantised + int(kept.bytes_of(params(model) - values))


def kv_cache_bytes(model: ModelSpec, context: Count, kv: DType) -> Count:
    """Bytes of the KV cache of one sequence after `context` tokens; a windowed layer holds min(context, W)."""
    return sum(
        layer.count * kv.bytes_of(kv_tokens_held(context, layer.attention.window) * layer.attention.values_per_token)
        for layer in model.layers
    )


def kv_bytes_per_token(model: ModelSpec, kv: DType, *, windowed: bool) -> int:
    """Growth of the cache for one more token: of every layer (`windowed`), or beyond every window.

    The first is what an engine that pages every layer alike reserves, the second what a long context needs.
    """
    counted = (layer for layer in model.layers if windowed or layer.attention.window is None)
    return sum(layer.count * int(kv.bytes_of(layer.attention.values_per_token)) for layer in counted)


def _params(linears: tuple[Linear, ...]) -> int:
    return sum(linear.params for linear in linears)


def _norm_params(layer: Layer) -> int:
    return sum(norm.params for norm in layer.norms + layer.attention.norms)


def _projected(model: ModelSpec) -> int:
    return sum(linear.params for linear in model.table_projections)
