"""Bytes of a kernel, kind by kind, as formulas with its numbers in them, read from its Op, its Shape and its step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rooflens.core.blocks import Linear
from rooflens.core.dtype import Stored
from rooflens.core.op import AttentionShape, DType, ExpertShape, GemmShape, Op, OpKind, PointwiseShape, ScanShape
from rooflens.core.recurrent import Recurrent
from rooflens.count import plan as steps
from rooflens.render.explain_compressed import compressed_bytes
from rooflens.render.explain_eager import eager_bytes
from rooflens.render.explain_formula import Formula, fraction, matrix, matrix_words, number, size_words, stored, times
from rooflens.render.explain_indexer import block_bytes, image_bytes, indexer_bytes
from rooflens.render.explain_latent import latent_bytes
from rooflens.render.explain_span import read_tokens
from rooflens.render.explain_traced import traced_bytes
from rooflens.render.explain_view import View


def byte_formulas(view: View) -> Iterator[Formula]:
    """How the bytes of an op come about: weights, KV, activations and state; kinds of 0 bytes are left out."""
    op, shape, recurrent = view.op, view.op.shape, view.recurrent
    if view.step is None:
        yield from traced_bytes(view)
    elif view.compressed:
        yield from compressed_bytes(view)
    elif recurrent is not None:
        yield from _recurrent(view, recurrent)
    elif isinstance(shape, (GemmShape, ExpertShape)):
        yield from _matrices(view, shape)
    elif view.shape is None:
        yield from _pointwise(view, shape)
    elif isinstance(view.step, steps.ScoreBlocks):
        yield from block_bytes(view, view.step.layer)
    elif isinstance(view.step, steps.AttendImages):
        yield from image_bytes(view, view.step.layer)
    elif view.latent is not None and view.latent.indexer is not None and op.kind is OpKind.INDEXER:
        yield from indexer_bytes(view, view.latent.indexer, view.latent.top_k or 0)
    elif view.latent is not None:
        yield from latent_bytes(view, view.latent, view.shape)
    elif op.kind is OpKind.ATTENTION and op.flops != op.model_flops:
        yield from _fused(view, view.shape)
    else:
        yield from eager_bytes(view, view.shape)


def _matrices(view: View, shape: GemmShape | ExpertShape) -> Iterator[Formula]:
    op = view.op
    if op.traffic.weights:
        yield _weights(view, shape)
    if view.latent is not None:
        yield from latent_bytes(view, view.latent, None)
    if op.traffic.activations:
        yield _per_head(view, shape) if view.per_head else _rows_in_and_out(view, shape)


def _weights(view: View, shape: GemmShape | ExpertShape) -> Formula:
    """k n weights, and the biases, which stay in the dtype that quantisation leaves alone."""
    op, kept = view.op, view.precision.kept
    dtype = view.stored(view.parts[0])
    words = matrix_words(dtype)
    one = view.per_head
    numbers = matrix(shape.k, shape.n, dtype) if one else _side_by_side(view.parts, shape, dtype)
    biases = [part.d_out for part in view.parts if part.bias]
    if biases:
        words = f"({words} + biases x {size_words(kept)})"
        numbers = f"({numbers} + {' + '.join(stored(number(width), width, kept) for width in biases)})"
    if isinstance(shape, ExpertShape):
        words, numbers = f"experts read x {words}", times(fraction(shape.experts), numbers)
    return Formula("weights", f"{words} x count", times(numbers, op.count), op.traffic.weights, "B")


def _side_by_side(parts: Sequence[Linear], shape: GemmShape | ExpertShape, dtype: Stored) -> str:
    """Bytes of the matrices that a kernel multiplies by; apart where one has scales or padding of its own."""
    if sum(dtype.matrix_bytes(part.d_in, part.d_out) for part in parts) == dtype.matrix_bytes(shape.k, shape.n):
        return matrix(shape.k, shape.n, dtype)
    return f"({' + '.join(matrix(part.d_in, part.d_out, dtype) for part in parts)})"


def _rows_in_and_out(view: View, shape: GemmShape | ExpertShape) -> Formula:
    """Input in the GEMM's own dtype where that is narrow, output in the activations' dtype."""
    op, write = view.op, view.precision.activations
    read = op.dtype if op.dtype.bits < 16 else write
    m = int(shape.m)
    if read is write:
        words = f"m x (k + n) x {size_words(write)} x count"
        values = m * (shape.k + shape.n)
        numbers = stored(times(m, f"({number(shape.k)} + {number(shape.n)})"), values, write)
    else:
        words = f"(m x k x {size_words(read)} + m x n x {size_words(write)}) x count"
        taken = stored(times(m, shape.k), m * shape.k, read)
        numbers = f"({taken} + {stored(times(m, shape.n), m * shape.n, write)})"
    return Formula("activations", words, times(numbers, op.count), op.traffic.activations, "B")


def _per_head(view: View, shape: GemmShape | ExpertShape) -> Formula:
    """Half of an absorbed expansion: each head has an input of k values and an output of its own."""
    assert view.latent is not None
    op, act, heads = view.op, view.precision.activations, view.latent.heads
    out = shape.n // heads
    values = int(shape.m) * heads * (shape.k + out)
    numbers = stored(times(shape.m, heads, f"({number(shape.k)} + {number(out)})"), values, act)
    words = f"m x heads x (k + n / heads) x {size_words(act)} x count"
    return Formula("activations", words, times(numbers, op.count), op.traffic.activations, "B")


def _fused(view: View, shape: AttentionShape) -> Iterator[Formula]:
    op, act = view.op, view.precision.activations
    widths = f"({shape.d_k} + {shape.d_v})"
    for label, value, (words, text, tokens) in (
        ("KV read", op.traffic.kv_read, read_tokens(view)),
        ("KV written", op.traffic.kv_write, ("new tokens", number(int(shape.q_tokens)), int(shape.q_tokens))),
    ):
        if value:
            yield _cache(view, shape, Formula(label, words, text, value, "B"), tokens)
    if not op.traffic.activations:
        return
    factors: tuple[Any, ...] = (shape.sequences, shape.q_tokens, f"({shape.heads} + {shape.kv_heads})", widths)
    words = f"sequences x q tokens x (heads + KV heads) x (d_k + d_v) x {size_words(act)} x count"
    values = int(shape.sequences * shape.q_tokens * (shape.heads + shape.kv_heads) * (shape.d_k + shape.d_v))
    numbers = times(stored(times(*factors), values, act), op.count)
    yield Formula("activations", words, numbers, op.traffic.activations, "B")


def _cache(view: View, shape: AttentionShape, which: Formula, tokens: int) -> Formula:
    """K and V of `tokens` tokens of every sequence, in every KV head; `which` has the tokens in words and numbers."""
    kv, widths = view.precision.kv, f"({shape.d_k} + {shape.d_v})"
    values = int(shape.sequences * tokens * shape.kv_heads * (shape.d_k + shape.d_v))
    numbers = stored(times(shape.sequences, which.numbers, shape.kv_heads, widths), values, kv)
    words = f"sequences x {which.words} x KV heads x (d_k + d_v) x {size_words(kv)} x count"
    return Formula(which.label, words, times(numbers, view.op.count), which.value, which.unit)


def _recurrent(view: View, layer: Recurrent) -> Iterator[Formula]:
    """The state is written in every pass, and read in a step; a scan reads its inputs and writes its output."""
    op, act = view.op, view.precision.activations
    scans = isinstance(op.shape, ScanShape)
    if op.traffic.activations:
        tokens, width = int(view.setting.tokens), layer.scan_width
        numbers = times(stored(times(tokens, width), tokens * width, act), op.count)
        words = f"tokens x values in and out x {size_words(act)} x count"
        yield Formula("activations", words, numbers, op.traffic.activations, "B")
    if op.traffic.state:
        kept = view.precision.state or (DType.FP32 if scans else act)
        values = layer.state_values if scans else layer.conv_values
        text = number(values) if scans else times(layer.conv_channels, f"({layer.conv_kernel} - 1)")
        moves = ("2 (read and written)", "2") if view.stepping else ("1 (written)", "1")
        words = f"sequences x {'state values' if scans else 'channels x (kernel - 1)'} x {size_words(kept)}"
        numbers = times(view.batch.sequences, stored(text, values, kept), moves[1], op.count)
        yield Formula("state", f"{words} x {moves[0]} x count", numbers, op.traffic.state, "B")


def _pointwise(view: View, shape: Any) -> Iterator[Formula]:
    op, kept = view.op, view.precision.kept
    assert isinstance(shape, PointwiseShape)
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
