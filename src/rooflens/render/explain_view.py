"""View: an op with the step of the plan that it counts, so that its formulas know which projections it runs."""

from __future__ import annotations

from dataclasses import dataclass

from rooflens.core.attention import Attention, LatentAttention
from rooflens.core.blocks import Linear
from rooflens.core.compressed import CompressedAttention
from rooflens.core.dtype import Stored
from rooflens.core.experts import Moe
from rooflens.core.model import ModelSpec
from rooflens.core.op import AttentionShape, Op, OpKind
from rooflens.core.profile import PhaseProfile, Profile
from rooflens.core.recurrent import Recurrent
from rooflens.core.scenario import Batch, Conventions, PhaseKind, Precision
from rooflens.count import plan as steps
from rooflens.count.attention import shape_of
from rooflens.count.forward import kernels
from rooflens.count.latent import halves
from rooflens.count.plan import Step
from rooflens.count.setting import Setting


@dataclass(frozen=True, slots=True)
class View:
    """An op with what its formulas need to know of the pass.

    step: of the plan, None for an op that was not counted from shapes (one of a trace).
    setting: the pass that the op is counted in; a vision encoder has one of its own.
    """

    op: Op
    step: Step | None
    model: ModelSpec
    setting: Setting

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
    def stepping(self) -> bool:
        """Whether the pass is a decode step."""
        return self.setting.phase.kind is PhaseKind.DECODE

    @property
    def parts(self) -> tuple[Linear, ...]:
        """The projections that the op computes together; none for one that is no GEMM.

        Of latent attention the expansion, or the half of it that the op is.
        """
        match self.step:
            case steps.Projection(_, parts) | steps.ImageProjection(_, parts) | steps.Experts(_, _, parts):
                return parts
            case steps.Head(linear):
                return (linear,)
            case steps.AttendLatent(_, layer, expansion):
                return next(((half,) for half in halves(layer, expansion) if half.name == self.op.name), (expansion,))
            case steps.AttendCompressed(_, _, linear):
                return (linear,)
            case _:
                return ()

    @property
    def moe(self) -> Moe | None:
        """The experts that the op multiplies by, if it does."""
        return self.step.layer if isinstance(self.step, steps.Experts) else None

    @property
    def latent(self) -> LatentAttention | None:
        """The latent attention that the op is a part of, if it is."""
        return self.step.layer if isinstance(self.step, steps.AttendLatent) else None

    @property
    def attention(self) -> Attention | LatentAttention | CompressedAttention | None:
        """The attention that the op is or belongs to, if it does."""
        attends = (steps.Attend, steps.AttendLatent, steps.AttendCompressed)
        return self.step.layer if isinstance(self.step, attends) else None

    @property
    def compressed(self) -> bool:
        """Whether the op belongs to attention over compressed entries or to mixed residual streams."""
        return isinstance(self.step, (steps.AttendCompressed, steps.Mix))

    @property
    def recurrent(self) -> Recurrent | None:
        """The recurrent layer that the op is a part of, if it is."""
        return self.step.layer if isinstance(self.step, (steps.Scan, steps.Convolve)) else None

    @property
    def shape(self) -> AttentionShape | None:
        """Of the attention that the op is or belongs to: the copies and the softmax of eager execution have it too."""
        if isinstance(self.op.shape, AttentionShape):
            return self.op.shape
        return shape_of(self.step.layer, self.setting) if isinstance(self.step, steps.Attend) else None

    @property
    def is_head(self) -> bool:
        """Whether the op is the output head, which quantisation usually leaves alone."""
        return isinstance(self.step, steps.Head)

    @property
    def per_head(self) -> bool:
        """Whether the op is one half of an absorbed expansion: every head has an input of its own."""
        return self.latent is not None and self.op.kind is OpKind.GEMM and self.setting.absorbed

    def stored(self, linear: Linear) -> Stored:
        """How the weights of `linear` are stored."""
        return self.setting.stored(linear)


def views(profile: Profile, phase: PhaseProfile) -> list[View]:
    """A View of every op of `phase`, in order; without steps where the ops are not those that the counts give."""
    precision, conventions = profile.scenario.precision, profile.scenario.conventions
    counted = list(kernels(profile.model, phase.phase, precision, conventions))
    ops = [point.op for point in phase.points]
    if [op.name for _, _, op in counted] == [op.name for op in ops]:
        return [View(op, step, profile.model, own) for (step, own, _), op in zip(counted, ops, strict=True)]
    setting = Setting(phase.phase, precision, conventions)
    return [View(op, None, profile.model, setting) for op in ops]
