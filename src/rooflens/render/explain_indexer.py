"""Bytes of the indexers of sparse attention, and of cross-attention over image tokens, as formulas."""

from __future__ import annotations

from collections.abc import Iterator

from rooflens.core.attention import Indexer
from rooflens.core.cross import CrossAttention
from rooflens.core.indexers import BlockIndexer
from rooflens.core.op import DType
from rooflens.render.explain_formula import Formula, number, size_words, stored, times
from rooflens.render.explain_view import View

_POSITION_BYTES = 4


def indexer_bytes(view: View, indexer: Indexer, top_k: int) -> Iterator[Formula]:
    """Keys of every token; queries and their weights in; the positions of the choice out."""
    yield from _keys(view, indexer.width)
    heads, width = indexer.heads, indexer.width
    values = heads * (width + 1) + width
    yield from _choice(
        view,
        Formula("", "heads x (width + 1) + width", f"({heads} x ({width} + 1) + {width})", values, ""),
        Formula("", "K", number(top_k), top_k, ""),
    )


def block_bytes(view: View, indexer: BlockIndexer) -> Iterator[Formula]:
    """Keys of every token; queries in; the numbers of the blocks out that each head has chosen."""
    yield from _keys(view, indexer.width)
    heads, width = indexer.heads, indexer.width
    values = width * (heads + 1)
    yield from _choice(
        view,
        Formula("", "width x (heads + 1)", f"{width} x ({heads} + 1)", values, ""),
        Formula("", "heads x blocks", times(heads, indexer.blocks), heads * indexer.blocks, ""),
    )


def _keys(view: View, width: int) -> Iterator[Formula]:
    """One key of `width` values a token has a cache of its own."""
    op, kv, sequences = view.op, view.precision.kv, int(view.batch.sequences)
    for label, value, which, many in (
        ("KV read", op.traffic.kv_read, "cached tokens", int(view.batch.cached_tokens)),
        ("KV written", op.traffic.kv_write, "new tokens", int(view.batch.new_tokens)),
    ):
        if value:
            numbers = stored(times(sequences, many, width), sequences * many * width, kv)
            words = f"sequences x {which} x width x {size_words(kv)} x count"
            yield Formula(label, words, times(numbers, op.count), value, "B")


def _choice(view: View, each: Formula, chosen: Formula) -> Iterator[Formula]:
    """What is read of a token, `each` values in the activations' dtype, and the `chosen` positions written."""
    op, act, tokens = view.op, view.precision.activations, int(view.setting.tokens)
    if op.traffic.activations:
        queries = stored(times(tokens, each.numbers), tokens * int(each.value), act)
        words = f"(tokens x ({each.words}) x {size_words(act)} + tokens x {chosen.words} x {_POSITION_BYTES}) x count"
        numbers = times(f"({queries} + {times(tokens, chosen.numbers, _POSITION_BYTES)})", op.count)
        yield Formula("activations", words, numbers, op.traffic.activations, "B")


def index_text(indexer: Indexer | BlockIndexer, tokens: str, many: int, kv: DType) -> str:
    """Bytes of the indexer's keys of `many` tokens, `tokens` being how their number comes about."""
    return stored(times(tokens, indexer.width), many * indexer.width, kv)


def image_bytes(view: View, layer: CrossAttention) -> Iterator[Formula]:
    """K and V of image tokens: written with the prompt, read in every step; queries in and outputs out."""
    op, precision = view.op, view.precision
    sequences, images, tokens = int(view.batch.sequences), int(view.batch.image_tokens), int(view.setting.tokens)
    for label, value in (("KV read", op.traffic.kv_read), ("KV written", op.traffic.kv_write)):
        if value:
            numbers = times(image_text(layer, sequences, images, precision.kv), op.count)
            words = f"sequences x image tokens x 2 x KV heads x head width x {size_words(precision.kv)} x count"
            yield Formula(label, words, numbers, value, "B")
    if op.traffic.activations:
        words, product = "tokens x 2 x heads x head width", times(tokens, 2, layer.heads, layer.head_dim)
        values = tokens * 2 * layer.heads * layer.head_dim
        if not view.stepping:
            words += " + sequences x image tokens x 2 x KV heads x head width"
            product += f" + {times(sequences, images, 2, layer.kv_heads, layer.head_dim)}"
            values += sequences * images * layer.values_per_token
        numbers = times(stored(f"({product})", values, precision.activations), op.count)
        words = f"({words}) x {size_words(precision.activations)} x count"
        yield Formula("activations", words, numbers, op.traffic.activations, "B")


def image_text(layer: CrossAttention, sequences: int, images: int, kv: DType) -> str:
    """Bytes of the cached keys and values of `images` image tokens of each of `sequences` sequences."""
    product = times(sequences, images, 2, layer.kv_heads, layer.head_dim)
    return stored(product, sequences * images * layer.values_per_token, kv)
