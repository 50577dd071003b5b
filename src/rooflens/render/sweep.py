"""Profiles of one model at several batches and prompts: a table, and each phase's way along the roof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rooflens.core.profile import PhaseProfile, Profile
from rooflens.core.scenario import PhaseKind
from rooflens.metrics import phase_metrics
from rooflens.render.chart import DECADE, SCHEMA
from rooflens.render.chart_data import clean
from rooflens.render.figures import figure, percent
from rooflens.render.palette import config, phase_domain
from rooflens.render.table_rows import COLOURS
from rooflens.units import si

_LABEL = f"{DECADE} ? format(datum.value, '~s') : ''"


def sweep_table(profiles: Sequence[Profile]) -> RenderableType:
    """A row for each batch, prompt and phase: what it took, where it lies, and what it is bound by."""
    first = profiles[0]
    title = Text(f"{first.model.name} on {first.hardware.title}, {first.scenario.precision.compute}", style="bold")
    tables = [_table(profiles, kind) for kind in PhaseKind if _rows(profiles, kind)]
    notes = [
        Text.assemble(
            ("warning: ", "bold yellow"), f"batch {p.scenario.batch:,}, prompt {p.scenario.prompt:,}: {f.text}"
        )
        for p in profiles
        for f in p.findings
        if f.level == "warning"
    ]
    return Group(title, Text(), *tables, *notes)


def _rows(profiles: Sequence[Profile], kind: PhaseKind) -> list[tuple[Profile, PhaseProfile]]:
    return [(profile, phase) for profile in profiles for phase in profile.phases if phase.phase.kind is kind]


def _table(profiles: Sequence[Profile], kind: PhaseKind) -> Table:
    table = Table(title=str(kind), title_justify="left", box=None, padding=(0, 1))
    for name in (
        "batch",
        "prompt",
        "measured",
        "spread",
        "tokens/s",
        "FLOP/byte",
        "performance",
        "MFU",
        "MBU",
        "bound",
    ):
        table.add_column(name, justify="right")
    for profile, phase in _rows(profiles, kind):
        rates, measured = phase_metrics(phase), phase.measured
        bound = str(phase.bound)
        table.add_row(
            f"{profile.scenario.batch:,}",
            f"{profile.scenario.prompt:,}",
            si(float(phase.time_s), "s"),
            percent(measured.spread) if measured and len(measured.times_s) > 1 else "-",
            figure(rates.tokens_per_s),
            figure(phase.intensity),
            si(float(phase.flops) / float(phase.time_s), "FLOP/s"),
            percent(rates.mfu),
            percent(rates.mbu),
            Text(f"{bound} {percent(phase.bound_share[phase.bound])}", style=COLOURS[bound]),
        )
    return table


def sweep_chart(
    profiles: Sequence[Profile], *, dark: bool = False, width: int = 900, height: int = 560
) -> dict[str, Any]:
    """Each phase's way along the roof as batch and prompt grow: a Vega-Lite 5 specification.

    Every point is a whole phase of one profile: its FLOP over its bytes, and over what it took.
    """
    rows = [_row(profile, phase) for profile in profiles for phase in profile.phases]
    roofs = [phase.roof for profile in profiles for phase in profile.phases]
    roof = replace(roofs[0], peak=max(r.peak for r in roofs), bandwidth=max(r.bandwidth for r in roofs))
    xs = [row["x"] for row in rows] + [roof.peak / roof.bandwidth]
    ys = [row["y"] for row in rows] + [roof.peak]
    x_domain, y_domain = (min(xs) / 3, max(xs) * 4), (min(ys) / 4, max(ys) * 3)
    corners = [x_domain[0], roof.peak / roof.bandwidth, x_domain[1]]
    line = [{"x": x, "y": min(roof.peak, x * roof.bandwidth)} for x in corners]
    title = {
        "text": f"{clean(profiles[0].model.name)} on {clean(profiles[0].hardware.title)}",
        "subtitle": f"{_spread('peak', [r.peak for r in roofs], 'FLOP/s')} in {roof.dtype}, "
        f"{_spread(roof.level, [r.bandwidth for r in roofs], 'B/s')}; a line is a batch, along it the prompt grows",
        "anchor": "start",
        "frame": "bounds",
    }
    return {
        "$schema": SCHEMA,
        "title": title,
        "width": width - 90,
        "height": height - 120,
        "layer": [_roof(line, x_domain, y_domain), *_phases(rows)],
        "config": config(dark=dark, narrow=False),
    }


def _spread(name: str, values: Sequence[float], unit: str) -> str:
    """A ceiling, and how far it moved between the runs: the highest is drawn."""
    least, most = si(min(values), unit), si(max(values), unit)
    return f"{name} {most}" if least == most else f"{name} {most} (down to {least} beside some runs)"


def _row(profile: Profile, phase: PhaseProfile) -> dict[str, Any]:
    work = profile.scenario
    return {
        "phase": str(phase.phase.kind),
        "batch": f"{phase.phase.kind}, batch {work.batch:,}",
        "prompt": int(work.prompt),
        "x": float(phase.intensity),
        "y": float(phase.flops) / float(phase.time_s),
        "bound": str(phase.bound),
        "time": si(float(phase.time_s), "s"),
    }


def _axis(field: str, title: str, domain: tuple[float, float]) -> dict[str, Any]:
    """A logarithmic axis with lines and labels at whole decades."""
    decade = {"condition": {"test": DECADE, "value": 1}, "value": 0}
    axis = {"title": title, "format": "~s", "gridWidth": decade, "tickWidth": decade, "labelExpr": _LABEL}
    scale = {"type": "log", "domain": list(domain), "nice": False}
    return {"field": field, "type": "quantitative", "scale": scale, "axis": axis}


def _roof(line: list[dict[str, float]], x_domain: tuple[float, float], y_domain: tuple[float, float]) -> dict[str, Any]:
    return {
        "data": {"values": line},
        "mark": {"type": "line", "strokeWidth": 2, "style": "roof"},
        "encoding": {
            "x": _axis("x", "intensity, FLOP per byte that the ops moved", x_domain),
            "y": _axis("y", "performance, FLOP/s", y_domain),
        },
    }


def _phases(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A line and its points for each batch of each phase, larger points for longer prompts, named at its end."""
    place = {"x": {"field": "x", "type": "quantitative"}, "y": {"field": "y", "type": "quantitative"}}
    domain = phase_domain([row["phase"] for row in rows])
    colour = {"field": "phase", "type": "nominal", "scale": {"domain": domain}, "title": None}
    shared = {**place, "color": colour, "detail": {"field": "batch"}}
    data = {"data": {"values": rows}}
    order = {"field": "prompt", "type": "quantitative"}
    size = {"field": "prompt", "type": "ordinal", "scale": {"range": [40, 260]}, "title": "prompt"}
    tips = [{"field": name} for name in ("phase", "batch", "prompt", "time", "bound")]
    points = {"type": "point", "filled": True, "opacity": 0.8}
    return [
        {**data, "mark": {"type": "line", "strokeWidth": 1.5}, "encoding": {**shared, "order": order}},
        {**data, "mark": points, "encoding": {**shared, "size": size, "tooltip": tips}},
        _names(rows, place, colour),
    ]


def _names(rows: list[dict[str, Any]], place: dict[str, Any], colour: dict[str, Any]) -> dict[str, Any]:
    """The name of each line beside its longest prompt, else its shortest; one that would lie on another is left out."""
    lines: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: -row["prompt"]):
        lines.setdefault(row["batch"], []).append(row)
    shown: list[dict[str, Any]] = []
    for line in lines.values():
        shown += [row for row in (line[0], line[-1]) if all(_apart(row, other) for other in shown)][:1]
    mark = {"type": "text", "align": "left", "dx": 10, "dy": 12}
    text = {"field": "batch", "type": "nominal"}
    return {"data": {"values": shown}, "mark": mark, "encoding": {**place, "color": colour, "text": text}}


def _apart(row: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two names do not cover each other: a factor between them, in intensity or in performance."""
    factors = [max(row[axis] / other[axis], other[axis] / row[axis]) for axis in ("x", "y")]
    return bool(factors[0] > _WIDE or factors[1] > _HIGH)


_WIDE, _HIGH = 4.0, 1.25
"""Factors of intensity and performance that a name is wide and high on a chart of some decades."""
