"""The command line that collects a hierarchical roofline with Nsight Compute."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rooflens.core.ncu_metrics import asked
from rooflens.errors import InputError

FLAGS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("--csv",), "a table and no text for people"),
    (("--page", "raw"), "a row for each launch with every metric, and its units in a row of their own"),
    (("--print-units", "base"), "bytes and nanoseconds: Mbyte with two decimals loses digits"),
    (("--nvtx",), "the ranges of the program stand beside each launch"),
    (("--clock-control", "none"), "clocks as the program has them; ncu otherwise locks them to the base clock"),
    (("--metrics", ",".join(asked())), "time, bytes at each level, FLOP of each pipe; n/a where a part lacks one"),
)
"""Each flag and why it is there. Source: NVIDIA, Nsight Compute CLI, "Command Line Options"."""

LOG = (("--log-file",), "the table alone: what the program prints stays on the terminal")


def ncu_command(argv: Sequence[str], *, output: Path | str) -> list[str]:
    """The command that runs `argv` under ncu and writes the table for `read_ncu` to `output`.

    Every launch is run again for each group of counters, so that a program takes many times as long: narrow what is
    profiled with ncu's own `--launch-skip` and `--launch-count`.

    Raises:
        InputError: no program, a program that looks like a flag, or an output that is a report (.ncu-rep).
    """
    if not argv or not argv[0] or argv[0].startswith("-"):
        raise InputError(f"ncu runs {list(argv)!r}; expected a program and its arguments, such as python serve.py")
    if Path(output).suffix == ".ncu-rep":
        raise InputError(f"the output {str(output)!r} names a report; this command writes a table: name a .csv file")
    flags = (word for words, _ in FLAGS for word in words)
    return ["ncu", *flags, *LOG[0], str(output), *argv]
