"""Prefill and decode told apart by tensor pipe and DRAM activity."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from rooflens.activity import TEXTBOOK_DECODE, TEXTBOOK_PREFILL, Signature, mixture, read_activity
from rooflens.api import activity_of
from rooflens.core.activity import Activity
from rooflens.errors import InputError
from rooflens.render.activity import activity_document, activity_table
from tests.conftest import part

PREFILL, DECODE = Signature(0.6, 0.2, "made up"), Signature(0.1, 0.8, "made up")


def sample(tensor: float | None, dram: float | None, sm: float | None = None, seconds: float | None = None) -> Activity:
    return Activity("GPU 0", seconds, {1002: sm, 1004: tensor, 1005: dram})


def mixed(p: float, q: float) -> Activity:
    return sample(p * 0.6 + q * 0.1, p * 0.2 + q * 0.8, sm=0.95)


def printed(renderable: object) -> str:
    from rich.console import Console

    console = Console(width=140, no_color=True)
    with console.capture() as capture:
        console.print(renderable)
    return " ".join(capture.get().split())


def test_half_and_half_by_hand() -> None:
    """0.5 x (0.6, 0.2) + 0.5 x (0.1, 0.8) = (0.35, 0.5)."""
    assert mixture(0.35, 0.5, PREFILL, DECODE) == pytest.approx((0.5, 0.5))
    assert mixture(0.6, 0.2, PREFILL, DECODE) == pytest.approx((1, 0))
    assert mixture(0.05, 0.4, PREFILL, DECODE) == pytest.approx((0, 0.5))
    assert mixture(0, 0, PREFILL, DECODE) == (0, 0)


@given(st.floats(0, 1), st.floats(0, 1))
def test_shares_never_leave_their_range(tensor: float, dram: float) -> None:
    for signatures in ((PREFILL, DECODE), (TEXTBOOK_PREFILL, TEXTBOOK_DECODE)):
        p, q = mixture(tensor, dram, *signatures)
        assert 0 <= p <= 1
        assert 0 <= q <= 1
        assert p + q <= 1 + 1e-9


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_mixture_is_found_again(p: float, q: float) -> None:
    p, q = (p, q) if p + q <= 1 else (p / (p + q), q / (p + q))
    made = mixed(p, q)
    assert mixture(made.fields[1004], made.fields[1005], PREFILL, DECODE) == pytest.approx((p, q), abs=1e-9)


def test_signatures_are_taken_from_a_log_that_holds_both() -> None:
    """Pure samples of both, mixtures between them, and idle ones: the shares come out as they were put in."""
    shares = [(1, 0), (0, 1), (0.5, 0.5), (0.2, 0.3), (0, 0.4), (0.7, 0), (0, 0)]
    reading = read_activity([mixed(p, q) for p, q in shares])
    assert (reading.prefill.tensor, reading.prefill.dram) == pytest.approx((0.6, 0.2))
    assert (reading.decode.tensor, reading.decode.dram) == pytest.approx((0.1, 0.8))
    for found, (p, q) in zip(reading.shares, shares, strict=True):
        assert (found.prefill, found.decode, found.idle) == pytest.approx((p, q, 1 - p - q))


def test_one_phase_alone_is_told_by_the_textbook() -> None:
    reading = read_activity([sample(0.14, 0.88), sample(0.15, 0.9), sample(0.16, 0.91)])
    assert (reading.prefill, reading.decode) == (TEXTBOOK_PREFILL, TEXTBOOK_DECODE)
    assert reading.mean("decode") == pytest.approx(0.98, abs=0.02)
    assert any("textbook's figures" in note for note in reading.notes)


def test_sm_activity_changes_nothing() -> None:
    """Decode with every SM active, as its warps wait for memory, is decode."""
    waiting, quiet = (read_activity([sample(0.15, 0.9, sm=sm)]).shares[0] for sm in (0.99, 0.15))
    assert (waiting.prefill, waiting.decode) == (quiet.prefill, quiet.decode)
    assert waiting.sm == 0.99


def test_bytes_are_those_of_the_part() -> None:
    """Half of 1 TB/s."""
    reading = read_activity([sample(0.1, 0.5)], part())
    assert reading.shares[0].bytes_per_s == 0.5e12
    assert read_activity([sample(0.1, 0.5)]).shares[0].bytes_per_s is None


def test_what_was_not_sampled_has_no_share() -> None:
    reading = read_activity([sample(None, 0.5), sample(0.5, None)], part())
    assert [(share.prefill, share.idle) for share in reading.shares] == [(None, None), (None, None)]
    assert reading.shares[0].bytes_per_s == 0.5e12
    assert any("cannot be told apart" in note for note in reading.notes)
    with pytest.raises(InputError, match="no samples"):
        read_activity([])


def test_a_log_by_its_path(tmp_path: Path) -> None:
    log = tmp_path / "dmon.txt"
    log.write_text("#Entity TENSO DRAMA\nID\nGPU 0 0.6 0.2\nGPU 0 0.1 0.8\nGPU 0 0.35 0.5\n")
    reading = activity_of(log, part(), interval=0.1)
    assert [(s.seconds, s.prefill, s.decode) for s in reading.shares] == [
        pytest.approx((0.0, 1, 0)),
        pytest.approx((0.1, 0, 1)),
        pytest.approx((0.2, 0.5, 0.5)),
    ]


def test_the_table_shows_the_textbook_and_its_correction() -> None:
    text = printed(activity_table(read_activity([mixed(1, 0), mixed(0, 1)], part())))
    assert "textbook: tensor pipe 80-90 %, DRAM 25-35 %" in text
    assert "textbook: tensor pipe 10-20 %, DRAM 85-95 %" in text
    assert "SM activity (1002) counts warps that wait for memory" in text
    assert "prefill 50.0 %, decode 50.0 %" in text


def test_the_document_is_described() -> None:
    document = activity_document(read_activity([mixed(1, 0), mixed(0, 1)], part()))
    assert document["schema"] == "rooflens.activity/1"
    json.dumps(document, allow_nan=False)
    page = (Path(__file__).parents[1] / "docs" / "json.md").read_text(encoding="utf-8")
    names = {*document, *document["mean"], *document["samples"][0], *document["signatures"]["prefill"]}
    assert not [name for name in names if f"`{name}`" not in page and f"`{name}[]`" not in page]
