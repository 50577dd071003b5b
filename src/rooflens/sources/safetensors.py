"""The headers of safetensors files: bytes and dtype of every tensor of a checkpoint. No weight is ever read.

A file is 8 bytes with the length of its header (little-endian), the header in JSON, then the tensors without holes.
Source: the format's description in the safetensors project (README, "Format").
"""

from __future__ import annotations

import os
import stat
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rooflens.core.model import ModelSpec
from rooflens.core.op import DType
from rooflens.count import weight_bytes
from rooflens.errors import ConfigError
from rooflens.sources.fields import show
from rooflens.sources.files import parse_json_object, read_bounded
from rooflens.sources.quantization_names import canonical

INDEX = "model.safetensors.index.json"
MAX_HEADER_BYTES = 64 * 2**20
MAX_SHARDS = 4096
_MAX_INDEX_BYTES = 64 * 2**20
_MAX_SIZE = 2**62
_BITS = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64,
    "C64": 64,
}  # fmt: skip
"""Bits of a value of each dtype."""


_WIDE = {"BF16": DType.BF16, "F16": DType.FP16, "F32": DType.FP32, "F64": DType.FP64}


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor: its name, its dtype as the file spells it, its shape, its bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    size: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The tensors of a folder.

    size: bytes of all of them. tensors, files: how many there are. by_dtype: bytes of each dtype, the largest first.
    whole: False where shards are missing and `size` is what the index says. wide: dtype of each weight of 16 bit or
    more, by the name of its module; narrower ones are stored as the config's quantisation says, scales beside them.
    """

    size: int
    tensors: int
    files: int
    by_dtype: tuple[tuple[str, int], ...]
    whole: bool = True
    wide: Mapping[str, DType] = field(default_factory=dict)


def read_header(path: Path) -> tuple[Tensor, ...]:
    """Return the tensors of the safetensors file at `path`, from its header alone.

    Raises:
        ConfigError: no regular file, a header that is too long or no JSON object, a tensor whose bytes do not fit its
            shape or the file, or bytes that belong to no tensor.
    """
    header, data_size = _header(path)
    tensors = tuple(_tensor(path, name, entry) for name, entry in header.items() if name != "__metadata__")
    end = 0
    for begin, stop in sorted(_offsets(path, name, entry) for name, entry in header.items() if name != "__metadata__"):
        if begin != end:
            raise ConfigError(
                f"{path}: tensors leave out or share byte {min(begin, end):,}; expected them side by side"
            )
        end = stop
    if end != data_size:
        raise ConfigError(f"{path} has {data_size:,} bytes of tensors and its header names {end:,}; is it cut short?")
    return tensors


def _header(path: Path) -> tuple[dict[str, Any], int]:
    """The JSON header, and how many bytes follow it."""
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ConfigError(f"{path} is not a regular file; expected a safetensors file")
            start = file.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
            if not 2 <= length <= min(MAX_HEADER_BYTES, status.st_size - 8):
                raise ConfigError(
                    f"{path} is no safetensors file: a header of {length:,} bytes in a file of {status.st_size:,}; "
                    f"expected 2 to {MAX_HEADER_BYTES:,} that the file holds"
                )
            data = file.read(length)
    except (OSError, ValueError) as cause:
        reason = getattr(cause, "strerror", None) or str(cause)
        raise ConfigError(f"{path} could not be read ({reason}); expected a safetensors file") from cause
    return parse_json_object(data, f"{path}, header", ConfigError), status.st_size - 8 - length


def _tensor(path: Path, name: str, entry: object) -> Tensor:
    begin, end = _offsets(path, name, entry)
    assert isinstance(entry, dict)
    dtype, shape = entry.get("dtype"), entry.get("shape")
    if not isinstance(dtype, str) or dtype not in _BITS:
        raise ConfigError(f"{path}: {show(name)} has the dtype {show(dtype)}; known are {', '.join(_BITS)}")
    if not isinstance(shape, list) or not all(_is_size(side) for side in shape) or len(shape) > 16:
        raise ConfigError(f"{path}: {show(name)} has the shape {show(shape)}; expected a list of whole numbers")
    bits = _BITS[dtype]
    for side in shape:
        bits = min(bits * side, 8 * _MAX_SIZE)
    if bits != 8 * (end - begin):
        raise ConfigError(
            f"{path}: {show(name)}, {dtype} {show(shape)}, has {end - begin:,} bytes; expected {bits // 8:,}"
        )
    return Tensor(name, dtype, tuple(shape), end - begin)


def _offsets(path: Path, name: str, entry: object) -> tuple[int, int]:
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(_is_size(at) for at in offsets):
        raise ConfigError(f"{path}: {show(name)} has no data_offsets; expected two whole numbers")
    if offsets[0] > offsets[1]:
        raise ConfigError(f"{path}: {show(name)} ends at byte {offsets[1]:,}, before its start at {offsets[0]:,}")
    return offsets[0], offsets[1]


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_SIZE


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """Return what the safetensors files in `folder` hold, or None where there are none.

    With an index its shards are read; where some of them are missing, the index's own total counts.

    Raises:
        ConfigError: an index that is no JSON, or names files elsewhere; a header that is none.
    """
    index = folder / INDEX
    total, names = _indexed(index) if index.exists() else (None, _listed(folder))
    if not names:
        return None
    present = [folder / name for name in names if (folder / name).is_file()]
    if len(present) < len(names):
        return Checkpoint(total, 0, len(names), (), whole=False) if total else None
    sizes: Counter[str] = Counter()
    wide: dict[str, DType] = {}
    count = 0
    for path in present:
        for tensor in read_header(path):
            sizes[tensor.dtype] += tensor.size
            if tensor.dtype in _WIDE and tensor.name.endswith(".weight"):
                wide[canonical(tensor.name.removesuffix(".weight"))] = _WIDE[tensor.dtype]
            count += 1
    return Checkpoint(sum(sizes.values()), count, len(present), tuple(sizes.most_common()), wide=wide)


def _listed(folder: Path) -> list[str]:
    """Files of a folder without an index; a consolidated copy counts only where there is nothing else."""
    names = sorted(path.name for path in folder.glob("*.safetensors"))
    plain = [name for name in names if not name.startswith("consolidated")]
    return (plain or names)[:MAX_SHARDS]


def _indexed(index: Path) -> tuple[int | None, list[str]]:
    """Total and shards of an index."""
    values = parse_json_object(read_bounded(index, _MAX_INDEX_BYTES, ConfigError, "an index"), str(index), ConfigError)
    shards = values.get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise ConfigError(f"{index}: weight_map is {show(shards)}; expected the file of each tensor")
    names = sorted({str(name) for name in shards.values()})
    for name in names:
        if name in ("", ".", "..") or any(sign in name for sign in "/\\\0"):
            raise ConfigError(f"{index}: weight_map names {show(name)}; expected files in the same folder")
    if len(names) > MAX_SHARDS:
        raise ConfigError(f"{index}: weight_map names {len(names):,} files; expected at most {MAX_SHARDS:,}")
    return _total(values), names


def _total(values: Mapping[str, Any]) -> int | None:
    metadata = values.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    return int(total) if isinstance(total, (int, float)) and 0 < total <= _MAX_SIZE else None


def with_checkpoint(model: ModelSpec, found: Checkpoint | None) -> ModelSpec:
    """`model` with the exact bytes of its checkpoint, beside those that are counted of it."""
    if found is None:
        return model
    notes = tuple(_notes(found, weight_bytes(model, model.weights_dtype, model.kept_dtype)))
    return replace(model, checkpoint_bytes=found.size, notes=model.notes + notes)


def _notes(found: Checkpoint, counted: int) -> Iterator[str]:
    what = f"{found.tensors:,} tensors in {found.files:,} safetensors file{'s' if found.files > 1 else ''}"
    if not found.whole:
        what = f"the safetensors index ({found.files:,} files, not all of them here)"
    parts = ", ".join(f"{name} {size:,} B" for name, size in found.by_dtype)
    if found.size != counted:
        what += "; tensors that the model does not run, or formats whose scales differ, make the difference"
    yield f"checkpoint: {found.size:,} B by {what}{f' ({parts})' if parts else ''}; counted: {counted:,} B"
