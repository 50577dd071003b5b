"""Which format a file has, by its content: names of files are not trusted."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from rooflens.core.recording import Format
from rooflens.errors import InputError

_HEAD = 1 << 16
_SQLITE = b"SQLite format 3\x00"
_MARKS: tuple[tuple[Format, tuple[bytes, ...]], ...] = (
    (Format.ROCPROF, (b"rocprofiler-sdk-tool", b"Dispatch_ID", b'"Dispatch_Id"', b"Kernel_Name", b"KernelName")),
    (Format.NCU, (b"==PROF==", b'"Kernel Name"', b"NVR\x00")),
    (Format.DCGMI, (b"#Entity",)),
    (Format.PROMETHEUS, (b"# HELP", b"# TYPE")),
    (Format.KINETO, (b"traceEvents", b"schemaVersion", b"deviceProperties")),
)
"""What only a file of each format has near its beginning."""


def format_of(path: Path) -> Format:
    """The format of the file at `path`, plain or gzipped.

    Raises:
        InputError: it cannot be read, is empty, or is of none of the formats.
    """
    head = _head(path)
    if not head.strip():
        raise InputError(f"{path} is empty; expected a trace or a log of a profiler")
    if head.startswith(_SQLITE):
        return Format.NSYS
    found = next((kind for kind, marks in _MARKS if any(mark in head for mark in marks)), None)
    if found is not None:
        return found
    if head.lstrip()[:1] in (b"{", b"["):
        return Format.KINETO
    known = ", ".join(str(kind) for kind in Format)
    raise InputError(f"{path} is of no format that is known; expected one of {known}")


def _head(path: Path) -> bytes:
    """The first bytes of a file, unpacked."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
        if head[:2] != b"\x1f\x8b":
            return head
        with gzip.open(path, "rb") as packed:
            return packed.read(_HEAD)
    except (OSError, EOFError, zlib.error) as cause:
        reason = getattr(cause, "strerror", None) or str(cause)
        raise InputError(f"{path} could not be read ({reason}); expected a trace or a log of a profiler") from cause
