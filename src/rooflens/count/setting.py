"""Setting: the pass that is counted, with the dtypes and conventions that every count function needs."""

from __future__ import annotations

from dataclasses import dataclass

from rooflens.core.arrays import Count, is_array
from rooflens.core.blocks import Linear
from rooflens.core.dtype import DType, Mixed, Stored
from rooflens.core.op import Traffic
from rooflens.core.scenario import Batch, Conventions, LatentForm, Logits, Phase, PhaseKind, Precision, TrafficModel


@dataclass(frozen=True, slots=True)
class Setting:
    """One forward pass as `count` sees it."""

    phase: Phase
    precision: Precision
    conventions: Conventions

    @property
    def batch(self) -> Batch:
        """The sequences and tokens of the pass."""
        return self.phase.batch

    @property
    def tokens(self) -> Count:
        """Tokens through the linear layers."""
        return self.batch.tokens

    @property
    def has_images(self) -> bool:
        """Whether any sequence has image tokens that cross-attention layers see."""
        images = self.batch.image_tokens
        return bool(images.any()) if is_array(images) else bool(images)

    @property
    def logit_tokens(self) -> Count:
        """Tokens through the output head: one per sequence, or all of them in a prefill with `--logits all`."""
        every = self.conventions.logits is Logits.ALL and self.phase.kind is PhaseKind.PREFILL
        return self.tokens if every else self.batch.sequences

    @property
    def eager(self) -> bool:
        """Whether the traffic of every framework op counts."""
        return self.conventions.traffic is TrafficModel.EAGER

    @property
    def absorbed(self) -> bool:
        """Whether latent attention runs in its absorbed form."""
        form = self.conventions.latent
        return self.phase.kind is PhaseKind.DECODE if form is LatentForm.AUTO else form is LatentForm.ABSORBED

    def stored(self, linear: Linear) -> Stored:
        """How the weights of `linear` are stored."""
        precision = self.precision
        return linear.dtype(precision.weights, precision.kept, overridden=precision.overridden)

    def arithmetic(self, linear: Linear) -> DType:
        """The dtype that `linear` is multiplied in: 16-bit weights of a quantised model run in 16 bit."""
        stored, compute = self.stored(linear), self.precision.compute
        if stored.bits >= 16:
            return self.precision.attention if compute.bits < 16 else compute
        lead = stored.lead if isinstance(stored, Mixed) else stored
        return dict(self.precision.arithmetic).get(lead, compute)

    @property
    def measured_experts(self) -> float | None:
        """Distinct experts of a layer that a decode step was measured to read; a prefill takes the expectation."""
        return self.conventions.distinct_experts if self.phase.kind is PhaseKind.DECODE else None

    def charged(self, traffic: Traffic) -> Traffic:
        """`traffic` as the traffic model charges it: the textbook one keeps the weights alone."""
        if self.conventions.traffic is TrafficModel.WEIGHTS:
            return Traffic(weights=traffic.weights)
        return traffic
