"""Pictures of a specification: each in its format, the same for the same input."""

from __future__ import annotations

import struct
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from typing import Any

import pytest

from rooflens.api import predict
from rooflens.render.chart import chart
from rooflens.render.image import pdf, png, svg
from tests.conftest import part, tiny_model


@pytest.fixture(scope="module")
def spec() -> dict[str, Any]:
    return chart(predict(tiny_model(), part(), batch=2, prompt=3, output=4))


def test_svg_parses_and_holds_the_words_as_text(spec: dict[str, Any]) -> None:
    root = ElementTree.fromstring(svg(spec))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    words = {"".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"tiny on Round part", "ridge 100 FLOP/byte", "bf16 100 TFLOP/s", "memory-bound", "compute-bound"} <= words
    assert {"prefill", "decode", "one kernel", "whole phase", "100T", "10T"} <= words
    assert any(word.startswith("Not on these axes: embed_tokens") for word in words)


def test_svg_loads_nothing_and_is_about_as_large_as_asked(spec: dict[str, Any]) -> None:
    root = ElementTree.fromstring(svg(spec))
    assert not [key for element in root.iter() for key in element.attrib if key.endswith("href")]
    assert float(root.attrib["width"]) == pytest.approx(900, abs=30)
    assert float(root.attrib["height"]) == pytest.approx(560, abs=30)


def test_svg_survives_hostile_names() -> None:
    model = replace(tiny_model(), name='</text><script>alert(1)</script>&\x00\x1b"')
    root = ElementTree.fromstring(svg(chart(predict(model, part()))))
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))


def test_png_has_the_size_of_its_scale(spec: dict[str, Any]) -> None:
    small, large = png(spec, scale=1), png(spec)
    assert small.startswith(b"\x89PNG\r\n\x1a\n")
    width, double = (struct.unpack(">I", data[16:20])[0] for data in (small, large))
    assert width == pytest.approx(900, abs=30)
    assert double == pytest.approx(2 * width, abs=2)


def test_pdf_is_one_page(spec: dict[str, Any]) -> None:
    data = pdf(spec)
    assert data.startswith(b"%PDF-")
    assert data.count(b"/Count 1") == 1


def test_equal_specifications_give_equal_pictures(spec: dict[str, Any]) -> None:
    assert svg(spec) == svg(spec)
    assert png(spec) == png(spec)
