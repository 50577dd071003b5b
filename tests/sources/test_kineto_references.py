"""Names and counts of a trace without shapes, from one that has them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rooflens.core.scenario import AttentionFlops
from rooflens.sources.kineto import Reference, read_references
from tests.sources.kineto_traces import linear, mm, named, near, op, read, shaped, span, written

US = 1e-6


def reference_trace(folder: Path) -> Path:
    """A module's range around linear > mm of 3 x 4 x 5, then a bare silu."""
    inside = [span("module: layers.*.mlp.up", 45, 120), *linear(50)]
    return written(folder, [span("decode", 0, 300), *inside, op("silu", 200, 20, shaped([3, 5]))])


def test_references_name_and_count_what_has_no_shapes(tmp_path: Path) -> None:
    references = {"decode": read_references(reference_trace(tmp_path), "decode", convention=AttentionFlops.CAUSAL)}
    assert [(r.name, r.module) for r in references["decode"]] == [("mm", "layers.*.mlp.up"), ("silu", "")]
    bare = [span("decode", 0, 100), op("linear", 10, 40), op("mm", 20, 20), op("silu", 60, 20)]
    phase = read(tmp_path, *bare, references=references)
    assert [timed.op.name for timed in phase.ops] == ["mlp.up", "silu"]
    assert phase.ops[0].module == "layers.*.mlp.up"
    assert (phase.ops[0].op.flops, phase.ops[1].op.flops) == (120, 4 * 15)
    assert phase.coverage == 1
    assert read(tmp_path, *bare).coverage == 0


@pytest.mark.parametrize("names", [("silu", "mm"), ("mm",), ("mm", "silu", "silu"), ()])
def test_references_of_other_ops_are_ignored(tmp_path: Path, names: tuple[str, ...]) -> None:
    (first, _) = read_references(reference_trace(tmp_path), "decode", convention=AttentionFlops.CAUSAL)
    references = {"decode": [replace(first, name=name) for name in names]}
    bare = [span("decode", 0, 100), op("mm", 20, 20), op("silu", 60, 20)]
    phase = read(tmp_path, *bare, references=references)
    assert [timed.op.name for timed in phase.ops] == ["mm", "silu"]
    assert phase.coverage == 0


def test_references_count_every_pass(tmp_path: Path) -> None:
    references = {"decode": [Reference("mm", "layers.*.up", None)]}
    events = [span("decode", 0, 100), mm(20, 20), span("decode", 200, 100), mm(220, 40)]
    timed = named(read(tmp_path, *events, references=references), "up")
    assert (timed.op.count, timed.op.flops, timed.seconds) == (1, 120, near(30 * US))
