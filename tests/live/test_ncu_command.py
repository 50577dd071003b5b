"""The command line of Nsight Compute: what is on it, and that each flag has a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.core.ncu_metrics import TENSOR_OPS, VECTOR_OPS, asked, instructions
from rooflens.errors import InputError
from rooflens.live.ncu_command import FLAGS, ncu_command
from rooflens.sources.ncu_counters import is_read


def test_command() -> None:
    line = ncu_command(["python", "serve.py", "--csv"], output=Path("counters.csv"))
    assert line[0] == "ncu"
    assert line[-3:] == ["python", "serve.py", "--csv"]
    for words in (["--csv"], ["--page", "raw"], ["--print-units", "base"], ["--nvtx"], ["--clock-control", "none"]):
        at = line.index(words[0])
        assert line[at : at + len(words)] == words
    assert line[line.index("--log-file") + 1] == "counters.csv"
    assert all(reason for _, reason in FLAGS)


def test_metrics_are_those_that_are_read() -> None:
    metrics = asked()
    assert len(set(metrics)) == len(metrics)
    assert all(is_read(metric) for metric in metrics)
    assert all(instructions(op) in metrics for ops in VECTOR_OPS.values() for op, _ in ops)
    assert any(metric.startswith(TENSOR_OPS) for metric in metrics)
    assert {"gpu__time_duration.sum", "dram__bytes_read.sum", "lts__t_bytes.sum", "l1tex__t_bytes.sum"} <= set(metrics)


@pytest.mark.parametrize("argv", [[], [""], ["--version"]])
def test_no_program(argv: list[str]) -> None:
    with pytest.raises(InputError, match="expected a program"):
        ncu_command(argv, output="a.csv")


def test_a_report_is_no_table() -> None:
    with pytest.raises(InputError, match="names a report"):
        ncu_command(["python"], output="a.ncu-rep")
