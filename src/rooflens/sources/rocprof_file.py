"""Files of rocprof as dispatches: CSV of its first and second version and of rocprofv3, JSON of rocprofv3."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from rooflens.errors import InputError
from rooflens.sources.csv_file import read_lines, rows_of
from rooflens.sources.packed import LONGEST, head_of, unpacked
from rooflens.sources.rocprof_counters import columns_of, number

WHAT = "a table of rocprof with Kernel_Name, Start_Timestamp and End_Timestamp, or the JSON of rocprofv3"

_NAME = ("Kernel_Name", "KernelName")
_NUMBER = ("Dispatch_ID", "Dispatch_Id", "Index")
_START = ("Start_Timestamp", "BeginNs")
_END = ("End_Timestamp", "EndNs")
_SHAPE = (*_NAME, *_NUMBER, *_START, *_END, "GPU_ID", "gpu-id", "Agent_Id", "Queue_Id", "Process_Id", "Correlation_Id")
_MARK = b"\xef\xbb\xbf"
_LATEST = 2**63
"""Nanoseconds that a time stamp has at most."""


@dataclass(slots=True)
class Dispatch:
    """One dispatch: its kernel, its number, its nanoseconds on the clock of the file, and its counters."""

    name: str
    id: int
    start: int
    end: int
    counts: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Dispatches:
    """The dispatches of a file, how many of its rows were skipped, and what it calls the device."""

    held: list[Dispatch]
    skipped: int = 0
    device: str = ""


class _Symbol(msgspec.Struct):
    kernel_id: Any = None
    id: Any = None
    formatted_kernel_name: str | None = None
    demangled_kernel_name: str | None = None
    kernel_name: str | None = None


class _Info(msgspec.Struct):
    dispatch_id: Any = None
    kernel_id: Any = None
    agent_id: Any = None


class _Record(msgspec.Struct):
    start_timestamp: Any = None
    end_timestamp: Any = None
    dispatch_info: _Info = msgspec.field(default_factory=_Info)


class _Buffers(msgspec.Struct):
    kernel_dispatch: list[_Record] = msgspec.field(default_factory=list)


class _Agent(msgspec.Struct):
    id: Any = None
    product_name: str = ""
    name: str = ""


class _Tool(msgspec.Struct):
    buffer_records: _Buffers = msgspec.field(default_factory=_Buffers)
    kernel_symbols: list[_Symbol] = msgspec.field(default_factory=list)
    agents: list[_Agent] = msgspec.field(default_factory=list)


class _File(msgspec.Struct):
    tools: list[_Tool] = msgspec.field(name="rocprofiler-sdk-tool")


def read_dispatches(path: Path, limit: int = LONGEST) -> Dispatches:
    """Return the dispatches in `path`, a CSV or JSON file, plain or gzipped, in the order of the file.

    limit: bytes that it may have, unpacked.

    Raises:
        InputError: it cannot be read, is neither, is cut short, or holds no dispatch that can be read.
    """
    json = head_of(path, WHAT, 4096).removeprefix(_MARK).lstrip()[:1] in (b"{", b"[")
    found = _of_json(path, limit) if json else _of_csv(path, limit)
    if not found.held:
        rows = f"none of its {found.skipped:,} rows can be read" if found.skipped else "no dispatch is in it"
        raise InputError(f"{path}: {rows}; expected {WHAT}")
    return found


def _of_csv(path: Path, limit: int) -> Dispatches:
    rows = rows_of(read_lines(path, WHAT, limit), path, WHAT)
    header = [cell.strip() for cell in next(rows, [])]
    column = {name: index for index, name in reversed(list(enumerate(header)))}
    at = [next((column[name] for name in names if name in column), None) for names in (_NAME, _START, _END)]
    if None in at:
        raise InputError(f"{path} has no columns Kernel_Name, Start_Timestamp and End_Timestamp; expected {WHAT}")
    if "Counter_Name" in column and "Counter_Value" in column:
        return _long(rows, column, at)
    return _wide(rows, header, column, at)


def _wide(rows: Iterator[list[str]], header: list[str], column: dict[str, int], at: list[int | None]) -> Dispatches:
    """A row for each dispatch, a column for each counter."""
    found = Dispatches([])
    counters = {name: where for name, where in columns_of(header).items() if name not in _SHAPE}
    for row in rows:
        dispatch = _dispatch(row, column, at, len(found.held)) if len(row) == len(header) else None
        if dispatch is None:
            found.skipped += 1
            continue
        for name, where in counters.items():
            values = [number(row[index]) for index in where]
            if None not in values:
                dispatch.counts[name] = sum(value for value in values if value is not None)
        found.held.append(dispatch)
    return found


def _long(rows: Iterator[list[str]], column: dict[str, int], at: list[int | None]) -> Dispatches:
    """A row for each counter of each dispatch, as rocprofv3 writes its counter collection."""
    found = Dispatches([])
    known: dict[tuple[str, ...], Dispatch] = {}
    names = [column[name] for name in ("Process_Id", *_NUMBER) if name in column]
    name_at, value_at = column["Counter_Name"], column["Counter_Value"]
    for row in rows:
        dispatch = _dispatch(row, column, at, len(known)) if len(row) > max(name_at, value_at, *names) else None
        value = number(row[value_at]) if dispatch else None
        if dispatch is None or value is None:
            found.skipped += 1
            continue
        key = (*(row[index] for index in names), dispatch.name)
        known.setdefault(key, dispatch).counts.setdefault(row[name_at], value)
    found.held = list(known.values())
    return found


def _dispatch(row: list[str], column: dict[str, int], at: list[int | None], place: int) -> Dispatch | None:
    cells = [row[index] if index is not None and index < len(row) else "" for index in at]
    numbered = next((column[name] for name in _NUMBER if name in column), None)
    own = _whole(row[numbered]) if numbered is not None and numbered < len(row) else None
    return _timed(cells[0].strip(), place if own is None else own, cells[1], cells[2])


def _timed(name: str, number_: int, start: Any, end: Any) -> Dispatch | None:
    """A dispatch, or None where it has no name, no times, or ends before it starts."""
    first, last = _whole(start), _whole(end)
    if not name or first is None or last is None or last < first:
        return None
    return Dispatch(name, number_, first, last)


def _whole(value: Any) -> int | None:
    """A whole number of nanoseconds, or of a dispatch, as text or as JSON has it."""
    if isinstance(value, str):
        value = value.strip()
        value = int(value) if value.isascii() and value.isdigit() and len(value) < 20 else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LATEST else None


def _of_json(path: Path, limit: int) -> Dispatches:
    try:
        tools = msgspec.json.decode(unpacked(path, WHAT, limit).removeprefix(_MARK), type=_File).tools
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as cause:
        raise InputError(f"{path} is no JSON of rocprofv3 ({cause}); expected {WHAT}") from cause
    found = Dispatches([])
    for tool in tools:
        names = {_key(s.id if s.kernel_id is None else s.kernel_id): _symbol(s) for s in tool.kernel_symbols}
        for record in tool.buffer_records.kernel_dispatch:
            info = record.dispatch_info
            name, own = names.get(_key(info.kernel_id), ""), _whole(info.dispatch_id)
            number_ = len(found.held) if own is None else own
            dispatch = _timed(name, number_, record.start_timestamp, record.end_timestamp)
            if dispatch is None:
                found.skipped += 1
                continue
            found.held.append(dispatch)
            found.device = found.device or _device(tool, info)
    return found


def _key(value: Any) -> str:
    """An identifier as text: rocprofv3 writes it as a number or as {"handle": number}."""
    return str(value.get("handle") if isinstance(value, dict) else value)


def _symbol(symbol: _Symbol) -> str:
    return symbol.formatted_kernel_name or symbol.demangled_kernel_name or symbol.kernel_name or ""


def _device(tool: _Tool, info: _Info) -> str:
    agents = (agent for agent in tool.agents if _key(agent.id) == _key(info.agent_id))
    return next((agent.product_name or agent.name for agent in agents), "")[:200]
