"""forward: a model and a pass to the ops that run, one line for each kind of kernel."""

from __future__ import annotations

from collections.abc import Iterable

from rooflens.core.model import ModelSpec
from rooflens.core.op import Op
from rooflens.core.scenario import Conventions, Phase, Precision
from rooflens.count import pointwise
from rooflens.count.attention import attention
from rooflens.count.eager import eager_attention
from rooflens.count.gemm import linear, output_head
from rooflens.count.plan import Activate, AddResidual, Attend, Embed, Head, Normalise, Projection, Rotate, Step, plan
from rooflens.count.setting import Setting


def forward(model: ModelSpec, phase: Phase, precision: Precision, conventions: Conventions) -> tuple[Op, ...]:
    """Count one forward pass of `model`: every kernel once, with how often it runs.

    Counts are exact Python integers for integer batches, float64 arrays for arrays. FLOP and bytes of an
    op are totals over its `count`.
    """
    setting = Setting(phase, precision, conventions)
    steps = plan(model, conventions.fusion)
    return tuple(op.times(count) for step, count in steps.items() for op in _count(step, setting))


def _count(step: Step, setting: Setting) -> Iterable[Op]:
    match step:
        case Projection(name, parts):
            return (linear(name, setting.tokens, parts, setting),)
        case Attend(name, layer):
            return eager_attention(name, layer, setting) if setting.eager else (attention(name, layer, setting),)
        case Normalise(norm, adds_residual):
            return (pointwise.norm(norm, setting, adds_residual=adds_residual),)
        case Rotate(name, width):
            return (pointwise.rotary(name, width, setting),)
        case Activate(name, width, gated):
            return (pointwise.activation(name, width, gated, setting),)
        case AddResidual(name, width):
            return (pointwise.residual(name, width, setting),)
        case Embed(name, width, positions):
            return (pointwise.embedding(name, width, positions, setting),)
        case Head(head):
            return (output_head(head, setting),)
