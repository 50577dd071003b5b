"""The page: it loads nothing, holds nobody else's mark-up, and says what the profile says."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from rooflens.api import predict
from rooflens.core.hardware import Conflict
from rooflens.core.profile import Bound, Finding, Profile
from rooflens.errors import InputError
from rooflens.render.html import html
from rooflens.render.html_words import meaning
from tests.conftest import part, tiny_model

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp;\x00\x1b[0m\u2028\u202e${title}$style"


class Page(HTMLParser):
    """Elements with their attributes and direct text; every one of them must be closed in its place."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.open: list[int] = []
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}))
        self.texts.append("")
        if tag not in ("meta", "img", "wbr"):
            self.open.append(len(self.texts) - 1)

    def handle_endtag(self, tag: str) -> None:
        assert self.elements[self.open.pop()][0] == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts[self.open[-1]] += data

    def all(self, tag: str) -> list[tuple[dict[str, str], str]]:
        return [(attrs, text) for (name, attrs), text in zip(self.elements, self.texts, strict=True) if name == tag]

    @property
    def text(self) -> str:
        return " ".join(self.texts).replace("\N{NO-BREAK SPACE}", " ")


@pytest.fixture(scope="module")
def profile() -> Profile:
    return predict(tiny_model(), part(), batch=2, prompt=3, output=4)


@pytest.fixture(scope="module")
def source(profile: Profile) -> str:
    return html(profile)


@pytest.fixture(scope="module")
def page(source: str) -> Page:
    return Page(source)


@pytest.fixture(scope="module")
def hostile(profile: Profile) -> str:
    first = profile.phases[0]
    points = tuple(replace(p, op=replace(p.op, name=f"{i}{HOSTILE}")) for i, p in enumerate(first.points))
    hardware = replace(profile.hardware, title=HOSTILE, conflicts=(Conflict(HOSTILE, (HOSTILE,), HOSTILE, HOSTILE),))
    return html(
        replace(
            profile,
            model=replace(profile.model, name=HOSTILE, architecture=HOSTILE, source=HOSTILE),
            hardware=hardware,
            phases=(replace(first, points=points), *profile.phases[1:]),
            findings=(Finding("warning", "test", HOSTILE),),
        )
    )


def policy(page: Page) -> str:
    return next(attrs["content"] for attrs, _ in page.all("meta") if "http-equiv" in attrs)


def digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_nothing_is_loaded(source: str, page: Page) -> None:
    assert not [attrs for _, attrs in page.elements if {"src", "href", "srcset", "action", "data"} & set(attrs)]
    assert not re.search(r"https?://|@import|url\(|\bimport\b", source)
    assert not {"link", "iframe", "object", "embed", "base", "form"} & {tag for tag, _ in page.elements}


def test_policy_names_every_script_and_style_by_its_hash(page: Page) -> None:
    allowed = policy(page)
    assert allowed.startswith("default-src 'none'; ")
    assert "unsafe" not in allowed
    run = [text for attrs, text in page.all("script") if "type" not in attrs]
    assert len(run) == 1
    ((_, style),) = page.all("style")
    library = next(text for attrs, text in page.all("script") if attrs.get("id") == "vega")
    unpacked = zlib.decompress(base64.b64decode(library)).decode()
    for text in (run[0], style, unpacked):
        assert f"'{digest(text)}'" in allowed
    assert "vegaEmbed" in unpacked


def test_no_style_or_handler_attributes(page: Page) -> None:
    assert not [attrs for _, attrs in page.elements for key in attrs if key == "style" or key.startswith("on")]


def test_hostile_names_stay_text(hostile: str, page: Page) -> None:
    other = Page(hostile)
    assert [tag for tag, _ in other.elements if tag in ("script", "img")] == ["script"] * 3
    assert policy(other) == policy(page)
    assert "\x00" not in hostile
    assert "\x1b" not in hostile
    assert "\u202e" not in hostile
    assert "\u2028" not in hostile
    assert any("alert(2)" in text and "${title}" in text for _, text in other.all("h1"))


def test_chart_data_is_json_without_mark_up(hostile: str, source: str) -> None:
    for text in (hostile, source):
        data = next(text for attrs, text in Page(text).all("script") if attrs.get("id") == "chart-data")
        assert not set(data) & set("<>&\u2028\u2029")
        forms = json.loads(data)
        assert set(forms) == {"wide", "narrow", "datasets"}
        assert forms["wide"]["spec"]["width"] > forms["narrow"]["spec"]["width"]


def test_both_widths_draw_the_same_data(page: Page) -> None:
    forms: dict[str, Any] = json.loads(next(t for a, t in page.all("script") if a.get("id") == "chart-data"))
    for form in ("wide", "narrow"):
        names = {layer["data"]["name"] for layer in forms[form]["spec"]["layer"] if "name" in layer["data"]}
        assert names == set(forms["datasets"])
        assert set(forms[form]["config"]) == {"light", "dark"}


def test_the_verdict_comes_first(page: Page) -> None:
    text = page.text
    assert text.index("Prefill is memory-bound") < text.index("Decode is memory-bound") < text.index("Roofline")
    assert "The arithmetic units wait for bytes" in text


def test_levers_of_both_bounds_are_named() -> None:
    def said(batch: int, prompt: int) -> list[str]:
        return [meaning(phase) for phase in predict("llama-3.1-8b", "h100-sxm", batch=batch, prompt=prompt).phases]

    prefill, decode = said(1, 2048)
    assert prefill.startswith("The arithmetic units are busy and set the pace: ")
    assert prefill.endswith("; more memory bandwidth hardly does.")
    assert decode.endswith("; more FLOP/s hardly do.")
    mixed, _ = said(1, 384)
    share = re.match(r"For (\d+\.\d) % of the time the arithmetic units", mixed)
    assert share
    assert f"; more memory bandwidth helps the other {100 - float(share[1]):.1f} %" in mixed


def test_bound_against_intensity_is_explained(profile: Profile) -> None:
    first = replace(profile.phases[0], points=(), bound_share={Bound.COMPUTE: 0.6, Bound.MEMORY: 0.4})
    assert "lies below the ridge point all the same: time is summed kernel by kernel" in meaning(first)
    above = replace(profile.phases[0], intensity=1e6)
    assert meaning(above).endswith("a few compute-bound kernels raise the total intensity.")
    assert "all the same" not in meaning(profile.phases[0])


def test_the_page_starts_in_the_theme_asked_for(profile: Profile, page: Page) -> None:
    def theme(source: str) -> str | None:
        return Page(source).all("html")[0][0].get("data-theme")

    assert theme(html(profile, dark=True)) == "dark"
    assert theme(html(profile, dark=False)) == "light"
    assert "data-theme" not in page.all("html")[0][0]


def test_numbers_stay_with_their_units(page: Page) -> None:
    words = " ".join(text for tag in ("p", "strong") for _, text in page.all(tag))
    assert "\N{NO-BREAK SPACE}% of" in words
    assert not re.search(r"\d (%|[a-zA-Z]?(s|B|FLOP)\b)", words)


def test_every_kernel_stands_in_the_table_of_its_phase(page: Page, profile: Profile) -> None:
    heads = [text for attrs, text in page.all("th") if attrs.get("scope") == "row"]
    for phase in profile.phases:
        for point in phase.points:
            assert heads.count(point.op.name) == len(profile.phases)


def test_findings_conventions_and_sources_are_there(hostile: str, page: Page, profile: Profile) -> None:
    text = page.text
    assert all(finding.text in text for finding in profile.findings)
    assert "one multiply-add is 2 FLOP" in text
    assert "bf16 peak, matrix units" in text
    assert "a test" in text
    assert "Where sources disagree" in hostile
    assert "Where sources disagree" not in text


def test_structure_serves_assistive_technology(page: Page) -> None:
    (html_attrs, _), *_ = page.all("html")
    assert html_attrs["lang"] == "en"
    assert page.all("title")[0][1] == "tiny on Round part - rooflens"
    assert all(attrs.get("scope") in ("row", "col") for attrs, _ in page.all("th"))
    assert len(page.all("caption")) == len(page.all("table"))
    assert len(page.all("h1")) == 1
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_size(source: str) -> None:
    assert len(source.encode()) < 600_000


def test_equal_profiles_give_equal_pages(source: str, profile: Profile) -> None:
    assert html(profile) == source


def test_arrays_are_refused() -> None:
    with pytest.raises(InputError):
        html(predict(tiny_model(), part(), batch=np.array([1, 2])))
