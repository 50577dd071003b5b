"""The lines that record a run with another profiler: flags by version, quoting, and what becomes of the status."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rooflens.errors import InputError
from rooflens.live.commands import TOOLS, Version, installed_version, nsys_command, nsys_version, run_line


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVIDIA Nsight Systems version 2024.5.1.113-245134619542v0\n", (2024, 5, 1)),
        ("NVIDIA Nsight Systems version 2025.1\n", (2025, 1, 0)),
        ("NVIDIA Nsight Systems version 2023.3.3.42", (2023, 3, 3)),
        ("version unknown", None),
        ("", None),
        ("2024", None),
    ],
)
def test_versions(text: str, version: Version | None) -> None:
    assert nsys_version(text) == version


def test_the_line() -> None:
    line = nsys_command(["python", "my run.py"], version=(2025, 1, 1), output="out/run")
    assert line[:2] == ["nsys", "profile"]
    assert line[-2:] == ["python", "my run.py"]
    flags = {"--trace=cuda,nvtx", "--cuda-graph-trace=node", "--export=sqlite", "--output=out/run"}
    assert flags | {"--gpu-metrics-devices=all"} <= set(line)


@pytest.mark.parametrize(
    ("version", "flag"),
    [((2023, 4, 4), "--gpu-metrics-device=all"), ((2024, 2, 3), "--gpu-metrics-device=all"),
     ((2024, 7, 1), "--gpu-metrics-devices=all"), ((2026, 2, 1), "--gpu-metrics-devices=all")],
)  # fmt: skip
def test_counters_in_the_spelling_of_the_version(version: Version, flag: str) -> None:
    line = nsys_command(["true"], version=version, output="x")
    assert [word for word in line if word.startswith("--gpu-metrics")] == [flag]


def test_every_flag_has_a_reason() -> None:
    for tool in TOOLS.values():
        assert all(flag.why for flag in tool.flags(tool.newest, "x"))


SCRIPT = """#!/bin/sh
if [ "$1" = --version ]; then echo "NVIDIA Nsight Systems version 2023.4.4.54-234433681190v0"; exit 0; fi
for word in "$@"; do echo "<$word>"; done
exit 7
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An `nsys` on PATH that tells an old version, prints its arguments and ends with status 7."""
    if os.name != "posix":
        pytest.skip("needs a shell")
    program = tmp_path / "nsys"
    program.write_text(SCRIPT)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return program


def rooflens(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rooflens", "command", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_installed_version_is_asked(fake: Path) -> None:
    assert installed_version(TOOLS["nsys"]) == (2023, 4, 4)
    result = rooflens("nsys", "--", "python", "my run.py", "--flag")
    first, *rest = result.stdout.splitlines()
    assert result.returncode == 0
    assert shlex.split(first) == nsys_command(
        ["python", "my run.py", "--flag"], version=(2023, 4, 4), output="rooflens-nsys"
    )
    assert all(line.startswith("# ") for line in rest)
    assert "2023.4.4, which is installed" in rest[-1]


def test_run_passes_the_status_on(fake: Path) -> None:
    result = rooflens("nsys", "--run", "--no-metrics", "--output", "a b", "--", "python", "x y")
    assert result.returncode == 7
    assert "<--output=a b>" in result.stdout
    assert "<x y>" in result.stdout
    assert "gpu-metrics" not in result.stdout


def test_a_missing_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert installed_version(TOOLS["nsys"]) is None
    printed = rooflens("nsys", "--", "python", "run.py")
    assert printed.returncode == 0
    assert "nsys is not installed here" in printed.stdout
    refused = rooflens("nsys", "--run", "--", "python", "run.py")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("rooflens: nsys could not be run")
    assert len(refused.stderr.splitlines()) == 1
    with pytest.raises(InputError, match="put it on PATH"):
        run_line(["no-such-program-at-all"])


def test_a_tool_that_fails_to_tell_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nsys"
    program.write_text("no program")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert installed_version(TOOLS["nsys"]) is None


def test_what_is_refused() -> None:
    for args in (("nsys",), ("nvprof", "--", "true"), ()):
        result = rooflens(*args)
        assert result.returncode == 2
        assert len(result.stderr.splitlines()) == 1


def test_a_signal_is_a_status() -> None:
    assert run_line([sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"]) == 143
