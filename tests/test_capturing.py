"""The trace of a graph's capture beside that of its replay, written by hand."""

from __future__ import annotations

import json
from pathlib import Path

from rooflens.capturing import merged
from rooflens.core.op import OpKind
from rooflens.sources.kineto_record import record_kineto
from tests.sources.kineto_traces import kernel, launch, op, shaped, span

MM = {"types": ("c10::BFloat16",) * 2}


def write(path: Path, *events) -> Path:
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": list(events)}))
    return path


def capture(path: Path, second: str = "mm") -> Path:
    """Begin, [2, 3] x [3, 4], a kernel without a formula, [2, 4] x [4, 5] in two launches, end; one launch outside."""
    return write(
        path,
        span("capture_2_FULL", 0, 100),
        launch(1, 1),
        launch(2, 2, name="cudaStreamBeginCapture_v10000"),
        op("mm", 10, 10, shaped([2, 3], [3, 4], **MM)),
        launch(12, 3),
        {**op("own_norm", 30, 10), "name": "engine::own_norm"},
        launch(32, 4),
        op(second, 50, 10, shaped([2, 4], [4, 5], **MM)),
        launch(52, 5, name="cudaMemsetAsync"),
        launch(54, 6),
        launch(80, 7, name="cudaStreamEndCapture_v10000"),
        launch(90, 8),
    )


def replay(path: Path, *names: str) -> Path:
    """A decode step with one launch of a graph whose kernels take 1, 2, 3, ... microseconds."""
    kernels = [kernel(name, 200 + 10 * i, 1 + i, 9) for i, name in enumerate(names)]
    return write(path, span("step[DECODE bs=2]", 100, 20), launch(105, 9, name="cudaGraphLaunch"), *reversed(kernels))


NAMES = ("gemm_a", "rms_norm", "Memset (Device)", "gemm_b")


def test_the_capture_gives_the_kernels_of_its_replay_shapes(tmp_path):
    both = [record_kineto(replay(tmp_path / "r.json", *NAMES)), record_kineto(capture(tmp_path / "c.json"))]
    assert [launch.op is not None for launch in both[1].captures[0].launches] == [True, False, True, True]
    (recording,) = merged(both)
    (phase,) = recording.phases
    ops = {timed.op.name: timed for timed in phase.timed.ops}
    assert {name: (timed.known, timed.op.flops, timed.op.count) for name, timed in ops.items()} == {
        "mm 4 x 3": (True, 2 * 2 * 3 * 4, 1),
        "mm 5 x 4": (True, 2 * 2 * 4 * 5, 1),
        "rms_norm": (False, 0, 1),
    }
    assert round(ops["mm 5 x 4"].seconds * 1e6, 6) == 3 + 4
    assert phase.timed.coverage == 8 / 10
    assert [run.op is not None for run in phase.runs] == [True, False, True, True]
    assert "decode: 3 of 4 kernels of its graph have shapes from capture_2_FULL" in recording.notes


def test_a_capture_of_another_graph_is_not_merged_and_that_is_said(tmp_path):
    made = capture(tmp_path / "c.json")
    for names in (NAMES[:3], ("rms_norm", "gemm_a", "Memset (Device)", "flash_fwd_kernel")):
        other = record_kineto(replay(tmp_path / "r.json", *names))
        left, alone = merged([other, record_kineto(made)])
        assert left == other
        assert "nothing was merged" in alone.notes[-1]


def test_a_file_alone_stays_as_it_is(tmp_path):
    one = record_kineto(capture(tmp_path / "c.json"))
    assert merged([one]) == [one]


def test_kernels_are_in_order_of_time_whatever_the_order_of_the_file(tmp_path):
    (phase,) = record_kineto(replay(tmp_path / "r.json", *NAMES)).phases
    assert tuple(run.name for run in phase.runs) == NAMES
    assert {run.graph for run in phase.runs} == {9}
    assert phase.runs[0].kind is OpKind.GEMM
