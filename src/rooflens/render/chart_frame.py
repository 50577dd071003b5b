"""The plot area of a chart in pixels, and where text fits into it: greedy, in a fixed order, without chance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rooflens.render.palette import TEXT_PX

LINE_PX = TEXT_PX + 3
"""Height of a line of text, in pixels."""

_WIDTHS = (("ijlItf.,:;|'()[]/ !·\N{NO-BREAK SPACE}", 0.28), ("r-*{}`", 0.36), ("ckszvxyJ", 0.5), ("mwMWOGQ%@—…", 0.86))
_WIDTH = {character: width for characters, width in _WIDTHS for character in characters}


class Box(NamedTuple):
    """A rectangle in pixels, y downwards."""

    x0: float
    y0: float
    x1: float
    y1: float

    def overlap(self, other: Box) -> float:
        """Area that both cover, in square pixels."""
        width = min(self.x1, other.x1) - max(self.x0, other.x0)
        height = min(self.y1, other.y1) - max(self.y0, other.y0)
        return width * height if width > 0 and height > 0 else 0.0

    def grown(self, by: float) -> Box:
        """The rectangle with a margin of `by` pixels on every side."""
        return Box(self.x0 - by, self.y0 - by, self.x1 + by, self.y1 + by)


class Line(NamedTuple):
    """A straight line between two pixels."""

    x0: float
    y0: float
    x1: float
    y1: float

    def inside(self, box: Box) -> float:
        """Length in pixels of the part that lies in `box` (the method of Liang and Barsky, 1984)."""
        dx, dy = self.x1 - self.x0, self.y1 - self.y0
        enter, leave = 0.0, 1.0
        for move, room in (
            (-dx, self.x0 - box.x0),
            (dx, box.x1 - self.x0),
            (-dy, self.y0 - box.y0),
            (dy, box.y1 - self.y0),
        ):
            if move == 0:
                if room < 0:
                    return 0.0
            elif move < 0:
                enter = max(enter, room / move)
            else:
                leave = min(leave, room / move)
        return math.hypot(dx, dy) * max(0.0, leave - enter)

    def follows(self, other: Line) -> bool:
        """Whether 16 pixels of this line or more lie within 3 pixels of `other`, so that the two look like one."""
        length = math.dist(self[:2], self[2:])
        points = [step / max(length, 4.0) for step in range(0, int(length) + 1, 4)]
        at = [(self.x0 + (self.x1 - self.x0) * t, self.y0 + (self.y1 - self.y0) * t) for t in points]
        return sum(other.inside(Box(x - 3, y - 3, x + 3, y + 3)) > 0 for x, y in at) > 4


class Spot(NamedTuple):
    """A place for a text: `dx` and `dy` are pixels from its anchor at (`x`, `y`), as Vega-Lite's text mark takes them.

    boxes: what the text covers. cost: how far-fetched the place is. leader: the line from the mark to the text.
    """

    x: float
    y: float
    dx: float
    dy: float
    align: str
    baseline: str
    boxes: tuple[Box, ...]
    cost: float
    angle: float = 0.0
    leader: Line | None = None


@dataclass(slots=True)
class Frame:
    """A plot area of `width` x `height` pixels over logarithmic domains, with what is taken in it.

    Texts keep off marks, texts and lines, and may cross `faint` lines where other places are far away.
    """

    width: float
    height: float
    x_domain: tuple[float, float]
    y_domain: tuple[float, float]
    marks: list[Box] = field(default_factory=list)
    texts: list[Box] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    faint: list[Line] = field(default_factory=list)

    def pixel(self, x: float, y: float) -> tuple[float, float]:
        """Where the figure pair (x, y) lies, in pixels from the upper left corner."""
        return self.width * _part(x, self.x_domain), self.height * (1 - _part(y, self.y_domain))

    def value(self, px: float, py: float) -> tuple[float, float]:
        """The figure pair at a pixel: the inverse of `pixel`."""
        (x0, x1), (y0, y1) = self.x_domain, self.y_domain
        return x0 * (x1 / x0) ** (px / self.width), y0 * (y1 / y0) ** (1 - py / self.height)

    def place(self, spots: Iterable[Spot], *, must: bool = False) -> Spot | None:
        """Take the cheapest of `spots` that is inside and covers nothing; None where each covers something.

        With `must` the one that covers least is taken then, if any is inside.
        """
        best: tuple[float, Spot] | None = None
        for spot in spots:
            if any(self._outside(box) for box in spot.boxes) or (best and spot.cost >= best[0]):
                continue
            covered = self._covered(spot)
            if covered > 0 and not must:
                continue
            price = covered * 100 + spot.cost + 15 * any(line.inside(box) for box in spot.boxes for line in self.faint)
            if best is None or price < best[0]:
                best = (price, spot)
        if best is None:
            return None
        self.texts.extend(box.grown(2) for box in best[1].boxes)
        self.lines.extend([best[1].leader] if best[1].leader else [])
        return best[1]

    def _covered(self, spot: Spot) -> float:
        """Square pixels of marks and texts under a text, a line counting as a band of three."""
        area = sum(box.overlap(other) for box in spot.boxes for taken in (self.marks, self.texts) for other in taken)
        area += sum(3 * line.inside(box) for box in spot.boxes for line in self.lines)
        if spot.leader is None:
            return area
        area += sum(3 * spot.leader.inside(text) for text in self.texts)
        return area + (100.0 if any(spot.leader.follows(line) for line in self.lines) else 0.0)

    def _outside(self, box: Box) -> bool:
        return box.x0 < 0 or box.y0 < 0 or box.x1 > self.width or box.y1 > self.height


def text_width(text: str, size: float = TEXT_PX) -> float:
    """Width of `text` in pixels, a little more than Arial needs."""
    return 1.02 * size * sum(_WIDTH.get(c) or (0.7 if c.isupper() else 0.56 if c.isascii() else 0.9) for c in text)


def wrap(parts: Sequence[str], width: float, separator: str = " · ", size: float = TEXT_PX) -> list[str]:
    """Join `parts` into lines of at most `width` pixels; one that is wider alone breaks at spaces, or anywhere."""
    lines: list[str] = []
    for part in parts:
        glue = separator
        for word in [part] if text_width(part, size) <= width else part.split(" "):
            joined = f"{lines[-1]}{glue}{word}" if lines else word
            if lines and text_width(joined, size) <= width:
                lines[-1] = joined
            else:
                lines += _pieces(word, width, size)
            glue = " "
    return lines


def _pieces(word: str, width: float, size: float) -> list[str]:
    """A word cut into equal pieces of at most `width` pixels."""
    count = math.ceil(text_width(word, size) / width)
    each = math.ceil(len(word) / max(1, count))
    return [word[start : start + each] for start in range(0, len(word), each)]


def around(anchor: tuple[float, float], radius: float, lines: Sequence[str]) -> Iterator[Spot]:
    """Places for `lines` of text around a mark of `radius` pixels: below and to the right first, then farther out."""
    width, height = max(map(text_width, lines)), LINE_PX * len(lines)
    for gap in (5.0, 14.0, 28.0, 46.0, 70.0, 100.0, 140.0):
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
            yield Spot(*anchor, dx, top, align, "top", (box,), gap + turn / 10, leader=leader)


def along(line: Line, text: str, *, backwards: bool = False) -> Iterator[Spot]:
    """Places for one line of text beside `line`: above it and near its start first, with `backwards` near its end.

    A text that is longer than the line hangs over its other end.
    """
    span, half = math.dist(line[:2], line[2:]), text_width(text) / 2
    ux, uy = (line.x1 - line.x0) / span, (line.y1 - line.y0) / span
    for lift in (5.0, -5.0, 14.0, -14.0, 24.0):
        for step in range(20):
            at = half + 6 + max(0.0, span - 2 * half - 12) * step / 19
            at = span - at if backwards else at
            x, y = line.x0 + ux * at, line.y0 + uy * at
            middle = lift + math.copysign(LINE_PX / 2, lift)
            mx, my = x + uy * middle, y - ux * middle
            boxes = tuple(_tiles(Line(mx - ux * half, my - uy * half, mx + ux * half, my + uy * half)))
            cost = abs(lift) + (8 if lift < 0 else 0) + step / 2
            baseline, turn = "bottom" if lift > 0 else "top", math.degrees(math.atan2(uy, ux))
            yield Spot(x, y, 0, -lift, "center", baseline, boxes, cost, turn)


def _tiles(line: Line) -> Iterator[Box]:
    """Boxes that together cover a line of text whose middle is `line`, turned as it is."""
    half = LINE_PX / 2 - 2
    steps = max(1, math.ceil(math.dist(line[:2], line[2:]) / (2 * half)))
    for step in range(steps + 1):
        x, y = (start + (end - start) * step / steps for start, end in ((line.x0, line.x1), (line.y0, line.y1)))
        yield Box(x - half, y - half, x + half, y + half)


def _part(value: float, domain: tuple[float, float]) -> float:
    """How far `value` lies along a logarithmic domain: 0 at its start, 1 at its end."""
    return math.log(value / domain[0]) / math.log(domain[1] / domain[0])
