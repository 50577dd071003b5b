"""Profile -> one Vega-Lite specification of its roofline: plain data, no address, nothing to load.

Source of the form: Williams, Waterman, Patterson, CACM 52(4), 2009, figure 1 (log-log, slope, flat, ridge point).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rooflens.core.profile import Profile
from rooflens.render.chart_data import FLOOR, KERNEL, PHASE, Mark, floor_marks, kernel_marks, phase_marks, single
from rooflens.render.chart_frame import LINE_PX, Frame, wrap
from rooflens.render.chart_labels import AREA_PX, LEAST_AREA_PX, PHASE_AREA_PX, fade
from rooflens.render.chart_layout import Content, labels
from rooflens.render.chart_notes import description, foot_notes, phase_names, scenario_notes, title
from rooflens.render.chart_roofs import RoofLine, position, roof_layers, roof_lines, zone_layers
from rooflens.render.palette import config, phase_domain

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
"""Names the language of the specification; nothing is loaded from it."""

NARROW_PX = 600
"""A chart narrower than this stacks its legends and labels fewer kernels."""

_TIPS = {
    "name": "kernel",
    "runs": "runs",
    "flops": "FLOP",
    "bytes": "bytes",
    "intensity": "intensity",
    "performance": "performance at the floor",
    "bound": "bound",
    "time": "share of time",
    "floor": "floor",
}
DECADE = "abs(log(datum.value) / LN10 - round(log(datum.value) / LN10)) < 1e-6"


def chart(profile: Profile, *, dark: bool = False, width: int = 900, height: int = 560) -> dict[str, Any]:
    """The roofline of `profile` as a Vega-Lite 5 specification of about `width` x `height` pixels.

    Intensity in FLOP per byte of memory traffic against performance in FLOP/s, both logarithmic. Each kernel
    lies where its FLOP, its bytes and its floor put it; its area is its share of the phase's floor. Kernels
    without FLOP or without bytes are named below the axes. `dark` changes the `config` of the result alone.

    Raises:
        InputError: `profile` holds arrays of scenarios.
    """
    single(profile)
    kernels, phases, roofs = kernel_marks(profile), phase_marks(profile), roof_lines(profile)
    floors = floor_marks(profile)
    foot = wrap(foot_notes(profile), width - 90, "; ")
    heading = wrap([title(profile)], width - 24, size=17)
    subtitle = wrap(scenario_notes(profile), width - 24)
    narrow = width < NARROW_PX
    legend_px = 4 * 18 if narrow else 26
    plot = (width - 90, height - 84 - legend_px - 20 * len(heading) - LINE_PX * (len(foot) + len(subtitle)))
    frame = Frame(*plot, *domains([*kernels, *phases, *floors], roofs, room=50 if narrow else 12))
    return {
        "$schema": SCHEMA,
        "description": description(profile),
        "title": {"text": heading, "subtitle": subtitle, "anchor": "start", "frame": "bounds"},
        "width": frame.width,
        "height": frame.height,
        "datasets": {
            "kernels": [mark.row() for mark in kernels],
            "phases": [mark.row() for mark in phases],
            **({"floors": [mark.row() for mark in floors]} if floors else {}),
        },
        "layer": _layers(frame, Content(profile, kernels, phases, roofs, narrow), foot),
        "config": config(dark=dark, narrow=narrow, phases=len(phase_domain(phase_names(profile)))),
    }


def domains(
    marks: Sequence[Mark], roofs: Sequence[RoofLine], *, room: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Intensities and performances that hold every mark and every main ridge point.

    The margins keep marks and labels off the edges; `room` is the factor of intensity on both sides of a ridge point.
    """
    ridges = [line.ridge for line in roofs if line.main]
    xs, ys = [mark.x for mark in marks] + ridges, [mark.y for mark in marks]
    peak = max(line.roof.peak for line in roofs)
    x_domain = min(min(xs) / 3, min(ridges) / room), max(max(xs) * 4, max(ridges) * room)
    return x_domain, (min([y / 5 for y in ys] + [peak / 50]), peak * 4)


def _layers(frame: Frame, content: Content, foot: list[str]) -> list[dict[str, Any]]:
    """The layers from back to front; that of the kernels is the first with colours, as a legend to click on needs."""
    placed = labels(frame, content)
    ran = any(phase.measured for phase in content.profile.phases)
    return [
        *zone_layers(content.main),
        *roof_layers(content.roofs, content.main),
        _kernels(frame, phase_names(content.profile), params=_params(content.narrow), ran=ran),
        *placed.leaders,
        *([_floors()] if ran else []),
        _wholes(ran=ran),
        *placed.texts,
        *([_foot(frame, foot)] if foot else []),
    ]


def _params(narrow: bool) -> list[dict[str, Any]]:
    """Clicks on the legend leave one phase; dragging moves and Ctrl with the wheel (or a pinch) zooms a wide chart.

    The wheel alone, and a finger on a narrow chart, go on scrolling the page.
    """
    only = {"name": "only", "select": {"type": "point", "fields": ["phase"]}, "bind": "legend"}
    move = {"type": "interval", "zoom": "wheel![event.ctrlKey || event.metaKey]"}
    return [only] if narrow else [only, {"name": "view", "select": move, "bind": "scales"}]


def _kernels(frame: Frame, phases: list[str], *, params: list[dict[str, Any]], ran: bool) -> dict[str, Any]:
    size = {"domain": [0, 1], "range": [LEAST_AREA_PX, AREA_PX]}
    legend = {"direction": "horizontal", "titleOrient": "left"}
    return {
        "params": params,
        "data": {"name": "kernels"},
        "mark": {"type": "point", "filled": True, "clip": True, "strokeWidth": 1},
        "encoding": {
            **_axes(frame),
            "color": {
                "field": "phase",
                "type": "nominal",
                "scale": {"domain": phase_domain(phases)},
                "title": "phase",
                "legend": {**legend, "values": phases},
            },
            "shape": {**_shape(ran=ran), "legend": legend},
            "size": {
                "field": "share",
                "type": "quantitative",
                "scale": size,
                "title": "area: share of time",
                "legend": {**legend, "values": [0.01, 0.1, 0.5], "format": ".0%"},
            },
            "opacity": fade(0.55),
            **_hover(ran=ran),
        },
    }


def _floors() -> dict[str, Any]:
    """Where the prediction puts each phase that ran: hollow, at the floor of the counted kernels."""
    return {
        "data": {"name": "floors"},
        "mark": {"type": "point", "filled": False, "clip": True, "strokeWidth": 2},
        "encoding": {
            **position(),
            "color": {"field": "phase", "type": "nominal"},
            "shape": _shape(ran=True),
            "size": {"value": PHASE_AREA_PX},
            "opacity": fade(1),
            **_hover(ran=True),
        },
    }


def _wholes(*, ran: bool) -> dict[str, Any]:
    return {
        "data": {"name": "phases"},
        "mark": {"type": "point", "filled": True, "clip": True, "style": "phase-mark"},
        "encoding": {
            **position(),
            "color": {"field": "phase", "type": "nominal"},
            "shape": _shape(ran=ran),
            "size": {"value": PHASE_AREA_PX},
            "opacity": fade(1),
            **_hover(ran=ran),
        },
    }


def _shape(*, ran: bool) -> dict[str, Any]:
    scale = {"domain": [KERNEL, PHASE], "range": ["circle", "diamond"]}
    if ran:
        scale = {"domain": [*scale["domain"], FLOOR], "range": [*scale["range"], "triangle-up"]}
    return {"field": "mark", "type": "nominal", "scale": scale, "title": "mark"}


def _hover(*, ran: bool) -> dict[str, Any]:
    tips = (
        {**_TIPS, "performance": "performance", "measured": "measured", "of its roof": "of its roof"} if ran else _TIPS
    )
    return {
        "tooltip": [{"field": key, "title": title} for key, title in tips.items()],
        "description": {"field": "name"},
    }


def _axes(frame: Frame) -> dict[str, Any]:
    return {
        "x": _axis("x", "intensity, FLOP per byte of memory traffic", frame.x_domain, ",~g"),
        "y": _axis("y", "performance, FLOP/s", frame.y_domain, "~s"),
    }


def _axis(name: str, title: str, domain: tuple[float, float], form: str) -> dict[str, Any]:
    """One logarithmic axis: lines and labels at whole decades, at 1, 2 and 5 once it is zoomed in that far."""
    near = f"domain('{name}')[1] / domain('{name}')[0] < 50"
    text = f"datum.value >= 1e6 ? format(datum.value, '~s') : format(datum.value, '{form}')"
    grid = {"condition": {"test": DECADE, "value": 1}, "value": 0}
    return {
        "field": name,
        "type": "quantitative",
        "scale": {"type": "log", "domain": list(domain), "nice": False},
        "axis": {
            "title": title,
            "labelExpr": f"{DECADE} || {near} ? {text} : ''",
            "gridWidth": grid,
            "tickWidth": grid,
            "labelOverlap": True,
            "labelSeparation": 6,
        },
    }


def _foot(frame: Frame, lines: list[str]) -> dict[str, Any]:
    place = {"x": {"value": 0}, "y": {"value": frame.height + 48}}
    mark = {"type": "text", "style": "foot", "align": "left", "baseline": "top", "lineHeight": LINE_PX, "clip": False}
    return {"data": {"values": [{"text": lines}]}, "mark": mark, "encoding": {**place, "text": {"field": "text"}}}
