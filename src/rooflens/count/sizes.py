"""Sizes that do not depend on a pass: parameters, weight bytes, cache and state bytes."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from rooflens.core.arrays import Count
from rooflens.core.attention import Attention, LatentAttention
from rooflens.core.blocks import Block, Linear
from rooflens.core.compressed import CompressedAttention
from rooflens.core.cross import CrossAttention
from rooflens.core.experts import Moe
from rooflens.core.model import ModelSpec
from rooflens.core.op import DType
from rooflens.core.recurrent import Recurrent
from rooflens.count.compressed import growth_bytes, held_bytes
from rooflens.count.latent import index_bytes, latent_bytes
from rooflens.count.span import kv_tokens_held

PARTS = ("embedding", "positions", "attention", "recurrent", "mlp", "experts", "norms", "other", "output head")
"""Parts of a model, as `parts` names them."""


def embedding_params(model: ModelSpec) -> int:
    """Values of the token table, counted once also where the output head shares it."""
    return model.vocab * model.table_width


def params(model: ModelSpec) -> int:
    """Parameters as the reference framework's `parameters()` holds them: tied tables once, buffers not."""
    return sum(size for _, size in parts(model))


def active_params(model: ModelSpec) -> int:
    """Parameters that one token passes through, embedding and output head included: of the experts, `top_k`."""
    return params(model) - sum(count * block.idle_params for count, block in _blocks(model) if isinstance(block, Moe))


def parts(model: ModelSpec) -> tuple[tuple[str, int], ...]:
    """Parameters by part: (name, number), in the order of `PARTS`."""
    sizes = dict.fromkeys(PARTS, 0)
    sizes["embedding"] = embedding_params(model)
    sizes["positions"] = model.positions * model.hidden
    sizes["output head"] = (model.vocab if model.head_bias else 0) + (0 if model.tied else embedding_params(model))
    sizes["other"] = sum(linear.params for linear in (*model.inputs, *model.table_projections)) + model.extra_params
    sizes["norms"] = sum(norm.params for norm in (model.embedding_norm, model.final_norm) if norm)
    for layer in model.layers:
        sizes["norms"] += layer.count * sum(norm.params for norm in layer.norms)
        sizes["other"] += layer.count * layer.extra_params
    for count, block in _blocks(model):
        norms = sum(norm.params for norm in block.norms)
        sizes["norms"] += count * norms
        sizes[block.part] += count * (block.params - norms)
    return tuple(sizes.items())


def weight_bytes(model: ModelSpec, weights: DType, kept: DType) -> int:
    """Bytes of all parameters: linear layers in `weights` (scales included), the rest in `kept`.

    What the checkpoint stores otherwise counts as it is stored; routers and biases stay in `kept`, as quantised
    checkpoints leave them. `weights` that are not the checkpoint's own take the place of its quantised dtypes.
    """
    overridden = weights is not model.weights_dtype
    tables = ((1, model.table),) if model.tied else ((1, model.table), (1, model.head))
    total: int | Fraction = 0
    matrices = 0
    for count, linear in (*tables, *_matrices(model)):
        matrices += count * linear.d_in * linear.d_out
        dtype = linear.dtype(weights, kept, overridden=overridden)
        total += count * dtype.matrix_bytes(linear.d_in, linear.d_out)
    vectors = kept if overridden and weights.bits >= 16 else dict(model.storage).get("vectors", kept)
    return int(total) + int(vectors.bytes_of(params(model) - matrices))


def kv_cache_bytes(model: ModelSpec, context: Count, kv: DType, *, image_tokens: Count = 0) -> Count:
    """Bytes of the KV cache of one sequence after `context` tokens; a windowed layer holds min(context, W).

    Cross-attention layers hold `image_tokens` tokens, however long the context is.
    """
    text = sum(count * _held_bytes(block, context, kv) for count, block in _blocks(model))
    return text + sum(
        count * kv.bytes_of(image_tokens * block.values_per_token)
        for count, block in _blocks(model)
        if isinstance(block, CrossAttention)
    )


def kv_bytes_per_token(model: ModelSpec, kv: DType, *, windowed: bool) -> int:
    """Growth of the cache for one more token: of every layer (`windowed`), or beyond every window.

    The first is what an engine that pages every layer alike reserves, the second what a long context needs.
    """
    return sum(count * _growth(block, kv, windowed=windowed) for count, block in _blocks(model))


def state_bytes(model: ModelSpec, recurrent: DType | None, convolution: DType) -> int:
    """Bytes of recurrent and convolution states of one sequence.

    recurrent: dtype of both where given; else fp32 for the recurrent state and `convolution` for the other. What
    waits to be compressed is held like a recurrent state.
    """
    wide, narrow = recurrent or DType.FP32, recurrent or convolution
    total = 0
    for count, block in _blocks(model):
        if isinstance(block, Recurrent):
            total += count * int(wide.bytes_of(block.state_values) + narrow.bytes_of(block.conv_values))
        elif isinstance(block, CompressedAttention):
            total += count * int(wide.bytes_of(block.state_values))
    return total


def block_kv_bytes(block: Block, kv: DType) -> int:
    """Bytes that one more token adds to the cache of one layer, windows aside."""
    return _growth(block, kv, windowed=True)


def _growth(block: Block, kv: DType, *, windowed: bool) -> int:
    if isinstance(block, CompressedAttention):
        return growth_bytes(block, kv, windowed=windowed)
    return int(_cache(block, 1, kv)) if windowed or not _bounded(block) else 0


def _held_bytes(block: Block, context: Count, kv: DType) -> Count:
    if isinstance(block, CompressedAttention):
        return held_bytes(block, context, kv)
    span = getattr(block, "span", None)
    return 0 if span is None else _cache(block, kv_tokens_held(context, span), kv)


def _cache(block: Block, tokens: Count, kv: DType) -> Count:
    match block:
        case LatentAttention():
            index = index_bytes(block.indexer, tokens, kv) if block.indexer else 0
            return latent_bytes(block, tokens, kv) + index
        case Attention() if block.owns_cache:
            index = index_bytes(block.indexer, tokens, kv) if block.indexer else 0
            return kv.bytes_of(tokens * block.values_per_token) + index
        case _:
            return 0


def _bounded(block: Block) -> bool:
    return isinstance(block, Attention) and block.span.held is not None


def _blocks(model: ModelSpec) -> Iterator[tuple[int, Block]]:
    return ((layer.count, block) for layer in model.layers for block in layer.blocks)


def _matrices(model: ModelSpec) -> Iterator[tuple[int, Linear]]:
    """Every matrix but the token table and the output head with how often it is there."""
    yield from ((1, linear) for linear in (*model.inputs, *model.table_projections))
    for layer in model.layers:
        for block in layer.blocks:
            yield from ((layer.count, linear) for linear in layer.stored(block.linears))
            if isinstance(block, Moe):
                yield from ((layer.count * block.experts, linear) for linear in layer.stored(block.expert_linears))
            if isinstance(block, LatentAttention):
                yield from ((layer.count, linear) for linear in layer.stored((block.expansion,)))
            if isinstance(block, CrossAttention):
                yield from ((layer.count, linear) for linear in layer.stored(block.image_linears))
            if isinstance(block, CompressedAttention):
                yield from ((layer.count, linear) for linear in layer.stored((block.grouped,)))
