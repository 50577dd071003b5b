"""The texts of a roofline chart, each where it covers no mark, no roof and no other text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rooflens.core.profile import Profile
from rooflens.render.chart_data import PHASE, Mark, clean
from rooflens.render.chart_frame import LINE_PX, Box, Frame, Line, Spot, text_width
from rooflens.render.chart_roofs import RoofLine, position, slopes
from rooflens.render.chart_spots import along, anywhere, around, before, beside, on_level
from rooflens.render.palette import TEXT_PX
from rooflens.units import si

AREA_PX = 1500.0
"""Area in square pixels of a kernel that takes all of its phase's time."""

LEAST_AREA_PX = 14.0
PHASE_AREA_PX = 260.0
PHASE_RADIUS_PX = math.sqrt(PHASE_AREA_PX / 2)
NEAR_PX = 18.0
"""Kernels of a phase that are nearer than this, or whose circles overlap, share a label."""

FAR_PX = 110.0
"""Longest leader to a label that has another choice: fewer words, or to be left out."""

LEAST_SHARE = 0.01
MOST_OBSTACLES = 300
PointLayers = tuple[dict[str, Any], dict[str, Any]]
"""A layer of leaders and the layer of texts that they lead to."""


def radius(mark: Mark) -> float:
    """Radius in pixels of a kernel's circle, whose area grows with its share of the time, or of a phase's diamond."""
    if mark.kind == PHASE:
        return PHASE_RADIUS_PX
    return math.sqrt((LEAST_AREA_PX + (AREA_PX - LEAST_AREA_PX) * mark.share) / math.pi)


def occupy(frame: Frame, roofs: Sequence[RoofLine], zones: RoofLine, marks: Sequence[Mark]) -> None:
    """Take what roofs, the line between the zones and marks cover; the smallest of very many may be written over."""
    for line in roofs:
        frame.lines.append(_flat(frame, line))
        if line.main:
            x, y = frame.pixel(line.ridge, line.roof.peak)
            frame.marks.append(Box(x - 5, y - 5, x + 5, y + 5))
    frame.lines.extend(_slope(frame, line) for line in slopes(roofs))
    frame.lines.append(_drop(frame, zones))
    frame.marks.extend(_circle(frame, mark).grown(2) for mark in marks[:MOST_OBSTACLES])


def zone_names(frame: Frame, line: RoofLine) -> dict[str, Any]:
    """The names of the two zones under `line` at the foot of the plot, on both sides of its ridge point's line."""
    x, _ = frame.pixel(line.ridge, line.roof.peak)
    rows: list[dict[str, Any]] = []
    for side, align, text in ((-1, "right", "memory-bound"), (1, "left", "compute-bound")):
        start = x + 8 if side > 0 else x - 8 - text_width(text)
        feet = (frame.height - above for above in (8.0, 24.0, 40.0))
        boxes = {foot: Box(start, foot - TEXT_PX, start + text_width(text), foot) for foot in feet}
        spots = [Spot((text,), x + 8 * side, foot, 0, 0, align, "bottom", (box,), -foot) for foot, box in boxes.items()]
        rows += _rows(frame, frame.place(spots))
    return _texts("zone-name", rows)


def roof_labels(frame: Frame, roofs: Sequence[RoofLine], zones: RoofLine) -> dict[str, Any]:
    """The peak along each flat roof, the rate along each slope, and the intensity of the ridge point of `zones`."""
    rows: list[dict[str, Any]] = []
    for line in roofs:
        flat = _flat(frame, line)
        spots = [way(flat, text) for text in _folds(line.peak_label) for way in (on_level, before)]
        rows += _rows(frame, frame.place(*spots, must=True))
    for line in slopes(roofs):
        names = line.bandwidth_label, line.rate
        rows += _rows(frame, frame.place(*(along(_slope(frame, line), name) for name in names), must=True))
    spot = frame.place(_near_ridge(frame, zones), beside(_drop(frame, zones), zones.ridge_label), must=True)
    return _texts("roof-label", rows + _rows(frame, spot))


def _folds(label: str) -> list[list[str]]:
    """A label of a roof in one line, in two (its peak in the second), and in three."""
    words = label.split(" ")
    cuts = ([words], [words[:-2], words[-2:]], [words[:-4], words[-4:-2], words[-2:]])
    return [[" ".join(part) for part in parts if part] for parts in cuts]


def ridge_labels(frame: Frame, roofs: Sequence[RoofLine], zones: RoofLine) -> dict[str, Any]:
    """The intensities of the other main ridge points, as far as there is room beside them."""
    rows: list[dict[str, Any]] = []
    for line in roofs:
        if line.main and line != zones:
            rows += _rows(frame, frame.place(_near_ridge(frame, line)))
    return _texts("roof-label", rows)


def phase_labels(frame: Frame, profile: Profile, phases: Sequence[Mark]) -> PointLayers:
    """The name of each phase with its time, beside its mark: a layer of leaders and one of texts."""
    times = {str(phase.phase.kind): si(float(phase.time_s), "s", 3) for phase in profile.phases}
    wanted = [(mark, [[f"{mark.name} {times[mark.phase]}"]]) for mark in phases]
    return _point_layers(frame, wanted, weight="bold", must=True)


def kernel_labels(frame: Frame, kernels: Sequence[Mark], *, ranks: range, lines: int) -> PointLayers:
    """Labels of at most `lines` lines for the largest kernels of each phase: the groups with these `ranks` in time.

    The group of the largest kernel (rank 0) always has one, the others where there is room. Kernels that lie
    together share a label, which counts those it does not name.
    """
    phases = dict.fromkeys(mark.phase for mark in kernels)
    groups = [_groups(frame, [mark for mark in kernels if mark.phase == phase]) for phase in phases]
    ranked = [each[rank] for rank in ranks for each in groups if rank < len(each)]
    must = 0 in ranks
    sizes = ((lines, 24), (2, 24), (1, 24), (1, 15)) if must else ((lines, 24), (2, 24), (1, 24))
    wanted = [(group[0], [_group_text(group, *size) for size in sizes]) for group in ranked]
    return _point_layers(frame, wanted, weight="normal", must=must)


def _point_layers(
    frame: Frame, wanted: Sequence[tuple[Mark, list[list[str]]]], *, weight: str, must: bool
) -> PointLayers:
    """A layer of leaders and one of texts: each mark with the first of its texts that has room, long ones first."""
    rows: list[dict[str, Any]] = []
    leaders: list[dict[str, Any]] = []
    for mark, texts in wanted:
        at, size = frame.pixel(mark.x, mark.y), radius(mark)
        near = [around(at, size, text) for text in texts]
        far = [anywhere(frame, at, size, text, reach=FAR_PX) for text in texts]
        farther = [anywhere(frame, at, size, text, reach=math.inf) for text in texts[-2:] if must]
        spot = frame.place(near[0], far[0], *near[1:], *far[1:], *farther, must=must)
        rows += [{**row, "phase": mark.phase} for row in _rows(frame, spot)]
        if spot and spot.leader:
            leaders.append(_leader_row(frame, mark, spot.leader))
    layer = _texts("point-label", rows)
    layer["mark"] |= {"fontWeight": weight}
    layer["encoding"] |= {"color": {"field": "phase", "type": "nominal"}, "opacity": fade(1)}
    return _leaders(leaders), layer


def fade(opacity: float) -> dict[str, Any]:
    """Opacity of a mark of the phases that the legend has been clicked for, or of all; the rest recede."""
    return {"condition": {"param": "only", "value": opacity}, "value": 0.08}


def _groups(frame: Frame, kernels: Iterable[Mark]) -> list[list[Mark]]:
    """Kernels by the largest one that they lie near to, without the later groups that take next to no time."""
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
    return groups[:1] + [group for group in groups[1:] if sum(mark.share for mark in group) >= LEAST_SHARE]


def _group_text(group: Sequence[Mark], lines: int, longest: int) -> list[str]:
    """The largest kernels of a group, a line each, and how many more there are if those take time worth naming.

    longest: what a name is shortened to, in characters.
    """
    named = [mark for mark in group if mark.share >= LEAST_SHARE] or group[:1]
    shown = named if len(named) <= lines else named[: max(1, lines - 1)]
    text = [f"{clean(mark.name, longest)} {_short(mark.share)}" for mark in shown]
    rest = [mark for mark in group if mark not in shown]
    share = sum(mark.share for mark in rest)
    return [*text, f"{len(rest)} more {_short(share)}"] if share >= LEAST_SHARE and lines > 1 else text


def _short(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 else "< 1 %"


def _flat(frame: Frame, line: RoofLine) -> Line:
    return Line(*frame.pixel(line.ridge, line.roof.peak), *frame.pixel(frame.x_domain[1], line.roof.peak))


def _slope(frame: Frame, line: RoofLine) -> Line:
    low = max(frame.x_domain[0], frame.y_domain[0] / line.roof.bandwidth)
    return Line(*frame.pixel(low, low * line.roof.bandwidth), *frame.pixel(line.ridge, line.roof.peak))


def _drop(frame: Frame, line: RoofLine) -> Line:
    x, y = frame.pixel(line.ridge, line.roof.peak)
    return Line(x, y, x, frame.height)


def _circle(frame: Frame, mark: Mark) -> Box:
    (x, y), r = frame.pixel(mark.x, mark.y), radius(mark)
    return Box(x - r, y - r, x + r, y + r)


def _near_ridge(frame: Frame, line: RoofLine) -> Iterator[Spot]:
    """Places around a ridge point, the empty corner above the slope first."""
    spots = around(frame.pixel(line.ridge, line.roof.peak), 6, [line.ridge_label])
    near = (spot for spot in spots if spot.cost < 20)
    return (spot._replace(cost=spot.cost + (0 if spot.dx < 0 and spot.dy < 0 else 12), leader=None) for spot in near)


def _rows(frame: Frame, spot: Spot | None) -> list[dict[str, Any]]:
    """A text at its spot as a row of plain data; none where there was no room."""
    if spot is None:
        return []
    x, y = (float(f"{value:.6g}") for value in frame.value(spot.x, spot.y))
    moved = {"dx": round(spot.dx, 1), "dy": round(spot.dy, 1), "angle": round(spot.angle, 2)}
    return [{"x": x, "y": y, "text": list(spot.text), "align": spot.align, "baseline": spot.baseline, **moved}]


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
        "mark": {"type": "text", "style": style, "lineHeight": LINE_PX, "clip": True, "aria": False, **look},
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
