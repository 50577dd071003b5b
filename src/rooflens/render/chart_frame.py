"""The plot area of a chart in pixels, and what is taken in it: greedy, in a fixed order, without chance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rooflens.render.palette import TEXT_PX

LINE_PX = TEXT_PX + 3
"""Height of a line of text, in pixels."""

MOST_BAD = 100

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

    def crosses(self, other: Line) -> bool:
        """Whether the two lines meet between their ends."""
        return self._parts(other) and other._parts(self)

    def _parts(self, other: Line) -> bool:
        """Whether the ends of `other` lie on different sides of this line, however far it is drawn out."""
        dx, dy = self.x1 - self.x0, self.y1 - self.y0
        sides = [dx * (y - self.y0) - dy * (x - self.x0) for x, y in (other[:2], other[2:])]
        return sides[0] * sides[1] < 0


class Spot(NamedTuple):
    """A place for a text: `dx` and `dy` are pixels from its anchor at (`x`, `y`), as Vega-Lite's text mark takes them.

    text: its lines. boxes: what it covers. cost: how far-fetched the place is. leader: the line from the mark to it.
    """

    text: tuple[str, ...]
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
    """A plot area of `width` x `height` pixels over logarithmic domains, with the marks, texts and lines in it.

    strain: how far texts are from where they belong: pixels of leaders, and many more for what is covered.
    """

    width: float
    height: float
    x_domain: tuple[float, float]
    y_domain: tuple[float, float]
    marks: list[Box] = field(default_factory=list)
    texts: list[Box] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    strain: float = 0.0

    def empty(self) -> Frame:
        """The same area with nothing in it."""
        return Frame(self.width, self.height, self.x_domain, self.y_domain)

    def pixel(self, x: float, y: float) -> tuple[float, float]:
        """Where the figure pair (x, y) lies, in pixels from the upper left corner."""
        return self.width * _part(x, self.x_domain), self.height * (1 - _part(y, self.y_domain))

    def value(self, px: float, py: float) -> tuple[float, float]:
        """The figure pair at a pixel: the inverse of `pixel`."""
        (x0, x1), (y0, y1) = self.x_domain, self.y_domain
        return x0 * (x1 / x0) ** (px / self.width), y0 * (y1 / y0) ** (1 - py / self.height)

    def place(self, *searches: Iterable[Spot], must: bool = False) -> Spot | None:
        """Take the cheapest spot that is inside and covers nothing, of the first of `searches` that has one.

        None where every spot covers something. With `must` the one that covers least is taken then, of the first
        `MOST_BAD` of each search that are inside.
        """
        bad: list[Spot] = []
        for spots in searches:
            best: tuple[float, Spot] | None = None
            room = len(bad) + MOST_BAD if must else 0
            for spot in spots:
                if (best and spot.cost >= best[0]) or any(map(self._outside, spot.boxes)):
                    continue
                if not self._clear(spot):
                    bad.extend([spot] if len(bad) < room else [])
                    continue
                price = spot.cost + self._detour(spot.leader)
                if best is None or price < best[0]:
                    best = (price, spot)
            if best:
                return self._take(best[1])
        if not bad:
            return None
        least = min(bad, key=self._covered)
        self.strain += 150 + 10 * self._covered(least)
        return self._take(least)

    def _take(self, spot: Spot) -> Spot:
        self.texts.extend(Box(x0 - 4, y0 - 2, x1 + 4, y1 + 2) for x0, y0, x1, y1 in spot.boxes)
        if spot.leader:
            self.lines.append(spot.leader)
            self.strain += math.dist(spot.leader[:2], spot.leader[2:])
        return spot

    def _clear(self, spot: Spot) -> bool:
        """Whether a text keeps off marks, texts and lines, and its leader off texts and other lines' courses."""
        for x0, y0, x1, y1 in spot.boxes:
            for taken in (self.texts, self.marks):
                if any(x0 < b.x1 and b.x0 < x1 and y0 < b.y1 and b.y0 < y1 for b in taken):
                    return False
        if any(line.inside(box.grown(2)) for box in spot.boxes for line in self.lines):
            return False
        leader = spot.leader
        if leader is None:
            return True
        return not any(leader.inside(text) for text in self.texts) and not any(map(leader.follows, self.lines))

    def _covered(self, spot: Spot) -> float:
        """Square pixels of marks and, ten times worse, texts under a text and its leader; a line is a band of three."""
        area = sum(box.overlap(mark) for box in spot.boxes for mark in self.marks)
        area += sum(10 * box.overlap(text) for box in spot.boxes for text in self.texts)
        area += sum(3 * line.inside(box) for box in spot.boxes for line in self.lines)
        return area + sum(3 * spot.leader.inside(text) for text in self.texts if spot.leader)

    def _detour(self, leader: Line | None) -> float:
        """How much worse a spot is for a leader over marks and other lines, in pixels of distance."""
        if leader is None:
            return 0.0
        return sum(leader.inside(mark) for mark in self.marks) + 12.0 * sum(map(leader.crosses, self.lines))

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


def _part(value: float, domain: tuple[float, float]) -> float:
    """How far `value` lies along a logarithmic domain: 0 at its start, 1 at its end."""
    return math.log(value / domain[0]) / math.log(domain[1] / domain[0])
