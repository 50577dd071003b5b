"""Repeats of one measurement -> one figure: the median of the better half, and how far the repeats lie apart."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from rooflens.core.hardware import Ceiling
from rooflens.core.op import Provenance


@dataclass(frozen=True, slots=True)
class Repeats:
    """Rates of the repeats of one measurement, per second, and the variant that was repeated.

    The figure is the median of the better half. A ceiling is what the machine can do, so that the slow repeats, in
    which something else ran, do not count; the single best would be one lucky reading of the clock, which no later
    run reaches.
    """

    rates: tuple[float, ...]
    variant: str = ""

    @property
    def value(self) -> float:
        """Median of the better half of the rates (of one rate: itself)."""
        better = sorted(self.rates, reverse=True)[: (len(self.rates) + 1) // 2]
        return statistics.median(better)

    @property
    def spread(self) -> float:
        """(largest - smallest) / median of all rates."""
        return (max(self.rates) - min(self.rates)) / statistics.median(self.rates)

    def ceiling(self, note: str) -> Ceiling:
        """The figure as a measured ceiling; `note` says what held, after the variant."""
        words = "; ".join(filter(None, (self.variant, note)))
        value = float(f"{self.value:.5g}")
        return Ceiling(value, Provenance("measured", "measured here", words), round(self.spread, 4))


def best(candidates: Sequence[Repeats]) -> Repeats:
    """The candidate with the highest figure. Raises ValueError where there is none."""
    return max(candidates, key=lambda repeats: repeats.value)
