"""Which format a file has, by its content: names of files are not trusted."""

from __future__ import annotations

import codecs
from pathlib import Path

from rooflens.core.recording import Format
from rooflens.errors import InputError
from rooflens.sources.packed import head_of

_HEAD = 1 << 16
_SQLITE = b"SQLite format 3\x00"
_ROCPROF = b'"rocprofiler-sdk-tool"'
_MARKS: tuple[tuple[Format, tuple[bytes, ...]], ...] = (
    (Format.NCU, (b"==PROF==", b'"Kernel Name"', b"NVR\x00")),
    (Format.DCGMI, (b"#Entity",)),
    (Format.PROMETHEUS, (b"# HELP", b"# TYPE")),
    (Format.ROCPROF, (b"Dispatch_ID", b"Dispatch_Id", b"Kernel_Name", b"KernelName")),
)
"""What only a text of each format has near its beginning."""

_WHAT = "a trace or a log of a profiler"


def format_of(path: Path) -> Format:
    """The format of the file at `path`, plain or gzipped.

    Raises:
        InputError: it cannot be read, is empty, or is of none of the formats.
    """
    head = head_of(path, _WHAT, _HEAD)
    if not head.strip():
        raise InputError(f"{path} is empty; expected a trace or a log of a profiler")
    if head.startswith(_SQLITE):
        return Format.NSYS
    if head.removeprefix(codecs.BOM_UTF8).lstrip()[:1] in (b"{", b"["):
        return Format.ROCPROF if _ROCPROF in head else Format.KINETO
    text = head.replace(b"\0", b"") if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else head
    found = next((kind for kind, marks in _MARKS if any(mark in text for mark in marks)), None)
    if found is not None:
        return found
    known = ", ".join(str(kind) for kind in Format)
    raise InputError(f"{path} is of no format that is known; expected one of {known}")
