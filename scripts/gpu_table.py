"""The last lines of gpu_check.sh: ceilings against the data sheet, phases against their floors, steps that failed.

    python scripts/gpu_table.py FOLDER

FOLDER holds what the steps left: NAME.out, steps.txt (name, status, seconds), part.txt and measured.toml. Exit status 1
where a step failed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rooflens.core.hardware import Hardware
from rooflens.errors import RooflensError
from rooflens.sources.hardware import load_hardware
from rooflens.units import si

_TIMED_OUT = (124, 137)
_HEAD = (
    f"{'phase':<12}{'measured':>11}{'floor':>11}{'predicted':>11}{'of roof':>9}  {'bound':<10}{'coverage':>9}"
    f"{'overhead':>9}"
)


def main(folder: Path) -> int:
    """Print the table; return 1 where a step failed."""
    steps = [line.split() for line in (folder / "steps.txt").read_text().splitlines()]
    name = (folder / "part.txt").read_text().strip()
    measured, sheet = _part(str(folder / "measured.toml")), _part(name)
    print(f"{name}; data sheet: {sheet.title if sheet else 'no bundled part has this name'}")
    for line in (*_ceilings(measured, sheet), _HEAD, *_phases(folder, steps)):
        print(line)
    failed = [(step, int(status)) for step, status, _ in steps if status != "0"]
    for step, status in failed:
        print(f"FAILED {step}: {'took too long' if status in _TIMED_OUT else f'exit status {status}'}; see {step}.log")
    seconds = sum(int(row[2]) for row in steps)
    print(f"{len(steps) - len(failed)} of {len(steps)} steps passed in {seconds} s; tests: {_tests(folder)}")
    return 1 if failed else 0


def _part(name: str) -> Hardware | None:
    try:
        return load_hardware(name)
    except RooflensError:
        return None


def _ceilings(measured: Hardware | None, sheet: Hardware | None) -> Iterator[str]:
    """A line for each measured peak, and for the memory."""
    if measured is None:
        return
    for dtype, peak in measured.matrix.items():
        stated = sheet.peak(dtype) if sheet else None
        yield _ceiling(str(dtype), si(peak.value, "FLOP/s"), peak.value, stated.value if stated else None)
    read = measured.memory.bandwidth
    stated = sheet.memory.bandwidth if sheet else None
    if read is not None:
        yield _ceiling("memory, read", si(read.value, "B/s"), read.value, stated.value if stated else None)


def _ceiling(name: str, shown: str, value: float, stated: float | None) -> str:
    share = "not on the data sheet" if stated is None else f"{100 * value / stated:.1f} % of the data sheet's"
    return f"{name:<14}{shown:>15}   {share}"


def _phases(folder: Path, steps: list[list[str]]) -> Iterator[str]:
    """A line for each phase of each profile."""
    for step, *_ in steps:
        kind, _, batch = step.partition("-")
        document = _document(folder / f"{step}.out") if kind == "profile" else None
        sheet = _document(folder / f"predict-{batch}.out")
        floors = {row["phase"]: row["floor_s"] for row in (sheet or {"phases": ()})["phases"]}
        for phase in (document or {"phases": ()})["phases"]:
            yield _phase(f"{phase['phase']} x{batch}", phase, floors.get(phase["phase"]))


def _phase(name: str, phase: dict[str, Any], predicted: float | None) -> str:
    """measured: seconds. floor: under the measured ceilings; predicted: under the data sheet's."""
    ran = phase["measured"]
    shown = "-" if predicted is None else si(predicted, "s")
    share = phase["mfu"] if phase["bound"] == "compute" else phase["mbu"]
    floor = ran["predicted"]["floor_s"]
    figures = f"{si(ran['time_s'], 's'):>11}{si(floor, 's'):>11}{shown:>11}{_percent(share):>9}"
    return (
        f"{name:<12}{figures}  {phase['bound']:<10}{_percent(ran['coverage']):>9}"
        f"{_percent(ran['instrument_overhead']):>9}"
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _document(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _tests(folder: Path) -> str:
    """How pytest ends."""
    lines = (folder / "tests.out").read_text().strip().splitlines() if (folder / "tests.out").exists() else []
    return lines[-1].strip("= ") if lines else "none ran"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
