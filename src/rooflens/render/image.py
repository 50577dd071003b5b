"""A Vega-Lite specification as SVG, PNG or PDF, drawn without a browser and without a network."""

from __future__ import annotations

import re
from typing import Any

VEGA_LITE = "5.20"
"""Version of the language that specifications are compiled with."""

_CLIP = re.compile(r'(<clipPath id="clip|clip-path="url\(#clip)(\d+)("|\)")')
"""Names of clipping paths, which count up over the life of the process unless they are numbered anew."""


def svg(spec: dict[str, Any]) -> str:
    """`spec` as one SVG document with text as text; equal for equal specifications."""
    import vl_convert

    text: str = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE, allowed_base_urls=[])
    numbers = {name: str(at) for at, name in enumerate(re.findall(r'<clipPath id="clip(\d+)"', text))}
    return _CLIP.sub(lambda match: f"{match[1]}{numbers.get(match[2], match[2])}{match[3]}", text)


def png(spec: dict[str, Any], scale: float = 2.0) -> bytes:
    """`spec` as a PNG file of `scale` pixels for each pixel of the specification (2: sharp on dense screens)."""
    import vl_convert

    return vl_convert.vegalite_to_png(spec, vl_version=VEGA_LITE, scale=scale, allowed_base_urls=[])


def pdf(spec: dict[str, Any]) -> bytes:
    """`spec` as a PDF file of one page, vectors and embedded fonts."""
    import vl_convert

    return vl_convert.vegalite_to_pdf(spec, vl_version=VEGA_LITE, allowed_base_urls=[])
