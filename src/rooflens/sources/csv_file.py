"""Lines and rows of a CSV file that a profiler wrote: of a bounded size, in any of the encodings that shells make."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path

from rooflens.errors import InputError
from rooflens.sources.packed import LONGEST, unpacked

_WIDEST = 2**24
"""Characters of a line at most."""


def read_lines(path: Path, what: str, limit: int = LONGEST) -> Iterator[str]:
    """Yield the lines of `path`; bytes that are no text become U+FFFD, and a UTF-16 file of PowerShell is read too.

    A last line with an open quote is left out: the file was cut inside a value, and half a number is a wrong one.

    Raises:
        InputError: no regular file, unreadable, more than `limit` bytes, or a line of more than 16 Mi characters.
    """
    data = unpacked(path, what, limit)
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding = "utf-16" if wide else "utf-8-sig"
    for line in io.TextIOWrapper(io.BytesIO(data), encoding=encoding, errors="replace", newline=""):
        if len(line) > _WIDEST:
            raise InputError(f"{path} has a line of {len(line):,} characters; expected {what}")
        if not line.endswith(("\n", "\r")) and line.count('"') % 2:
            return
        yield line


def rows_of(lines: Iterable[str], path: Path, what: str) -> Iterator[list[str]]:
    """Yield the cells of each of `lines`, empty lines left out.

    Raises:
        InputError: a cell of more than 128 Ki characters, or a NUL where the reader takes none.
    """
    rows = csv.reader(lines)
    try:
        for row in rows:
            if row:
                yield row
    except csv.Error as cause:
        raise InputError(
            f"{path} is no table that can be read ({cause}, row {rows.line_num}); expected {what}"
        ) from cause
