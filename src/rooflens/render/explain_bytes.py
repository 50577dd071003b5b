"""Bytes of a kernel, kind by kind, as formulas with its numbers in them, read from its Op and its Shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rooflens.core.op import AttentionShape, DType, GemmShape, Op, OpKind, PointwiseShape
from rooflens.render.explain_flops import View, biased_columns
from rooflens.render.explain_formula import Formula, number, size_words, stored, times

_FP32_BYTES = 4
_BOTH = "(cached + new tokens)"


def byte_formulas(view: View) -> Iterator[Formula]:
    """How the bytes of an op come about: weights, KV read, KV written, activations; kinds of 0 bytes are left out."""
    shape = view.op.shape
    if isinstance(shape, GemmShape):
        yield from _gemm(view, shape)
    elif view.op.kind is OpKind.COPY and view.shape is not None:
        yield from _copy(view, view.shape)
    elif view.shape is not None:
        yield from _attention(view, view.shape)
    elif isinstance(shape, PointwiseShape):
        yield from _pointwise(view, shape)


def _gemm(view: View, shape: GemmShape) -> Iterator[Formula]:
    op, precision = view.op, view.precision
    if op.traffic.weights:
        yield _weights(view, shape)
    if op.traffic.activations:
        narrow = precision.compute.bits < 16 and not view.is_head
        read = precision.compute if narrow else precision.activations
        m, write = int(shape.m), precision.activations
        if read is write:
            words = f"m x (k + n) x {size_words(write)} x count"
            values = m * (shape.k + shape.n)
            numbers = stored(times(m, f"({number(shape.k)} + {number(shape.n)})"), values, write)
        else:
            words = f"(m x k x {size_words(read)} + m x n x {size_words(write)}) x count"
            taken = stored(times(m, shape.k), m * shape.k, read)
            numbers = f"({taken} + {stored(times(m, shape.n), m * shape.n, write)})"
        yield Formula("activations", words, times(numbers, op.count), op.traffic.activations, "B")


def _weights(view: View, shape: GemmShape) -> Formula:
    """k n weights, and the biases, which stay in the dtype that quantisation leaves alone.

    Where the parts of a fused GEMM do not fill their last blocks, what they are padded by is a term of its own.
    """
    op, precision = view.op, view.precision
    dtype, kept = (precision.kept, precision.kept) if view.is_head else (precision.weights, precision.kept)
    values = shape.k * shape.n
    words, numbers = f"k x n x {size_words(dtype)}", stored(times(shape.k, shape.n), values, dtype)
    counted = int(dtype.bytes_of(values))
    biased = biased_columns(op, shape)
    if biased:
        words += f" + biases x {size_words(kept)}"
        numbers += f" + {stored(number(biased), biased, kept)}"
        counted += int(kept.bytes_of(biased))
    padding = int(op.traffic.weights) // op.count - counted
    if padding:
        words, numbers = f"{words} + whole blocks of each part", f"{numbers} + {padding}"
    if biased or padding:
        words, numbers = f"({words})", f"({numbers})"
    return Formula("weights", f"{words} x count", times(numbers, op.count), op.traffic.weights, "B")


def _attention(view: View, shape: AttentionShape) -> Iterator[Formula]:
    """A fused kernel, or a product or softmax of eager execution, which read and write the score matrix."""
    op, kind = view.op, view.op.name.rpartition(".")[2]
    if op.kind is OpKind.SOFTMAX:
        if op.traffic.activations:
            yield _softmax(view, shape)
    elif op.flops == op.model_flops:
        if op.traffic.activations:
            yield _product(view, shape, scores=kind == "scores")
    else:
        yield from _fused(view, shape)


def _fused(view: View, shape: AttentionShape) -> Iterator[Formula]:
    op, act = view.op, view.precision.activations
    yield from _cache(view, "KV read", op.traffic.kv_read, "cached tokens", int(shape.kv_tokens))
    yield from _cache(view, "KV written", op.traffic.kv_write, "new tokens", int(shape.q_tokens))
    if not op.traffic.activations:
        return
    heads = f"({shape.heads} + {shape.kv_heads})"
    widths = f"({shape.d_k} + {shape.d_v})"
    factors: tuple[Any, ...] = (shape.sequences, shape.q_tokens, heads, widths)
    words = f"sequences x q tokens x (heads + KV heads) x (d_k + d_v) x {size_words(act)} x count"
    values = int(shape.sequences * shape.q_tokens * (shape.heads + shape.kv_heads) * (shape.d_k + shape.d_v))
    numbers = times(stored(times(*factors), values, act), op.count)
    yield Formula("activations", words, numbers, op.traffic.activations, "B")


def _cache(view: View, label: str, value: Any, which: str, tokens: int) -> Iterator[Formula]:
    """K and V of `tokens` tokens of every sequence, in every KV head."""
    shape, kv = view.shape, view.precision.kv
    if not value or shape is None:
        return
    text = _sum(shape) if which == _BOTH else number(tokens)
    factors = (shape.sequences, text, shape.kv_heads, f"({shape.d_k} + {shape.d_v})")
    values = int(shape.sequences * tokens * shape.kv_heads * (shape.d_k + shape.d_v))
    words = f"sequences x {which} x KV heads x (d_k + d_v) x {size_words(kv)} x count"
    yield Formula(label, words, times(stored(times(*factors), values, kv), view.op.count), value, "B")


def _sum(shape: AttentionShape) -> str:
    return f"({number(int(shape.kv_tokens))} + {number(int(shape.q_tokens))})"


def _copy(view: View, shape: AttentionShape) -> Iterator[Formula]:
    """Eager execution grows the cache by concatenation, and repeats K and V for every query head of a group."""
    op, act, kv = view.op, view.precision.activations, view.precision.kv
    cached, fresh = int(shape.kv_tokens), int(shape.q_tokens)
    if op.name.endswith(".cache_update"):
        yield from _cache(view, "KV read", op.traffic.kv_read, "cached tokens", cached)
        yield from _cache(view, "KV written", op.traffic.kv_write, "new tokens", fresh)
        first, second = (number(fresh), fresh, shape.kv_heads, act), (number(cached), cached, shape.kv_heads, kv)
        words = ("new tokens x KV heads", "cached tokens x KV heads")
    else:
        seen = fresh + cached
        first, second = (_sum(shape), seen, shape.kv_heads, kv), (_sum(shape), seen, shape.heads, act)
        words = (f"{_BOTH} x KV heads", f"{_BOTH} x heads")
    if not op.traffic.activations:
        return
    sides = " + ".join(_side(shape, *side) for side in (first, second))
    sizes = [size_words(side[3]) for side in (first, second)]
    each = " + ".join(f"{word} x (d_k + d_v) x {size}" for word, size in zip(words, sizes, strict=True))
    yield Formula(
        "activations",
        f"({each}) x sequences x count",
        times(f"({sides})", op.count),
        op.traffic.activations,
        "B",
    )


def _side(shape: AttentionShape, text: str, tokens: int, heads: int, dtype: DType) -> str:
    """Bytes of `tokens` tokens of `heads` heads of every sequence in `dtype`."""
    factors = (shape.sequences, text, heads, f"({shape.d_k} + {shape.d_v})")
    return stored(times(*factors), int(shape.sequences * tokens * heads * (shape.d_k + shape.d_v)), dtype)


def _product(view: View, shape: AttentionShape, *, scores: bool) -> Formula:
    """q k^T reads q and K and writes the scores; the weighted sum reads them and V, writes its output and copies it."""
    op, act = view.op, view.precision.activations
    q, seen, width = int(shape.q_tokens), int(shape.kv_tokens + shape.q_tokens), shape.d_k if scores else shape.d_v
    name, rows, prefix = ("d_k", 1, "") if scores else ("d_v", 3, "3 x ")
    words = f"({prefix}q + keys) x {name} + q x keys"
    each = f"({prefix}{number(q)} + {number(seen)}) x {width} + {times(q, seen)}"
    values = int(shape.sequences * shape.heads * ((rows * q + seen) * width + q * seen))
    numbers = times(stored(times(shape.sequences, shape.heads, f"({each})"), values, act), op.count)
    return Formula(
        "activations",
        f"sequences x heads x ({words}) x {size_words(act)} x count",
        numbers,
        op.traffic.activations,
        "B",
    )


def _softmax(view: View, shape: AttentionShape) -> Formula:
    """Scale 2, mask 3 (and the mask once for all heads), cast 1 in and out: 6 passes and 2 more in fp32."""
    op, act = view.op, view.precision.activations
    q, seen = int(shape.q_tokens), int(shape.kv_tokens + shape.q_tokens)
    wide = 0 if act is DType.FP32 else 2 * _FP32_BYTES
    scores = int(shape.sequences * shape.heads * q * seen)
    narrow = stored(
        times(shape.sequences, q, seen, f"(6 x {shape.heads} + 1)"), 6 * scores + scores // shape.heads, act
    )
    words = f"sequences x q x keys x (6 x heads + 1) x {size_words(act)}"
    if wide:
        words = f"({words} + sequences x q x keys x heads x 2 in fp32)"
        narrow = f"({narrow} + {times(shape.sequences, q, seen, shape.heads, 2, _FP32_BYTES)})"
    return Formula("activations", f"{words} x count", times(narrow, op.count), op.traffic.activations, "B")


def _pointwise(view: View, shape: PointwiseShape) -> Iterator[Formula]:
    op, kept = view.op, view.precision.kept
    if op.traffic.weights:
        yield _rows(view, shape) if op.kind is OpKind.EMBEDDING else _parameters(op, kept)
    if op.traffic.activations:
        per_value = op.traffic.activations // (shape.values * op.count)
        words = "tokens x values x bytes per value, over all reads and writes, x count"
        numbers = times(shape.rows, shape.width, per_value, op.count)
        yield Formula("activations", words, numbers, op.traffic.activations, "B")


def _rows(view: View, shape: PointwiseShape) -> Formula:
    """The rows that are looked up: one per token, and one more where positions are learned."""
    rows, kept = shape.flops_per_value + 1, view.precision.kept
    numbers = stored(times(shape.rows, shape.width, rows), shape.values * rows, kept)
    return Formula("weights", f"tokens x width x rows x {size_words(kept)}", numbers, view.op.traffic.weights, "B")


def _parameters(op: Op, kept: DType) -> Formula:
    each = int(op.traffic.weights) // op.count
    values = int(each * 8 / kept.bits)
    numbers = times(stored(number(values), values, kept), op.count)
    return Formula("weights", f"parameters x {size_words(kept)} x count", numbers, op.traffic.weights, "B")
