"""The bytes of a recording, plain or gzipped: a regular file alone, with a limit on what it unpacks to."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rooflens.errors import InputError

LONGEST = 4 * 2**30
"""Bytes that a recording may have, unpacked, unless another limit is given."""

_GZIP = b"\x1f\x8b"
_CHUNK = 1 << 20


def unpacked(path: Path, what: str, limit: int = LONGEST) -> bytes:
    """Return the bytes of `path`, unpacked where it is gzipped.

    Raises:
        InputError: it cannot be read, is no regular file, is cut short, or has more than `limit` bytes.
    """
    head = first_bytes(path, what, 2)
    if head == _GZIP:
        return b"".join(_pieces(path, what, limit))
    size = path.stat().st_size
    if size > limit:
        raise _too_long(path, what, limit)
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as cause:
        raise _unreadable(path, what, cause) from cause
    if len(data) > limit:
        raise _too_long(path, what, limit)
    return data


def first_bytes(path: Path, what: str, many: int) -> bytes:
    """Return the first `many` bytes of `path` as they are.

    Raises:
        InputError: it cannot be read, or is no regular file: a pipe would wait for ever.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise InputError(f"{path} could not be read (not a regular file); expected {what}")
        with path.open("rb") as file:
            return file.read(many)
    except (OSError, ValueError) as cause:
        raise _unreadable(path, what, cause) from cause


def head_of(path: Path, what: str, many: int) -> bytes:
    """Return the first `many` bytes of `path`, unpacked where it is gzipped.

    Raises:
        InputError: as `first_bytes` does, or it cannot be unpacked.
    """
    head = first_bytes(path, what, many)
    if not head.startswith(_GZIP):
        return head
    try:
        return zlib.decompressobj(wbits=31).decompress(head, many)
    except zlib.error as cause:
        raise _unreadable(path, what, cause) from cause


@contextmanager
def plain_file(path: Path, what: str, limit: int = LONGEST) -> Iterator[Path]:
    """A path to the same bytes, unpacked: a temporary file where `path` is gzipped, which goes when the block ends.

    Raises:
        InputError: as `unpacked` does, or there is no room for it.
    """
    if first_bytes(path, what, 2) != _GZIP:
        yield path
        return
    folder = tempfile.mkdtemp(prefix="rooflens-")
    try:
        copy = Path(folder, path.name)
        try:
            with copy.open("wb") as file:
                file.writelines(_pieces(path, what, limit))
        except OSError as cause:
            raise _unreadable(path, what, cause) from cause
        yield copy
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _pieces(path: Path, what: str, limit: int) -> Iterator[bytes]:
    """What a gzipped file holds, piece by piece, members one after another; more than `limit` bytes are never made."""
    made, unpack = 0, zlib.decompressobj(wbits=31)
    try:
        with path.open("rb") as file:
            rest = file.read(_CHUNK)
            while rest or not unpack.eof:
                piece = unpack.decompress(rest, _CHUNK)
                made += len(piece)
                if made > limit:
                    raise _too_long(path, what, limit)
                yield piece
                over = unpack.unused_data.lstrip(b"\0") if unpack.eof else unpack.unconsumed_tail
                rest = over or file.read(_CHUNK)
                if not rest and not piece and not unpack.eof:
                    raise InputError(f"{path} could not be read (it is cut short); expected {what}")
                unpack = zlib.decompressobj(wbits=31) if unpack.eof and rest else unpack
    except (OSError, zlib.error) as cause:
        raise _unreadable(path, what, cause) from cause


def _unreadable(path: Path, what: str, cause: Exception) -> InputError:
    reason = getattr(cause, "strerror", None) or str(cause)
    return InputError(f"{path} could not be read ({reason}); expected {what}")


def _too_long(path: Path, what: str, limit: int) -> InputError:
    return InputError(
        f"{path} has more than {limit:,} bytes unpacked; expected {what} of at most that, or a larger --max-bytes"
    )
