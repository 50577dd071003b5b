"""FLOP of a kernel as formulas with its numbers in them, read from its Op, its Shape and its step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rooflens.core.blocks import Linear
from rooflens.core.experts import Moe
from rooflens.core.op import AttentionShape, ExpertShape, GemmShape, Op, OpKind, PointwiseShape
from rooflens.core.recurrent import Recurrent
from rooflens.count import plan as steps
from rooflens.count.attention import SOFTMAX_FLOPS
from rooflens.count.recurrent import CONVOLUTION_ACTIVATION, Term, pointwise_terms, products
from rooflens.render.explain_compressed import compressed_flops
from rooflens.render.explain_formula import Formula, fraction, number, times
from rooflens.render.explain_span import pairs
from rooflens.render.explain_traced import traced_flops
from rooflens.render.explain_view import View


def flop_formulas(view: View) -> Iterator[Formula]:
    """How the FLOP of an op come about; what they are made of first, then model FLOP where they are fewer."""
    op, shape, recurrent, moe = view.op, view.op.shape, view.recurrent, view.moe
    if view.step is None:
        yield from traced_flops(view)
    elif view.compressed:
        yield from compressed_flops(view)
    elif isinstance(shape, GemmShape):
        yield from _gemm(view, shape)
    elif isinstance(shape, ExpertShape) and moe is not None:
        yield from _experts(view, shape, moe)
    elif op.kind is OpKind.INDEXER and view.shape is not None:
        yield from _indexer(view, view.shape)
    elif view.shape is not None and op.kind is not OpKind.COPY:
        if op.kind is OpKind.ATTENTION:
            yield pairs(view, view.shape)
        yield from _attention(op, view.shape)
    elif recurrent is not None:
        yield from _recurrent(view, recurrent)
    elif isinstance(shape, PointwiseShape) and shape.flops_per_value:
        yield _pointwise(op, shape)


def _gemm(view: View, shape: GemmShape) -> Iterator[Formula]:
    """2 m k n, a multiply-add being 2 FLOP; a bias adds 1 for each of its columns and tokens."""
    op, m, k, n = view.op, shape.m, shape.k, shape.n
    if view.latent is not None and not view.setting.absorbed:
        yield _expanded_tokens(view)
    if isinstance(view.step, steps.ImageProjection):
        images = times(view.batch.sequences, int(view.batch.image_tokens))
        yield Formula("m", "sequences x image tokens", images, int(shape.m), "tokens")
    biased = biased_columns(view.parts)
    label = "model FLOP" if biased else "FLOP"
    yield Formula(label, "2 x m x k x n x count", times(2, m, k, n, op.count), op.model_flops, "FLOP")
    if biased:
        words = "(2 x k x n + biased columns) x m x count"
        numbers = times(f"({times(2, k, n)} + {number(biased)})", m, op.count)
        yield Formula("FLOP", words, numbers, op.flops, "FLOP")


def _expanded_tokens(view: View) -> Formula:
    """Latents that are expanded: those of the new tokens, and those of the whole cache again."""
    batch = view.batch
    tokens = int(batch.sequences * (batch.new_tokens + batch.cached_tokens))
    numbers = times(batch.sequences, f"({number(int(batch.new_tokens))} + {number(int(batch.cached_tokens))})")
    return Formula("m", "sequences x (new + cached tokens)", numbers, tokens, "tokens")


def _experts(view: View, shape: ExpertShape, moe: Moe) -> Iterator[Formula]:
    """Every token goes through top_k experts: 2 k n FLOP for each of them; and how many experts that touches."""
    op, tokens = view.op, view.setting.tokens
    yield distinct(view, shape, moe)
    biased = biased_columns(view.parts)
    rows: tuple[Any, ...] = (tokens, moe.top_k)
    words, label = "2 x tokens x top_k x k x n x count", "model FLOP" if biased else "FLOP"
    yield Formula(label, words, times(2, *rows, shape.k, shape.n, op.count), op.model_flops, "FLOP")
    if biased:
        words = "(2 x k x n + biased columns) x tokens x top_k x count"
        each = f"({times(2, shape.k, shape.n)} + {number(biased)})"
        yield Formula("FLOP", words, times(each, *rows, op.count), op.flops, "FLOP")


def distinct(view: View, shape: ExpertShape, moe: Moe) -> Formula:
    """How many experts a pass reads: expected under uniform routing, or measured."""
    measured = view.setting.measured_experts
    if measured is not None:
        return Formula("experts read", "measured", fraction(measured), measured, f"of {moe.experts:,} experts")
    share = f"{number(moe.top_k)} / {number(moe.experts)}"
    numbers = f"{number(moe.experts)} x (1 - (1 - {share})^{number(view.setting.tokens)})"
    unit = f"of {moe.experts:,} experts"
    return Formula("experts read", "E x (1 - (1 - top_k / E)^tokens)", numbers, shape.experts, unit)


def biased_columns(parts: Sequence[Linear]) -> int:
    """Output columns with a bias: each adds 1 FLOP per token, which model FLOP leave out."""
    return sum(part.d_out for part in parts if part.bias)


def _attention(op: Op, shape: AttentionShape) -> Iterator[Formula]:
    """2 (d_k + d_v) FLOP for each pair and head, and the softmax's; eager execution has them one by one."""
    rest: tuple[Any, ...] = (shape.pairs, shape.heads, shape.sequences, op.count)
    words = "pairs x heads x sequences x count"
    step = op.name.rpartition(".")[2]
    if op.kind is OpKind.SOFTMAX:
        yield Formula("FLOP", f"{SOFTMAX_FLOPS} x {words}", times(SOFTMAX_FLOPS, *rest), op.flops, "FLOP")
        return
    if op.flops == op.model_flops:
        name, width = ("d_k", shape.d_k) if step == "scores" else ("d_v", shape.d_v)
        yield Formula("FLOP", f"2 x {name} x {words}", times(2, width, *rest), op.flops, "FLOP")
        return
    both = f"({shape.d_k} + {shape.d_v})"
    yield Formula("model FLOP", f"2 x (d_k + d_v) x {words}", times(2, both, *rest), op.model_flops, "FLOP")
    softmax = f"(2 x {both} + {SOFTMAX_FLOPS})"
    yield Formula(
        "FLOP", f"(2 x (d_k + d_v) + {SOFTMAX_FLOPS} for softmax) x {words}", times(softmax, *rest), op.flops, "FLOP"
    )


def _indexer(view: View, shape: AttentionShape) -> Iterator[Formula]:
    """q.k of every pair in every indexer head, with a ReLU and summed over heads, or with a maximum over blocks."""
    op = view.op
    yield pairs(view, shape)
    rest: tuple[Any, ...] = (shape.pairs, shape.heads, shape.sequences, op.count)
    words = "pairs x heads x sequences x count"
    if isinstance(view.step, steps.ScoreBlocks):
        name, each, more = "2 x width", f"2 x {shape.d_k}", "the maximum"
    else:
        name, each, more = "2 x (width + 1)", f"2 x ({shape.d_k} + {shape.d_v})", "the ReLU"
    yield Formula("model FLOP", f"{name} x {words}", times(each, *rest), op.model_flops, "FLOP")
    total = times(f"({each} + 1)", *rest)
    yield Formula("FLOP", f"({name} + 1 for {more}) x {words}", total, op.flops, "FLOP")


def _recurrent(view: View, layer: Recurrent) -> Iterator[Formula]:
    """The convolution value by value; the scan as matrix products and what is done value by value beside them."""
    op = view.op
    if op.kind is OpKind.CONVOLUTION:
        words = f"tokens x channels x (2 x kernel + {CONVOLUTION_ACTIVATION} for the activation) x count"
        each = f"({times(2, layer.conv_kernel)} + {CONVOLUTION_ACTIVATION})"
        yield Formula("FLOP", words, times(view.setting.tokens, layer.conv_channels, each, op.count), op.flops, "FLOP")
        return
    batch = view.batch
    terms = [term for term in products(layer, int(batch.new_tokens), view.stepping) if term.value]
    for term in terms:
        yield Formula(term.name, term.words, times(*term.factors), term.value, "FLOP")
    values = pointwise_terms(layer, view.stepping)
    numbers = times(view.setting.tokens, _sum_of(values), op.count)
    words = f"tokens x ({' + '.join(term.words for term in values)}) x count"
    if terms:
        names = " + ".join(term.name for term in terms)
        total = times(f"({' + '.join(number(term.value) for term in terms)})", batch.sequences, op.count)
        yield Formula("model FLOP", f"({names}) x sequences x count", total, op.model_flops, "FLOP")
        words, numbers = f"model FLOP + {words}", f"{number(op.model_flops)} + {numbers}"
    yield Formula("FLOP", words, numbers, op.flops, "FLOP")


def _sum_of(terms: Sequence[Term]) -> str:
    return f"({' + '.join(times(*term.factors) for term in terms)})"


def _pointwise(op: Op, shape: PointwiseShape) -> Formula:
    numbers = times(shape.rows, shape.width, shape.flops_per_value, op.count)
    return Formula("FLOP", "tokens x values x FLOP per value x count", numbers, op.flops, "FLOP")
