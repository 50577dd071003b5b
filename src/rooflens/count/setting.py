"""Setting: the pass that is counted, with the dtypes and conventions that every count function needs."""

from __future__ import annotations

from dataclasses import dataclass

from rooflens.core.arrays import Count
from rooflens.core.op import Traffic
from rooflens.core.scenario import Batch, Conventions, Logits, Phase, PhaseKind, Precision, TrafficModel


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
    def logit_tokens(self) -> Count:
        """Tokens through the output head: one per sequence, or all of them in a prefill with `--logits all`."""
        every = self.conventions.logits is Logits.ALL and self.phase.kind is PhaseKind.PREFILL
        return self.tokens if every else self.batch.sequences

    @property
    def eager(self) -> bool:
        """Whether the traffic of every framework op counts."""
        return self.conventions.traffic is TrafficModel.EAGER

    def charged(self, traffic: Traffic) -> Traffic:
        """`traffic` as the traffic model charges it: the textbook one keeps the weights alone."""
        if self.conventions.traffic is TrafficModel.WEIGHTS:
            return Traffic(weights=traffic.weights)
        return traffic
