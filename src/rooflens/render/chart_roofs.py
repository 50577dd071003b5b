"""The roofs of a roofline chart: bandwidth slopes, peaks, ridge points, and the zones below them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rooflens.core.hardware import Roof
from rooflens.core.op import DType
from rooflens.core.profile import Profile
from rooflens.render.chart_data import clean
from rooflens.render.figures import figure
from rooflens.roofline import ridge_point
from rooflens.units import si

FAR = 1e9
"""Lines run this factor beyond the ridge point: past the edges of the chart, wherever it is moved."""


@dataclass(frozen=True, slots=True)
class RoofLine:
    """A roof as it is drawn: `dtypes` that share its peak; `main` unless only pointwise kernels run under it."""

    roof: Roof
    dtypes: tuple[DType, ...]
    main: bool

    @property
    def ridge(self) -> float:
        """Ridge point in FLOP/byte."""
        return ridge_point(self.roof)

    @property
    def peak_label(self) -> str:
        """The dtypes and the peak with its unit; integer arithmetic counts OP, not FLOP."""
        names = ", ".join(str(dtype) for dtype in self.dtypes)
        unit = "OP/s" if all(str(dtype).startswith("int") for dtype in self.dtypes) else "FLOP/s"
        return f"{names}{'' if self.main else ' vector units'} {si(self.roof.peak, unit)}"

    @property
    def ridge_label(self) -> str:
        """The ridge point with its unit."""
        return f"ridge {figure(self.ridge)} FLOP/byte"

    @property
    def bandwidth_label(self) -> str:
        """The memory level and its bandwidth."""
        return f"{clean(self.roof.level, 24)} {self.rate}"

    @property
    def rate(self) -> str:
        """The bandwidth alone."""
        return si(self.roof.bandwidth, "B/s")


def roof_lines(profile: Profile) -> tuple[RoofLine, ...]:
    """The roofs that the kernels on the chart and the phases run under, highest peak first.

    Roofs of one peak and bandwidth are one line that names every dtype.
    """
    main = [phase.roof for phase in profile.phases]
    other: list[Roof] = []
    for phase in profile.phases:
        for point in phase.points:
            if point.op.flops and point.op.traffic.memory:
                (main if point.op.kind.on_matrix_units else other).append(point.roof)
    lines: dict[tuple[float, float], RoofLine] = {}
    for roof, is_main in [(roof, True) for roof in main] + [(roof, False) for roof in other]:
        key = (roof.peak, roof.bandwidth)
        line = lines.get(key, RoofLine(roof, (), is_main))
        dtypes = line.dtypes if roof.dtype in line.dtypes else (*line.dtypes, roof.dtype)
        lines[key] = RoofLine(line.roof, dtypes, line.main)
    return tuple(sorted(lines.values(), key=lambda line: -line.roof.peak))


def slopes(lines: Sequence[RoofLine]) -> tuple[RoofLine, ...]:
    """For each bandwidth the roof of the highest peak: the slope ends at its ridge point."""
    highest: dict[float, RoofLine] = {}
    for line in lines:
        highest.setdefault(line.roof.bandwidth, line)
    return tuple(highest.values())


def zone_layers(line: RoofLine) -> list[dict[str, Any]]:
    """The areas under a roof on both sides of its ridge point."""
    ridge, peak = line.ridge, line.roof.peak
    start, end = {"x": ridge / FAR, "y": peak / FAR}, {"x": ridge * FAR, "y": peak}
    corner = {"x": ridge, "y": peak}
    return [_zone("zone-memory", [start, corner], peak), _zone("zone-compute", [corner, end], peak)]


def _zone(style: str, values: list[dict[str, float]], peak: float) -> dict[str, Any]:
    return {
        "data": {"values": values},
        "mark": {"type": "area", "style": style, "clip": True, "aria": False},
        "encoding": {**position(), "y2": {"datum": peak / FAR / FAR}},
    }


def roof_layers(lines: Sequence[RoofLine], zones: RoofLine) -> list[dict[str, Any]]:
    """The slopes, the peaks, the ridge point of each main roof, and a line down to the axis from that of `zones`."""
    segments = [
        _segment(line.ridge / FAR, line.roof.peak / FAR, line.ridge, line.roof.peak, line.bandwidth_label)
        for line in slopes(lines)
    ]
    flat = {
        main: [
            _segment(line.ridge, line.roof.peak, line.ridge * FAR, line.roof.peak, line.peak_label)
            for line in lines
            if line.main is main
        ]
        for main in (True, False)
    }
    layers = [_rules("roof-vector", flat[False])] if flat[False] else []
    return [*layers, _ridge_drop(zones), _rules("roof", segments + flat[True]), _ridge_marks(lines)]


def _segment(x: float, y: float, x2: float, y2: float, roof: str) -> dict[str, Any]:
    return {"x": x, "y": y, "x2": x2, "y2": y2, "roof": roof}


def _rules(style: str, values: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "data": {"values": values},
        "mark": {"type": "rule", "style": style, "clip": True, "aria": False},
        "encoding": {
            **position(),
            "x2": {"field": "x2"},
            "y2": {"field": "y2"},
            "tooltip": [{"field": "roof", "title": "roof"}],
        },
    }


def _ridge_rows(lines: Sequence[RoofLine]) -> list[dict[str, Any]]:
    return [
        {
            "x": line.ridge,
            "y": line.roof.peak,
            "ridge": f"{figure(line.ridge)} FLOP/byte",
            "roof": f"{line.peak_label} over {line.bandwidth_label}",
        }
        for line in lines
        if line.main
    ]


def _ridge_drop(line: RoofLine) -> dict[str, Any]:
    return {
        "data": {"values": [{"x": line.ridge, "y": line.roof.peak}]},
        "mark": {"type": "rule", "style": "ridge-drop", "clip": True, "aria": False},
        "encoding": {**position(), "y2": {"datum": line.roof.peak / FAR}},
    }


def _ridge_marks(lines: Sequence[RoofLine]) -> dict[str, Any]:
    return {
        "data": {"values": _ridge_rows(lines)},
        "mark": {"type": "point", "style": "ridge", "shape": "circle", "size": 50, "clip": True, "opacity": 1},
        "encoding": {
            **position(),
            "tooltip": [{"field": "ridge", "title": "ridge point"}, {"field": "roof", "title": "roof"}],
        },
    }


def position() -> dict[str, Any]:
    """The two channels that every layer shares; their scales and axes are set once, in `chart`."""
    return {"x": {"field": "x", "type": "quantitative"}, "y": {"field": "y", "type": "quantitative"}}
