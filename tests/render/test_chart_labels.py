"""The texts of the chart: the largest kernel has one, none is cut, none lies over another, a mark or a line."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import cache
from itertools import combinations, product
from math import cos, dist, log, radians, sin
from typing import Any

import numpy as np
import pytest

from rooflens.api import predict
from rooflens.core.hardware import Hardware
from rooflens.core.model import ModelSpec
from rooflens.core.profile import Profile
from rooflens.core.scenario import Conventions, TrafficModel
from rooflens.errors import RooflensError
from rooflens.render.chart import chart
from rooflens.render.chart_data import clean, kernel_marks, phase_marks
from rooflens.render.chart_frame import LINE_PX, Box, Frame, Line, Spot, text_width, wrap
from rooflens.render.chart_labels import radius
from rooflens.render.chart_spots import anywhere, around
from rooflens.render.palette import TEXT_PX
from tests.render.chart_reading import CASES, frame, texts, values

MODELS = [
    "llama-3.1-8b",
    "llama-3.1-70b-fp8",
    "gpt2",
    "gemma-2-9b",
    "qwen3-0.6b",
    "starcoder2-7b",
    "llama-3.1-405b",
    "mixtral-8x7b",
    "deepseek-v3",
    "gpt-oss-120b",
    "qwen3-next-80b-a3b",
    "nemotron-h-56b",
    "gemma-4-26b-a4b",
]
PARTS = ["t4", "l4", "a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200-sxm", "mi300x", "h20", "apple-m4-max-40core"]


@cache
def sample() -> tuple[Profile, ...]:
    """Sixty profiles of all kinds, and those of the other tests; the same ones every time."""
    every = list(product(MODELS, PARTS, (None, "fp8", "int8"), TrafficModel, (1, 64), (32, 512, 2048)))
    random.Random(1).shuffle(every)
    found = [predict(model, gpu, **options) for model, gpu, options in CASES.values()]
    for model, gpu, precision, traffic, batch, prompt in every:
        counted = Conventions(traffic=traffic)
        try:
            found.append(predict(model, gpu, batch=batch, prompt=prompt, precision=precision, conventions=counted))
        except RooflensError:
            continue
        if len(found) == len(CASES) + 60:
            break
    return tuple(found)


@cache
def charts(width: int, height: int) -> list[tuple[Profile, dict[str, Any]]]:
    return [(profile, chart(profile, width=width, height=height)) for profile in sample()]


@pytest.mark.parametrize("size", [(900, 560), (700, 560), (358, 680)])
def test_labels_are_unique_inside_and_apart(size: tuple[int, int]) -> None:
    for _, spec in charts(*size):
        area, rows = frame(spec), list(texts(spec))
        names = [json.dumps([row["text"], row.get("phase")]) for row in rows]
        assert len(names) == len(set(names))
        placed = [boxes(area, row) for row in rows]
        for one, other in combinations(placed, 2):
            assert not any(a.overlap(b) for a in one for b in other), title(spec)
        for each in (box for some in placed for box in some):
            assert each.x0 >= -1, title(spec)
            assert each.x1 <= area.width + 1
            assert each.y0 >= -1
            assert each.y1 <= area.height + 1


@pytest.mark.parametrize("size", [(900, 560), (358, 680)])
def test_largest_kernel_of_each_phase_is_labelled(size: tuple[int, int]) -> None:
    for profile, spec in charts(*size):
        for phase in phase_marks(profile):
            largest = next(mark.name for mark in kernel_marks(profile) if mark.phase == phase.phase)
            lines = [line for row in values(spec, "point-label") if row["phase"] == phase.phase for line in row["text"]]
            assert any(line.startswith((clean(largest, 24), clean(largest, 15))) for line in lines), title(spec)
            assert any(line.startswith(f"{phase.phase} ") for line in lines)


def test_labels_of_a_wide_chart_cover_no_mark_and_no_line() -> None:
    for profile, spec in charts(900, 560):
        area = frame(spec)
        taken, lines = list(circles(area, profile, spec)), list(drawn(area, spec))
        for row in texts(spec):
            for box in boxes(area, row):
                assert not [mark for mark in taken if over(box, mark)], (title(spec), row["text"])
                assert not [line for line in lines if line.inside(box)], (title(spec), row["text"])


def title(spec: dict[str, Any]) -> str:
    return " ".join([*spec["title"]["text"], *spec["title"]["subtitle"]])


def boxes(area: Frame, row: dict[str, Any]) -> list[Box]:
    """What a text covers where Vega draws it, in pixels of the plot; several small ones where it is turned."""
    x, y = area.pixel(row["x"], row["y"])
    width = max(map(text_width, row["text"]))
    height = TEXT_PX + LINE_PX * (len(row["text"]) - 1)
    left = row["dx"] - {"left": 0, "center": width / 2, "right": width}[row["align"]]
    top = row["dy"] - (height if row["baseline"] == "bottom" else 0)
    if not row["angle"]:
        return [Box(x + left, y + top, x + left + width, y + top + height)]
    turn, middle = radians(row["angle"]), top + height / 2
    steps = [left + width * step / 30 for step in range(31)]
    at = [(x + cos(turn) * s - sin(turn) * middle, y + sin(turn) * s + cos(turn) * middle) for s in steps]
    return [Box(px - 4, py - 4, px + 4, py + 4) for px, py in at]


def circles(area: Frame, profile: Profile, spec: dict[str, Any]) -> Iterator[tuple[float, float, float]]:
    for mark in (*kernel_marks(profile), *phase_marks(profile)):
        yield (*area.pixel(mark.x, mark.y), radius(mark))
    for row in values(spec, "ridge"):
        yield (*area.pixel(row["x"], row["y"]), 4.0)


def over(box: Box, mark: tuple[float, float, float]) -> bool:
    x, y, r = mark
    return dist((x, y), (min(max(x, box.x0), box.x1), min(max(y, box.y0), box.y1))) < r


def drawn(area: Frame, spec: dict[str, Any]) -> Iterator[Line]:
    """Roofs, the line between the zones, and leaders."""
    for row in (*values(spec, "roof"), *values(spec, "roof-vector")):
        yield Line(*area.pixel(row["x"], row["y"]), *area.pixel(row["x2"], row["y2"]))
    (drop,) = values(spec, "ridge-drop")
    x, y = area.pixel(drop["x"], drop["y"])
    yield Line(x, y, x, area.height)
    for row in values(spec, "leader"):
        x, y = area.pixel(row["x"], row["y"])
        yield Line(x + row["sx"], y + row["sy"], x + row["lx"], y + row["ly"])


def test_bandwidth_label_turns_with_its_line(tiny: ModelSpec, round_part: Hardware) -> None:
    spec = chart(predict(tiny, round_part, batch=2, prompt=3, output=4))
    label = next(row for row in values(spec, "roof-label") if row["text"] == ["memory 1 TB/s"])
    (x0, y0), (x1, y1) = frame(spec).pixel(1.0, 1e12), frame(spec).pixel(10.0, 1e13)
    assert np.degrees(np.arctan2(y1 - y0, x1 - x0)) == pytest.approx(label["angle"], abs=0.1)
    assert log(label["y"] / label["x"]) == pytest.approx(log(1e12), abs=1e-4)


# --- placing texts


def test_frame_maps_there_and_back() -> None:
    area = Frame(600, 400, (0.1, 1e5), (1e9, 1e15))
    assert area.pixel(0.1, 1e15) == pytest.approx((0, 0))
    assert area.pixel(1e5, 1e9) == pytest.approx((600, 400))
    assert area.value(*area.pixel(295.4, 989.5e12)) == pytest.approx((295.4, 989.5e12))


def test_a_taken_place_is_not_taken_again() -> None:
    area = Frame(400, 300, (1, 10), (1, 10))
    first = area.place(around((200, 150), 5, ["a label"]))
    second = area.place(around((200, 150), 5, ["a label"]))
    assert first
    assert second
    assert first.boxes[0].overlap(second.boxes[0]) == 0


def test_a_full_frame_has_no_place_unless_it_must() -> None:
    area = Frame(100, 50, (1, 10), (1, 10), marks=[Box(0, 0, 100, 50)])
    assert area.place(around((50, 25), 5, ["text"])) is None
    assert area.strain == 0
    assert area.place(around((50, 25), 5, ["text"]), must=True) is not None
    assert area.strain > 150
    outside = Spot(("text",), 0, 0, 0, 0, "left", "top", (Box(-5, 0, 5, 5),), 0)
    assert area.place([outside], must=True) is None


def test_a_later_search_is_used_where_the_first_has_no_room() -> None:
    area = Frame(400, 300, (1, 10), (1, 10), marks=[Box(100, 50, 300, 250)])
    spot = area.place(around((200, 150), 5, ["text"]), anywhere(area, (200, 150), 5, ["text"], reach=200))
    assert spot
    assert spot.leader
    assert area.marks[0].overlap(spot.boxes[0]) == 0
    assert spot.leader.inside(spot.boxes[0]) == 0


def test_lines_cross_only_between_their_ends() -> None:
    line = Line(0, 0, 10, 10)
    assert line.crosses(Line(0, 10, 10, 0))
    assert not line.crosses(Line(0, 10, 4, 6))
    assert not line.crosses(Line(20, 0, 30, 10))


@pytest.mark.parametrize(
    ("line", "length"),
    [
        (Line(-10, 5, 20, 5), 10),
        (Line(0, 0, 10, 10), 200**0.5),
        (Line(-5, 5, 5, -5), 0),
        (Line(0, 20, 10, 20), 0),
        (Line(5, 2, 5, 8), 6),
    ],
)
def test_length_of_a_line_inside_a_box(line: Line, length: float) -> None:
    assert line.inside(Box(0, 0, 10, 10)) == pytest.approx(length)


def test_wrap_keeps_every_word_and_the_width() -> None:
    parts = ["one two three", "four", "x" * 300]
    lines = wrap(parts, 120)
    assert "".join(lines).replace(" ", "").replace("·", "") == "".join(parts).replace(" ", "")
    assert all(text_width(line) <= 120 for line in lines)


def test_clean_leaves_no_control_characters() -> None:
    text = clean("a\x00b\x1b[31mc\u202ed\u2028e\ud800f\n" + "g" * 100)
    assert text.isprintable()
    assert len(text) <= 60
    assert text.startswith("a\N{REPLACEMENT CHARACTER}b")
