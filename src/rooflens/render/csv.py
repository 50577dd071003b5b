"""CSV: one row for each kind of kernel, its phase and workload beside it."""

from __future__ import annotations

import csv as _csv
import io

from rooflens.core.profile import Profile
from rooflens.render.document import BytesDocument, OpDocument, PhaseDocument, ProfileDocument
from rooflens.render.documents import profile_document

_PHASE = ("phase", "batch", "tokens", "context")
_OP = ("name", "kind", "count", "dtype", "flops", "model_flops")
_BYTES = BytesDocument.__struct_fields__
_REST = ("intensity", "bound", "floor_s", "share", "measured_s", "roof_share")


def columns() -> list[str]:
    """The header: model and part, the phase, the op, its bytes by kind, where it lies."""
    return ["model", "hardware", *_PHASE, *_OP, *(f"{kind}_bytes" for kind in _BYTES), *_REST]


def profile_csv(profile: Profile) -> str:
    """Return `profile` as CSV text; flops, bytes and floor_s are totals over `count`.

    Raises:
        InputError: the profile holds arrays of scenarios.
    """
    document = profile_document(profile)
    text = io.StringIO()
    writer = _csv.writer(text, lineterminator="\n")
    writer.writerow(columns())
    for phase in document.phases:
        writer.writerows(_row(document, phase, op) for op in phase.ops)
    return text.getvalue()


def _row(document: ProfileDocument, phase: PhaseDocument, op: OpDocument) -> list[object]:
    return [
        document.model.name,
        document.hardware.name,
        *(getattr(phase, name) for name in _PHASE),
        *(getattr(op, name) for name in _OP),
        *(getattr(op.bytes, kind) for kind in _BYTES),
        *(getattr(op, name) for name in _REST),
    ]
