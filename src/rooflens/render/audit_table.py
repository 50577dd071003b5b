"""An audit for a terminal: both sides of each figure, then the framework's ops, those not counted first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rooflens.audit.report import AuditReport, Comparison, OpCount, Verdict

_STYLES = {Verdict.AGREES: "green", Verdict.DIFFERS: "bold red", Verdict.NOT_COMPARED: "dim"}


def audit_table(report: AuditReport) -> RenderableType:
    """Return `report` for a terminal."""
    title = Text(f"{report.model} against {report.class_name} of {report.framework}", style="bold")
    return Group(title, _figures(report.comparisons), Text(), *_ops(report), *_notes(report))


def _figures(comparisons: Sequence[Comparison]) -> Table:
    table = Table(box=None, padding=(0, 2))
    table.add_column("")
    for name in ("rooflens", "framework", "difference"):
        table.add_column(name, justify="right")
    table.add_column("")
    for row in comparisons:
        unit = f", {row.unit}" if row.unit else ""
        verdict = Text(str(row.verdict), style=_STYLES[row.verdict])
        table.add_row(f"{row.name}{unit}", _number(row.ours), _number(row.reference), _difference(row), verdict)
    return table


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _difference(row: Comparison) -> str:
    if row.difference is None:
        return "-"
    return f"{row.difference:+,} ({row.relative:+.1e})" if row.difference and row.relative else f"{row.difference:,}"


def _ops(report: AuditReport) -> Iterator[Text]:
    """Ops by name with the number of their calls in both passes."""
    missed = report.uncounted
    listed = ", ".join(f"{op.name} ({op.uncounted:,} calls)" for op in missed) or "none"
    yield Text.assemble(("Ops that could not be counted: ", "bold"), Text(listed, style="yellow" if missed else ""))
    products = [op for op in report.ops if op.prefill_flops or op.decode_flops]
    counted = ", ".join(f"{op.name} ({op.calls:,} calls)" for op in products) or "none"
    yield Text.assemble(("Ops counted by a formula: ", "bold"), counted)
    rest = [op for op in report.ops if op not in missed and op not in products]
    yield Text.assemble(("Ops without a product, no FLOP: ", "bold"), "; ".join(_by_kind(rest)) or "none")
    yield Text()


def _by_kind(ops: Sequence[OpCount]) -> Iterator[str]:
    for kind in dict.fromkeys(op.kind for op in ops):
        names = ", ".join(f"{op.name} ({op.calls:,})" for op in ops if op.kind == kind)
        yield f"{kind}: {names}"


def _notes(report: AuditReport) -> Iterator[Text]:
    reasons = [f"{row.name}: {row.why}" for row in report.comparisons if row.why]
    for note in dict.fromkeys((*report.notes, *reasons)):
        yield Text.assemble(("note: ", "bold"), note)
    yield Text("Compared so: " + "; ".join(report.conventions) + ".", style="dim")
