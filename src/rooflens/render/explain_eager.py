"""Bytes of attention without a fused kernel: copies of the cache, and a score matrix that goes through memory."""

from __future__ import annotations

from collections.abc import Iterator

from rooflens.core.op import AttentionShape, DType, OpKind
from rooflens.count.span import full_pairs
from rooflens.render.explain_formula import Formula, number, size_words, stored, times
from rooflens.render.explain_span import span_of
from rooflens.render.explain_view import View

_FP32_BYTES = 4
_BOTH = "(cached + new tokens)"


def eager_bytes(view: View, shape: AttentionShape) -> Iterator[Formula]:
    """How the bytes of a copy, of one of the two products or of the softmax come about."""
    op = view.op
    if op.kind is OpKind.COPY:
        yield from _copy(view, shape)
    elif op.traffic.activations:
        yield _softmax(view, shape) if op.kind is OpKind.SOFTMAX else _product(view, shape)


def _seen(view: View) -> int:
    """Keys that a query is multiplied with: a dense mask over what the cache holds and the new tokens."""
    new, cached = int(view.batch.new_tokens), int(view.batch.cached_tokens)
    return int(full_pairs(new, cached, span_of(view))) // new


def _cache(view: View, shape: AttentionShape, label: str, which: str, tokens: int) -> Iterator[Formula]:
    value, kv = view.op.traffic.kv_read if label == "KV read" else view.op.traffic.kv_write, view.precision.kv
    if value:
        words = f"sequences x {which} x KV heads x (d_k + d_v) x {size_words(kv)} x count"
        numbers = times(_side(shape, number(tokens), tokens, shape.kv_heads, kv), view.op.count)
        yield Formula(label, words, numbers, value, "B")


def _copy(view: View, shape: AttentionShape) -> Iterator[Formula]:
    """Eager execution grows the cache by concatenation, and repeats K and V for every query head of a group."""
    op, act, kv = view.op, view.precision.activations, view.precision.kv
    cached, fresh = int(shape.kv_tokens), int(shape.q_tokens)
    if op.name.endswith(".cache_update"):
        yield from _cache(view, shape, "KV read", "cached tokens", cached)
        yield from _cache(view, shape, "KV written", "new tokens", fresh)
        first, second = (number(fresh), fresh, shape.kv_heads, act), (number(cached), cached, shape.kv_heads, kv)
        words = ("new tokens x KV heads", "cached tokens x KV heads")
    else:
        seen, both = fresh + cached, f"({number(cached)} + {number(fresh)})"
        first, second = (both, seen, shape.kv_heads, kv), (both, seen, shape.heads, act)
        words = (f"{_BOTH} x KV heads", f"{_BOTH} x heads")
    if not op.traffic.activations:
        return
    sides = " + ".join(_side(shape, *side) for side in (first, second))
    sizes = [size_words(side[3]) for side in (first, second)]
    each = " + ".join(f"{word} x (d_k + d_v) x {size}" for word, size in zip(words, sizes, strict=True))
    numbers = times(f"({sides})", op.count)
    yield Formula("activations", f"({each}) x sequences x count", numbers, op.traffic.activations, "B")


def _side(shape: AttentionShape, text: str, tokens: int, heads: int, dtype: DType) -> str:
    """Bytes of `tokens` tokens of `heads` heads of every sequence in `dtype`."""
    product = times(shape.sequences, text, heads, f"({shape.d_k} + {shape.d_v})")
    return stored(product, int(shape.sequences * tokens * heads * (shape.d_k + shape.d_v)), dtype)


def _product(view: View, shape: AttentionShape) -> Formula:
    """q k^T reads q and K and writes the scores; the weighted sum reads them and V, writes its output and copies it."""
    op, act = view.op, view.precision.activations
    scores = op.name.endswith(".scores")
    q, held, seen = int(shape.q_tokens), int(shape.kv_tokens + shape.q_tokens), _seen(view)
    name, width, rows = ("d_k", shape.d_k, 1) if scores else ("d_v", shape.d_v, 3)
    prefix = "" if rows == 1 else f"{rows} x "
    words = f"({prefix}q + keys) x {name} + q x keys"
    each = f"({prefix}{number(q)} + {number(held)}) x {width} + {times(q, seen)}"
    values = int(shape.sequences * shape.heads * ((rows * q + held) * width + q * seen))
    numbers = times(stored(times(shape.sequences, shape.heads, f"({each})"), values, act), op.count)
    words = f"sequences x heads x ({words}) x {size_words(act)} x count"
    return Formula("activations", words, numbers, op.traffic.activations, "B")


def _softmax(view: View, shape: AttentionShape) -> Formula:
    """Scale 2, mask 3 (and the mask once for all heads), cast 1 in and out: 6 passes and 2 more in fp32."""
    op, act = view.op, view.precision.activations
    q, held, seen = int(shape.q_tokens), int(shape.kv_tokens + shape.q_tokens), _seen(view)
    wide = 0 if act is DType.FP32 else 2 * _FP32_BYTES
    values = int(shape.sequences * q * (6 * shape.heads * seen + held))
    narrow = stored(times(shape.sequences, q, f"({times(6, shape.heads, seen)} + {number(held)})"), values, act)
    words = f"sequences x q x (6 x heads x keys + keys) x {size_words(act)}"
    if wide:
        words = f"({words} + sequences x q x keys x heads x 2 in fp32)"
        narrow = f"({narrow} + {times(shape.sequences, q, seen, shape.heads, 2, _FP32_BYTES)})"
    return Formula("activations", f"{words} x count", times(narrow, op.count), op.traffic.activations, "B")
