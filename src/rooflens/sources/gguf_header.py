"""The header of a GGUF file: its keys, and type and shape of every tensor. No weight is ever read.

Types are those of the `gguf` package (extra `gguf`). Its reader is not used: it maps the whole file, builds an array
for each token of the vocabulary (2 s for 49,152 of them), and follows the lengths of a hostile file without bounds.

Source: the GGUF specification in the ggml project (docs/gguf.md).
"""

from __future__ import annotations

import os
import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from rooflens.core.op import DType
from rooflens.errors import ConfigError, MissingExtraError
from rooflens.sources.fields import show
from rooflens.units import DTYPES

_MAX_KEYS, _MAX_TENSORS, _MAX_SHARDS = 2**16, 2**18, 2**10
_MAX_NAME, _MAX_STRING, _MAX_ARRAY = 2**12, 2**26, 2**24
_KEPT = 2**14
_MAX_SIDE = 2**40
_PIECE, _LENGTH = 2**18, struct.Struct("<Q")
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Value types by number, as `struct` spells them."""
_NAMES = {"F64": "fp64", "F32": "fp32", "F16": "fp16", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64"}
"""GGUF types that are called otherwise in `units.DTYPES`; the rest only differ in case."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor: its dtype, its shape with the inputs first, its bytes."""

    dtype: DType
    shape: tuple[int, ...]
    size: int

    @property
    def values(self) -> int:
        """How many values it has."""
        total = 1
        for side in self.shape:
            total *= side
        return total


@dataclass(frozen=True, slots=True)
class Header:
    """Keys and tensors of a file, or of all files that it was split into.

    keys: numbers, strings, and lists of at most 16,384 numbers. lengths: of every list.
    """

    keys: dict[str, Any]
    lengths: dict[str, int]
    tensors: dict[str, Tensor]


def read_gguf_header(path: Path) -> Header:
    """Return the header of the GGUF file at `path`, with those of the other files that it was split into.

    Raises:
        ConfigError: no GGUF file, one for machines of the other byte order, an old version, or one that is cut short
            or contradicts itself.
        MissingExtraError: without the `gguf` package.
    """
    types = tensor_types()
    first = _read(path, types)
    count = first.keys.get("split.count", 1)
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= _MAX_SHARDS:
        raise ConfigError(f"{path}: split.count is {show(count)}; expected a number of files")
    if count <= 1:
        return first
    headers = [_read(shard, types) for shard in _shards(path, count)]
    tensors: dict[str, Tensor] = {}
    for header in headers:
        tensors.update(header.tensors)
    return Header(headers[0].keys, headers[0].lengths, tensors)


def tensor_types() -> dict[int, DType]:
    """The dtype of each type number.

    Raises:
        MissingExtraError: without the `gguf` package.
    """
    try:
        from gguf import GGMLQuantizationType
    except ImportError as cause:
        raise MissingExtraError(
            "a GGUF file needs the extra 'gguf' (pip install 'rooflens[gguf]'); or pass the model's config.json"
        ) from cause
    names = {int(kind): _NAMES.get(kind.name, kind.name.lower()) for kind in GGMLQuantizationType}
    return {number: DType(name) for number, name in names.items() if name in DTYPES}


def _shards(path: Path, count: int) -> list[Path]:
    end = f"-of-{count:05d}.gguf"
    stem = path.name.removesuffix(end)
    if stem == path.name or len(stem) < 6 or not stem[-5:].isdigit():
        raise ConfigError(f"{path} is one of {count} files; expected a name that ends in -00001{end}")
    return [path.with_name(f"{stem[:-5]}{number:05d}{end}") for number in range(1, count + 1)]


def _read(path: Path, types: dict[int, DType]) -> Header:
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ConfigError(f"{path} is not a regular file; expected a GGUF file")
            return _Cursor(path, file, status.st_size).header(types)
    except (OSError, ValueError) as cause:
        reason = getattr(cause, "strerror", None) or str(cause)
        raise ConfigError(f"{path} could not be read ({reason}); expected a GGUF file") from cause


class _Cursor:
    """Reads a file from its start, never past its end."""

    def __init__(self, path: Path, file: BinaryIO, size: int) -> None:
        self.path, self.file, self.size, self.at = path, file, size, 0

    def fail(self, text: str) -> ConfigError:
        return ConfigError(f"{self.path}: {text}")

    def header(self, types: dict[int, DType]) -> Header:
        """Magic, version, counts, keys, tensors."""
        magic, version = self.take(4), int(self.number("I"))
        if magic != b"GGUF":
            raise self.fail(f"it starts with {show(magic)}; expected a GGUF file")
        if version & 0xFFFF == 0:
            raise self.fail("it is written for big-endian machines; expected a little-endian GGUF file")
        if version not in (2, 3):
            raise self.fail(f"it is GGUF version {version:,}; expected 2 or 3")
        tensors, keys = self.count("tensors", _MAX_TENSORS), self.count("keys", _MAX_KEYS)
        found = Header({}, {}, {})
        for _ in range(keys):
            self.key(found)
        places = [self.tensor(found, types) for _ in range(tensors)]
        self.check(found, places)
        return found

    def take(self, length: int) -> bytes:
        data = self.file.read(length) if self.at + length <= self.size else b""
        if len(data) != length:
            raise self.fail(f"it ends at byte {self.size:,}, inside its header; is it cut short?")
        self.at += length
        return data

    def skip(self, length: int) -> None:
        if self.at + length > self.size:
            raise self.fail(f"it ends at byte {self.size:,}, inside its header; is it cut short?")
        self.at += length
        self.file.seek(self.at)

    def skip_strings(self, count: int) -> None:
        """Pass over `count` strings, a piece of the file at a time."""
        piece, at = b"", 0
        for _ in range(count):
            if len(piece) - at < 8:
                self.skip(at - len(piece))
                piece, at = self.take(max(min(_PIECE, self.size - self.at), 8)), 0
            length = _LENGTH.unpack_from(piece, at)[0]
            at += 8 + length
            if at > len(piece):
                self.skip(at - len(piece))
                piece, at = b"", 0
        self.skip(at - len(piece))

    def number(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self.take(struct.calcsize(f"<{code}")))[0]

    def count(self, what: str, limit: int) -> int:
        value = int(self.number("Q"))
        if value > min(limit, self.size):
            raise self.fail(f"it names {value:,} {what} in {self.size:,} bytes; expected at most {limit:,}")
        return value

    def string(self, limit: int) -> str:
        return self.take(self.count("bytes of text", limit)).decode("utf-8", "replace")

    def key(self, found: Header) -> None:
        name, kind = self.string(_MAX_NAME), int(self.number("I"))
        if name in found.keys or name in found.lengths:
            raise self.fail(f"the key {show(name)} is there twice")
        if kind == _ARRAY:
            self.array(name, found)
        elif kind == _STRING:
            found.keys[name] = self.string(_MAX_STRING)
        elif kind in _SCALARS:
            found.keys[name] = self.number(_SCALARS[kind])
        else:
            raise self.fail(f"the key {show(name)} has the type {kind}; expected 0 to 12")

    def array(self, name: str, found: Header) -> None:
        """A list: numbers are kept if there are few, strings are passed over."""
        kind, length = int(self.number("I")), self.count("values in a list", _MAX_ARRAY)
        found.lengths[name] = length
        if kind == _STRING:
            self.skip_strings(length)
        elif kind in _SCALARS:
            width = struct.calcsize(f"<{_SCALARS[kind]}")
            if length > _KEPT:
                self.skip(width * length)
            else:
                found.keys[name] = list(struct.unpack(f"<{length}{_SCALARS[kind]}", self.take(width * length)))
        else:
            raise self.fail(f"the list {show(name)} has values of type {kind}; expected numbers or text")

    def tensor(self, found: Header, types: dict[int, DType]) -> tuple[int, int, str]:
        """One tensor; returns where its data are: (start, bytes, name)."""
        name, sides = self.string(_MAX_NAME), int(self.number("I"))
        if name in found.tensors or not 1 <= sides <= 8:
            raise self.fail(f"the tensor {show(name)} is there twice or has {sides:,} sides; expected 1 to 8")
        shape = tuple(self.number("Q") for _ in range(sides))
        kind, start = int(self.number("I")), int(self.number("Q"))
        dtype = types.get(kind)
        if dtype is None:
            raise self.fail(f"the tensor {show(name)} has the type {kind}, which the gguf package does not know")
        row = DTYPES[dtype.value]
        if not all(1 <= side <= _MAX_SIDE for side in shape) or shape[0] % row.block_values:
            raise self.fail(
                f"the tensor {show(name)} has the shape {show(shape)}; expected rows of whole {dtype} blocks"
            )
        tensor = Tensor(dtype, shape, 0)
        size = tensor.values // row.block_values * row.block_bytes
        found.tensors[name] = Tensor(dtype, shape, size)
        return start, size, name

    def check(self, found: Header, places: list[tuple[int, int, str]]) -> None:
        """Every tensor lies inside the file, and none inside another."""
        alignment = found.keys.get("general.alignment", 32)
        if (
            not isinstance(alignment, int)
            or isinstance(alignment, bool)
            or not 0 < alignment <= 2**20
            or alignment & (alignment - 1)
        ):
            raise self.fail(f"general.alignment is {show(alignment)}; expected a power of two")
        begin, end = -(-self.at // alignment) * alignment, 0
        for start, size, name in sorted(places):
            if start < end or begin + start + size > self.size:
                raise self.fail(f"the tensor {show(name)} lies outside the file or inside another; is it cut short?")
            end = start + size
