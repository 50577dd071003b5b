"""Rows of the phase table that differ between what was predicted and what ran, and the table of kernels that ran."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.table import Table
from rich.text import Text

from rooflens.render.document import MeasuredDocument, OpDocument, PhaseDocument
from rooflens.render.figures import figure, percent
from rooflens.units import si

COLOURS = {"compute": "magenta", "memory": "cyan", "link": "yellow", "overhead": "red"}
LEAST_SHARE = 0.002
"""Ops with less of a phase's time than this are added up in one row."""

Row = tuple[str, Callable[[PhaseDocument], Any]]
FLOOR_ROWS: tuple[Row, ...] = (
    ("floor time (kernels in series)", lambda p: si(p.floor_s, "s")),
    ("ideal time (all overlapped)", lambda p: si(p.ideal_s, "s")),
    ("tokens per second at the floor", lambda p: f"{figure(p.tokens_per_s)} tokens/s"),
    ("MFU at the floor", lambda p: percent(p.mfu)),
    ("MBU at the floor", lambda p: percent(p.mbu)),
)


def _of(cell: Callable[[MeasuredDocument], str]) -> Callable[[PhaseDocument], str]:
    """A cell of what was measured, "-" where nothing ran."""
    return lambda phase: "-" if phase.measured is None else cell(phase.measured)


def _seconds(value: float | None) -> str:
    return "-" if value is None else si(value, "s")


def _share(value: float | None) -> str:
    return "-" if value is None else percent(value)


def _overhead(measured: MeasuredDocument) -> str:
    added = measured.instrument_overhead
    return "-" if added is None else f"{100 * added:+.1f} %"


def _floor(phase: PhaseDocument) -> str:
    """The floor of the counted kernels, and what share of the measured time it is."""
    if phase.measured is None or phase.measured.predicted is None:
        return "-"
    floor_s = phase.measured.predicted.floor_s
    return f"{si(floor_s, 's')} ({percent(floor_s / phase.measured.time_s)})"


MEASURED_ROWS: tuple[Row, ...] = (
    ("measured time (median)", _of(lambda m: si(m.time_s, "s"))),
    ("  repeats, spread", _of(lambda m: f"{len(m.times_s)}, {percent(m.spread) if len(m.times_s) > 1 else '-'}")),
    ("  in kernels", _of(lambda m: _seconds(m.busy_s))),
    ("  in dispatch of the framework", _of(lambda m: _seconds(m.dispatch_s))),
    ("  in neither", _of(lambda m: _seconds(m.gap_s))),
    ("  instrumented run, against that", _of(_overhead)),
    ("predicted floor (share of measured)", _floor),
    ("compulsory bytes", lambda p: si(p.compulsory_bytes, "B")),
    ("tokens per second", lambda p: f"{figure(p.tokens_per_s)} tokens/s"),
    ("MFU", lambda p: percent(p.mfu)),
    ("MBU", lambda p: percent(p.mbu)),
    ("energy for each token", _of(lambda m: "-" if m.joules_per_token is None else si(m.joules_per_token, "J"))),
)


def measured_kernels(phase: PhaseDocument, *, narrow: bool) -> Table:
    """What ran in a phase by its own time, beside its floor; coverage first. Short ops are added up in the last row."""
    measured = phase.measured
    assert measured is not None
    title = (
        f"{phase.phase}: what ran, by its own time; coverage {_share(measured.coverage)}, "
        f"GEMM and attention {_share(measured.matrix_share)}"
    )
    columns = {name: cell for name, cell in _COLUMNS.items() if not narrow or name not in _WIDE_ONLY}
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1))
    for name in columns:
        words = name in ("op", "dtype", "bound")
        table.add_column(
            name, justify="left" if words else "right", no_wrap=True, min_width=12 if name == "op" else None
        )
    for op in phase.ops:
        if op.share >= LEAST_SHARE:
            table.add_row(*(cell(op) for cell in columns.values()))
    rest = [op for op in phase.ops if op.share < LEAST_SHARE]
    if rest:
        sums = {"op": f"{len(rest)} more", "measured": si(sum(op.measured_s or 0.0 for op in rest), "s")}
        sums["share"] = percent(sum(op.share for op in rest))
        table.add_row(*(sums.get(name, "") for name in columns), style="dim")
    return table


_Cell = Callable[[OpDocument], Any]


def _known(cell: _Cell) -> _Cell:
    """A cell of what a formula gives, "-" for an op without one."""
    return lambda op: cell(op) if op.known else "-"


_COLUMNS: dict[str, _Cell] = {
    "op": lambda op: Text(op.name),
    "dtype": _known(lambda op: op.dtype),
    "bound": _known(lambda op: Text(op.bound, style=COLOURS[op.bound])),
    "runs": lambda op: f"{op.count:,}",
    "FLOP": _known(lambda op: si(op.flops, "")),
    "bytes": _known(lambda op: si(op.bytes.total, "B")),
    "FLOP/byte": _known(lambda op: "-" if op.intensity is None else figure(op.intensity)),
    "measured": lambda op: _seconds(op.measured_s),
    "floor": _known(lambda op: si(op.floor_s, "s")),
    "of roof": _known(lambda op: _share(op.roof_share)),
    "share": lambda op: percent(op.share),
}
_WIDE_ONLY = ("dtype", "runs", "FLOP", "FLOP/byte", "floor")
"""Columns that a narrow terminal does without, so that names can be read."""
