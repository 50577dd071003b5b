"""The file that keeps ceilings: where it lies, what happens to a damaged one, and the command that prints it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rooflens.core.hardware import Hardware
from rooflens.core.op import DType
from rooflens.errors import InputError
from rooflens.live import cache
from rooflens.sources.hardware import read_hardware
from tests.live.kept import keep, measured_part

NO_TORCH = "a machine is described with torch (extra measure)"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROOFLENS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What `measure` was asked for; it answers at once."""
    pytest.importorskip("torch", reason=NO_TORCH)
    asked: list[Any] = []

    def measure(device: str, *, dtypes: Any, conditions: Any, progress: Any) -> Hardware:
        asked.append((device, dtypes))
        if progress is not None:
            progress("memory", 0.5)
        return measured_part()

    monkeypatch.setattr("rooflens.live.ceilings.measure", measure)
    return asked


def ceilings(**options: Any) -> Hardware:
    from rooflens import ceilings as measure_or_read

    return measure_or_read("cpu", **options)


# Where it lies


@pytest.mark.parametrize(
    ("platform", "stated", "place"),
    [
        ("linux", {"ROOFLENS_CACHE": "/x"}, "/x"),
        ("linux", {"XDG_CACHE_HOME": "/xdg"}, "/xdg/rooflens"),
        ("linux", {"XDG_CACHE_HOME": "not/absolute"}, "/home/me/.cache/rooflens"),
        ("linux", {}, "/home/me/.cache/rooflens"),
        ("darwin", {}, "/home/me/Library/Caches/rooflens"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/rooflens"),
    ],
)
@pytest.mark.skipif(os.name == "nt", reason="places are written with slashes")
def test_the_folder_is_the_users(
    monkeypatch: pytest.MonkeyPatch, platform: str, stated: dict[str, str], place: str
) -> None:
    for name in ("ROOFLENS_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/me", **stated}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(cache.sys, "platform", platform)
    assert cache.cache_folder() == Path(place)


def test_a_file_for_each_machine_and_choice_of_dtypes(folder: Path) -> None:
    assert cache.ceilings_file("cpu-x") == folder / "ceilings" / "cpu-x.toml"
    some = cache.ceilings_file("cpu-x", [DType.INT8, DType.BF16])
    assert some == cache.ceilings_file("cpu-x", [DType.BF16, DType.INT8]) == folder / "ceilings/cpu-x-bf16-int8.toml"


def test_a_file_is_whole_or_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = cache.ceilings_file("cpu-x")
    assert cache.store(path, "one") == ""
    assert path.read_text() == "one"

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.os, "replace", fail)
    assert "could not be kept in" in cache.store(path, "two")
    assert path.read_text() == "one"
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


# Reading, measuring, keeping


def test_it_is_measured_once(folder: Path, measured: list[Any]) -> None:
    first, second = ceilings(), ceilings()
    assert measured == [("cpu", None)]
    assert first == second == measured_part()
    ceilings(fresh=True)
    assert len(measured) == 2


def test_dtypes_that_are_kept_are_not_measured_again(folder: Path, measured: list[Any]) -> None:
    keep(folder)
    assert ceilings(dtypes=["bfloat16"]) == measured_part()
    assert measured == []
    ceilings(dtypes=[DType.INT8])
    ceilings(dtypes=[DType.INT8])
    assert measured == [("cpu", (DType.INT8,))]
    assert len(list((folder / "ceilings").iterdir())) == 2


@pytest.mark.parametrize("damage", ["", "name = ", "\0\xff", 'name = "x"', "[]", "x" * 100_000])
def test_a_damaged_file_is_said_and_measured_again(folder: Path, measured: list[Any], damage: str) -> None:
    path = keep(folder)
    path.write_text(damage, encoding="latin-1")
    part = ceilings()
    assert measured == [("cpu", None)]
    assert "measured again, since the kept ceilings cannot be used" in part.notes[-1]
    assert str(path) in part.notes[-1]
    assert read_hardware(path) == measured_part()
    assert ceilings() == measured_part()


def test_a_folder_in_place_of_the_file_is_said(folder: Path, measured: list[Any]) -> None:
    path = keep(folder)
    path.unlink()
    path.mkdir()
    notes = ceilings().notes
    assert "not a regular file" in notes[-2]
    assert "they hold for this run alone" in notes[-1]


def test_a_folder_that_cannot_be_written_is_said(
    tmp_path: Path, measured: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ROOFLENS_CACHE", str(tmp_path / "file"))
    part = ceilings()
    assert part.matrix == measured_part().matrix
    assert "could not be kept in" in part.notes[-1]
    result = invoke()
    assert "kept in" not in result.replace("be kept in", "")


def test_wrong_requests_are_refused(folder: Path, measured: list[Any]) -> None:
    with pytest.raises(InputError, match="fp4 cannot be measured"):
        ceilings(dtypes=["fp4"])
    with pytest.raises(InputError, match="not known"):
        ceilings(dtypes=["fp99"])
    assert measured == []


# The command


def invoke(*args: str) -> str:
    from rooflens.cli.ceilings import command

    result = CliRunner().invoke(command, args, env={"COLUMNS": "100"}, catch_exceptions=False)
    assert result.exit_code == 0
    return str(result.stdout)


def test_the_table_shows_every_figure(folder: Path, measured: list[Any]) -> None:
    path = keep(folder)
    text = invoke()
    lines = [" ".join(line.replace("│", " ").split()) for line in text.splitlines()]
    assert "fp32 peak 100 GFLOP/s 2.0 % unroll 4; 2 pinned threads" in lines
    assert "memory copy 21 GB/s 40.0 %, not stable unroll 4; 2 pinned threads" in lines
    assert "linear, 1 row, fp32 19 GB/s 2.0 % unroll 4; 2 pinned threads" in lines
    assert "ridge points: fp32 5.0 FLOP/byte, bf16 10.0 FLOP/byte" in lines
    assert "memory moves up to 30 GB/s (copy_nt); ridge points are over the 20 GB/s of reading" in text
    assert "processor: Example 9000" in lines
    assert measured_part().notes[0] in lines
    assert text.replace("\n", "").endswith(f"kept in {path}")


def test_json_names_the_file(folder: Path, measured: list[Any]) -> None:
    path = keep(folder)
    document = json.loads(invoke("--json"))
    assert document["schema"] == "rooflens.ceilings/1"
    assert document["file"] == str(path)
    hardware = document["hardware"]
    assert hardware["matrix"]["bf16"]["value"] == 200e9
    assert hardware["memory"]["patterns"]["copy"]["spread"] == 0.4
    assert hardware["kernels"] == {"m1_linear": {"fp32": hardware["kernels"]["m1_linear"]["fp32"]}}
    assert hardware["caches"][0]["patterns"]["read"]["value"] == 400e9
    assert hardware["ridge_points"] == {"fp32": 5.0, "bf16": 10.0}
    assert hardware["conditions"]["processor"] == "Example 9000"


def test_toml_is_a_file_for_gpu(folder: Path, measured: list[Any], tmp_path: Path) -> None:
    invoke("--toml", str(tmp_path / "mine.toml"), "--fresh", "--dtype", "fp32")
    assert measured == [("cpu", (DType.FP32,))]
    assert read_hardware(tmp_path / "mine.toml") == measured_part()


def test_a_device_that_is_not_there_ends_with_status_2(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason=NO_TORCH)
    command = [sys.executable, "-m", "rooflens", "ceilings", "--device", "nothing"]
    env = {**os.environ, "ROOFLENS_CACHE": str(tmp_path)}
    result = subprocess.run(command, capture_output=True, text=True, env=env, timeout=60, check=False)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("rooflens: --device is 'nothing'; this machine has cpu")
    assert len(result.stderr.splitlines()) == 1
