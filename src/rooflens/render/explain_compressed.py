"""Attention over a window and compressed entries, and mixed residual streams, as formulas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rooflens.core.compressed import CompressedAttention, Compressor, HyperConnection
from rooflens.core.op import AttentionShape, DType, GemmShape, OpKind, PointwiseShape
from rooflens.core.scenario import AttentionFlops
from rooflens.count import plan as steps
from rooflens.count.compressed import entries, entry_pairs, rows_waiting
from rooflens.count.span import kv_tokens_read
from rooflens.render.explain_formula import Formula, matrix, matrix_words, number, size_words, stored, times
from rooflens.render.explain_span import pairs
from rooflens.render.explain_view import View

_POSITION_BYTES = 4
_SOFTMAX, _RELU = 5, 4


def compressed_flops(view: View) -> Iterator[Formula]:
    """How the FLOP of a kernel of compressed attention, or of the mix of streams, come about."""
    op, shape = view.op, view.op.shape
    if isinstance(view.step, steps.Mix) and isinstance(shape, GemmShape):
        mixed = times(2, shape.m, shape.k, shape.n, op.count)
        yield Formula("model FLOP", "2 x m x k x n x count", mixed, op.model_flops, "FLOP")
        both = times(f"({times(2, shape.k)} + 4)", shape.n, shape.m, op.count)
        yield Formula("FLOP", "(2 x k + 4 for in and out) x n x m x count", both, op.flops, "FLOP")
    elif isinstance(shape, GemmShape):
        numbers = times(2, shape.m, shape.k, shape.n, op.count)
        yield Formula("FLOP", "2 x m x k x n x count", numbers, op.flops, "FLOP")
    elif isinstance(shape, PointwiseShape):
        numbers = times(shape.rows, shape.width, shape.flops_per_value, op.count)
        yield Formula("FLOP", "tokens x values x FLOP per value x count", numbers, op.flops, "FLOP")
    elif isinstance(shape, AttentionShape) and isinstance(view.step, steps.AttendCompressed):
        yield from _met(view, view.step.layer, shape)
        if op.flops:
            yield from _scores(view, shape)


def _scores(view: View, shape: AttentionShape) -> Iterator[Formula]:
    """2 FLOP for each multiply-add; the softmax of attention, or ReLU, scale and weighted sum of the indexer."""
    op = view.op
    rest: tuple[Any, ...] = (shape.pairs, shape.heads, shape.sequences, op.count)
    words = "pairs x heads x sequences x count"
    if op.kind is OpKind.INDEXER:
        each, name, more, why = f"2 x {shape.d_k}", "2 x width", _RELU, "ReLU, scale and sum"
    else:
        each, name, more, why = f"2 x ({shape.d_k} + {shape.d_v})", "2 x (d_k + d_v)", _SOFTMAX, "softmax"
    yield Formula("model FLOP", f"{name} x {words}", times(each, *rest), op.model_flops, "FLOP")
    total = times(f"({each} + {more})", *rest)
    yield Formula("FLOP", f"({name} + {more} for {why}) x {words}", total, op.flops, "FLOP")


def _met(view: View, layer: CompressedAttention, shape: AttentionShape) -> Iterator[Formula]:
    """Pairs with keys of the window and with entries; of an indexer with all of its compressed keys."""
    if view.op.kind is OpKind.INDEXER:
        assert layer.indexer is not None
        words, numbers = _entries(view, layer.indexer.compressor.rate, None)
        yield Formula("pairs", words, numbers, int(shape.pairs), "")
        return
    window = pairs(view, shape)
    if layer.compressor is None:
        yield window
        return
    top_k = layer.indexer.top_k if layer.indexer else None
    words, numbers = _entries(view, layer.compressor.rate, top_k)
    met = int(entry_pairs(view.batch, layer.compressor.rate, top_k, view.conventions.attention_flops))
    near = int(shape.pairs) - met
    yield Formula("window pairs", window.words, window.numbers, near, "")
    yield Formula("entry pairs", words, numbers, met, "")
    yield Formula("pairs", "window pairs + entry pairs", f"{number(near)} + {number(met)}", int(shape.pairs), "")


def _entries(view: View, rate: int, top_k: int | None) -> tuple[str, str]:
    """A query at position p, from 1, sees p // m entries, K of them at most."""
    new, cached = int(view.batch.new_tokens), int(view.batch.cached_tokens)
    if view.conventions.attention_flops is AttentionFlops.FULL:
        return "q x ((cached + q) // m)", f"{number(new)} x (({number(cached)} + {number(new)}) // {number(rate)})"
    if new == 1:
        text = f"({number(cached)} + 1) // {number(rate)}"
        if top_k is None:
            return "(cached + 1) // m", text
        return "min((cached + 1) // m, K)", f"min({text}, {number(top_k)})"
    numbers = _visible(new + cached, rate, top_k)
    if cached:
        return "those of cached + S tokens - those of cached ones", f"{numbers} - ({_visible(cached, rate, top_k)})"
    words = "m x f x (f - 1) / 2 + f x (rest + 1)"
    capped = top_k is not None and new > rate * top_k
    return (f"{words} + K x (S - m x K)" if capped else f"{words}, f full stretches and a rest"), numbers


def _visible(tokens: int, rate: int, top_k: int | None) -> str:
    """Entries that the first `tokens` positions see, summed up: they grow until K are seen."""
    growing = tokens if top_k is None else min(tokens, rate * top_k)
    full, rest = growing // rate, growing % rate
    text = f"{times(rate, full, f'({number(full)} - 1)')} / 2 + {times(full, f'({number(rest)} + 1)')}"
    if top_k is None or growing == tokens:
        return text
    return f"{text} + {number(top_k)} x ({number(tokens)} - {times(rate, top_k)})"


def compressed_bytes(view: View) -> Iterator[Formula]:
    """How the bytes of a kernel of compressed attention, or of the mix of streams, come about."""
    step, shape = view.step, view.op.shape
    if isinstance(step, steps.Mix):
        yield from _streams(view, step.layer)
    elif isinstance(step, steps.AttendCompressed) and isinstance(shape, GemmShape):
        yield from _grouped(view, step.layer, shape)
    elif isinstance(step, steps.AttendCompressed) and isinstance(shape, PointwiseShape):
        compressor = next(c for c in step.layer.compressors if view.op.name == f"{c.name}_compress")
        yield from _compress(view, compressor)
    elif isinstance(step, steps.AttendCompressed) and view.op.kind is OpKind.INDEXER:
        yield from _index(view, step.layer)
    elif isinstance(step, steps.AttendCompressed):
        yield from _attend(view, step.layer)


def _activations(view: View, words: str, product: str, values: int) -> Iterator[Formula]:
    op, act = view.op, view.precision.activations
    if op.traffic.activations:
        numbers = times(stored(product, values, act), op.count)
        yield Formula("activations", f"{words} x {size_words(act)} x count", numbers, op.traffic.activations, "B")


def _streams(view: View, layer: HyperConnection) -> Iterator[Formula]:
    """Streams and the block's output are read, streams and the block's input written."""
    tokens, n, hidden = int(view.setting.tokens), layer.streams, layer.hidden
    product = times(tokens, f"(2 x {n} + 2)", hidden)
    yield from _activations(view, "tokens x (2 x streams + 2) x hidden size", product, tokens * (2 * n + 2) * hidden)


def _grouped(view: View, layer: CompressedAttention, shape: GemmShape) -> Iterator[Formula]:
    """Every group of heads has its own inputs and its own share of the outputs."""
    op, dtype, act = view.op, view.stored(view.parts[0]), layer.heads * layer.head_dim
    if op.traffic.weights:
        numbers = times(matrix(shape.k, shape.n, dtype), op.count)
        yield Formula("weights", f"{matrix_words(dtype)} x count", numbers, op.traffic.weights, "B")
    product = times(shape.m, f"({times(layer.groups, shape.k)} + {number(shape.n)})")
    yield from _activations(view, "m x (groups x k + n)", product, int(shape.m) * (act + shape.n))


def _compress(view: View, layer: Compressor) -> Iterator[Formula]:
    """Values and gates of new tokens are read; those of an unfinished stretch wait in the state."""
    op, kept, tokens = view.op, view.precision.state or DType.FP32, int(view.setting.tokens)
    product = times(tokens, layer.row_values)
    yield from _activations(view, "tokens x values of a row", product, tokens * layer.row_values)
    if op.traffic.state:
        read, left = (int(rows) for rows in rows_waiting(layer, view.batch))
        sequences = int(view.batch.sequences)
        product = times(sequences, f"({number(read)} + {number(left)})", layer.row_values)
        numbers = times(stored(product, sequences * (read + left) * layer.row_values, kept), op.count)
        words = f"sequences x (rows read + rows left waiting) x values of a row x {size_words(kept)} x count"
        yield Formula("state", words, numbers, op.traffic.state, "B")


def _index(view: View, layer: CompressedAttention) -> Iterator[Formula]:
    """Compressed keys are read and written; positions of the entries that are chosen are written."""
    indexer, batch, op, act = layer.indexer, view.batch, view.op, view.precision.activations
    assert indexer is not None
    rate, sequences, width = indexer.compressor.rate, int(batch.sequences), indexer.width
    before, made = _before(view, rate), _made(view, rate)
    for label, value, (words, text, many) in (
        ("KV read", op.traffic.kv_read, before), ("KV written", op.traffic.kv_write, made),
    ):  # fmt: skip
        if value:
            numbers = stored(times(sequences, text, width), sequences * many * width, view.precision.kv)
            words = f"sequences x {words} x width x {size_words(view.precision.kv)} x count"
            yield Formula(label, words, times(numbers, op.count), value, "B")
    if op.traffic.activations:
        tokens, heads = int(view.setting.tokens), indexer.heads
        product = f"({times(tokens, heads, f'({width} + 1)')} + {times(sequences, made[1], width)})"
        values = tokens * heads * (width + 1) + sequences * made[2] * width
        numbers = f"({stored(product, values, act)} + {times(tokens, indexer.top_k, _POSITION_BYTES)})"
        words = f"(tokens x heads x (width + 1) + sequences x {made[0]} x width) x {size_words(act)}"
        words = f"({words} + tokens x K x {_POSITION_BYTES}) x count"
        yield Formula("activations", words, times(numbers, op.count), op.traffic.activations, "B")


def _before(view: View, rate: int) -> tuple[str, str, int]:
    cached = int(view.batch.cached_tokens)
    return "(cached // m)", f"({number(cached)} // {number(rate)})", int(entries(cached, rate))


def _made(view: View, rate: int) -> tuple[str, str, int]:
    """Entries that a pass completes."""
    cached, new = int(view.batch.cached_tokens), int(view.batch.new_tokens)
    text = f"(({number(cached)} + {number(new)}) // {number(rate)} - {number(cached)} // {number(rate)})"
    made = int(entries(cached + new, rate) - entries(cached, rate))
    return "((cached + q) // m - cached // m)", text, made


def _attend(view: View, layer: CompressedAttention) -> Iterator[Formula]:
    """Keys of the window and entries are read, those of the new tokens written: each is key and value at once."""
    batch, op = view.batch, view.op
    new, cached, sequences = int(batch.new_tokens), int(batch.cached_tokens), int(batch.sequences)
    read = int(kv_tokens_read(new, cached, layer.span))
    read_words, read_text = "min(cached, W - 1)", f"min({number(cached)}, {number(layer.window)} - 1)"
    made_words, made_text, written = "q", number(new), new
    if layer.compressor is not None:
        words, text, many = _before(view, layer.compressor.rate)
        if layer.indexer is not None:
            words, text = f"min({words}, q x K)", f"min({text}, {times(new, layer.indexer.top_k)})"
            many = min(many, new * layer.indexer.top_k)
        read_words, read_text, read = f"({read_words} + {words})", f"({read_text} + {text})", read + many
        words, text, many = _made(view, layer.compressor.rate)
        made_words, made_text, written = f"(q + {words})", f"({number(new)} + {text})", new + many
    for label, value, words, text, many in (
        ("KV read", op.traffic.kv_read, read_words, read_text, read),
        ("KV written", op.traffic.kv_write, made_words, made_text, written),
    ):
        if value:
            numbers = key_text(layer, times(sequences, text), sequences * many, view.precision.kv)
            words = f"sequences x {words} x {key_words(view.precision.kv)} x count"
            yield Formula(label, words, times(numbers, op.count), value, "B")
    tokens, width = int(view.setting.tokens), layer.head_dim
    product = f"({times(tokens, 2, layer.heads)} + {times(sequences, made_text)}) x {width}"
    values = (tokens * 2 * layer.heads + sequences * written) * width
    yield from _activations(view, f"(tokens x 2 x heads + sequences x {made_words}) x d_k", product, values)


def key_words(kv: DType) -> str:
    """What the cache holds of one key or entry, in words."""
    return "(fp8 part + scales + rotated part in bf16)" if kv is DType.FP8_DS_MLA else f"d_k x {size_words(kv)}"


def key_text(layer: CompressedAttention, keys: str, many: int, kv: DType) -> str:
    """Bytes of `many` cached keys or entries, `keys` being how their number comes about."""
    if kv is not DType.FP8_DS_MLA:
        return stored(times(keys, layer.head_dim), many * layer.head_dim, kv)
    plain = layer.head_dim - layer.rope
    return times(keys, f"({plain} + 8 x ceil({plain} / 512) + {times(layer.rope, 2)})")
