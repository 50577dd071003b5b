"""A SQLite export of Nsight Systems as rows: opened read only, nothing of it run.

A table that is missing was not recorded. Columns of hosts, users, command lines, processes' names and environments are
never read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from rooflens.errors import InputError
from rooflens.sources.packed import LONGEST, first_bytes, plain_file

LARGEST = 64 * 2**30
"""Bytes of a plain export at most, which is never held in memory."""

MOST = 50_000_000
"""Rows of one table at most."""

_EXPORT = "the .sqlite that `nsys export --type sqlite` or `nsys profile --export=sqlite` writes"
_EXPECTED = f"expected {_EXPORT}"
_MAGIC = b"SQLite format 3\x00"
CUPTI = "CUPTI_ACTIVITY_KIND_"
_LONGEST_NS = 10**15
_FARTHEST_NS = 2**62
_MOST_BYTES = 2**60
_LONGEST_TEXT = 20_000


@dataclass(slots=True)
class Export:
    """An open export. unread: how many rows of it could not be used; odd: tables without a column that is needed."""

    connection: sqlite3.Connection
    columns: dict[str, frozenset[str]]
    unread: int = 0
    odd: list[str] = field(default_factory=list)
    _strings: dict[int, str] | None = None

    def rows(self, table: str, needed: Sequence[str], optional: Sequence[str] = ()) -> Iterator[tuple[Any, ...]]:
        """Every row of `table`: the columns `needed`, then those `optional`, None where the export has them not.

        Nothing comes of a table that is missing, or that lacks a needed column (`odd` names it).

        Raises:
            InputError: more than `MOST` rows.
        """
        has = self.columns.get(table)
        if has is None:
            return
        if not has.issuperset(needed):
            self.odd.append(table)
            return
        wanted = [f'"{name}"' for name in needed] + [f'"{name}"' if name in has else "NULL" for name in optional]
        for number, row in enumerate(self.connection.execute(f'SELECT {", ".join(wanted)} FROM "{table}"')):
            if number >= MOST:
                raise InputError(f"{table} has more than {MOST:,} rows; record a shorter run")
            yield row

    def text(self, number: object) -> str:
        """The string of that number; empty where there is none."""
        if self._strings is None:
            rows = self.rows("StringIds", ("id", "value"))
            self._strings = {key: value for key, value in rows if isinstance(key, int) and isinstance(value, str)}
        return self._strings.get(number, "") if isinstance(number, int) else ""

    def sound(self, start: object, end: object, moved: object = 0) -> bool:
        """Whether an event can be used; one that cannot is counted."""
        whole = isinstance(start, int) and isinstance(end, int) and isinstance(moved, int)
        sound = whole and _plausible(start, end, moved)  # type: ignore[arg-type]
        self.unread += not sound
        return sound


@contextmanager
def opened(path: Path, limit: int = LONGEST) -> Iterator[Export]:
    """The export at `path`, until the block ends.

    A file can hold views, triggers and virtual tables of its author's: tables alone are read, by SELECT without any
    function, which an authorizer holds. limit: bytes that a gzipped one may have, unpacked.

    Raises:
        InputError: no SQLite file, no export of Nsight Systems, cut short or damaged.
    """
    with plain_file(path, _EXPORT, limit) as plain:
        yield from _open(path, plain)


def _open(path: Path, plain: Path) -> Iterator[Export]:
    """The export at `path` whose bytes, unpacked, are at `plain`."""
    _check(path, plain)
    try:
        uri = f"{plain.resolve().as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            connection.text_factory = _text
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.set_authorizer(_allowed)
            export = Export(connection, _columns(connection))
            names = export.columns
            if "META_DATA_EXPORT" not in names and not any(name.startswith(CUPTI) for name in names):
                raise InputError(f"{path} is a SQLite file without tables of Nsight Systems; {_EXPECTED}")
            yield export
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as cause:
        reason = " ".join(str(cause).split())[:200]
        raise InputError(f"{path} could not be read as SQLite ({reason}); {_EXPECTED}") from cause


def _check(path: Path, plain: Path) -> None:
    """Refuse by its first bytes what is no complete SQLite file."""
    head = first_bytes(plain, _EXPORT, 100)
    status = plain.stat()
    if path.suffix in (".nsys-rep", ".qdrep", ".qdstrm"):
        raise InputError(f"{path} is a report of Nsight Systems, not its export; run `nsys export --type sqlite` on it")
    if not head.startswith(_MAGIC) or len(head) < 100:
        raise InputError(f"{path} is {'empty' if not head else 'no SQLite file'}; {_EXPECTED}")
    if status.st_size > LARGEST:
        raise InputError(f"{path} has more than {LARGEST:,} bytes; record a shorter run")
    page = int.from_bytes(head[16:18], "big")
    whole = (65536 if page == 1 else page) * int.from_bytes(head[28:32], "big")
    if head[24:28] == head[92:96] and status.st_size < whole:
        raise InputError(f"{path} is cut short: {status.st_size:,} of {whole:,} bytes; export it again")


def _plausible(start: int, end: int, moved: int) -> bool:
    return abs(start) <= _FARTHEST_NS and 0 <= end - start <= _LONGEST_NS and 0 <= moved <= _MOST_BYTES


def _allowed(action: int, first: str | None, *_: str | None) -> int:
    """SELECT of columns, and the list of a table's columns; nothing else, functions included."""
    listing = action == sqlite3.SQLITE_PRAGMA and first == "table_info"
    reading = action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ)
    return sqlite3.SQLITE_OK if listing or reading else sqlite3.SQLITE_DENY


def _columns(connection: sqlite3.Connection) -> dict[str, frozenset[str]]:
    """The columns of every table that is read here; views and virtual tables are none."""
    listed = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    found = {}
    for kind, name, sql in listed:
        plain = kind == "table" and isinstance(sql, str) and sql[:13].upper().startswith("CREATE TABLE ")
        if plain and isinstance(name, str) and (name in _READ or name.startswith(CUPTI)) and '"' not in name:
            rows = connection.execute(f'PRAGMA table_info("{name}")').fetchall()
            found[name] = frozenset(row[1] for row in rows if isinstance(row[1], str))
    return found


_READ = frozenset(
    {"META_DATA_EXPORT", "StringIds", "NVTX_EVENTS", "TARGET_INFO_GPU", "TARGET_INFO_CUDA_DEVICE", "GPU_METRICS",
     "TARGET_INFO_GPU_METRICS"}
)  # fmt: skip


@cache
def clean(text: str) -> str:
    """A name of the file in printable characters, at most 120."""
    return "".join(c if c.isprintable() else "?" for c in text)[:120]


def int_of(value: object) -> int:
    """A whole number, 0 for anything else."""
    return value if isinstance(value, int) else 0


def number_of(value: object) -> int | None:
    """A whole number, None for anything else."""
    return value if isinstance(value, int) else None


def _text(data: bytes) -> str:
    return data[:_LONGEST_TEXT].decode("utf-8", "replace")
