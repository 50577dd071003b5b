"""Tables for a terminal: the verdict, the phases, the kernels, then what stands behind them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rooflens.core.profile import Profile
from rooflens.render.document import BytesDocument, OpDocument, PhaseDocument, ProfileDocument
from rooflens.render.documents import profile_document
from rooflens.render.figures import figure, percent
from rooflens.render.measured_words import coverage_line
from rooflens.render.table_rows import COLOURS, FLOOR_ROWS, MEASURED_ROWS, measured_kernels
from rooflens.render.words import convention_notes, precision_line, verdict
from rooflens.units import si


def profile_table(profile: Profile, *, narrow: bool = False) -> RenderableType:
    """Return `profile` for a terminal, every figure with its unit; a `narrow` one has fewer columns of what ran.

    Raises:
        InputError: the profile holds arrays of scenarios.
    """
    document = profile_document(profile)
    parts: list[RenderableType] = [_title(document, profile), Text()]
    parts += [Text(f"{p.phase.kind}: {coverage_line(p)}", style="dim") for p in profile.phases if p.measured]
    parts += [_verdict_line(str(phase.bound), verdict(phase)) for phase in profile.phases]
    parts += [Text(), _phase_table(document), Text(_metrics_line(document)), Text()]
    for phase in document.phases:
        parts += [_kernel_table(phase, narrow=narrow), Text()]
    return Group(*parts, *_findings(document), *_footer(document, profile))


def _title(document: ProfileDocument, profile: Profile) -> Text:
    model, work = document.model, document.scenario
    context = f", decode at context {work.context:,}" if work.context is not None else ""
    size = f"{model.params:,} parameters; " if model.params else ""
    title = Text(f"{model.name} on {document.hardware.title}", style="bold")
    title.append(
        f"\n{size}batch {work.batch:,}, prompt {work.prompt:,}, output {work.output:,}{context}"
        f"\n{precision_line(profile.scenario.precision, profile.model)}",
        style="not bold",
    )
    return title


def _verdict_line(bound: str, sentence: str) -> Text:
    text = Text(sentence[0].upper() + sentence[1:] + ".")
    text.highlight_words([f"{bound}-bound"], style=f"bold {COLOURS[bound]}")
    return text


def _phase_table(document: ProfileDocument) -> Table:
    table = Table(box=None, padding=(0, 2))
    table.add_column("")
    for phase in document.phases:
        table.add_column(phase.phase, justify="right")
    ran = any(phase.measured for phase in document.phases)
    for label, cell in (*_PHASE_ROWS, *(MEASURED_ROWS if ran else FLOOR_ROWS)):
        if label == _STATE and not any(phase.bytes.state for phase in document.phases):
            continue
        table.add_row(label, *(cell(phase) for phase in document.phases))
    return table


def _byte_cell(kind: str) -> Any:
    return lambda phase: si(getattr(phase.bytes, kind), "B")


def _share_cell(phase: PhaseDocument) -> str:
    held = [(name, getattr(phase.bound_share, name)) for name in phase.bound_share.__struct_fields__]
    return ", ".join(f"{name} {percent(share)}" for name, share in sorted(held, key=lambda row: -row[1]) if share)


def _written(phase: PhaseDocument) -> str:
    """What a framework writes to its cache by copies of its own is among the activations."""
    copied = phase.measured is not None and phase.measured.traced_passes and not phase.bytes.kv_write
    return "in activations" if copied else si(phase.bytes.kv_write, "B")


_STATE = "  recurrent state"
_PHASE_ROWS: tuple[tuple[str, Any], ...] = (
    ("tokens in the pass", lambda p: f"{p.tokens:,}"),
    ("cached tokens before it, each sequence", lambda p: f"{p.context:,}"),
    ("FLOP", lambda p: si(p.flops, "FLOP")),
    ("  of which model FLOP", lambda p: si(p.model_flops, "FLOP")),
    ("bytes", _byte_cell("total")),
    ("  weights", _byte_cell("weights")),
    ("  KV cache read", _byte_cell("kv_read")),
    ("  KV cache written", _written),
    ("  activations", _byte_cell("activations")),
    (_STATE, _byte_cell("state")),
    ("intensity", lambda p: _intensity(p.intensity)),
    ("ridge point", lambda p: _intensity(p.ridge_point)),
    ("bound", lambda p: Text(p.bound, style=COLOURS[p.bound])),
    ("  share of the time", _share_cell),
)


def _kernel_table(phase: PhaseDocument, *, narrow: bool) -> Table:
    if phase.measured is not None and phase.measured.traced_passes:
        return measured_kernels(phase, narrow=narrow)
    table = Table(title=f"{phase.phase}: kernels by share of the floor", title_justify="left", box=None, padding=(0, 1))
    for name in ("kernel", "dtype", "bound"):
        table.add_column(name)
    for name in ("runs", "FLOP", "bytes", "FLOP/byte", "floor", "share"):
        table.add_column(name, justify="right")
    for op in phase.ops:
        table.add_row(*_kernel_row(op))
    return table


def _kernel_row(op: OpDocument) -> tuple[RenderableType, ...]:
    moved: BytesDocument = op.bytes
    return (
        op.name,
        op.dtype,
        Text(op.bound, style=COLOURS[op.bound]),
        f"{op.count:,}",
        si(op.flops, ""),
        si(moved.total, "B"),
        "-" if op.intensity is None else figure(op.intensity),
        si(op.floor_s, "s"),
        percent(op.share),
    )


def _metrics_line(document: ProfileDocument) -> str:
    m = document.metrics
    decode = "no decode phase"
    if m.tpot_s is not None and m.tokens_per_s is not None:
        decode = f"TPOT {si(m.tpot_s, 's')}, {figure(m.tokens_per_s)} tokens/s generated"
    state = f", state {si(m.state_bytes, 'B')}" if m.state_bytes else ""
    first = "" if m.ttft_s is None else f"TTFT {si(m.ttft_s, 's')} (no queue), "
    whole = "" if m.e2e_s is None else f", end to end {si(m.e2e_s, 's')}"
    start = "Measured" if any(phase.measured for phase in document.phases) else "At the floor"
    return (
        f"{start}: {first}{decode}{whole}; "
        f"weights {si(m.weight_bytes, 'B')}, KV cache at the end {si(m.kv_cache_bytes, 'B')}{state}"
    )


def _findings(document: ProfileDocument) -> Iterator[RenderableType]:
    for finding in document.findings:
        style = "bold yellow" if finding.level == "warning" else "bold"
        yield Text.assemble((f"{finding.level}: ", style), finding.text)
    if document.findings:
        yield Text()


def _footer(document: ProfileDocument, profile: Profile) -> Iterator[Text]:
    notes = convention_notes(profile)
    yield Text("Counted so: " + "; ".join(notes) + ".", style="dim")
    if document.conditions:
        held = "; ".join(f"{row.name}: {row.text}" for row in document.conditions)
        yield Text(f"Held while it ran: {held}.", style="dim")
    rows = (f"{row.figure} {row.value} ({row.kind}: {row.source})" for row in document.provenance[:-1])
    yield Text("Figures: " + "; ".join(rows) + f"; model shape from {document.provenance[-1].source}.", style="dim")


def _intensity(value: float | None) -> str:
    return "-" if value is None else f"{figure(value)} FLOP/byte"
