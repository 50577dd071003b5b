"""What a roofline chart shows, and the order in which its texts take their places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, NamedTuple

from rooflens.core.profile import Profile
from rooflens.render.chart_data import Mark, floor_marks
from rooflens.render.chart_frame import Frame
from rooflens.render.chart_labels import (
    PointLayers,
    kernel_labels,
    occupy,
    phase_labels,
    ridge_labels,
    roof_labels,
    zone_names,
)
from rooflens.render.chart_roofs import RoofLine

EASY_PX = 120.0
"""Pixels of leaders, all together, with which no other order is tried."""


@dataclass(frozen=True, slots=True)
class Content:
    """The marks and roofs of a profile's chart; a `narrow` one labels fewer kernels."""

    profile: Profile
    kernels: Sequence[Mark]
    phases: Sequence[Mark]
    roofs: Sequence[RoofLine]
    narrow: bool

    @property
    def main(self) -> RoofLine:
        """The roof that the zones lie under."""
        peak = self.profile.phases[0].roof.peak
        return next(line for line in self.roofs if line.roof.peak == peak)


class Labels(NamedTuple):
    """Layers of leaders and of text, and the strain of the frame before the texts that may be left out."""

    leaders: list[dict[str, Any]]
    texts: list[dict[str, Any]]
    strain: float


def labels(frame: Frame, content: Content) -> Labels:
    """Every text at its place: roofs, phases and largest kernels in an order that covers nothing with short leaders.

    Where there is none, in the order that strains least.
    """
    best: Labels | None = None
    for order in permutations(("roofs", "phases", "largest")):
        found = _labels(frame.empty(), content, order)
        if best is None or found.strain < best.strain:
            best = found
        if best.strain < EASY_PX:
            break
    assert best
    return best


def _labels(frame: Frame, content: Content, order: Sequence[str]) -> Labels:
    kernels, roofs, main = content.kernels, content.roofs, content.main
    occupy(frame, roofs, main, [*content.phases, *floor_marks(content.profile), *kernels])
    most = 2 if content.narrow else 4
    texts: list[dict[str, Any]] = []
    points: dict[str, PointLayers] = {}
    for name in order:
        if name == "roofs":
            texts += [zone_names(frame, main), roof_labels(frame, roofs, main)]
        elif name == "phases":
            points[name] = phase_labels(frame, content.profile, content.phases)
        else:
            points[name] = kernel_labels(frame, kernels, ranks=range(1), lines=most)
    strain = frame.strain
    texts.append(ridge_labels(frame, roofs, main))
    points["others"] = kernel_labels(frame, kernels, ranks=range(1, most), lines=most)
    layers = [points[name] for name in ("phases", "largest", "others")]
    return Labels([leader for leader, _ in layers], [*texts, *(text for _, text in layers)], strain)
