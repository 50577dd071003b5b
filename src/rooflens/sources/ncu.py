"""CSV of Nsight Compute (`ncu --csv`) -> the counters of each launch, of the details page and of the raw page.

The details page has a row for each metric, under the labels of its sections; the raw page has a row for each launch,
and a second row of units. Which of the two a file is, its header tells.

Source: NVIDIA, Nsight Compute CLI, "Output Pages" and `--csv`; layouts of both pages as ncu 2023 to 2025 write them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rooflens.core.counters import KernelCounters
from rooflens.core.ncu_metrics import CYCLES_PER_SECOND, DURATION, asked, instructions
from rooflens.errors import InputError
from rooflens.sources.csv_file import read_lines, rows_of
from rooflens.sources.ncu_counters import (
    DEVICE,
    DRAM_CLOCK,
    DRAM_RATE,
    DRAM_SHARE,
    DRAM_WIDTH,
    Launch,
    counters_of,
    is_read,
)
from rooflens.sources.ncu_report_file import read_report
from rooflens.sources.ncu_values import decimal_comma, number

_WHAT = "a table of Nsight Compute, as `ncu --csv --page raw` writes it"
_ROOFLINE = "Roofline Chart"
_LABELS = {
    "Duration": DURATION,
    "DRAM Throughput": DRAM_SHARE,
    "DRAM Frequency": DRAM_CLOCK,
    "DRAM Bandwidth": DRAM_RATE,
    "Theoretical DRAM Bytes Accessible": DRAM_WIDTH,
}
"""Labels of the details page and the metrics that its sections print under them."""

_PER_CYCLE = re.compile(r"Predicated-On ([FDH](?:ADD|MUL|FMA)) Thread Instructions Executed Per Cycle")
_CONTROL = re.compile(r"--(clock|cache)-control[ =](\w+)")
_SIZES = re.compile(r"\(?\s*(\d{1,10}),\s*(\d{1,10}),\s*(\d{1,10})\s*\)?")

_Key = tuple[str, str, str]


@dataclass(slots=True)
class _Reading:
    """What is being read, of one file or of several: launches by process, number and kernel."""

    path: Path
    launches: dict[_Key, Launch] = field(default_factory=dict)
    controls: dict[str, str] = field(default_factory=dict)
    skipped: int = 0
    refused: bool = False
    """Whether the driver kept the counters from ncu."""


def read_ncu(path: Path, *others: Path) -> tuple[KernelCounters, ...]:
    """Return the counters of every launch in the report at `path`, in the order of the file.

    others: further tables of the same report (one section each, say), whose metrics are joined by process, number and
    kernel. A file that ends in ".ncu-rep" is read by the vendor's own module. Host and process names stay behind.

    Raises:
        InputError: no table of Nsight Compute, no launch or none of the metrics in it, numbers with decimal commas.
        MissingExtraError: a .ncu-rep file, and the vendor's module is not there.
    """
    reading = _Reading(path)
    for file in (path, *others):
        reading.path = file
        if file.suffix == ".ncu-rep":
            reading.launches.update(read_report(file))
        else:
            _read_table(reading)
    launches = reading.launches.values()
    if not any(value is not None for launch in launches for value in launch.values.values()):
        wanted = ", ".join(asked()[:2])
        raise InputError(f"{path} has none of the metrics of a roofline; expected {wanted} and the others of `ncu`")
    notes = (f"{reading.skipped:,} rows could not be read",) if reading.skipped else ()
    return tuple(counters_of(launch, notes=notes, controls=reading.controls) for launch in launches)


def _read_table(reading: _Reading) -> None:
    lines = read_lines(reading.path, _WHAT)
    header = _header(reading, lines)
    rows = rows_of((line for line in lines if not line.startswith("==")), reading.path, _WHAT)
    before = len(reading.launches)
    if "Metric Name" in header and "Metric Value" in header:
        _details(reading, header, rows)
    elif any("__" in name for name in header):
        _raw(reading, header, rows)
    else:
        raise InputError(f"{reading.path} has no column of metrics; expected {_WHAT}")
    if not before and not reading.launches:
        raise InputError(f"{reading.path} has a header and no launch under it; expected {_WHAT}")


def _header(reading: _Reading, lines: Iterator[str]) -> list[str]:
    """The cells of the first line that names columns; what a program printed before it is passed over."""
    for line in lines:
        reading.refused = reading.refused or "ERR_NVGPUCTRPERM" in line
        reading.controls.update(_CONTROL.findall(line))
        if "Kernel Name" in line:
            cells = next(rows_of([line], reading.path, _WHAT), [])
            if "ID" in cells and "Kernel Name" in cells:
                return cells
    why = "the driver kept the counters from ncu (ERR_NVGPUCTRPERM)" if reading.refused else "no row names its columns"
    raise InputError(f"{reading.path} has no table: {why}; expected {_WHAT}")


def _details(reading: _Reading, header: list[str], rows: Iterator[list[str]]) -> None:
    column = {name: index for index, name in enumerate(header)}
    name_at, value_at = column["Metric Name"], column["Metric Value"]
    unit_at, section_at = column.get("Metric Unit"), column.get("Section Name")
    for row in rows:
        if row == header:
            continue
        launch = _launch(reading, column, row) if len(row) > max(name_at, value_at) else None
        if launch is None:
            reading.skipped += 1
            continue
        metric = _metric(row[name_at].strip(), row[section_at] if section_at is not None else "")
        if metric:
            _take(reading, launch, metric, (row[value_at], row[unit_at] if unit_at is not None else ""))


def _raw(reading: _Reading, header: list[str], rows: Iterator[list[str]]) -> None:
    column = {name: index for index, name in enumerate(header)}
    units = next(rows, [])
    if len(units) != len(header) or units[column["ID"]].strip():
        raise InputError(f"{reading.path} has no row of units under its header; expected {_WHAT}")
    read = [(name, index) for name, index in column.items() if is_read(name)]
    device = column.get(DEVICE)
    for row in rows:
        if row in (header, units):
            continue
        launch = _launch(reading, column, row) if len(row) == len(header) else None
        if launch is None:
            reading.skipped += 1
            continue
        launch.device = row[device].strip()[:200] if device is not None else launch.device
        for name, index in read:
            _take(reading, launch, name, (row[index], units[index]))


def _launch(reading: _Reading, column: dict[str, int], row: list[str]) -> Launch | None:
    """The launch that `row` is of; None for a row whose number is none, such as what the program printed."""

    def cell(name: str) -> str:
        index = column.get(name)
        return row[index].strip() if index is not None and index < len(row) else ""

    number_, name = cell("ID"), cell("Kernel Name")
    if not (number_.isascii() and number_.isdigit() and len(number_) < 19 and name):
        return None
    key = (cell("Process ID"), number_, name)
    if key not in reading.launches:
        sizes = _sizes(cell("Grid Size")), _sizes(cell("Block Size"))
        reading.launches[key] = Launch(name, int(number_), *sizes, capability=cell("CC"))
    return reading.launches[key]


def _sizes(text: str) -> tuple[int, int, int] | None:
    match = _SIZES.fullmatch(text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def _metric(label: str, section: str) -> str | None:
    """The metric that the details page prints as `label` in `section`, None for one that is not needed.

    "SM Frequency" of a roofline chart is the clock that its rates per cycle are of; that of other sections is not.
    """
    if is_read(label):
        return label
    if label == "SM Frequency":
        return CYCLES_PER_SECOND[0] if _ROOFLINE in section else None
    per_cycle = _PER_CYCLE.fullmatch(label)
    if per_cycle:
        return f"{instructions(per_cycle[1].lower())}.per_cycle_elapsed"
    return _LABELS.get(label)


def _take(reading: _Reading, launch: Launch, metric: str, printed: tuple[str, str]) -> None:
    text, unit = printed
    if decimal_comma(text):
        raise InputError(
            f"{reading.path} prints {metric} as {text.strip()!r}, with a decimal comma; "
            "run ncu again with LC_ALL=C, which prints a decimal point"
        )
    launch.add(metric, number(text, unit))
