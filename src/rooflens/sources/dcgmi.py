"""Logs of `dcgmi dmon`: a header that comes again and again, a row for each GPU and tick, no clock."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from rooflens.core.activity import Activity, ActivityLog
from rooflens.errors import InputError
from rooflens.sources.config import printable
from rooflens.sources.dcgm_fields import field_of, sampled
from rooflens.sources.files import read_bounded

_LIMIT = 64 * 2**20
_LONGEST_LINE = 4096
_WHAT = "a log of `dcgmi dmon`"
_MISSING = {"N/A", "N/W", "N/T", "-"}


def read_dcgmi(path: str | Path, *, interval_s: float | None = None) -> tuple[Activity, ...]:
    """The samples of the `dcgmi dmon` log at `path`, in its order; `dcgmi_log` says also what was not read.

    interval_s: seconds between two rows of one GPU (the `-d` of the command), which the log does not hold; without it
    samples have no time.

    Raises:
        InputError: no such file, one without the header of `dcgmi dmon`, or an interval that is not positive.
    """
    return dcgmi_log(path, interval_s=interval_s).samples


def dcgmi_log(path: str | Path, *, interval_s: float | None = None) -> ActivityLog:
    """The same with notes: columns that are not known, lines that could not be read, values that were not sampled.

    Raises:
        InputError: as `read_dcgmi`.
    """
    data = read_bounded(Path(path), _LIMIT, InputError, _WHAT)
    reader = DcgmiReader(interval_s)
    samples = tuple(reader.read(data.decode("utf-8", errors="replace").splitlines()))
    if not reader.has_header:
        raise InputError(f"{path} has no line that starts with '#Entity'; expected {_WHAT}")
    return ActivityLog(samples, reader.notes())


class DcgmiReader:
    """Reads lines of `dcgmi dmon` as they come, and remembers its columns."""

    def __init__(self, interval_s: float | None = None) -> None:
        """Raises InputError for an interval that is no positive number of seconds."""
        if interval_s is not None and not (math.isfinite(interval_s) and interval_s > 0):
            raise InputError(f"the interval is {interval_s} s; expected the seconds between two samples, above 0")
        self._interval = interval_s
        self._columns: list[int | None] = []
        self._ticks: Counter[str] = Counter()
        self._unknown: dict[str, None] = {}
        self._blank = 0
        self.has_header = False
        self.skipped = 0

    def read(self, lines: Iterable[str]) -> Iterator[Activity]:
        """The samples in `lines`; a line that is neither header nor row is counted in `skipped`."""
        for line in lines:
            words = line.replace("\ufffd", "?").split() if len(line) <= _LONGEST_LINE else ["?"]
            if not words or self._is_header(words):
                continue
            sample = self._row(words)
            if sample is not None:
                yield sample
            elif self.has_header:
                self.skipped += 1

    def notes(self) -> tuple[str, ...]:
        """What a reader should know, one sentence each."""
        found = []
        if self._unknown:
            found.append(f"columns that are not known were left out: {', '.join(self._unknown)}")
        if self.skipped:
            found.append(f"{self.skipped:,} lines were no row of `dcgmi dmon` and were left out")
        if self._blank:
            found.append(f"{self._blank:,} values were not sampled (N/A or a blank of DCGM); none counts as zero")
        if self._interval is None:
            found.append("the log has no time: samples are in order, seconds are not known")
        return tuple(found)

    def _is_header(self, words: list[str]) -> bool:
        """Take the columns of a header line; the second one, of `ID` and units, says nothing more.

        A command line in the log starts another run, whose columns may be others.
        """
        if words[0] == "#" and words[1:2] == ["Entity"]:
            words = ["#Entity", *words[2:]]
        if words[0] == "#Entity":
            self._columns = [field_of(name) for name in words[1:]]
            unknown = (name for name, field in zip(words[1:], self._columns, strict=True) if field is None)
            self._unknown |= {printable(name[:60]): None for name in unknown}
            self.has_header = True
            return True
        if "dmon" in words:
            self._columns = []
            return True
        return self.has_header and words[0] in ("ID", "Id")

    def _row(self, words: list[str]) -> Activity | None:
        """A row such as `GPU 0  0.512  N/A`; None where it is none, or has not a value for each column."""
        if len(words) != 2 + len(self._columns) or not self._columns or not words[1].isdecimal():
            return None
        try:
            values = [_value(word) for word in words[2:]]
        except ValueError:
            return None
        device = printable(f"{words[0]} {int(words[1])}"[:60])
        fields = {field: value for field, value in zip(self._columns, values, strict=True) if field is not None}
        self._blank += sum(value is None for value in fields.values())
        tick = self._ticks[device]
        self._ticks[device] += 1
        return Activity(device, None if self._interval is None else tick * self._interval, fields)


def _value(word: str) -> float | None:
    """A number, or None for one that was not sampled. Raises ValueError for anything else."""
    return None if word.upper() in _MISSING else sampled(float(word))
