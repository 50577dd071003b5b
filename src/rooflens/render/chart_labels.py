"""The texts of a roofline chart, each where it covers no mark, no roof and no other text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rooflens.core.profile import Profile
from rooflens.render.chart_data import Mark, clean
from rooflens.render.chart_frame import LINE_PX, Box, Frame, Line, Spot, along, around, text_width
from rooflens.render.chart_roofs import RoofLine, position, slopes
from rooflens.render.palette import TEXT_PX
from rooflens.units import si

AREA_PX = 1500.0
"""Area in square pixels of a kernel that takes all of its phase's time."""

LEAST_AREA_PX = 14.0
PHASE_AREA_PX = 260.0
PHASE_RADIUS_PX = math.sqrt(PHASE_AREA_PX / 2)
NEAR_PX = 18.0
"""Kernels of a phase that are nearer than this, or whose circles overlap, share a label."""

LEAST_SHARE = 0.01
MOST_OBSTACLES = 300


def radius(mark: Mark) -> float:
    """Radius in pixels of a kernel's circle, whose area grows with its share of the time."""
    return math.sqrt((LEAST_AREA_PX + (AREA_PX - LEAST_AREA_PX) * mark.share) / math.pi)


def occupy(frame: Frame, roofs: Sequence[RoofLine], kernels: Sequence[Mark], phases: Sequence[Mark]) -> None:
    """Take what roofs and marks cover; the smallest of very many kernels may be written over."""
    for line in roofs:
        frame.lines.append(_flat(frame, line))
        if line.main:
            x, y = frame.pixel(line.ridge, line.roof.peak)
            frame.marks.append(Box(x - 5, y - 5, x + 5, y + 5))
    frame.lines.extend(_slope(frame, line) for line in slopes(roofs))
    frame.marks.extend(_circle(frame, mark, radius(mark)) for mark in kernels[:MOST_OBSTACLES])
    frame.marks.extend(_circle(frame, mark, PHASE_RADIUS_PX) for mark in phases)


def zone_names(frame: Frame, line: RoofLine) -> dict[str, Any]:
    """The names of the two zones under `line` at the foot of the plot, on both sides of its ridge point's line."""
    x, y = frame.pixel(line.ridge, line.roof.peak)
    frame.faint.append(Line(x, y, x, frame.height))
    rows: list[dict[str, Any]] = []
    for side, text in ((-1, "memory-bound"), (1, "compute-bound")):
        width, align = text_width(text), "left" if side > 0 else "right"
        start = x + 8 if side > 0 else x - 8 - width
        for above in (8.0, 24.0):
            foot = frame.height - above
            spot = Spot(
                x + 8 * side, foot, 0, 0, align, "bottom", (Box(start, foot - TEXT_PX, start + width, foot),), 0
            )
            if frame.place([spot]):
                rows += _rows(frame, spot, [text])
                break
    return _texts("zone-name", rows)


def roof_labels(frame: Frame, roofs: Sequence[RoofLine], zones: RoofLine) -> dict[str, Any]:
    """The peak along each flat roof, the rate along each slope, and the intensity of the ridge point of `zones`."""
    rows: list[dict[str, Any]] = []
    for line in roofs:
        spots = along(_flat(frame, line), line.peak_label, backwards=True)
        rows += _rows(frame, frame.place(spots, must=True), [line.peak_label])
    for line in slopes(roofs):
        spots = along(_slope(frame, line), line.bandwidth_label)
        rows += _rows(frame, frame.place(spots, must=True), [line.bandwidth_label])
    rows += _rows(frame, frame.place(_near_ridge(frame, zones), must=True), [zones.ridge_label])
    return _texts("roof-label", rows)


def ridge_labels(frame: Frame, roofs: Sequence[RoofLine], zones: RoofLine) -> dict[str, Any]:
    """The intensities of the other main ridge points, as far as there is room beside them."""
    rows: list[dict[str, Any]] = []
    for line in roofs:
        if line.main and line != zones:
            rows += _rows(frame, frame.place(_near_ridge(frame, line)), [line.ridge_label])
    return _texts("roof-label", rows)


def phase_labels(frame: Frame, profile: Profile, phases: Sequence[Mark]) -> list[dict[str, Any]]:
    """The name of each phase with its floor, beside its mark: a layer of leaders and one of texts."""
    floors = {str(phase.phase.kind): si(float(phase.floor_s), "s", 3) for phase in profile.phases}
    wanted = [(mark, PHASE_RADIUS_PX, [f"{mark.name} {floors[mark.phase]}"]) for mark in phases]
    return _point_layers(frame, wanted, weight="bold", must=True)


def kernel_labels(frame: Frame, kernels: Sequence[Mark], *, most: int, lines: int) -> list[dict[str, Any]]:
    """The largest kernels of each phase: at most `most` labels of `lines` lines each, where there is room.

    Kernels that lie together share a label, which counts those it does not name.
    """
    wanted: list[tuple[Mark, float, list[str]]] = []
    for phase in dict.fromkeys(mark.phase for mark in kernels):
        groups = _groups(frame, [mark for mark in kernels if mark.phase == phase])[:most]
        wanted += [(group[0], radius(group[0]), _group_text(group, lines)) for group in groups]
    return _point_layers(frame, wanted, weight="normal", must=False)


def _point_layers(
    frame: Frame, wanted: Sequence[tuple[Mark, float, list[str]]], *, weight: str, must: bool
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    leaders: list[dict[str, Any]] = []
    for mark, size, text in wanted:
        spot = frame.place(around(frame.pixel(mark.x, mark.y), size, text), must=must)
        rows += [{**row, "phase": mark.phase} for row in _rows(frame, spot, text)]
        if spot and spot.leader:
            leaders.append(_leader_row(frame, mark, spot.leader))
    texts = _texts("point-label", rows)
    texts["mark"] |= {"fontWeight": weight, "lineHeight": LINE_PX}
    texts["encoding"] |= {"color": {"field": "phase", "type": "nominal"}, "opacity": fade(1)}
    return [_leaders(leaders), texts]


def fade(opacity: float) -> dict[str, Any]:
    """Opacity of a mark of the phases that the legend has been clicked for, or of all; the rest recede."""
    return {"condition": {"param": "only", "value": opacity}, "value": 0.08}


def _groups(frame: Frame, kernels: Iterable[Mark]) -> list[list[Mark]]:
    """Kernels by the largest one that they lie near to, without the groups that take next to no time."""
    groups: list[list[Mark]] = []
    for mark in list(kernels)[:MOST_OBSTACLES]:
        at = frame.pixel(mark.x, mark.y)
        for group in groups:
            reach = max(NEAR_PX, radius(mark) + radius(group[0]))
            if math.dist(at, frame.pixel(group[0].x, group[0].y)) < reach:
                group.append(mark)
                break
        else:
            groups.append([mark])
    return [group for group in groups if sum(mark.share for mark in group) >= LEAST_SHARE]


def _group_text(group: Sequence[Mark], lines: int) -> list[str]:
    """The largest kernels of a group, a line each, and how many more there are if those take time worth naming."""
    named = [mark for mark in group if mark.share >= LEAST_SHARE] or group[:1]
    shown = named if len(named) <= lines else named[: lines - 1]
    text = [f"{clean(mark.name, 24)} {_short(mark.share)}" for mark in shown]
    rest = [mark for mark in group if mark not in shown]
    share = sum(mark.share for mark in rest)
    return [*text, f"{len(rest)} more {_short(share)}"] if share >= LEAST_SHARE else text


def _short(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 else "< 1 %"


def _flat(frame: Frame, line: RoofLine) -> Line:
    return Line(*frame.pixel(line.ridge, line.roof.peak), *frame.pixel(frame.x_domain[1], line.roof.peak))


def _slope(frame: Frame, line: RoofLine) -> Line:
    low = max(frame.x_domain[0], frame.y_domain[0] / line.roof.bandwidth)
    return Line(*frame.pixel(low, low * line.roof.bandwidth), *frame.pixel(line.ridge, line.roof.peak))


def _circle(frame: Frame, mark: Mark, r: float) -> Box:
    x, y = frame.pixel(mark.x, mark.y)
    return Box(x - r, y - r, x + r, y + r)


def _near_ridge(frame: Frame, line: RoofLine) -> Iterator[Spot]:
    """Places around a ridge point, the empty corner above the slope first."""
    spots = around(frame.pixel(line.ridge, line.roof.peak), 6, [line.ridge_label])
    near = (spot for spot in spots if spot.cost < 20)
    return (spot._replace(cost=spot.cost + (0 if spot.dx < 0 and spot.dy < 0 else 12), leader=None) for spot in near)


def _rows(frame: Frame, spot: Spot | None, text: list[str]) -> list[dict[str, Any]]:
    """A text at its spot as a row of plain data; none where there was no room."""
    if spot is None:
        return []
    x, y = (float(f"{value:.6g}") for value in frame.value(spot.x, spot.y))
    moved = {"dx": round(spot.dx, 1), "dy": round(spot.dy, 1), "angle": round(spot.angle, 2)}
    return [{"x": x, "y": y, "text": text, "align": spot.align, "baseline": spot.baseline, **moved}]


def _leader_row(frame: Frame, mark: Mark, leader: Line) -> dict[str, Any]:
    """The line from a mark to its text: it starts at the edge of the mark and keeps its length when zoomed."""
    x, y = frame.pixel(mark.x, mark.y)
    start, end = {"sx": leader.x0 - x, "sy": leader.y0 - y}, {"lx": leader.x1 - x, "ly": leader.y1 - y}
    moved = {key: round(value, 1) for key, value in {**start, **end}.items()}
    return {"phase": mark.phase, "x": mark.x, "y": mark.y, **moved}


def _texts(style: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    look = {key: {"expr": f"datum.{key}"} for key in ("align", "baseline", "dx", "dy", "angle")}
    return {
        "data": {"values": rows},
        "mark": {"type": "text", "style": style, "clip": True, "aria": False, **look},
        "encoding": {**position(), "text": {"field": "text"}},
    }


def _leaders(rows: list[dict[str, Any]]) -> dict[str, Any]:
    ends = {"xOffset": "sx", "yOffset": "sy", "x2Offset": "lx", "y2Offset": "ly"}
    look = {channel: {"expr": f"datum.{key}"} for channel, key in ends.items()}
    return {
        "data": {"values": rows},
        "mark": {"type": "rule", "style": "leader", "clip": True, "aria": False, **look},
        "encoding": {
            **position(),
            "x2": {"field": "x"},
            "y2": {"field": "y"},
            "color": {"field": "phase", "type": "nominal"},
            "opacity": fade(0.7),
        },
    }
