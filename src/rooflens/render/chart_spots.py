"""Where a text of the chart may stand: places around a mark, beside a line, and anywhere with a leader.

Every generator yields `Spot`s for `Frame.place` to choose from; none looks at what is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rooflens.render.chart_frame import LINE_PX, Box, Frame, Line, Spot, text_width

_STEP_X, _STEP_Y = 9, 7


def around(anchor: tuple[float, float], radius: float, lines: Sequence[str]) -> Iterator[Spot]:
    """Places for `lines` of text around a mark of `radius` pixels: below and to the right first, then farther out."""
    width, height = max(map(text_width, lines)), LINE_PX * len(lines)
    for gap in (5.0, 14.0, 28.0, 46.0):
        for turn, degrees in enumerate((25, 60, 0, 90, 120, 155, 180, 205, 240, 270, 300, 335)):
            ux, uy = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
            dx, dy = ux * (radius + gap), uy * (radius + gap)
            align = "left" if ux > 0.3 else "right" if ux < -0.3 else "center"
            top = dy - height / 2 * (1 - uy)
            x0 = anchor[0] + dx - {"left": 0.0, "right": width, "center": width / 2}[align]
            box = Box(x0, anchor[1] + top, x0 + width, anchor[1] + top + height)
            edge, tip = radius, radius + gap - 3
            ends = [anchor[axis] + u * length for length in (edge, tip) for axis, u in enumerate((ux, uy))]
            leader = Line(*ends) if gap > 10 else None
            yield Spot(tuple(lines), *anchor, dx, top, align, "top", (box,), gap + turn / 10, leader=leader)


def anywhere(
    frame: Frame, anchor: tuple[float, float], radius: float, lines: Sequence[str], *, reach: float
) -> Iterator[Spot]:
    """Places for `lines` of text in the whole of `frame`, with a leader of at most `reach` pixels to the mark."""
    width, height = max(map(text_width, lines)), LINE_PX * len(lines)
    places: list[tuple[float, Box, tuple[float, float]]] = []
    for top in range(0, int(frame.height - height) + 1, _STEP_Y):
        for left in range(0, int(frame.width - width) + 1, _STEP_X):
            box = Box(left, top, left + width, top + height)
            near = min(max(anchor[0], box.x0), box.x1), min(max(anchor[1], box.y0), box.y1)
            gap = math.dist(anchor, near) - radius
            if 5 <= gap <= reach:
                places.append((gap, box, near))
    for gap, box, near in sorted(places):
        ux, uy = ((near[axis] - anchor[axis]) / (gap + radius) for axis in (0, 1))
        leader = Line(*(anchor[axis] + u * at for at in (radius, radius + gap - 3) for axis, u in enumerate((ux, uy))))
        side, edge = ("right", box.x1) if box.x1 < anchor[0] else ("left", box.x0)
        moved = edge - anchor[0], box.y0 - anchor[1]
        yield Spot(tuple(lines), *anchor, *moved, side, "top", (box,), gap, leader=leader)


def along(line: Line, text: str) -> Iterator[Spot]:
    """Places for one line of text beside a sloping `line` and turned as it is: above it and near its start first."""
    span, half = math.dist(line[:2], line[2:]), text_width(text) / 2
    ux, uy = (line.x1 - line.x0) / span, (line.y1 - line.y0) / span
    steps = max(1, int(max(0.0, span - 2 * half - 12) / 8))
    for lift in (5.0, -5.0, 12.0, -12.0, 20.0, -20.0, 28.0, 36.0):
        for step in range(steps + 1):
            at = half + 6 + max(0.0, span - 2 * half - 12) * step / steps
            x, y = line.x0 + ux * at, line.y0 + uy * at
            middle = lift + math.copysign(LINE_PX / 2, lift)
            mx, my = x + uy * middle, y - ux * middle
            boxes = tuple(_tiles(Line(mx - ux * half, my - uy * half, mx + ux * half, my + uy * half)))
            cost = abs(lift) + (8 if lift < 0 else 0) + step / 5
            baseline, turn = "bottom" if lift > 0 else "top", math.degrees(math.atan2(uy, ux))
            yield Spot((text,), x, y, 0, -lift, "center", baseline, boxes, cost, turn)


def on_level(line: Line, lines: Sequence[str]) -> Iterator[Spot]:
    """Places for `lines` of text above and below a level `line`: above it and near its right end first."""
    width, height = max(map(text_width, lines)), LINE_PX * len(lines)
    room = max(0.0, line.x1 - line.x0 - width - 12)
    steps = max(1, int(room / 8))
    for lift in (4.0, -4.0, 10.0, -10.0):
        for step in range(steps + 1):
            x, y = line.x1 - 6 - room * step / steps, line.y1
            dy = -lift - height if lift > 0 else -lift
            box = Box(x - width, y + dy, x, y + dy + height)
            cost = abs(lift) + (8 if lift < 0 else 0) + step / 5
            yield Spot(tuple(lines), x, y, 0, dy, "right", "top", (box,), cost)


def before(line: Line, lines: Sequence[str]) -> Iterator[Spot]:
    """Places for `lines` of text to the left of where a level `line` starts, at its height first."""
    width, height = max(map(text_width, lines)), LINE_PX * len(lines)
    for left in (10.0, 20.0, 34.0):
        for up in (0.0, 5.0, -4.0, 10.0, 18.0):
            dy = 1.0 - height / 2 - up
            box = Box(line.x0 - left - width, line.y0 + dy, line.x0 - left, line.y0 + dy + height)
            yield Spot(tuple(lines), line.x0, line.y0, -left, dy, "right", "top", (box,), left + abs(up))


def beside(line: Line, text: str) -> Iterator[Spot]:
    """Places for one line of text on both sides of an upright `line`: near its start first."""
    width = text_width(text)
    for step in range(int(abs(line.y1 - line.y0) / 8)):
        for side in (1, -1):
            y = line.y0 + 8.0 * step
            left = line.x0 + 7 if side > 0 else line.x0 - 7 - width
            box = Box(left, y, left + width, y + LINE_PX)
            align = "left" if side > 0 else "right"
            yield Spot((text,), line.x0, y, 7 * side, 0, align, "top", (box,), step + (side < 0) / 2)


def _tiles(line: Line) -> Iterator[Box]:
    """Boxes that together cover a line of text whose middle is `line`, turned as it is."""
    half = LINE_PX / 2 - 2
    steps = max(1, math.ceil(math.dist(line[:2], line[2:]) / (2 * half)))
    for step in range(steps + 1):
        x, y = (start + (end - start) * step / steps for start, end in ((line.x0, line.x1), (line.y0, line.y1)))
        yield Box(x - half, y - half, x + half, y + half)
