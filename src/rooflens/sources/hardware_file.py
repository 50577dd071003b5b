"""An accelerator file (TOML) -> Hardware, every figure with its source.

A figure is text with its unit, or a table {value, source, kind, note}. It takes the source and the kind of
its table where it has none of its own, and a table takes those of the file. docs/accelerators.md shows both.
"""

from __future__ import annotations

import os

from rooflens.core.hardware import Ceiling, Conflict, Hardware, KernelShape, Link, MemoryLevel
from rooflens.core.op import DType
from rooflens.errors import HardwareError
from rooflens.sources.toml_table import ORIGIN, Scale, Table, read_toml, shown

ARITHMETIC = tuple(dtype for dtype in DType if dtype.arithmetic is dtype)
"""The dtypes that have a peak: mxfp4 and nvfp4 multiply as fp4."""

_PEAK = Scale("FLOP/s", 1e9, 1e19, "100 TFLOP/s")
_BANDWIDTH = Scale("B/s", 1e8, 1e15, "2 TB/s")
_KERNEL = Scale("B/s", 1e5, 1e15, "20 GB/s")
_SIZE = Scale("B", 1e6, 1e16, "80 GB")
_CACHE = Scale("B", 1e3, 1e13, "50 MiB")
_MULTIPROCESSORS = Scale(None, 1, 1e6, "132")
_BOOST_MHZ = Scale(None, 1, 1e5, "1830")
_POWER_W = Scale(None, 0.1, 1e5, "700")

_TEXTS = ("name", "title", "vendor", "architecture", "confidence", "aliases", "device_names", "notes")
_TABLES = (
    *("unclear_device_names", "matrix", "vector", "memory", "chip", "caches", "links", "conflicts"),
    *("kernels", "conditions"),
)
_PEAKS = tuple(str(dtype) for dtype in ARITHMETIC)

PATTERNS = ("read", "copy", "triad", "copy_nt", "triad_nt")
"""The ways in which a level of memory is measured."""


def read_hardware(path: str | os.PathLike[str]) -> Hardware:
    """Read the accelerator file at `path`.

    Sizes come back in bytes, rates in byte/s, peaks in FLOP/s (OP/s for integers), all dense.
    A figure without a source has the kind "user" and the file as its source.

    Raises:
        HardwareError: the file cannot be read, is no TOML, lacks its name or its memory bandwidth, has a key
            that is not known, or holds a figure of the wrong type, unit or size.
    """
    where = os.fspath(path)
    root = Table(where, "", {"file": read_toml(where)}, where, "user")
    file = root.child("file", (*_TEXTS, *_TABLES, *ORIGIN))
    file = Table(where, "", file.data, file.source, file.kind)
    chip = file.child("chip", ("multiprocessors", "boost_mhz", "power_w", *ORIGIN))
    memory, label, driver = _memory(file)
    name, boost = file.text("name"), chip.figure("boost_mhz", _BOOST_MHZ)
    _check_unclear(file)
    return Hardware(
        name=name,
        title=file.text("title", name),
        vendor=file.text("vendor", ""),
        architecture=file.text("architecture", ""),
        memory=memory,
        matrix=_peaks(file.child("matrix", (*_PEAKS, "absent", *ORIGIN))),
        vector=_peaks(file.child("vector", (*_PEAKS, *ORIGIN))),
        absent=_absent(file.child("matrix", (*_PEAKS, "absent", *ORIGIN))),
        memory_label=label,
        memory_driver=driver,
        caches=tuple(
            _cache(table) for table in file.children("caches", ("name", "size", "bandwidth", "patterns", *ORIGIN))
        ),
        links=tuple(_link(table) for table in file.children("links", ("name", "per_direction", "total", *ORIGIN))),
        power_w=chip.figure("power_w", _POWER_W),
        multiprocessors=chip.figure("multiprocessors", _MULTIPROCESSORS),
        boost_hz=boost and Ceiling(boost.value * 1e6, boost.provenance),
        aliases=file.texts("aliases"),
        device_names=file.texts("device_names"),
        conflicts=tuple(_conflict(table) for table in file.children("conflicts", ("field", "values", "used", "why"))),
        notes=file.texts("notes"),
        confidence=file.text("confidence", ""),
        origin=file.kind,
        kernels=_kernels(file.child("kernels", (*map(str, KernelShape), *ORIGIN))),
        conditions=file.free("conditions").lines(),
    )


def _memory(file: Table) -> tuple[MemoryLevel, Ceiling | None, Ceiling | None]:
    """The device memory, the vendor's size of it and the driver's, which is the one that counts where known."""
    table = file.child("memory", ("type", "bandwidth", "size", "driver_size", "patterns", *ORIGIN))
    bandwidth = table.figure("bandwidth", _BANDWIDTH)
    if bandwidth is None:
        raise table.error("bandwidth", f'is missing; write it under [memory], such as "{_BANDWIDTH.example}"')
    label, driver = table.figure("size", _SIZE), table.figure("driver_size", _SIZE)
    level = MemoryLevel(table.text("type", "memory"), bandwidth, driver or label, _patterns(table))
    return level, label, driver


def _patterns(level: Table) -> dict[str, Ceiling]:
    """Measured rates of a level of memory by pattern, in byte/s; empty where none is in the file."""
    table = level.child("patterns", (*PATTERNS, *ORIGIN))
    figures = {name: table.figure(name, _BANDWIDTH) for name in PATTERNS}
    return {name: figure for name, figure in figures.items() if figure is not None}


def _kernels(kernels: Table) -> dict[tuple[KernelShape, DType], Ceiling]:
    """Measured rates of kernels by shape and dtype, in byte/s."""
    tables = {shape: kernels.child(str(shape), (*_PEAKS, *ORIGIN)) for shape in KernelShape}
    rows = {(s, dtype): table.figure(str(dtype), _KERNEL) for s, table in tables.items() for dtype in ARITHMETIC}
    return {key: figure for key, figure in rows.items() if figure is not None}


def _peaks(table: Table) -> dict[DType, Ceiling]:
    figures = {dtype: table.figure(str(dtype), _PEAK) for dtype in ARITHMETIC}
    return {dtype: figure for dtype, figure in figures.items() if figure is not None}


def _absent(matrix: Table) -> frozenset[DType]:
    names = matrix.texts("absent")
    for name in names:
        if name not in _PEAKS:
            raise matrix.error("absent", f"names {shown(name)}; known are {', '.join(_PEAKS)}")
        if name in matrix.data:
            raise matrix.error("absent", f"names {name}, which has a peak as well; keep one of the two")
    return frozenset(DType(name) for name in names)


def _cache(table: Table) -> MemoryLevel:
    bandwidth, size = table.figure("bandwidth", _BANDWIDTH), table.figure("size", _CACHE)
    return MemoryLevel(table.text("name"), bandwidth, size, _patterns(table))


def _link(table: Table) -> Link:
    per_direction, total = table.figure("per_direction", _BANDWIDTH), table.figure("total", _BANDWIDTH)
    return Link(table.text("name"), per_direction, total)


def _conflict(table: Table) -> Conflict:
    return Conflict(table.text("field"), table.texts("values"), table.text("used"), table.text("why"))


def _check_unclear(file: Table) -> None:
    """Check `unclear_device_names` (driver name -> why it does not tell the part), which naming alone reads."""
    value = file.data.get("unclear_device_names", {})
    if not isinstance(value, dict) or not all(isinstance(reason, str) for reason in value.values()):
        raise HardwareError(
            f"{file.path}: unclear_device_names is {shown(value)}; a table of reasons by driver name is expected"
        )
