"""What a model keeps of the past, as formulas: KV cache and state of every layer, beside the weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rooflens.core.arrays import Count
from rooflens.core.attention import Attention, LatentAttention
from rooflens.core.blocks import Block
from rooflens.core.compressed import CompressedAttention
from rooflens.core.cross import CrossAttention
from rooflens.core.op import DType
from rooflens.core.profile import Profile
from rooflens.core.recurrent import Recurrent
from rooflens.count.span import kv_tokens_held
from rooflens.metrics import Metrics
from rooflens.render.explain_compressed import key_text, key_words
from rooflens.render.explain_formula import Formula, number, stored, times
from rooflens.render.explain_indexer import image_text, index_text
from rooflens.render.explain_latent import latent_text, latent_words
from rooflens.units import binary


def memory_formulas(profile: Profile, metrics: Metrics) -> Iterator[Formula]:
    """KV cache and state of the batch at its longest, and all that the memory has to hold."""
    kinds: list[tuple[str, Count]] = [("weights", metrics.weight_bytes)]
    for name, value, formula in (
        ("KV cache", metrics.kv_cache_bytes, _cache),
        ("state", metrics.state_bytes, _state),
    ):
        if value:
            words, numbers = formula(profile)
            batched = times(int(profile.scenario.batch), f"({numbers})")
            yield Formula(name, f"batch x sum over layers of {words}", batched, value, "B", f", {binary(float(value))}")
            kinds.append((name, value))
    numbers = " + ".join(f"{value:,}" for _, value in kinds)
    needed = metrics.memory_needed_bytes
    yield Formula("memory", " + ".join(name for name, _ in kinds), numbers, needed, "B", f", {binary(float(needed))}")


def blocks_of(profile: Profile) -> Counter[Block]:
    """The distinct blocks of the model with how many layers have each."""
    found: Counter[Block] = Counter()
    for layer in profile.model.layers:
        for block in layer.blocks:
            found[block] += layer.count
    return found


def _cache(profile: Profile) -> tuple[str, str]:
    """What each layer holds for every token at the end; a windowed or chunked layer holds at most its limit."""
    kv, context = profile.scenario.precision.kv, int(profile.scenario.longest_context)
    images = int(profile.scenario.image_tokens)
    words, numbers = [], []
    for block, count in blocks_of(profile).items():
        if isinstance(block, Attention) and block.owns_cache:
            words.append("layers x tokens held x KV heads x (d_k + d_v) x bytes")
            numbers.append(times(count, _heads(block, context, kv)))
            numbers += _index_keys(block, count, context, kv)
            words += ["layers x tokens x indexer width x bytes"] if block.indexer else []
        elif isinstance(block, LatentAttention):
            words.append(f"layers x tokens x {latent_words(kv)}")
            numbers.append(times(count, latent_text(block, number(context), context, kv)))
            numbers += _index_keys(block, count, context, kv)
            words += ["layers x tokens x indexer width x bytes"] if block.indexer else []
        elif isinstance(block, CrossAttention) and images:
            words.append("layers x image tokens x 2 x KV heads x head width x bytes")
            numbers.append(times(count, image_text(block, 1, images, kv)))
        elif isinstance(block, CompressedAttention):
            words.append(f"layers x (tokens of the window + tokens // m) x {key_words(kv)}")
            numbers += [times(count, text) for text in _compressed(block, context, kv)]
    return f"({' + '.join(dict.fromkeys(words))})", " + ".join(numbers)


def _index_keys(layer: Attention | LatentAttention, count: int, context: int, kv: DType) -> list[str]:
    """The keys of a layer's indexer, if it has one."""
    return [times(count, index_text(layer.indexer, number(context), context, kv))] if layer.indexer else []


def _heads(layer: Attention, context: int, kv: DType) -> str:
    tokens = number(context) if layer.span.held is None else f"min({number(context)}, {number(layer.span.held)})"
    product = times(tokens, layer.kv_heads, f"({layer.d_k} + {layer.d_v})")
    return stored(product, int(kv_tokens_held(context, layer.span)) * layer.values_per_token, kv)


def _compressed(layer: CompressedAttention, context: int, kv: DType) -> Iterator[str]:
    """Keys of the window, an entry for each full stretch, and the indexer's compressed keys."""
    text = f"min({number(context)}, {number(layer.window)})"
    yield key_text(layer, text, min(context, layer.window), kv)
    if layer.compressor is not None:
        rate = layer.compressor.rate
        yield key_text(layer, f"({number(context)} // {number(rate)})", context // rate, kv)
    if layer.indexer is not None:
        rate, width = layer.indexer.compressor.rate, layer.indexer.width
        yield stored(times(f"({number(context)} // {number(rate)})", width), context // rate * width, kv)


def _state(profile: Profile) -> tuple[str, str]:
    """Recurrent state, and the last columns of the convolution before it; neither depends on the context."""
    precision = profile.scenario.precision
    wide, narrow = precision.state or DType.FP32, precision.state or precision.activations
    numbers = []
    for block, count in blocks_of(profile).items():
        if isinstance(block, Recurrent):
            columns = times(block.conv_channels, f"({block.conv_kernel} - 1)")
            both = [stored(number(block.state_values), block.state_values, wide)] if block.state_values else []
            both += [stored(columns, block.conv_values, narrow)] if block.conv_values else []
            numbers += [times(count, f"({' + '.join(both)})")] if both else []
        elif isinstance(block, CompressedAttention) and block.state_values:
            numbers.append(times(count, stored(number(block.state_values), block.state_values, wide)))
    return "layers x (state values x bytes + channels x (kernel - 1) x bytes)", " + ".join(numbers)
