"""The chart's specification: figures at their coordinates, nothing lost, no text over another."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rooflens.api import predict
from rooflens.core.hardware import Hardware
from rooflens.core.model import ModelSpec
from rooflens.core.profile import Profile
from rooflens.errors import InputError
from rooflens.render.chart import chart
from rooflens.render.chart_data import clean, kernel_marks, off_axes, phase_marks
from rooflens.render.chart_labels import radius
from rooflens.render.chart_roofs import roof_lines
from rooflens.render.palette import DARK, LIGHT
from tests.render.chart_reading import CASES, domains, kernel_layer, values

GOLDEN = Path(__file__).parent / "golden" / "chart.json"


@pytest.fixture
def profile(tiny: ModelSpec, round_part: Hardware) -> Profile:
    return predict(tiny, round_part, batch=2, prompt=3, output=4)


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Profile:
    model, gpu, options = CASES[request.param]
    return predict(model, gpu, **options)


# --- the law on the axes


def test_roofs_lie_at_the_figures_of_the_part(profile: Profile) -> None:
    spec = chart(profile)
    slope, flat = values(spec, "roof")
    assert slope["y2"] / slope["x2"] == pytest.approx(1e12)
    assert slope["y"] / slope["x"] == pytest.approx(1e12)
    assert (flat["x"], flat["y"], flat["y2"]) == (100.0, 100e12, 100e12)
    (vector,) = values(spec, "roof-vector")
    assert (vector["x"], vector["y"], vector["y2"]) == (10.0, 10e12, 10e12)


def test_ridge_point_is_peak_over_bandwidth_and_named(profile: Profile) -> None:
    spec = chart(profile)
    (ridge,) = values(spec, "ridge")
    assert (ridge["x"], ridge["y"]) == (100e12 / 1e12, 100e12)
    labels = [text for row in values(spec, "roof-label") for text in row["text"]]
    assert sorted(labels) == [
        "bf16 100 TFLOP/s",
        "fp32 vector units 10 TFLOP/s",
        "memory 1 TB/s",
        "ridge 100 FLOP/byte",
    ]


def test_h100_has_the_ridge_point_of_the_data_sheet() -> None:
    spec = chart(predict("llama-3.1-8b", "h100-sxm"))
    assert values(spec, "ridge")[0]["x"] == pytest.approx(295.37, abs=0.01)
    assert "HBM3 3.35 TB/s" in [row["text"][0] for row in values(spec, "roof-label")]


def test_each_dtype_in_use_has_its_roof() -> None:
    spec = chart(predict("gemma-2-9b", "h100-sxm", precision="fp8"))
    assert sorted(row["x"] for row in values(spec, "ridge")) == pytest.approx([295.37, 590.75], abs=0.01)
    assert {"fp8 1.979 PFLOP/s", "bf16 989.5 TFLOP/s"} <= {row["text"][0] for row in values(spec, "roof-label")}


def test_integer_roof_counts_op_and_shared_peaks_are_one_line() -> None:
    labels = [line.peak_label for line in roof_lines(predict("llama-3.1-8b", "a100-sxm-80gb", precision="int8"))]
    assert labels[0] == "int8 624 TOP/s"
    lines = roof_lines(predict("qwen3-0.6b", "t4", precision="fp32"))
    assert [line.main for line in lines] == [True]


def test_every_kernel_lies_at_flop_over_bytes_and_flop_over_floor(case: Profile) -> None:
    points = {(str(phase.phase.kind), p.op.name): p for phase in case.phases for p in phase.points}
    rows = chart(case)["datasets"]["kernels"]
    assert rows
    for row in rows:
        point = points[row["phase"], row["name"]]
        assert row["x"] == pytest.approx(float(point.op.flops) / float(point.op.traffic.memory))
        assert row["y"] == pytest.approx(float(point.op.flops) / float(point.floor_s))
        assert row["y"] <= min(point.roof.peak, point.roof.bandwidth * row["x"]) * (1 + 1e-12)


def test_every_phase_is_one_mark(case: Profile) -> None:
    rows = chart(case)["datasets"]["phases"]
    assert [row["phase"] for row in rows] == [str(phase.phase.kind) for phase in case.phases]
    for row, phase in zip(rows, case.phases, strict=True):
        assert row["x"] == pytest.approx(float(phase.intensity))
        assert row["y"] == pytest.approx(float(phase.flops) / float(phase.floor_s))


def test_no_kernel_vanishes(case: Profile) -> None:
    spec = chart(case)
    shown = {(row["phase"], row["name"]) for row in spec["datasets"]["kernels"]}
    rest = {(kernel.phase, kernel.name) for kernel in off_axes(case)}
    every = {(str(phase.phase.kind), p.op.name) for phase in case.phases for p in phase.points}
    assert shown | rest == every
    assert not shown & rest
    foot = " ".join(line for row in values(spec, "foot") for line in row["text"])
    others = sum(map(int, re.findall(r"and (\d+) other", foot)))
    assert sum(clean(name, 24) not in foot for name in {name for _, name in rest}) == others


def test_foot_says_why(profile: Profile) -> None:
    foot = " ".join(values(chart(profile), "foot")[0]["text"])
    assert foot.startswith("Not on these axes: embed_tokens (0 FLOP; ")
    assert "rotary, activation (no bytes of their own; " in foot


def test_everything_lies_inside_the_domains(case: Profile) -> None:
    spec = chart(case)
    (x0, x1), (y0, y1) = domains(spec)
    rows = [*spec["datasets"]["kernels"], *spec["datasets"]["phases"], *values(spec, "ridge")]
    assert all(x0 < row["x"] < x1 and y0 < row["y"] < y1 for row in rows)


# --- how it reads


def test_hover_shows_every_figure_with_its_unit(profile: Profile) -> None:
    spec = chart(profile)
    titles = [entry["title"] for entry in kernel_layer(spec)["encoding"]["tooltip"]]
    for title in ("kernel", "runs", "FLOP", "bytes", "intensity", "bound", "share of time", "floor"):
        assert title in titles
    row = next(row for row in spec["datasets"]["kernels"] if row["name"] == "down_proj")
    # 2 layers x 2 FLOP x 6 tokens x 6 x 4; 2 layers x 2 bytes x (6 x 4 weights + 6 x 6 in + 6 x 4 out)
    assert row["flops"] == "576 FLOP"
    assert row["bytes"] == "336 B"
    assert row["intensity"] == "1.714 FLOP/byte"
    assert row["bound"] == "memory (bf16)"
    assert row["floor"] == "336 ps"
    assert row["performance"] == "1.714 TFLOP/s"


def test_phases_have_two_colours_in_each_theme(profile: Profile) -> None:
    for dark, theme in ((False, LIGHT), (True, DARK)):
        colours = chart(profile, dark=dark)["config"]["range"]["category"]
        assert colours == [theme.prefill, theme.decode]
        for colour in (*colours, theme.ink, theme.muted):
            assert contrast(colour, theme.background) >= 4.5
        assert theme.prefill != theme.decode


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours. Source: W3C, WCAG 2.1, definition of contrast ratio."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_dark_changes_the_config_alone(profile: Profile) -> None:
    light, dark = chart(profile), chart(profile, dark=True)
    assert light.pop("config") != dark.pop("config")
    assert light == dark


def test_a_lone_decode_phase_keeps_its_colour(profile: Profile) -> None:
    encoding = kernel_layer(chart(replace(profile, phases=profile.phases[1:])))["encoding"]["color"]
    assert encoding["scale"]["domain"] == ["prefill", "decode"]
    assert encoding["legend"]["values"] == ["decode"]


def test_title_and_subtitle_say_what_is_shown() -> None:
    title = chart(predict("llama-3.1-8b", "h100-sxm", batch=64, precision="fp8"))["title"]
    assert " ".join(title["text"]) == "llama-3.1-8b on NVIDIA H100 SXM5 80GB"
    subtitle = " · ".join(title["subtitle"])
    assert subtitle.startswith("batch 64 · prompt 512 · output 128 · decode step at context 576 · fp8")
    assert subtitle.endswith("attention causal · logits last · traffic fused · fusion engine")


def test_area_grows_with_the_share_and_small_marks_lie_on_top(case: Profile) -> None:
    marks = kernel_marks(case)
    assert all(one.share >= other.share for one, other in pairwise(marks))
    assert radius(marks[0]) == max(map(radius, marks))
    for phase in phase_marks(case):
        off = sum(kernel.share for kernel in off_axes(case) if kernel.phase == phase.phase)
        assert sum(mark.share for mark in marks if mark.phase == phase.phase) + off == pytest.approx(1)


def test_arrays_are_refused(tiny: ModelSpec, round_part: Hardware) -> None:
    with pytest.raises(InputError, match="one scenario"):
        chart(predict(tiny, round_part, batch=np.array([1, 2])))


def test_the_specification_is_plain_data_without_addresses(profile: Profile) -> None:
    spec = chart(profile)
    text = json.dumps({key: spec[key] for key in spec if key != "$schema"}, allow_nan=False)
    assert json.loads(text) == {key: spec[key] for key in spec if key != "$schema"}
    assert "http" not in text
    assert '"url"' not in text


def test_golden(profile: Profile) -> None:
    """`ROOFLENS_UPDATE_GOLDEN=1 pytest` writes the file anew; look at the chart before keeping it."""
    text = json.dumps(chart(profile), indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("ROOFLENS_UPDATE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert rounded(json.loads(text)) == rounded(json.loads(GOLDEN.read_text(encoding="utf-8")))


def rounded(value: Any) -> Any:
    """`value` with floats to nine digits: the last ones differ between mathematics libraries."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value
