"""The page credits every work that the chart library is made of."""

from __future__ import annotations

import vl_convert

from rooflens.api import predict
from rooflens.render.html import html
from tests.conftest import part, tiny_model

CREDITS = {
    "vegaEmbed": "Vega-Embed",
    "vg-tooltip-element": "Vega-Tooltip",
    "fivethirtyeight": "Vega-Themes",
    "OPERATION_NOT_AN_OBJECT": "fast-json-patch",
    '/("(?:[^\\\\"]|\\\\.)*")|[:,]/g': "json-stringify-pretty-compact",
    "SEMVER_SPEC_VERSION": "semver",
    "_hullHash": "delaunator",
    "134217729": "robust-predicates",
    "_intern:": "internmap",
    "MultiLineString": "topojson-client",
    "Octal literals are not allowed in strict mode": "Esprima",
    "1b9e77d95f02": "ColorBrewer",
}
"""What shows that a work is part of the chart library, and what the page calls it."""


def test_every_work_in_the_library_is_credited() -> None:
    library = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    source = html(predict(tiny_model(), part()))
    credited = source.partition("<!--")[2].partition("-->")[0]
    for mark, name in CREDITS.items():
        assert mark in library, name
        assert name in credited
