"""The rows of an export of Nsight Systems as nouns: activities of GPUs, their launches, NVTX ranges, GPUs.

Tables and columns, from exports of the schemas 3.24 and 3.25: times in nanoseconds since the session began; names
through `StringIds`; a kernel's `globalPid` is the `globalTid` of its launch without the low 24 bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rooflens.sources.kernel_names import short_name
from rooflens.sources.nsys_file import CUPTI, Export, clean

_THREAD_BITS = 0xFFFFFF
_START_END = (60, 71)
"""Event types of NVTX ranges that one thread starts and another may end (ENUM_NSYS_EVENT_TYPE)."""

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


def activities_of(export: Export) -> list[Activity]:
    """What ran on GPUs, in order of its start."""
    found = [*_kernels(export), *_graphs(export), *_copies(export, "MEMCPY"), *_copies(export, "MEMSET")]
    return sorted(found, key=lambda activity: (activity.start, activity.end))


def _kernels(export: Export) -> Iterator[Activity]:
    optional = ("deviceId", "correlationId", "globalPid", "demangledName", "shortName")
    for start, end, device, correlation, process, name, short in export.rows(CUPTI + "KERNEL", _TIMES, optional):
        if export.sound(start, end):
            whole = export.text(name) or export.text(short) or "kernel without a name"
            brief = short_name(export.text(short) or whole)
            brief = short_name(whole) if brief.lower() in ("kernel", "kernel2", "device_kernel") else brief
            own = (int_of(process), int_of(device), number_of(correlation))
            yield Activity("KERNEL", whole, clean(brief), start, end, *own)


def _graphs(export: Export) -> Iterator[Activity]:
    optional = ("deviceId", "correlationId", "globalPid", "graphId")
    for start, end, device, correlation, process, graph in export.rows(CUPTI + "GRAPH_TRACE", _TIMES, optional):
        if export.sound(start, end):
            name = f"CUDA graph {int_of(graph)}"
            own = (int_of(process), int_of(device), number_of(correlation))
            yield Activity("GRAPH_TRACE", name, name, start, end, *own)


def _copies(export: Export, table: str) -> Iterator[Activity]:
    optional = ("deviceId", "correlationId", "globalPid", "copyKind")
    rows = export.rows(CUPTI + table, (*_TIMES, "bytes"), optional)
    for start, end, moved, device, correlation, process, kind in rows:
        if export.sound(start, end, moved):
            name = "Memset" if table == "MEMSET" else f"Memcpy {COPIES.get(number_of(kind) or 0, 'unknown')}"
            own = (int_of(process), int_of(device), number_of(correlation))
            yield Activity(table, name, name, start, end, *own, moved, number_of(kind))


def launches_of(export: Export, wanted: set[tuple[int, int | None]]) -> dict[tuple[int, int | None], Launch]:
    """The launch of each (process, correlation) that is `wanted`, the earliest where there are several."""
    found: dict[tuple[int, int | None], Launch] = {}
    single = {process for process, _ in wanted} == {0}
    rows = export.rows(CUPTI + "RUNTIME", ("start", "correlationId"), ("globalTid",))
    for start, correlation, thread in rows:
        if not (is_whole(start) and is_whole(correlation)):
            export.unread += 1
            continue
        key = (0 if single else process_of(int_of(thread)), correlation)
        if key in wanted and (key not in found or start < found[key].start):
            found[key] = Launch(start, int_of(thread))
    return found


def ranges_of(export: Export) -> list[Range]:
    """The NVTX ranges that were closed and have a text; marks are none."""
    found = []
    optional = ("text", "textId", "globalTid", "eventType")
    for start, end, text, number, thread, kind in export.rows("NVTX_EVENTS", _TIMES, optional):
        if end is None:
            continue
        label = text if isinstance(text, str) and text else export.text(number)
        if label and export.sound(start, end):
            found.append(Range(label, start, end, int_of(thread), kind not in _START_END))
    return found


def gpus(export: Export) -> dict[tuple[int, int], int]:
    """The GPU of each (process, number of a device in that process), by its number in this recording."""
    rows = export.rows("TARGET_INFO_CUDA_DEVICE", ("gpuId", "cudaId", "pid"))
    return {(pid, cuda): gpu for gpu, cuda, pid in rows if all(map(is_whole, (gpu, cuda, pid)))}


def described(export: Export, gpu: int) -> Gpu | None:
    """What TARGET_INFO_GPU says of the GPU with that number; of all, where they are alike."""
    rows = export.rows("TARGET_INFO_GPU", ("id", "name"), ("smCount", "totalMemory"))
    found = {row[0]: Gpu(clean(row[1]), *map(_positive, row[2:])) for row in rows if isinstance(row[1], str)}
    alike = set(found.values())
    return found.get(gpu, alike.pop() if len(alike) == 1 else None)


def process_of(thread: int) -> int:
    """The `globalPid` of a `globalTid`: without the 24 bits that number the thread."""
    return thread & ~_THREAD_BITS


def pid_of(process: int) -> int:
    """The operating system's number in a `globalPid`."""
    return process >> 24 & _THREAD_BITS


def int_of(value: object) -> int:
    """A whole number, 0 for anything else."""
    return value if isinstance(value, int) else 0


def number_of(value: object) -> int | None:
    """A whole number, None for anything else."""
    return value if isinstance(value, int) else None


def is_whole(value: object) -> bool:
    """Whether it is a whole number."""
    return isinstance(value, int)


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and 0 < value < 2**60 else None
