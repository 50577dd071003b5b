"""Kernels at every level of memory, for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from rooflens.hierarchy import LevelPoint
from rooflens.render.figures import figure, percent
from rooflens.units import si
from rooflens.version import __version__

if TYPE_CHECKING:
    from rich.console import RenderableType

HIERARCHY_SCHEMA = "rooflens.hierarchy/1"
UNKNOWN = "-"
_LONGEST = 48
"""Characters of a kernel's name in the table."""


class LevelDocument(msgspec.Struct):
    """A kernel at one level of memory."""

    level: str
    bytes: float
    intensity: float | None
    achieved_bytes_per_s: float | None
    bandwidth_bytes_per_s: float | None
    share: float | None


class KernelDocument(msgspec.Struct):
    """One launch of a kernel."""

    id: int
    name: str
    device: str
    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None
    seconds: float | None
    dtype: str | None
    flops: float | None
    flops_complete: bool
    flops_by_pipe: dict[str, float]
    performance_flops_per_s: float | None
    compute_share: float | None
    bound: str | None
    levels: list[LevelDocument]
    clock_control: str
    cache_control: str
    missing: list[str]


class HierarchyDocument(msgspec.Struct):
    """Kernels by level of memory."""

    schema: str
    version: str
    kernels: list[KernelDocument]
    notes: list[str]


def hierarchy_document(points: Iterable[LevelPoint]) -> HierarchyDocument:
    """Return `points` as a document of the schema `rooflens.hierarchy/1`, a kernel for each launch."""
    launches = _by_launch(points)
    kernels = [_kernel(held) for held in launches]
    return HierarchyDocument(HIERARCHY_SCHEMA, __version__, kernels, _notes(launches))


def hierarchy_table(points: Iterable[LevelPoint]) -> RenderableType:
    """Return `points` as a table with a row for each level of each launch, and what to know about them below."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    launches = _by_launch(points)
    table = Table(box=None, padding=(0, 1))
    table.add_column("kernel", overflow="fold")
    for column in ("time", "level", "bytes", "FLOP/byte", "FLOP/s", "B/s", "of bandwidth", "of peak", "bound"):
        table.add_column(column, justify="right", no_wrap=True)
    for held in launches:
        for place, point in enumerate(held):
            table.add_row(*(Text(cell) for cell in _row(point, first=not place)))
    if not launches:
        return Text("No kernel has bytes at any level of memory.")
    return Group(table, *(Text(f"\n{note}.") for note in _notes(launches)))


def _by_launch(points: Iterable[LevelPoint]) -> list[list[LevelPoint]]:
    launches: dict[int, list[LevelPoint]] = {}
    for point in points:
        launches.setdefault(id(point.counters), []).append(point)
    return list(launches.values())


def _row(point: LevelPoint, *, first: bool) -> tuple[str, ...]:
    counters = point.counters
    name = counters.name if len(counters.name) <= _LONGEST else f"{counters.name[: _LONGEST - 3]}..."
    own = (name, _printed(counters.seconds, "s")) if first else ("", "")
    intensity = UNKNOWN if point.intensity is None else figure(point.intensity)
    atleast = "" if counters.complete or point.intensity is None else ">="
    return (
        *own,
        point.level,
        si(point.moved, "B"),
        f"{atleast}{intensity}",
        _printed(point.performance, "FLOP/s"),
        _printed(point.achieved, "B/s"),
        UNKNOWN if point.share is None else percent(point.share),
        UNKNOWN if point.compute_share is None else percent(point.compute_share),
        (point.bound or UNKNOWN) if first else "",
    )


def _kernel(held: Sequence[LevelPoint]) -> KernelDocument:
    counters = held[0].counters
    return KernelDocument(
        id=counters.id,
        name=counters.name,
        device=counters.device,
        grid=counters.grid,
        block=counters.block,
        seconds=counters.seconds,
        dtype=str(counters.dtype) if counters.dtype else None,
        flops=counters.flops,
        flops_complete=counters.complete,
        flops_by_pipe=dict(counters.flops_by_pipe),
        performance_flops_per_s=held[0].performance,
        compute_share=held[0].compute_share,
        bound=held[0].bound,
        levels=[_level(point) for point in held],
        clock_control=counters.clock_control,
        cache_control=counters.cache_control,
        missing=list(counters.missing),
    )


def _level(point: LevelPoint) -> LevelDocument:
    return LevelDocument(point.level, point.moved, point.intensity, point.achieved, point.bandwidth, point.share)


def _notes(launches: Sequence[Sequence[LevelPoint]]) -> list[str]:
    """Notes of all launches, each once, and why an intensity is not known."""
    notes = dict.fromkeys(note for held in launches for note in held[0].counters.notes)
    unknown = sum(held[0].counters.flops is None for held in launches)
    if unknown:
        text = "kernel has" if unknown == 1 else "kernels have"
        notes[f"{unknown} {text} no FLOP: what was counted does not tell what it computed (`missing` in the JSON)"] = (
            None
        )
    if any(not held[0].counters.complete and held[0].counters.flops is not None for held in launches):
        notes["FLOP marked >= are at least that: not every pipe was counted"] = None
    return list(notes)


def _printed(value: float | None, unit: str) -> str:
    return UNKNOWN if value is None else si(value, unit)
