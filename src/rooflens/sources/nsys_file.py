"""A SQLite export of Nsight Systems as activities of GPUs, launches and ranges: read only, nothing of it run.

Tables and columns, from exports of the schemas 3.24 and 3.25: times in nanoseconds since the session began; names
through `StringIds`; a kernel's `globalPid` is the `globalTid` of its launch without the low 24 bits. A table that is
missing was not recorded. Columns of hosts, users, command lines, processes' names and environments are never read.
"""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rooflens.errors import InputError
from rooflens.sources.kernel_names import short_kernel_name

LONGEST = 64 * 2**30
"""Bytes of an export at most."""

MOST = 50_000_000
"""Rows of one table at most."""

_EXPECTED = "expected the .sqlite that `nsys export --type sqlite` or `nsys profile --export=sqlite` writes"
_MAGIC = b"SQLite format 3\x00"
_CUPTI = "CUPTI_ACTIVITY_KIND_"
_LONGEST_NS = 10**15
_FARTHEST_NS = 2**62
_LONGEST_TEXT = 20_000
_THREAD_BITS = 0xFFFFFF
_START_END = (60, 71)
"""Event types of NVTX ranges that one thread starts and another may end (ENUM_NSYS_EVENT_TYPE)."""


@dataclass(frozen=True, slots=True)
class Activity:
    """What ran on a GPU: `table` is KERNEL, GRAPH_TRACE, MEMCPY or MEMSET; times in ns.

    name: with its templates; short: without. moved: bytes of a copy; copy_kind: of ENUM_CUDA_MEMCPY_OPER.
    """

    table: str
    name: str
    short: str
    start: int
    end: int
    process: int
    device: int
    correlation: int | None
    moved: int = 0
    copy_kind: int | None = None

    @property
    def launch(self) -> tuple[int, int | None]:
        """What its launch is found by."""
        return self.process, self.correlation


@dataclass(frozen=True, slots=True)
class Launch:
    """The call of the CUDA runtime or driver that launched something: when it began, on which thread."""

    start: int
    thread: int


@dataclass(frozen=True, slots=True)
class Range:
    """An NVTX range: its text, its times in ns. nests: whether it was pushed and popped on its thread."""

    text: str
    start: int
    end: int
    thread: int
    nests: bool = True

    @property
    def process(self) -> int:
        """The process of its thread."""
        return process_of(self.thread)


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU of TARGET_INFO_GPU: the name that the driver gives it, its multiprocessors and its memory in bytes."""

    name: str
    multiprocessors: int | None
    memory_bytes: int | None


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

    def activities(self) -> list[Activity]:
        """What ran on GPUs, in order of its start."""
        found = [*self._kernels(), *self._graphs(), *self._copies("MEMCPY"), *self._copies("MEMSET")]
        return sorted(found, key=lambda activity: (activity.start, activity.end))

    def _kernels(self) -> Iterator[Activity]:
        optional = ("deviceId", "correlationId", "globalPid", "demangledName", "shortName")
        for start, end, device, correlation, process, name, short in self.rows(_CUPTI + "KERNEL", _TIMES, optional):
            if self._sound(start, end):
                whole = self.text(name) or self.text(short) or "kernel without a name"
                brief = short_kernel_name(self.text(short) or whole)
                brief = short_kernel_name(whole) if brief.lower() in ("kernel", "kernel2", "device_kernel") else brief
                own = (int_of(process), int_of(device), number_of(correlation))
                yield Activity("KERNEL", whole, clean(brief), start, end, *own)

    def _graphs(self) -> Iterator[Activity]:
        optional = ("deviceId", "correlationId", "globalPid", "graphId")
        for start, end, device, correlation, process, graph in self.rows(_CUPTI + "GRAPH_TRACE", _TIMES, optional):
            if self._sound(start, end):
                name = f"CUDA graph {int_of(graph)}"
                own = (int_of(process), int_of(device), number_of(correlation))
                yield Activity("GRAPH_TRACE", name, name, start, end, *own)

    def _copies(self, table: str) -> Iterator[Activity]:
        optional = ("deviceId", "correlationId", "globalPid", "copyKind")
        rows = self.rows(_CUPTI + table, (*_TIMES, "bytes"), optional)
        for start, end, moved, device, correlation, process, kind in rows:
            if self._sound(start, end, moved):
                name = "Memset" if table == "MEMSET" else f"Memcpy {COPIES.get(number_of(kind) or 0, 'unknown')}"
                own = (int_of(process), int_of(device), number_of(correlation))
                yield Activity(table, name, name, start, end, *own, moved, number_of(kind))

    def launches(self, wanted: set[tuple[int, int | None]]) -> dict[tuple[int, int | None], Launch]:
        """The launch of each (process, correlation) that is `wanted`, the earliest where there are several."""
        found: dict[tuple[int, int | None], Launch] = {}
        single = {process for process, _ in wanted} == {0}
        rows = self.rows(_CUPTI + "RUNTIME", ("start", "correlationId"), ("globalTid",))
        for start, correlation, thread in rows:
            if not (_is_whole(start) and _is_whole(correlation)):
                self.unread += 1
                continue
            key = (0 if single else process_of(int_of(thread)), correlation)
            if key in wanted and (key not in found or start < found[key].start):
                found[key] = Launch(start, int_of(thread))
        return found

    def ranges(self) -> list[Range]:
        """The NVTX ranges that were closed and have a text; marks are none."""
        found = []
        optional = ("text", "textId", "globalTid", "eventType")
        for start, end, text, number, thread, kind in self.rows("NVTX_EVENTS", _TIMES, optional):
            if end is None:
                continue
            label = text if isinstance(text, str) and text else self.text(number)
            if label and self._sound(start, end):
                found.append(Range(label, start, end, int_of(thread), kind not in _START_END))
        return found

    def gpus(self) -> dict[tuple[int, int], int]:
        """The GPU of each (process, number of a device in that process), by its number in this recording."""
        rows = self.rows("TARGET_INFO_CUDA_DEVICE", ("gpuId", "cudaId", "pid"))
        return {(pid, cuda): gpu for gpu, cuda, pid in rows if all(map(_is_whole, (gpu, cuda, pid)))}

    def described(self, gpu: int) -> Gpu | None:
        """What TARGET_INFO_GPU says of the GPU with that number; of all, where they are alike."""
        rows = self.rows("TARGET_INFO_GPU", ("id", "name"), ("smCount", "totalMemory"))
        found = {row[0]: Gpu(clean(row[1]), *map(_positive, row[2:])) for row in rows if isinstance(row[1], str)}
        alike = set(found.values())
        return found.get(gpu, alike.pop() if len(alike) == 1 else None)

    def text(self, number: object) -> str:
        """The string of that number; empty where there is none."""
        if self._strings is None:
            rows = self.rows("StringIds", ("id", "value"))
            self._strings = {key: value for key, value in rows if _is_whole(key) and isinstance(value, str)}
        return self._strings.get(number, "") if isinstance(number, int) else ""

    def _sound(self, start: object, end: object, moved: object = 0) -> bool:
        """Whether an event can be used; one that cannot is counted."""
        sound = isinstance(start, int) and isinstance(end, int) and isinstance(moved, int)
        if sound and abs(start) <= _FARTHEST_NS and 0 <= end - start <= _LONGEST_NS and 0 <= moved <= 2**60:  # type: ignore[operator]
            return True
        self.unread += 1
        return False


_TIMES = ("start", "end")

COPIES = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
    11: "UVM HtoD",
    12: "UVM DtoH",
    13: "UVM DtoD",
}
"""Kinds of copies: ENUM_CUDA_MEMCPY_OPER of an export, CUpti_ActivityMemcpyKind of CUPTI."""


@contextmanager
def opened(path: Path) -> Iterator[Export]:
    """The export at `path`, until the block ends.

    A file can hold views, triggers and virtual tables of its author's: tables alone are read, by SELECT without any
    function, which an authorizer holds.

    Raises:
        InputError: no SQLite file, no export of Nsight Systems, cut short or damaged.
    """
    _check(path)
    try:
        uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            connection.text_factory = _text
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.set_authorizer(_allowed)
            export = Export(connection, _columns(connection))
            names = export.columns
            if "META_DATA_EXPORT" not in names and not any(name.startswith(_CUPTI) for name in names):
                raise InputError(f"{path} is a SQLite file without tables of Nsight Systems; {_EXPECTED}")
            yield export
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as cause:
        reason = " ".join(str(cause).split())[:200]
        raise InputError(f"{path} could not be read as SQLite ({reason}); {_EXPECTED}") from cause


def _check(path: Path) -> None:
    """Refuse by its first bytes what is no complete SQLite file."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{path} is not a regular file; {_EXPECTED}")
        with path.open("rb") as file:
            head = file.read(100)
    except (OSError, ValueError) as cause:
        reason = getattr(cause, "strerror", None) or str(cause)
        raise InputError(f"{path} could not be read ({reason}); {_EXPECTED}") from cause
    if path.suffix in (".nsys-rep", ".qdrep", ".qdstrm"):
        raise InputError(f"{path} is a report of Nsight Systems, not its export; run `nsys export --type sqlite` on it")
    if not head.startswith(_MAGIC) or len(head) < 100:
        raise InputError(f"{path} is {'empty' if not head else 'no SQLite file'}; {_EXPECTED}")
    if status.st_size > LONGEST:
        raise InputError(f"{path} has more than {LONGEST:,} bytes; record a shorter run")
    page = int.from_bytes(head[16:18], "big")
    whole = (65536 if page == 1 else page) * int.from_bytes(head[28:32], "big")
    if head[24:28] == head[92:96] and status.st_size < whole:
        raise InputError(f"{path} is cut short: {status.st_size:,} of {whole:,} bytes; export it again")


def _allowed(action: int, first: str | None, *_: str | None) -> int:
    """SELECT of columns, and the list of a table's columns; nothing else, functions included."""
    listing = action == sqlite3.SQLITE_PRAGMA and first == "table_info"
    return sqlite3.SQLITE_OK if listing or action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ) else sqlite3.SQLITE_DENY


def _columns(connection: sqlite3.Connection) -> dict[str, frozenset[str]]:
    """The columns of every table that is read here; views and virtual tables are none."""
    listed = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    found = {}
    for kind, name, sql in listed:
        plain = kind == "table" and isinstance(sql, str) and sql[:13].upper().startswith("CREATE TABLE ")
        if plain and isinstance(name, str) and (name in _READ or name.startswith(_CUPTI)) and '"' not in name:
            rows = connection.execute(f'PRAGMA table_info("{name}")').fetchall()
            found[name] = frozenset(row[1] for row in rows if isinstance(row[1], str))
    return found


_READ = frozenset(
    {"META_DATA_EXPORT", "StringIds", "NVTX_EVENTS", "TARGET_INFO_GPU", "TARGET_INFO_CUDA_DEVICE", "GPU_METRICS",
     "TARGET_INFO_GPU_METRICS"}
)  # fmt: skip


def process_of(thread: int) -> int:
    """The `globalPid` of a `globalTid`: without the 24 bits that number the thread."""
    return thread & ~_THREAD_BITS


def pid_of(process: int) -> int:
    """The operating system's number in a `globalPid`."""
    return process >> 24 & _THREAD_BITS


def clean(text: str) -> str:
    """A name of the file in printable characters, at most 120."""
    return "".join(c if c.isprintable() else "?" for c in text)[:120]


def int_of(value: object) -> int:
    """A whole number, 0 for anything else."""
    return value if isinstance(value, int) else 0


def number_of(value: object) -> int | None:
    """A whole number, None for anything else."""
    return value if isinstance(value, int) else None


def _is_whole(value: object) -> bool:
    return isinstance(value, int)


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and 0 < value < 2**60 else None


def _text(data: bytes) -> str:
    return data[:_LONGEST_TEXT].decode("utf-8", "replace")
