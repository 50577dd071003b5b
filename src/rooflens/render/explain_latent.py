"""Bytes of latent attention in its two forms, as formulas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rooflens.core.attention import LatentAttention
from rooflens.core.op import AttentionShape, DType
from rooflens.render.explain_formula import Formula, number, size_words, stored, times
from rooflens.render.explain_span import read_tokens
from rooflens.render.explain_view import View


def latent_bytes(view: View, layer: LatentAttention, shape: AttentionShape | None) -> Iterator[Formula]:
    """Cache and activations of one kernel of latent attention; of a GEMM (no `shape`) the cache alone."""
    op, new, cached = view.op, int(view.batch.new_tokens), int(view.batch.cached_tokens)
    read = read_tokens(view) if view.setting.absorbed else ("cached tokens", number(cached), cached)
    fresh = ("new tokens", number(new), new)
    for label, value, tokens in (("KV read", op.traffic.kv_read, read), ("KV written", op.traffic.kv_write, fresh)):
        if value:
            yield _latents(view, layer, tokens, Formula(label, "", "", value, "B"))
    if op.traffic.activations and shape is not None:
        yield _absorbed(view, layer, shape) if view.setting.absorbed else _expanded(view, shape)


def _latents(view: View, layer: LatentAttention, tokens: tuple[str, str, int], which: Formula) -> Formula:
    """Latent and rotated key of the tokens of every sequence: read once for keys and values alike."""
    words, text, many = tokens
    sequences = int(view.batch.sequences)
    numbers = latent_text(layer, times(sequences, text), sequences * many, view.precision.kv)
    words = f"sequences x {words} x {latent_words(view.precision.kv)} x count"
    return Formula(which.label, words, times(numbers, view.op.count), which.value, which.unit)


def latent_words(kv: DType) -> str:
    """What the cache holds of one token and layer, in words."""
    if kv is DType.FP8_DS_MLA:
        return "(latent in fp8 with its scales + rotated key in bf16)"
    return f"(latent + rotated key) x {size_words(kv)}"


def latent_text(layer: LatentAttention, tokens: str, many: int, kv: DType) -> str:
    """Bytes of the cached latents of `many` tokens, `tokens` being how their number comes about."""
    if kv is DType.FP8_DS_MLA:
        rope = times(layer.rope, int(DType.BF16.bytes_of(1)))
        return times(tokens, f"({stored(number(layer.kv_rank), layer.kv_rank, kv)} + {rope})")
    return stored(times(tokens, f"({layer.kv_rank} + {layer.rope})"), many * layer.latent_values, kv)


def _expanded(view: View, shape: AttentionShape) -> Formula:
    """q in, output out, and the expanded keys and values of every head: of the new tokens and of those read."""
    _, text, many = read_tokens(view)
    act, q = view.precision.activations, int(shape.q_tokens)
    widths = f"({shape.d_k} + {shape.d_v})"
    seen: tuple[Any, ...] = (shape.sequences, f"(2 x {number(q)} + {text})", shape.heads, widths)
    values = int(shape.sequences * (2 * q + many) * shape.heads * (shape.d_k + shape.d_v))
    words = f"sequences x (2 x q + keys read) x heads x (d_k + d_v) x {size_words(act)} x count"
    numbers = times(stored(times(*seen), values, act), view.op.count)
    return Formula("activations", words, numbers, view.op.traffic.activations, "B")


def _absorbed(view: View, layer: LatentAttention, shape: AttentionShape) -> Formula:
    """Queries and outputs of every head as wide as the latent, and the new latent itself."""
    act, tokens = view.precision.activations, int(view.setting.tokens)
    each = f"({layer.heads} x ({shape.d_k} + {shape.d_v}) + {shape.d_k})"
    values = tokens * (layer.heads * (shape.d_k + shape.d_v) + shape.d_k)
    words = f"tokens x (heads x (d_k + d_v) + new latent) x {size_words(act)} x count"
    numbers = times(stored(times(tokens, each), values, act), view.op.count)
    return Formula("activations", words, numbers, view.op.traffic.activations, "B")
