"""The command line as a process sees it: status, one sentence on standard error, nothing half-written."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rooflens.cli import COMMANDS
from tests.sources.test_config import LLAMA

H100 = ("--gpu", "h100-sxm")


def run(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rooflens", *args]
    env = {**os.environ, "COLUMNS": "120"}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env, timeout=60, check=False)


def refused(*args: str, cwd: Path | None = None) -> str:
    result = run(*args, cwd=cwd)
    assert result.returncode == 2, result
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("rooflens: ")
    return lines[0]


def answer(*args: str) -> Any:
    result = run(*args)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_help_names_every_command_and_imports_none() -> None:
    result = run("--help")
    assert result.returncode == 0
    assert all(name in result.stdout for name in COMMANDS)
    code = (
        "import sys; sys.argv = ['rooflens', '--help']\nfrom rooflens.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "heavy = {'numpy', 'rich', 'msgspec', 'vl_convert', 'rooflens.api'} & set(sys.modules)\nassert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_every_command_has_help() -> None:
    for name in COMMANDS:
        assert run(name, "--help").returncode == 0


def test_predict_json() -> None:
    document = answer("predict", "llama-3.1-8b", *H100, "--batch", "64", "--context", "2048", "--json")
    decode = next(phase for phase in document["phases"] if phase["phase"] == "decode")
    assert decode["model_flops"] == 1_029_349_310_464
    assert decode["bytes"]["kv_read"] == 17_179_869_184
    assert decode["bound"] == "memory"


def test_predict_does_not_import_numpy() -> None:
    code = (
        "import sys; sys.argv = ['rooflens', 'predict', 'llama-3.1-8b', '--gpu', 'h100-sxm', '--json']\n"
        "from rooflens.cli import main\ntry: main()\nexcept SystemExit: pass\n"
        "heavy = {'numpy', 'rich', 'vl_convert'} & set(sys.modules)\nassert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_predict_prints_a_verdict_for_each_phase() -> None:
    text = run("predict", "llama-3.1-8b", *H100).stdout
    assert "Prefill is compute-bound" in text
    assert "Decode is memory-bound" in text
    assert "ridge point" in text


def test_predict_csv() -> None:
    rows = list(csv.DictReader(io.StringIO(run("predict", "gpt2", *H100, "--csv").stdout)))
    assert {row["phase"] for row in rows} == {"prefill", "decode"}
    total = sum(int(row["total_bytes"]) for row in rows if row["phase"] == "decode")
    document = answer("predict", "gpt2", *H100, "--json")
    assert total == document["phases"][1]["bytes"]["total"]


def test_files_are_written(tmp_path: Path) -> None:
    names = {"html": b"<!", "svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF"}
    args = [part for kind in names for part in (f"--{kind}", str(tmp_path / f"chart.{kind}"))]
    assert run("predict", "llama-3.1-8b", *H100, *args).returncode == 0
    for kind, start in names.items():
        assert (tmp_path / f"chart.{kind}").read_bytes()[:200].lstrip().startswith(start), kind
    assert len(list(tmp_path.iterdir())) == len(names)


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    text = refused("predict", "gpt2", *H100, "--svg", str(tmp_path / "no" / "chart.svg"))
    assert "could not be written" in text
    assert list(tmp_path.iterdir()) == []


def test_an_old_file_survives_a_failure(tmp_path: Path) -> None:
    old = tmp_path / "chart.svg"
    old.write_text("old")
    refused("predict", "gpt2", "--gpu", "h100", "--svg", str(old))
    assert old.read_text() == "old"


def test_model_json() -> None:
    document = answer("model", "llama-3.1-8b", "--context", "512", "--context", "1024", "--json")
    assert document["kv_bytes"] == {"512": 67_108_864, "1024": 134_217_728}
    assert (document["params"], document["kv_bytes_per_token"]) == (8_030_261_248, 131_072)


def test_model_prints_both_units() -> None:
    text = run("model", "gemma-2-9b", "--context", "8192").stdout
    assert "2,113,929,216 B = 2.114 GB = 1.969 GiB" in text


def test_models_and_parts_are_listed() -> None:
    assert len(run("model", "--list").stdout.split()) >= 20
    assert "h100-sxm" in run("gpu").stdout
    assert "989.5 TFLOP/s" in run("gpu", "h100-sxm").stdout
    assert answer("gpu", "h100-sxm", "--json")["schema"] == "rooflens.hardware/1"


def test_a_part_of_ones_own(tmp_path: Path) -> None:
    card = tmp_path / "my-card.toml"
    card.write_text('name = "my-card"\n[matrix]\nbf16 = "120 TFLOP/s"\n[memory]\nbandwidth = "1.5 TB/s"\n')
    document = answer("predict", "gpt2", "--gpu", str(card), "--json")
    assert document["phases"][0]["ridge_point"] == 80


def test_place() -> None:
    placed = answer("place", "--flops", "100", "--bytes", "10", *H100, "--json")
    assert (placed["intensity"], placed["bound"]) == (10, "memory")
    two = answer(
        "place", "--flops", "1TFLOP", "--bytes", "1GB", "--peak", "120TFLOP/s", "--bandwidth", "1.5TB/s", "--json"
    )
    assert (two["ridge_point"], two["bound"], two["attainable_flops_per_s"]) == (80, "compute", 120e12)


def test_case_38_a_cpu_reads_its_weights() -> None:
    """32 GB over 40 GB/s: 0.8 s, at most 1.25 tokens per second."""
    args = ("--flops", "0", "--bytes", "32GB", "--peak", "1TFLOP/s", "--bandwidth", "40GB/s", "--json")
    assert answer("place", *args)["at_most_per_s"] == 1.25


def test_a_point_above_its_roof_is_flagged() -> None:
    args = ("--flops", "1TFLOP", "--bytes", "1GB", "--seconds", "1ms", *H100)
    assert "faster than the roof allows" in " ".join(run("place", *args).stdout.split())


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("predict", "llama-3.1-8b"), "no accelerator is named; pass --gpu NAME"),
        (("predict", "llama-3.1-8b", "--gpu", "h100"), "h100-sxm"),
        (("predict", "llama-3.1-8b", "--gpu", "h10"), "h10"),
        (("predict", "lama-3.1-8b", *H100), "near it: "),
        (("predict", "llama-3.1-8b", *H100, "--batch", "0"), "batch is 0; expected whole numbers from 1"),
        (("predict", "llama-3.1-8b", *H100, "--batch", "nan"), "'nan' is not a valid integer"),
        (("predict", "llama-3.1-8b", *H100, "--prompt", "-5"), "prompt is -5"),
        (("predict", "llama-3.1-8b", *H100, "--context", "-1"), "context is -1"),
        (("predict", "llama-3.1-8b", *H100, "--dtype", "fp4"), "h100-sxm"),
        (("predict", "llama-3.1-8b", *H100, "--dtype", "bf17"), "'bf17' is not known"),
        (("predict", "llama-3.1-8b", *H100, "--precision", "fp7"), "'fp7' is not known"),
        (("predict", "llama-3.1-8b", *H100, "--traffic", "some"), "'some' is not one of"),
        (("predict", "llama-3.1-8b", *H100, "--json", "--csv"), "choose one"),
        (("predict", "llama-3.1-8b", *H100, "--svg", "x", "--png", "x"), "name the same file"),
        (("predict", "./nowhere.json", *H100), "could not be read"),
        (("model",), "no model is named"),
        (("model", "gpt2", "--context", "-1"), "context is -1"),
        (("gpu", "nonsense"), "nonsense"),
        (("gpu", "./nowhere.toml"), "nowhere.toml"),
        (("place", "--flops", "0", "--bytes", "0", *H100), "both 0"),
        (("place", "--flops", "1", "--bytes", "-1", *H100), "--bytes is '-1'"),
        (("place", "--flops", "1 GB", "--bytes", "1", *H100), "--flops: "),
        (("place", "--flops", "1", "--bytes", "1"), "no roof is named"),
        (("place", "--flops", "1", "--bytes", "1", "--peak", "0"), "--peak is '0'"),
        (("explain", "nonsense"), "nonsense"),
        (("nonsense",), "No such command 'nonsense'"),
        (("predict",), "Missing argument 'MODEL'"),
        (("predict", "gpt2", "--nonsense"), "No such option"),
    ],
)
def test_bad_input_is_one_sentence(args: tuple[str, ...], text: str) -> None:
    assert text in refused(*args)


def test_hostile_configs_are_one_sentence(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    for data in ("", "[]", json.dumps(LLAMA)[:40], json.dumps({**LLAMA, "vocab_size": 10**9}), "{" * 9000):
        config.write_text(data)
        assert "config.json" in refused("model", str(config))


def test_a_closed_pipe_is_no_traceback() -> None:
    command = f"{sys.executable} -m rooflens gpu | head -n 1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in result.stderr


def test_explain() -> None:
    assert "intensity" in run("explain").stdout
    assert "ridge" in run("explain", "ridge-point").stdout.lower()
    text = run("explain", "kv-cache", "--model", "llama-3.1-8b", "--context", "2048").stdout
    step = answer("predict", "llama-3.1-8b", *H100, "--context", "2048", "--json")["phases"][1]
    assert f"{step['flops']:,}" in text
    assert "268,435,456 B" in text
    assert run("predict", "gpt2", *H100, "--explain").returncode == 0


def test_width_follows_the_terminal() -> None:
    env = {**os.environ, "COLUMNS": "80"}
    command = [sys.executable, "-m", "rooflens", "predict", "gpt2", *H100]
    text = subprocess.run(command, capture_output=True, text=True, env=env, check=True).stdout
    assert max(map(len, text.splitlines())) <= 80
