"""What a terminal, a disk or a stranger's file can do to the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sources.test_config import LLAMA

PREDICT = ("predict", "gpt2", "--gpu", "t4")


def shell(command: str, **env: str) -> subprocess.CompletedProcess[str]:
    run = f"{sys.executable} -m rooflens {command}"
    return subprocess.run(
        run, shell=True, capture_output=True, text=True, env={**os.environ, **env}, timeout=60, check=False
    )


@pytest.mark.parametrize("arguments", ["--help", "gpu", "predict gpt2 --gpu t4", "predict gpt2 --gpu t4 --json"])
def test_a_full_disk_is_one_sentence(arguments: str) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    result = shell(f"{arguments} > /dev/full")
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert "could not be written" in result.stderr


@pytest.mark.parametrize("arguments", ["--help", "gpu t4", "predict gpt2 --gpu t4"])
def test_a_closed_standard_output_is_no_traceback(arguments: str) -> None:
    assert "Traceback" not in shell(f"{arguments} >&-").stderr


def test_a_terminal_without_greek_letters() -> None:
    result = shell("predict gpt2 --gpu t4", LC_ALL="C", PYTHONIOENCODING="ascii")
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("columns", ["", "abc", "0", "-5", "9" * 30])
def test_odd_terminal_widths(columns: str) -> None:
    assert shell("predict gpt2 --gpu t4", COLUMNS=columns).returncode == 0


def test_no_command_shows_the_help() -> None:
    result = shell("")
    assert (result.returncode, "predict" in result.stdout) == (0, True)


@pytest.mark.parametrize(
    "value", ["\x1b[31mRED\x1b]0;x\x07", "\ud800", "x" * 200_000, json.loads("[" * 400 + "]" * 400)]
)
@pytest.mark.parametrize("field", ["sliding_window", "hidden_size", "model_type", "torch_dtype"])
def test_what_a_config_holds_does_not_reach_the_terminal(tmp_path: Path, field: str, value: object) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**LLAMA, field: value}))
    result = shell(f"predict {config} --gpu t4")
    printed = result.stdout + result.stderr
    assert "Traceback" not in printed
    assert "\x1b" not in printed
    assert len(printed) < 20_000


def test_a_folder_with_a_hostile_name(tmp_path: Path) -> None:
    folder = tmp_path / "e\x1b[31m\nfake"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    for extra in ([], ["--csv"], ["--explain"], ["--json"]):
        command = [sys.executable, "-m", "rooflens", "predict", str(folder), "--gpu", "t4", *extra]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (result.returncode, "\x1b" in result.stdout) == (0, False)


@pytest.mark.parametrize(
    "arguments",
    [
        "--flops 1e308 --bytes 1e-308 --peak 1 --bandwidth 1",
        "--flops 1 --bytes 1 --peak 1e308 --bandwidth 1",
        f"--flops {'1' * 20_000} --bytes 1 --peak 1 --bandwidth 1",
        f"--flops 1{' ' * 50_000}1 --bytes 1 --peak 1 --bandwidth 1",
        "--flops 1 --bytes 1 --peak 120TFLOP/s --bandwidth 1,5TB/s",
    ],
)
def test_figures_out_of_range(arguments: str) -> None:
    result = shell(f"place {arguments.replace(' ' * 50_000, chr(92) + ' ')}")
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1


def test_two_outputs_to_one_file(tmp_path: Path) -> None:
    (tmp_path / "link.svg").symlink_to(tmp_path / "a.svg")
    result = shell(f"predict gpt2 --gpu t4 --svg {tmp_path}/a.svg --png {tmp_path}/link.svg")
    assert (result.returncode, "name the same file" in result.stderr) == (2, True)


def test_an_output_never_replaces_an_input(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(LLAMA))
    result = shell(f"predict {config} --gpu t4 --svg {config}")
    assert (result.returncode, json.loads(config.read_text())) == (2, LLAMA)


def test_all_files_or_none(tmp_path: Path) -> None:
    old = tmp_path / "old.svg"
    old.write_text("old")
    result = shell(f"predict gpt2 --gpu t4 --svg {old} --png {tmp_path}/no/x.png")
    assert (result.returncode, old.read_text(), len(list(tmp_path.iterdir()))) == (2, "old", 1)


def test_an_output_that_is_a_loop_of_links(tmp_path: Path) -> None:
    loop = tmp_path / "loop.svg"
    loop.symlink_to(loop)
    result = shell(f"predict gpt2 --gpu t4 --svg {loop}")
    assert (result.returncode, "Traceback" in result.stderr) == (2, False)


def test_a_hostile_accelerator_file_is_refused_at_once(tmp_path: Path) -> None:
    card = tmp_path / "card.toml"
    card.write_text("a." * 20_000 + "a = 1\n")
    result = shell(f"gpu {card}")
    assert (result.returncode, "has a line of" in result.stderr) == (2, True)


@pytest.mark.skipif(not hasattr(signal, "SIGTERM") or os.name == "nt", reason="needs signals")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_to_end_leaves_no_files(tmp_path: Path, name: str) -> None:
    code = f"""
import os, signal, tempfile
from rooflens import cli
def end(**_options):
    with tempfile.TemporaryDirectory(dir={str(tmp_path)!r}):
        os.kill(os.getpid(), signal.{name})
        signal.pause()
cli.cli.main = end
cli.main()
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (128 + getattr(signal, name), "")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", ["MemoryError", "ImportError('no such package')"])
def test_what_the_machine_lacks_is_one_sentence(error: str) -> None:
    code = f"""
from rooflens import cli
def fail(**_options):
    raise {error}
cli.cli.main = fail
cli.main()
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, len(ran.stderr.splitlines())) == (2, 1)


@pytest.mark.parametrize("arguments", ["profile", "profile --random-weights"])
def test_a_name_longer_than_any_file_is_not_read(arguments: str) -> None:
    result = shell(f"{arguments} {'x' * 400} --ceilings t4")
    assert result.returncode == 2
    assert "could not be read" in result.stderr
