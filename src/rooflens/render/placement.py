"""One figure under a roof, for a terminal and as JSON."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rooflens.core.hardware import Roof
from rooflens.core.op import DType, Op, OpKind, PointwiseShape, Traffic
from rooflens.render.figures import figure, percent
from rooflens.roofline import attainable, place, ridge_point
from rooflens.units import si

PLACEMENT_SCHEMA = "rooflens.placement/1"


def place_figure(
    flops: float, moved: float, *, peak: float, bandwidth: float, seconds: float | None = None, roof: str = "user"
) -> dict[str, Any]:
    """Place `flops` FLOP over `moved` bytes under a peak (FLOP/s) and a bandwidth (byte/s).

    intensity is null without bytes; attainable, achieved and their share are null where there is no FLOP.
    With `seconds` the share of the roof is floor_s / seconds, above 1 where it lies above the roof.
    """
    under = Roof(peak, bandwidth, DType.BF16, "memory")
    op = Op("figure", OpKind.COPY, DType.BF16, flops, flops, Traffic(activations=moved), PointwiseShape(1, 1, 0))
    point = place(op, under)
    intensity = float(op.intensity) if moved else None
    return {
        "schema": PLACEMENT_SCHEMA,
        "roof": roof,
        "flops": flops,
        "bytes": moved,
        "intensity": intensity,
        "peak_flops_per_s": peak,
        "bandwidth_bytes_per_s": bandwidth,
        "ridge_point": ridge_point(under),
        "bound": str(point.timing.bound),
        "attainable_flops_per_s": _attainable(intensity, flops, under),
        "compute_s": float(point.timing.compute_s),
        "memory_s": float(point.timing.memory_s),
        "floor_s": float(point.floor_s),
        "at_most_per_s": 1 / float(point.floor_s),
        "seconds": seconds,
        "achieved_flops_per_s": flops / seconds if seconds and flops else None,
        "achieved_bytes_per_s": moved / seconds if seconds else None,
        "share_of_roof": float(point.floor_s) / seconds if seconds else None,
    }


def placement_table(placed: dict[str, Any]) -> RenderableType:
    """Return what `place_figure` gave for a terminal, as a sentence and the numbers behind it."""
    table = Table(box=None, show_header=False, padding=(0, 2))
    for label, value in _rows(placed):
        table.add_row(label, value)
    return Group(Text(_sentence(placed)), Text(), table)


def _attainable(intensity: float | None, flops: float, roof: Roof) -> float | None:
    if not flops:
        return None
    return roof.peak if intensity is None else float(attainable(intensity, roof))


def _sentence(placed: dict[str, Any]) -> str:
    ridge = f"the ridge point of {figure(placed['ridge_point'])} FLOP/byte"
    if placed["intensity"] is None:
        where = "no bytes move"
    else:
        relation = "above" if placed["intensity"] > placed["ridge_point"] else "not above"
        where = f"{figure(placed['intensity'])} FLOP/byte is {relation} {ridge}"
    text = f"{placed['bound'].capitalize()}-bound: {where}; it takes at least {si(placed['floor_s'], 's')}."
    share = placed["share_of_roof"]
    if share is None:
        return text
    if share > 1:
        took = si(placed["seconds"], "s")
        return (
            f"{text} {took} is faster than the roof allows ({percent(share)} of it): "
            "the bytes came from a cache, the peak is another dtype's, or a count is wrong."
        )
    return f"{text} Taking {si(placed['seconds'], 's')}, it reaches {percent(share)} of its roof."


def _rows(placed: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [
        ("roof", f"{si(placed['peak_flops_per_s'], 'FLOP/s')} over {si(placed['bandwidth_bytes_per_s'], 'B/s')}"),
        ("intensity", "-" if placed["intensity"] is None else f"{figure(placed['intensity'])} FLOP/byte"),
        ("ridge point", f"{figure(placed['ridge_point'])} FLOP/byte"),
        ("compute time", si(placed["compute_s"], "s")),
        ("memory time", si(placed["memory_s"], "s")),
        ("floor, the larger of both", si(placed["floor_s"], "s")),
        ("at most", f"{figure(placed['at_most_per_s'])} per second"),
    ]
    if placed["attainable_flops_per_s"] is not None:
        rows.append(("attainable", si(placed["attainable_flops_per_s"], "FLOP/s")))
    if placed["achieved_flops_per_s"] is not None:
        rows.append(("achieved", si(placed["achieved_flops_per_s"], "FLOP/s")))
    if placed["achieved_bytes_per_s"] is not None:
        rows.append(("achieved bandwidth", si(placed["achieved_bytes_per_s"], "B/s")))
    return rows
