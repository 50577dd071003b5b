"""Ops that come from a trace: their figures are what was counted there, and not the value of a formula."""

from __future__ import annotations

from collections.abc import Iterator

from rooflens.render.explain_formula import Formula, whole
from rooflens.render.explain_view import View

_KINDS = (
    ("weights", "weights"),
    ("KV read", "kv_read"),
    ("KV written", "kv_write"),
    ("activations", "activations"),
    ("state", "state"),
)


def traced_flops(view: View) -> Iterator[Formula]:
    """FLOP of an op as the trace has them, over all of its calls."""
    op = view.op
    if op.model_flops and op.model_flops != op.flops:
        yield Formula("model FLOP", "as traced", whole(op.model_flops), op.model_flops, "FLOP")
    if op.flops:
        yield Formula("FLOP", "as traced", whole(op.flops), op.flops, "FLOP")


def traced_bytes(view: View) -> Iterator[Formula]:
    """Bytes of an op by kind as the trace has them, over all of its calls."""
    for label, field in _KINDS:
        value = getattr(view.op.traffic, field)
        if value:
            yield Formula(label, "as traced", whole(value), value, "B")
