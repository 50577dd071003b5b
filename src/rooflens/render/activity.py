"""Phases told from a GPU's counters: as a table, and as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rooflens.activity import TEXTBOOK_DECODE, TEXTBOOK_PREFILL, ActivityReading, PhaseShare, Signature
from rooflens.render.figures import figure, percent
from rooflens.units import si

if TYPE_CHECKING:
    from rich.console import Group

SCHEMA = "rooflens.activity/1"
UNKNOWN = "-"
_MOST_ROWS = 40

CORRECTION = (
    "Textbooks call the low figure of decode SM utilisation. It is the tensor pipe's (1004): SM activity (1002) counts "
    "warps that wait for memory, so that a kernel at 95 % of DRAM bandwidth shows nearly full SM activity. 1002 is "
    "shown and not used."
)
MODEL = (
    "A sample mixes phases: its tensor and DRAM activity are taken as a sum of prefill and decode, each as it shows "
    "alone, times the share of the sample that it ran; the rest is idle. It holds where a phase looks alike whenever "
    "it runs, and where only these two ran."
)
_FIGURES = ("prefill", "decode", "idle", "tensor", "dram", "sm", "bytes_per_s")


def activity_document(reading: ActivityReading) -> dict[str, Any]:
    """`reading` as plain values: shares in 0..1, byte/s, seconds; None for what was not sampled."""
    return {
        "schema": SCHEMA,
        "hardware": reading.hardware,
        "bandwidth_bytes_per_s": reading.bandwidth,
        "signatures": {"prefill": _signature(reading.prefill), "decode": _signature(reading.decode)},
        "textbook": {"prefill": _signature(TEXTBOOK_PREFILL), "decode": _signature(TEXTBOOK_DECODE)},
        "mean": {name: reading.mean(name) for name in _FIGURES},
        "samples": [
            {"device": share.device, "seconds": share.seconds, **{name: getattr(share, name) for name in _FIGURES}}
            for share in reading.shares
        ],
        "notes": [CORRECTION, MODEL, *reading.notes],
    }


def activity_table(reading: ActivityReading) -> Group:
    """The means, the signatures beside the textbook's, and the samples (the first `_MOST_ROWS` of them)."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    signatures = Table("phase alone", "tensor pipe (1004)", "DRAM (1005)", "from", box=None, padding=(0, 2))
    for name, seen, textbook in (
        ("prefill", reading.prefill, TEXTBOOK_PREFILL),
        ("decode", reading.decode, TEXTBOOK_DECODE),
    ):
        for one in dict.fromkeys((seen, textbook)):
            signatures.add_row(name, percent(one.tensor), percent(one.dram), one.origin)
    rows = Table("GPU", "second", "prefill", "decode", "idle", "tensor", "DRAM", "SM active", "memory", box=None)
    for share in reading.shares[:_MOST_ROWS]:
        rows.add_row(*_row(share))
    left = len(reading.shares) - _MOST_ROWS
    return Group(
        Text(_summary(reading), style="bold"),
        Text(),
        signatures,
        Text(),
        rows,
        *([Text(f"{left:,} more samples", style="dim")] if left > 0 else []),
        Text(),
        Text(CORRECTION, style="dim"),
        Text(MODEL, style="dim"),
        *(Text(f"Note: {note}.", style="dim") for note in reading.notes),
    )


def _summary(reading: ActivityReading) -> str:
    devices = len({share.device for share in reading.shares})
    moved = reading.mean("bytes_per_s")
    traffic = "" if moved is None else f"; {si(moved, 'B/s')} of {si(reading.bandwidth or 0.0, 'B/s')} each"
    return (
        f"{len(reading.shares):,} samples of {devices} GPU{'s' if devices > 1 else ''}: prefill "
        f"{_percent(reading.mean('prefill'))}, decode {_percent(reading.mean('decode'))}, idle "
        f"{_percent(reading.mean('idle'))} of the time{traffic}"
    )


def _row(share: PhaseShare) -> tuple[str, ...]:
    shares = (share.prefill, share.decode, share.idle, share.tensor, share.dram, share.sm)
    return (
        share.device,
        UNKNOWN if share.seconds is None else figure(share.seconds),
        *(_percent(value) for value in shares),
        UNKNOWN if share.bytes_per_s is None else si(share.bytes_per_s, "B/s"),
    )


def _percent(value: float | None) -> str:
    return UNKNOWN if value is None else percent(value)


def _signature(signature: Signature) -> dict[str, Any]:
    return {"tensor": signature.tensor, "dram": signature.dram, "origin": signature.origin}
