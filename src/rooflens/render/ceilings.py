"""This machine's ceilings as a table and as plain values: every figure with its spread and how it was measured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rooflens.core.hardware import Ceiling, Hardware
from rooflens.render.gpu import UNKNOWN, figure_lines, hardware_document
from rooflens.units import si

if TYPE_CHECKING:
    from rich.console import Group

SCHEMA = "rooflens.ceilings/1"


def ceilings_document(hardware: Hardware, file: str | None) -> dict[str, Any]:
    """The ceilings as plain values: `hardware` as `gpu --json` gives it, and the `file` that keeps them, or None."""
    return {"schema": SCHEMA, "file": file, "hardware": hardware_document(hardware)}


def ceilings_table(hardware: Hardware, file: str | None) -> Group:
    """Every measured figure with unit, spread (in words where it is not stable) and how it was measured.

    Below it ridge points in FLOP/byte (OP/byte for integers) over reading memory, sizes, conditions and notes.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table("figure", "value", "spread", "measured with", title=Text(hardware.title))
    for column in table.columns[:2]:
        column.no_wrap = True
    for name, value, _, ceiling in figure_lines(hardware):
        if ceiling is not None and ceiling.provenance.kind == "measured":
            table.add_row(Text(name.removesuffix(", matrix units")), Text(value), _spread(ceiling), Text(_how(ceiling)))
    return Group(table, *(Text(line) for line in _remarks(hardware, file)))


def _spread(ceiling: Ceiling) -> str:
    if ceiling.spread is None:
        return UNKNOWN
    return f"{100 * ceiling.spread:.{0 if ceiling.spread >= 1 else 1}f} %{'' if ceiling.stable else ', not stable'}"


def _how(ceiling: Ceiling) -> str:
    return ceiling.provenance.note or ceiling.provenance.source


def _remarks(hardware: Hardware, file: str | None) -> Iterator[str]:
    yield "spread: (largest - smallest) / median of the repeats; a value is the median of their better half"
    yield "bytes: read N, copy 2 N, triad 3 N; nt: stores that bypass the caches"
    lines = [line for line in figure_lines(hardware) if line[3] is not None]
    ridges = [f"{name.partition(' ')[0]} {ridge}" for name, _, ridge, _ in lines if ridge]
    yield f"ridge points: {', '.join(ridges) or UNKNOWN}"
    sizes = [f"{name} {value}" for name, value, _, one in lines if one and one.provenance.kind == "driver"]
    yield f"sizes: {', '.join(sizes) or UNKNOWN}"
    best = max(hardware.memory.patterns.items(), key=lambda item: item[1].value, default=None)
    rate = hardware.memory.bandwidth
    if best is not None and rate is not None and best[1].value > 1.1 * rate.value:
        most = f"{si(best[1].value, 'B/s')} ({best[0]})"
        yield f"memory moves up to {most}; ridge points are over the {si(rate.value, 'B/s')} of reading"
    loose = [name for name, _, _, one in lines if one and not one.stable]
    if loose:
        yield f"{len(loose)} figures are not stable: something else ran, or the clock moved; --fresh measures again"
    for name, value in hardware.conditions:
        yield f"{name}: {value}"
    yield from hardware.notes
    if file is not None:
        yield f"kept in {file}"
