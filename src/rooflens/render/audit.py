"""An audit as a JSON document; docs/json.md describes its fields."""

from __future__ import annotations

import msgspec

from rooflens.audit.report import AuditReport, Comparison, OpCount
from rooflens.version import __version__

AUDIT_SCHEMA = "rooflens.audit/1"


class ComparisonDocument(msgspec.Struct, frozen=True):
    """One figure of both sides; `difference` is ours less the reference's, `relative` its share of the reference."""

    figure: str
    unit: str
    ours: int | None
    reference: int | None
    difference: int | None
    relative: float | None
    tolerance: float | None
    verdict: str
    why: str


class FrameworkOpDocument(msgspec.Struct, frozen=True):
    """One framework op in both passes; FLOP and bytes are totals over its calls."""

    name: str
    kind: str
    prefill_calls: int
    decode_calls: int
    prefill_flops: int
    decode_flops: int
    read_bytes: int
    written_bytes: int
    uncounted: int


class AuditDocument(msgspec.Struct, frozen=True):
    """What `model --audit --json` writes."""

    schema: str
    version: str
    name: str
    class_name: str
    framework: str
    agrees: bool
    comparisons: list[ComparisonDocument]
    uncounted_ops: list[FrameworkOpDocument]
    framework_ops: list[FrameworkOpDocument]
    conventions: list[str]
    notes: list[str]


def audit_document(report: AuditReport) -> AuditDocument:
    """Return `report` as the document that `model --audit --json` writes."""
    return AuditDocument(
        schema=AUDIT_SCHEMA,
        version=__version__,
        name=report.model,
        class_name=report.class_name,
        framework=report.framework,
        agrees=report.agrees,
        comparisons=[_comparison(row) for row in report.comparisons],
        uncounted_ops=[_op(op) for op in report.uncounted],
        framework_ops=[_op(op) for op in report.ops],
        conventions=list(report.conventions),
        notes=list(report.notes),
    )


def _comparison(row: Comparison) -> ComparisonDocument:
    return ComparisonDocument(
        figure=row.name,
        unit=row.unit,
        ours=row.ours,
        reference=row.reference,
        difference=row.difference,
        relative=row.relative,
        tolerance=row.tolerance,
        verdict=str(row.verdict),
        why=row.why,
    )


def _op(op: OpCount) -> FrameworkOpDocument:
    return FrameworkOpDocument(*(getattr(op, name) for name in FrameworkOpDocument.__struct_fields__))
