"""FLOP of a kernel as formulas with its numbers in them, read from its Op and its Shape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rooflens.core.model import Attention, ModelSpec, Reach
from rooflens.core.op import AttentionShape, GemmShape, Op, OpKind, PointwiseShape
from rooflens.core.profile import PhaseProfile, Profile
from rooflens.core.scenario import AttentionFlops, Batch, Conventions, Precision
from rooflens.count.attention import SOFTMAX_FLOPS, shape_of
from rooflens.count.setting import Setting
from rooflens.render.explain_formula import Formula, number, times


@dataclass(frozen=True, slots=True)
class View:
    """An op with what its formulas need to know of the pass.

    shape: of the attention that the op is or belongs to (the copies and the softmax of eager execution).
    """

    op: Op
    model: ModelSpec
    setting: Setting
    shape: AttentionShape | None

    @property
    def precision(self) -> Precision:
        """The dtypes of the pass."""
        return self.setting.precision

    @property
    def conventions(self) -> Conventions:
        """How the pass is counted."""
        return self.setting.conventions

    @property
    def batch(self) -> Batch:
        """The sequences and tokens of the pass."""
        return self.setting.batch

    @property
    def is_head(self) -> bool:
        """Whether the op is the output head, which quantisation leaves alone."""
        return self.op.kind is OpKind.GEMM and self.op.name == self.model.head.name


def views(profile: Profile, phase: PhaseProfile) -> list[View]:
    """A View of every op of `phase`, in order."""
    setting = Setting(phase.phase, profile.scenario.precision, profile.scenario.conventions)
    ops = [point.op for point in phase.points]
    return [View(op, profile.model, setting, _attention_of(ops, i)) for i, op in enumerate(ops)]


def _attention_of(ops: Sequence[Op], index: int) -> AttentionShape | None:
    """The shape of the op's own attention: a softmax follows its scores, a copy of the cache goes before them."""
    op = ops[index]
    if op.kind not in (OpKind.ATTENTION, OpKind.SOFTMAX, OpKind.COPY):
        return None
    nearby = ops[index:] if op.kind is OpKind.COPY else ops[index::-1]
    return next((other.shape for other in nearby if isinstance(other.shape, AttentionShape)), None)


def flop_formulas(view: View) -> Iterator[Formula]:
    """How the FLOP of an op come about; model FLOP first where they are fewer."""
    op, shape = view.op, view.op.shape
    if isinstance(shape, GemmShape):
        yield from _gemm(op, shape)
    elif view.shape is not None and op.kind is not OpKind.COPY:
        pairs = _pairs(view, view.shape)
        if pairs and op.kind is OpKind.ATTENTION:
            yield pairs
        yield from _attention(op, view.shape)
    elif isinstance(shape, PointwiseShape) and shape.flops_per_value:
        yield _pointwise(op, shape)


def _gemm(op: Op, shape: GemmShape) -> Iterator[Formula]:
    """2 m k n, a multiply-add being 2 FLOP; a bias adds 1 for each of its columns and tokens."""
    m, k, n = shape.m, shape.k, shape.n
    biased = biased_columns(op, shape)
    label = "model FLOP" if biased else "FLOP"
    yield Formula(label, "2 x m x k x n x count", times(2, m, k, n, op.count), op.model_flops, "FLOP")
    if biased:
        words = "(2 x k x n + biased columns) x m x count"
        numbers = times(f"({times(2, k, n)} + {number(biased)})", m, op.count)
        yield Formula("FLOP", words, numbers, op.flops, "FLOP")


def biased_columns(op: Op, shape: GemmShape) -> int:
    """Output columns with a bias: each adds 1 FLOP per token, which model FLOP leave out."""
    return int((op.flops - op.model_flops) // (shape.m * op.count))


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


def _pointwise(op: Op, shape: PointwiseShape) -> Formula:
    numbers = times(shape.rows, shape.width, shape.flops_per_value, op.count)
    return Formula("FLOP", "tokens x values x FLOP per value x count", numbers, op.flops, "FLOP")


def layer_of(view: View, shape: AttentionShape) -> Attention | None:
    """The layer of the model whose attention has `shape` in this pass, or None for one that is not the model's.

    A window longer than the context looks like full attention: the op's name tells them apart.
    """
    fits = [layer.attention for layer in view.model.layers if shape_of(layer.attention, view.setting) == shape]
    windowed = "_windowed" in view.op.name
    named = [layer for layer in fits if (layer.reach is Reach.WINDOW) is windowed]
    return next(iter(named or fits), None)


def _pairs(view: View, shape: AttentionShape) -> Formula | None:
    """How many (query, key) pairs one sequence and one head multiply."""
    layer = layer_of(view, shape)
    if layer is None:
        return None
    q, cached, window = int(shape.q_tokens), int(view.batch.cached_tokens), layer.window
    if view.conventions.attention_flops is AttentionFlops.FULL:
        words, numbers = "q x (cached + q)", times(q, f"({number(int(shape.kv_tokens))} + {number(q)})")
    elif q == 1:
        words, numbers = _one_query(cached, window)
    else:
        words, numbers = _many_queries(q, cached, window)
    return Formula("pairs", words, numbers, int(shape.pairs), "")


def _one_query(cached: int, window: int | None) -> tuple[str, str]:
    seen = f"{number(cached)} + 1"
    return ("cached + 1", seen) if window is None else ("min(cached + 1, W)", f"min({seen}, {number(window)})")


def _many_queries(q: int, cached: int, window: int | None) -> tuple[str, str]:
    """Query i sees all that is cached and i new tokens, until the window is full."""
    growing = q if window is None else max(min(window - cached, q), 0)
    words, numbers = "S x (S + 1) / 2", f"{times(growing, f'({number(growing)} + 1)')} / 2"
    if cached:
        words, numbers = f"S x cached + {words}", f"{times(growing, cached)} + {numbers}"
    if window is None or growing == q:
        return words, numbers
    rest = times(f"({number(q)} - {number(growing)})", window)
    return f"{words.replace('S', 'g')} + (S - g) x W", f"{numbers} + {rest}"
