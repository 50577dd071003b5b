"""`rooflens profile` and its sweep on the command line."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.live.test_profile import CARD, TINY

pytest.importorskip("torch", reason="a run needs the extra 'measure'")
pytest.importorskip("transformers", reason="a run needs the extra 'measure'")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    (tmp_path / "card.toml").write_text(CARD)
    return tmp_path


def rooflens(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rooflens", "profile", "config.json", "--ceilings", "card.toml", *args]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


QUICK = ("--random-weights", "--prompt", "16", "--output", "3", "--repeat", "2", "--dtype", "fp32")


def test_json_has_what_was_measured_beside_what_was_predicted(folder: Path) -> None:
    result = rooflens(folder, *QUICK, "--json", "--html", "page.html", "--svg", "chart.svg")
    assert result.returncode == 0, result.stderr
    document: dict[str, Any] = json.loads(result.stdout)
    first, step = document["phases"]
    for phase in (first, step):
        measured = phase["measured"]
        parts = measured["busy_s"] + measured["dispatch_s"] + measured["gap_s"]
        assert parts == pytest.approx(measured["time_s"], rel=1e-6)
        assert len(measured["times_s"]) == 2
        assert measured["predicted"]["model_flops"] == phase["model_flops"]
        assert sum(phase["bound_share"].values()) == pytest.approx(1)
    assert step["tokens_per_s"] == pytest.approx(1 / step["measured"]["time_s"])
    assert {row["name"] for row in document["conditions"]} >= {"device", "framework", "threads"}
    assert (folder / "page.html").read_text().count("what held while it ran".capitalize()) == 1
    assert "predicted floor" in (folder / "chart.svg").read_text()


def test_csv_has_a_row_for_each_op(folder: Path) -> None:
    result = rooflens(folder, *QUICK, "--csv")
    assert result.returncode == 0, result.stderr
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert {row["phase"] for row in rows} == {"prefill", "decode"}
    assert all(float(row["measured_s"]) >= 0 for row in rows)


def test_a_sweep_prints_a_row_for_each_run(folder: Path) -> None:
    result = rooflens(folder, *QUICK, "--batch", "1,2", "--prompt", "8,16", "--svg", "sweep.svg")
    assert result.returncode == 0, result.stderr
    numbers = [line.split()[:2] for line in result.stdout.splitlines() if line.strip()[:1].isdigit()]
    assert numbers == [["1", "8"], ["1", "16"], ["2", "8"], ["2", "16"]] * 2
    assert (folder / "sweep.svg").read_text().startswith("<svg")
    many = rooflens(folder, *QUICK, "--batch", "1,2", "--json")
    assert [document["scenario"]["batch"] for document in json.loads(many.stdout)] == [1, 2]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--json", "--csv", *QUICK), "pass one"),
        ((*QUICK, "--batch", "1,x"), "expected a whole number from 1"),
        ((*QUICK, "--batch", "0"), "batch is 0"),
        ((*QUICK, "--batch", "1,2", "--html", "x.html"), "--html shows one run"),
        ((*QUICK, "--backend", "llamacpp"), "means nothing to llama.cpp"),
        ((), "pass --random-weights"),
        ((*QUICK, "--device", "cuda:9"), "is not there"),
        ((*QUICK, "--svg", "config.json"), "name the same file"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(folder: Path, args: tuple[str, ...], said: str) -> None:
    result = rooflens(folder, *args)
    assert result.returncode == 2
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
