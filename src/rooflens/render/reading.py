"""A reading of a server: as a view for a terminal, as one line, and as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rooflens.core.activity import Field
from rooflens.core.reading import Rates, Reading
from rooflens.core.scenario import Precision
from rooflens.render.figures import figure, percent
from rooflens.render.reading_words import drafts_line, estimates_line, headroom, waiting_line, watch_verdict
from rooflens.units import si

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

SCHEMA = "rooflens.reading/1"
UNKNOWN = "-"
"""Stands for what the server does not tell."""


def reading_line(reading: Reading) -> str:
    """One interval in one line: tokens, work per second, shares, bound, queue and the next limit; unknown is "-"."""
    work, total = reading.workload, reading.total
    bound = f"{reading.bound}-bound" if reading.bound is not None else "bound -"
    parts = [
        f"{reading.seconds:.2f} s",
        f"prompt {_number(work.computed_per_s)} + {_number(work.cached_per_s)} cached tokens/s",
        f"generated {_number(work.generated_per_s)} tokens/s",
        f"batch {_number(work.batch)} at {_number(work.context)}",
        f"{_si(_of(total, 'flops'), 'FLOP/s')}, {_si(_of(total, 'memory'), 'B/s')}",
        f"MFU {_percent(_of(total, 'mfu'))}, MBU {_percent(_of(total, 'mbu'))}",
        f"{bound}, {_percent(_of(total, 'busy'))} at the roofs",
        f"KV {_percent(reading.cache.usage)}",
        f"wait {_number(reading.queue.waiting)}",
        f"next limit {_next(reading)}",
    ]
    return " | ".join(parts)


def reading_view(reading: Reading) -> Group:
    """One interval in full: verdict, work of prefill and decode, headroom, queueing, the engine's own figures, GPUs."""
    from rich.console import Group
    from rich.text import Text

    verdict = watch_verdict(reading)
    head = (
        f"{reading.model} on {reading.parts} x {reading.hardware}, {reading.engine}, the last {reading.seconds:.2f} s"
    )
    lines = [
        ("queueing, apart from the work", waiting_line(reading)),
        ("drafts", drafts_line(reading)),
        ("the engine's own estimate for one GPU", estimates_line(reading)),
        *(("GPU counters", line) for line in _gpus(reading)),
    ]
    return Group(
        Text(head, style="bold"),
        Text(f"{verdict[0].upper()}{verdict[1:]}."),
        Text(),
        _table(reading),
        Text(),
        *(Text(f"{line[0].upper()}{line[1:]}.") for line in headroom(reading)),
        *(Text(f"{name[0].upper()}{name[1:]}: {line}.") for name, line in lines if line),
        *(Text(f"Note: {note}.", style="dim") for note in reading.notes),
        Text(f"Figures: {'; '.join(f'{name} ({origin})' for name, origin in reading.origins)}.", style="dim"),
    )


def _table(reading: Reading) -> Table:
    from rich.table import Table

    work = reading.workload
    table = Table("", "prefill", "decode", "together", box=None, padding=(0, 2))
    for column in table.columns[1:]:
        column.justify = "right"
    table.add_row(
        "tokens/s",
        _number(work.computed_per_s),
        _number(work.decoded_per_s),
        f"{_number(work.generated_per_s)} generated",
    )
    table.add_row("a pass", f"{_number(work.prompt_tokens)} tokens", f"batch {_number(work.batch)}", "")
    table.add_row(
        "behind", f"{_number(work.prefix_tokens)} cached", f"context {_number(work.context)}",
        f"{_number(work.cached_per_s)} cached tokens/s",
    )  # fmt: skip
    for label, cell in _ROWS:
        table.add_row(label, *(_cell(cell, rates) for rates in (reading.prefill, reading.decode, reading.total)))
    table.add_row("  roof there", "", "", _si(reading.attainable, "FLOP/s"))
    table.add_row("  reached of it", "", "", _percent(_reached(reading)))
    return table


def _cell(cell: Any, rates: Rates | None) -> str:
    return UNKNOWN if rates is None else cell(rates)


_ROWS: tuple[tuple[str, Any], ...] = (
    ("work", lambda r: si(r.flops, "FLOP/s")),
    ("memory traffic", lambda r: si(r.memory, "B/s")),
    ("  weights", lambda r: si(r.weights, "B/s")),
    ("  KV cache", lambda r: si(r.kv, "B/s")),
    ("MFU", lambda r: percent(r.mfu)),
    ("MBU", lambda r: percent(r.mbu)),
    ("time at the roofs", lambda r: percent(r.busy)),
    ("intensity", lambda r: UNKNOWN if r.intensity is None else f"{figure(r.intensity)} FLOP/byte"),
)


def _gpus(reading: Reading) -> list[str]:
    """Each GPU's counters; DRAM activity also in byte/s."""
    lines = []
    for sample in reading.activities:
        tensor, dram, sm = (sample.get(field) for field in (Field.TENSOR, Field.DRAM, Field.SM))
        moved = "" if dram is None else f" ({si(dram * reading.bandwidth, 'B/s')})"
        lines.append(
            f"{sample.device}, tensor pipe {_percent(tensor)}, DRAM {_percent(dram)}{moved}; SM active {_percent(sm)}, "
            "which counts warps that wait"
        )
    return lines


def _next(reading: Reading) -> str:
    name = reading.next_limit
    return UNKNOWN if name is None else f"{name.replace('_', ' ')} {percent(reading.limits[name])}"


def _reached(reading: Reading) -> float | None:
    """Share of what the roofs allow at the intensity of the work."""
    total, allowed = reading.total, reading.attainable
    return None if total is None or not allowed else total.flops / allowed


def _of(rates: Rates | None, figure_name: str) -> float | None:
    return None if rates is None else float(getattr(rates, figure_name))


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else figure(value)


def _percent(value: float | None) -> str:
    return UNKNOWN if value is None else percent(value)


def _si(value: float | None, unit: str) -> str:
    return UNKNOWN if value is None else si(value, unit)


def reading_document(reading: Reading) -> dict[str, Any]:
    """The reading as plain values: rates per second of all parts together, shares in 0..1; None is not known."""
    work, queue = reading.workload, reading.queue
    return {
        "schema": SCHEMA,
        "engine": reading.engine,
        "model": reading.model,
        "hardware": reading.hardware,
        "dtypes": _dtypes(reading.precision),
        "seconds": reading.seconds,
        "parts": reading.parts,
        "peak_flops_per_s": reading.peak,
        "bandwidth_bytes_per_s": reading.bandwidth,
        "ridge_point": reading.ridge_point,
        "workload": {
            "computed_tokens_per_s": work.computed_per_s,
            "cached_tokens_per_s": work.cached_per_s,
            "generated_tokens_per_s": work.generated_per_s,
            "decoded_tokens_per_s": work.decoded_per_s,
            "prompts_per_s": work.prompts_per_s,
            "prompt_tokens": work.prompt_tokens,
            "prefix_tokens": work.prefix_tokens,
            "batch": work.batch,
            "context": work.context,
            "tokens_per_step": work.tokens_per_step,
            "drafted": work.drafted,
        },
        "prefill": _rates(reading.prefill),
        "decode": _rates(reading.decode),
        "total": _rates(reading.total),
        "bound": None if reading.bound is None else str(reading.bound),
        "bound_share": None if reading.bound_share is None else {str(b): s for b, s in reading.bound_share.items()},
        "attainable_flops_per_s": reading.attainable,
        "limits": reading.limits,
        "next_limit": reading.next_limit,
        "headroom": headroom(reading),
        "kv_cache": {"usage": reading.cache.usage, "tokens": reading.cache.tokens},
        "queue": {name: getattr(queue, name) for name in _QUEUE},
        "estimated": {
            "flops_per_s": reading.estimated.flops_per_s,
            "bytes_per_s": reading.estimated.bytes_per_s,
        },
        "accepted": list(reading.accepted),
        "gpus": [
            {"device": sample.device, "fields": {str(int(k)): v for k, v in sample.fields.items()}}
            for sample in reading.activities
        ],
        "provenance": [{"figure": name, "source": origin} for name, origin in reading.origins],
        "notes": list(reading.notes),
    }


_QUEUE = (
    "running", "waiting", "queue_s", "ttft_s", "inter_token_s", "prefill_s", "decode_s", "step_tokens",
    "preemptions_per_s",
)  # fmt: skip


def _dtypes(precision: Precision) -> dict[str, str]:
    return {name: str(getattr(precision, name)) for name in ("compute", "attention", "activations", "weights", "kv")}


def _rates(rates: Rates | None) -> dict[str, float | None] | None:
    if rates is None:
        return None
    return {
        "flops_per_s": rates.flops,
        "model_flops_per_s": rates.model_flops,
        "memory_bytes_per_s": rates.memory,
        "weights_bytes_per_s": rates.weights,
        "kv_bytes_per_s": rates.kv,
        "mfu": rates.mfu,
        "mbu": rates.mbu,
        "busy": rates.busy,
        "intensity": rates.intensity,
    }
