"""A Kineto Chrome trace as events: plain or gzipped JSON, read with typed fields, nothing run.

Fields, from the traces of PyTorch's profiler: `ts` and `dur` in microseconds; `args` of a cpu_op hold its shapes
("Input Dims", "Input type", "Input Strides", "Concrete Inputs"), those of a kernel its `correlation`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from rooflens.core.call import Argument, Call, Tensor
from rooflens.core.op import DType
from rooflens.errors import InputError
from rooflens.sources.packed import LONGEST, unpacked

_WHAT = "a trace as .json or .json.gz"
_DTYPES = {
    "float": DType.FP32,
    "double": DType.FP64,
    "c10::BFloat16": DType.BF16,
    "c10::Half": DType.FP16,
    "c10::Float8_e4m3fn": DType.FP8,
    "c10::Float8_e5m2": DType.FP8,
    "c10::Float8_e4m3fnuz": DType.FP8,
    "c10::Float8_e5m2fnuz": DType.FP8,
    "c10::Float8_e8m0fnu": DType.FP8,
    "long int": DType("int64"),
    "long": DType("int64"),
    "int": DType("int32"),
    "short int": DType("int16"),
    "signed char": DType.INT8,
    "unsigned char": DType.INT8,
    "bool": DType.INT8,
}
"""How Kineto prints the type of a tensor's values; a bool takes a byte."""


_NULL = msgspec.Raw(b"null")


class Args(msgspec.Struct, frozen=True):
    """The arguments of an event that are read; shapes stay undecoded until an op is counted."""

    external_id: int | None = msgspec.field(default=None, name="External id")
    correlation: int | None = None
    dims: msgspec.Raw = msgspec.field(default=_NULL, name="Input Dims")
    types: msgspec.Raw = msgspec.field(default=_NULL, name="Input type")
    strides: msgspec.Raw = msgspec.field(default=_NULL, name="Input Strides")
    concrete: msgspec.Raw = msgspec.field(default=_NULL, name="Concrete Inputs")


class Event(msgspec.Struct, frozen=True):
    """An event of a trace: `start` and `duration` in microseconds."""

    name: str = ""
    phase: str = msgspec.field(default="", name="ph")
    category: str | None = msgspec.field(default=None, name="cat")
    process: Any = msgspec.field(default=None, name="pid")
    thread: Any = msgspec.field(default=None, name="tid")
    start: float = msgspec.field(default=0.0, name="ts")
    duration: float = msgspec.field(default=0.0, name="dur")
    args: Args | None = None

    @property
    def end(self) -> float:
        """Microseconds at which it ends."""
        return self.start + self.duration


class Device(msgspec.Struct, frozen=True):
    """The GPU of a trace, as its driver calls it; a trace has neither its bandwidth nor its clock."""

    name: str = ""
    multiprocessors: int | None = msgspec.field(default=None, name="numSms")
    memory_bytes: int | None = msgspec.field(default=None, name="totalGlobalMem")


class _File(msgspec.Struct, frozen=True):
    events: list[Event] = msgspec.field(name="traceEvents")
    devices: list[Device] = msgspec.field(default_factory=list, name="deviceProperties")


@dataclass(frozen=True, slots=True)
class Trace:
    """The complete events of a trace in the order of the file, its devices, and how many events were of no use.

    Nothing else is kept: host, environment and metadata of the file are never decoded.
    """

    events: list[Event]
    devices: list[Device]
    dropped: int


def read_events(path: Path) -> list[Event]:
    """Return the complete events of the trace at `path`, in the order of the file.

    Raises:
        InputError: as `read_trace` does.
    """
    return read_trace(path).events


def read_trace(path: Path, limit: int = LONGEST) -> Trace:
    """Return what is used of the trace at `path`.

    Raises:
        InputError: it cannot be read, is no JSON, is cut short, has no traceEvents, or more than `limit` bytes.
    """
    data = unpacked(path, _WHAT, limit)
    try:
        file = msgspec.json.decode(data, type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
        raise InputError(
            f"{path} is no trace of PyTorch's profiler ({cause}); expected JSON with traceEvents"
        ) from cause
    complete = [event for event in file.events if event.phase == "X"]
    events = [event for event in complete if event.duration >= 0]
    return Trace(events, file.devices, len(complete) - len(events))


def call_of(event: Event, listed: DType) -> Call | None:
    """The call that a cpu_op records, or None where the trace has no shapes (`record_shapes` off).

    None as well where a tensor's values are of a type that is not known here: its bytes would be missing.
    listed: dtype of the tensors of a list, which a trace does not tell.
    """
    args = event.args
    if args is None:
        return None
    dims, types = _decoded(args.dims), _decoded(args.types)
    strides, texts = _decoded(args.strides), _decoded(args.concrete)
    if not isinstance(dims, list) or not isinstance(types, list) or len(dims) != len(types):
        return None
    steps = strides if isinstance(strides, list) and len(strides) == len(dims) else [[]] * len(dims)
    if any(
        _sizes(d) and d and not (isinstance(kind, str) and kind in _DTYPES) for d, kind in zip(dims, types, strict=True)
    ):
        return None
    arguments = tuple(_argument(*row, listed) for row in zip(dims, types, steps, strict=True))
    return Call(plain_name(event.name), arguments, tuple(map(str, texts)) if isinstance(texts, list) else ())


def plain_name(name: str) -> str:
    """The name of an op without its namespace: "mm" for aten::mm."""
    return name.rpartition("::")[2]


def _decoded(raw: msgspec.Raw) -> Any:
    """What `raw` holds; None where it is no JSON after all, since what is not read is not checked."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _argument(dims: Any, kind: Any, strides: Any, listed: DType) -> Argument:
    """A tensor by its dims and type, a list of tensors by their dims alone, None for anything else."""
    if isinstance(dims, list) and dims and all(isinstance(entry, list) for entry in dims):
        steps = strides if isinstance(strides, list) and len(strides) == len(dims) else [()] * len(dims)
        rows = ((d, s if _sizes(s) else ()) for d, s in zip(dims, steps, strict=True) if _sizes(d))
        return tuple(Tensor(tuple(d), listed, tuple(s)) for d, s in rows)
    dtype = _DTYPES.get(kind) if isinstance(kind, str) else None
    if dtype is None or not _sizes(dims):
        return None
    return Tensor(tuple(dims), dtype, tuple(strides) if _sizes(strides) else ())


def _sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(entry) is int and entry >= 0 for entry in value)
