"""Colours and type of the chart, light and dark: a Vega-Lite `config`, so that a theme changes nothing else.

The two phases differ in hue and in lightness: they stay apart for the colour-blind (Okabe and Ito's orange
against blue, darkened to 4.5:1 on white) and in a print without colour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rooflens.core.scenario import PhaseKind

FONT = "Arial, Helvetica, Liberation Sans, sans-serif"
"""Three fonts of the same metrics: widths measured with one hold for the others, on a screen and in a PDF."""

TEXT_PX = 12
"""Size of the smallest text in the chart, in pixels."""


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours of one theme: `ink` for text, `muted` for what may recede, one for each phase and two for others."""

    background: str
    ink: str
    muted: str
    grid: str
    shade: str
    prefill: str
    decode: str
    others: tuple[str, str]


LIGHT = Theme("#ffffff", "#1b1f24", "#565e68", "#e4e7eb", "#8a94a0", "#b84a00", "#0b4fa0", ("#1f7a4d", "#7a3fa0"))
DARK = Theme("#14171c", "#eceff3", "#a7b0bb", "#2c323a", "#8a94a0", "#ffab5c", "#6cb4ff", ("#7fd1a3", "#c79bf2"))


def config(*, dark: bool = False, narrow: bool = False, phases: int = 2) -> dict[str, Any]:
    """The Vega-Lite `config` of a theme; every mark of the chart takes its look from a style in it.

    narrow: legends stand below each other. phases: how many colours are needed, those of prefill and decode first.
    """
    theme = DARK if dark else LIGHT
    return {
        "background": theme.background,
        "font": FONT,
        "padding": 8,
        "view": {"stroke": None},
        "range": {"category": [theme.prefill, theme.decode, *theme.others][:phases]},
        "axis": _axis(theme),
        "legend": _legend(theme, narrow),
        "title": {
            "color": theme.ink,
            "subtitleColor": theme.muted,
            "fontSize": 16,
            "subtitleFontSize": TEXT_PX,
            "subtitlePadding": 5,
            "offset": 8,
        },
        "style": _styles(theme),
    }


def phase_domain(phases: Sequence[str]) -> list[str]:
    """What the colours of the theme stand for: always prefill and decode, then what else is among `phases`."""
    always = [str(PhaseKind.PREFILL), str(PhaseKind.DECODE)]
    return always + [str(kind) for kind in PhaseKind if str(kind) in phases and str(kind) not in always]


def _axis(theme: Theme) -> dict[str, Any]:
    return {
        "domainColor": theme.muted,
        "tickColor": theme.muted,
        "gridColor": theme.grid,
        "labelColor": theme.ink,
        "titleColor": theme.ink,
        "labelFontSize": TEXT_PX,
        "titleFontSize": TEXT_PX,
        "titleFontWeight": "normal",
    }


def _legend(theme: Theme, narrow: bool) -> dict[str, Any]:
    return {
        "labelColor": theme.ink,
        "titleColor": theme.muted,
        "labelFontSize": TEXT_PX,
        "titleFontSize": TEXT_PX,
        "titleFontWeight": "normal",
        "orient": "top",
        "offset": 10,
        "columnPadding": 8,
        "layout": {"direction": "vertical", "margin": 4} if narrow else {"center": True, "margin": 24},
        "symbolOpacity": 0.85,
        "symbolBaseFillColor": theme.muted,
        "symbolBaseStrokeColor": theme.muted,
    }


def _styles(theme: Theme) -> dict[str, Any]:
    return {
        "zone-memory": {"color": theme.shade, "fillOpacity": 0.16},
        "zone-compute": {"color": theme.shade, "fillOpacity": 0.07},
        "zone-name": {"fontSize": TEXT_PX, "fontStyle": "italic", "color": theme.muted},
        "roof": {"color": theme.ink, "strokeWidth": 2},
        "roof-vector": {"color": theme.muted, "strokeWidth": 1.2, "strokeDash": [5, 3]},
        "ridge": {"color": theme.ink, "strokeWidth": 1.5, "fill": theme.background},
        "ridge-drop": {"color": theme.muted, "strokeWidth": 1, "strokeDash": [2, 3]},
        "roof-label": {"fontSize": TEXT_PX, "color": theme.ink},
        "phase-mark": {"stroke": theme.background, "strokeWidth": 1.5},
        "point-label": {"fontSize": TEXT_PX},
        "leader": {"strokeWidth": 0.8},
        "foot": {"fontSize": TEXT_PX, "color": theme.muted},
    }
