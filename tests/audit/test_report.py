"""Verdicts, and how an audit is shown: nothing here needs the framework."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest
from rich.console import Console

from rooflens.audit.report import AuditReport, Comparison, OpCount, Verdict
from rooflens.claims import claims
from rooflens.render.audit import audit_document
from rooflens.render.audit_table import audit_table
from tests.conftest import tiny_model


@pytest.mark.parametrize(
    ("ours", "reference", "tolerance", "why", "verdict"),
    [
        (100, 100, 0.0, "", Verdict.AGREES),
        (101, 100, 0.0, "", Verdict.DIFFERS),
        (101, 100, 0.01, "", Verdict.AGREES),
        (102, 100, 0.01, "", Verdict.DIFFERS),
        (98, 100, 0.01, "", Verdict.DIFFERS),
        (1, 0, 0.01, "", Verdict.DIFFERS),
        (0, 0, 0.0, "", Verdict.AGREES),
        (102, 100, 0.01, "a reason", Verdict.NOT_COMPARED),
        (102, 100, None, "", Verdict.NOT_COMPARED),
        (102, None, 0.0, "", Verdict.NOT_COMPARED),
    ],
)
def test_verdict(ours: int, reference: int | None, tolerance: float | None, why: str, verdict: Verdict) -> None:
    assert Comparison("figure", "FLOP", ours, reference, tolerance, why).verdict is verdict


def report() -> AuditReport:
    rows = (
        Comparison("parameters", "", 105, 100, 0.0),
        Comparison("prefill", "FLOP", 10, None, 1e-4, "no figure"),
    )
    ops = (
        OpCount("aten.mm", "product", 3, 3, 60, 6, 10, 10, 0),
        OpCount("aten.mul", "pointwise", 4, 5, 0, 0, 10, 10, 0),
        OpCount("aten.linalg_inv_ex", "unknown", 7, 0, 0, 0, 10, 10, 7),
    )
    return AuditReport("tiny", "TinyForCausalLM", "a framework", rows, ops, ("so",), ("a note",))


def test_a_difference_is_no_agreement() -> None:
    assert not report().agrees
    assert [op.name for op in report().uncounted] == ["aten.linalg_inv_ex"]


def test_the_table_names_every_op() -> None:
    stream = io.StringIO()
    Console(file=stream, width=200).print(audit_table(report()))
    shown = " ".join(stream.getvalue().split())
    for text in (
        "parameters 105 100 +5 (+5.0e-02) differs",
        "prefill, FLOP 10 - - not compared",
        "could not be counted: aten.linalg_inv_ex (7 calls)",
        "by a formula: aten.mm (6 calls)",
        "pointwise: aten.mul (9)",
        "note: a note",
        "prefill: no figure",
        "Compared so: so.",
    ):
        assert text in shown, text


def test_the_document_holds_the_same() -> None:
    document = audit_document(report())
    assert not document.agrees
    assert [row.verdict for row in document.comparisons] == ["differs", "not compared"]
    assert [(op.name, op.uncounted) for op in document.uncounted_ops] == [("aten.linalg_inv_ex", 7)]
    assert len(document.framework_ops) == 3


def test_claims_of_a_model_counted_on_paper() -> None:
    """Two layers of width 4: q 16, k and v 8 each, o 16, MLP 3 x 24 = 120 a layer; head 40. 512 tokens see 512 each.

    Prefill: 2 x 512 x (2 x 120 + 40), and scores and sum of 2 layers x 2 heads: 2 x 512 x 512 x (2 + 2) each.
    Step: 2 x (2 x 120 + 40), and 513 keys. KV: 2 layers x (2 + 2) values x 2 bytes a token.
    """
    figures = claims(tiny_model()).figures
    assert figures.params == 2 * (120 + 8) + 80 + 4
    assert figures.prefill_flops == 2 * 512 * 280 + 4 * 2 * 512 * 512 * 4
    assert figures.decode_flops == 2 * 280 + 4 * 2 * 513 * 4
    assert figures.kv_growth_bytes == 512 * 16


def test_a_window_grows_as_the_framework_keeps_it() -> None:
    """A window of 600 holds 512 tokens, then 599: the framework leaves room for the next."""
    assert claims(tiny_model(window=600)).figures.kv_growth_bytes == (599 - 512) * 16
    assert claims(tiny_model(window=512)).figures.kv_growth_bytes == 0


@pytest.mark.parametrize("missing", ["torch", "transformers"])
def test_without_the_extra_one_sentence_says_so(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; sys.argv[1:] = ['model', 'gpt2', '--audit']; " \
           "from rooflens.cli import main; main()"  # fmt: skip
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stdout == ""
    assert "need the extra 'torch' (pip install 'rooflens[torch]'" in result.stderr
    assert len(result.stderr.splitlines()) == 1
