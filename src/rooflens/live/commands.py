"""The lines that record a run with a vendor's profiler, in the spelling of its version, and why each flag is there.

A tool is a row of `TOOLS`: how its version is asked for and read, and what builds its line.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rooflens.errors import InputError

Version = tuple[int, int, int]
"""Year, release and patch of a tool that is numbered so."""

_PATIENCE_S = 20.0


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag with the reason for it, half a sentence."""

    text: str
    why: str


@dataclass(frozen=True, slots=True)
class Tool:
    """A profiler that runs a program: its name on PATH, and how its lines are built.

    ask: arguments that make it print its version. newest: the newest version whose flags are known. flags: those of a
    version for an output file (without suffix).
    """

    program: str
    title: str
    ask: tuple[str, ...]
    read: Callable[[str], Version | None]
    newest: Version
    lead: tuple[str, ...]
    flags: Callable[[Version, str], tuple[Flag, ...]]

    def line(self, argv: Sequence[str], *, version: Version, output: str) -> list[str]:
        """The whole line that runs `argv` under the tool."""
        return [self.program, *self.lead, *(flag.text for flag in self.flags(version, output)), *argv]


def nsys_command(argv: Sequence[str], *, version: Version, output: str) -> list[str]:
    """Return the `nsys profile` line that records `argv` for the reader of Nsight Systems exports.

    version: of nsys, as `nsys_version` reads it. output: path without suffix; .nsys-rep and .sqlite are added to it.
    """
    return TOOLS["nsys"].line(argv, version=version, output=output)


def nsys_version(text: str) -> Version | None:
    """Return the version in what `nsys --version` prints; None where there is none.

    "NVIDIA Nsight Systems version 2024.5.1.113-245134619542v0" is (2024, 5, 1).
    """
    found = re.search(r"\b(20\d\d)\.(\d{1,3})(?:\.(\d{1,3}))?\b", text)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def _nsys_flags(version: Version, output: str) -> tuple[Flag, ...]:
    """Source: Nsight Systems user guide, options of `nsys profile`.

    The option for counters was renamed in 2024, and the old spelling kept with a warning; the new one is known to be
    taken from 2024.7 on.
    """
    metrics = "--gpu-metrics-devices" if version >= (2024, 7, 0) else "--gpu-metrics-device"
    return (
        Flag("--trace=cuda,nvtx", "kernels, copies and their launches; ranges that name prefill and decode"),
        Flag("--cuda-graph-trace=node", "every kernel of a CUDA graph by itself, not the graph as a whole"),
        Flag(f"{metrics}=all", "counters of the GPU: SMs active, DRAM read and written; needs the right to read them"),
        Flag("--sample=none", "no samples of the processor: they are not read, and they cost time"),
        Flag("--cpuctxsw=none", "no context switches: they are not read"),
        Flag("--export=sqlite", "the file that is read here, beside the report"),
        Flag(f"--output={output}", "where report and export go"),
    )


TOOLS = {
    "nsys": Tool(
        program="nsys",
        title="Nsight Systems",
        ask=("--version",),
        read=nsys_version,
        newest=(2026, 2, 1),
        lead=("profile",),
        flags=_nsys_flags,
    ),
}
"""Tools by the name that the command line takes."""


def installed_version(tool: Tool) -> Version | None:
    """The version of `tool` on PATH; None where it is not there or does not tell.

    It runs the tool with its `ask` arguments. Nothing is raised.
    """
    program = shutil.which(tool.program)
    if program is None:
        return None
    try:
        asked = subprocess.run(
            [program, *tool.ask], capture_output=True, text=True, errors="replace", timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return tool.read(asked.stdout)


def run_line(line: Sequence[str]) -> int:
    """Run `line` on this terminal; return its exit status, 128 and the signal's number where one ended it.

    Raises:
        InputError: there is no such program, or it cannot be run.
    """
    try:
        status = subprocess.run(list(line), check=False).returncode
    except (OSError, ValueError) as cause:
        reason = getattr(cause, "strerror", None) or str(cause)
        raise InputError(f"{line[0]} could not be run ({reason}); install it, or put it on PATH") from cause
    return status if status >= 0 else 128 - status
