"""rocprof -> a Recording of what ran, the counters of each dispatch, and the roofs that rocprof-compute measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from rooflens.core.counters import KernelCounters
from rooflens.core.hardware import Ceiling, Hardware, MemoryLevel
from rooflens.core.op import DType, Op, PointwiseShape, Provenance, Traffic
from rooflens.core.recording import Format, RecordedPhase, Recording
from rooflens.core.scenario import PhaseKind
from rooflens.core.timed import TimedOp, TimedPhase
from rooflens.errors import HardwareError, InputError
from rooflens.sources.csv_file import read_lines, rows_of
from rooflens.sources.kernel_names import kernel_class, short_name
from rooflens.sources.packed import LONGEST
from rooflens.sources.rocprof_counters import bytes_of, dtype_of, flops_of, missing
from rooflens.sources.rocprof_file import Dispatch, Dispatches, read_dispatches

PHASE = "all"
"""Name of the one phase: a file of dispatches does not tell prefill from decode."""

_ROOFS = "the roofline.csv of rocprof-compute"
_MATRIX = {
    "MFMABF16Flops": DType.BF16,
    "MFMAF16Flops": DType.FP16,
    "MFMAF32Flops": DType.FP32,
    "MFMAF64Flops": DType.FP64,
    "MFMAF8Flops": DType.FP8,
    "MFMAF4Flops": DType.FP4,
    "MFMAI8Ops": DType.INT8,
}
_VECTOR = {"FP16Flops": DType.FP16, "FP32Flops": DType.FP32, "FP64Flops": DType.FP64}
_CACHES = ("L2", "L1", "LDS")
_SPELT = {"HBMBwHigh": "hbmBwHigh", "MFMAI8OpsLow": "MFMAFI8OpsLow"}
"""Columns as rocprof-compute spells them in its own headers."""

_GIGA = 1e9
"""rocprof-compute writes GB/s and GFLOP/s."""


def read_rocprof(path: Path, limit: int = LONGEST) -> Recording:
    """Return what ran in the file at `path` as one phase: wall time from the first start to the last end.

    limit: bytes that the file may have, unpacked.
    Kernels of one name are one op; no formula knows their bytes.

    Raises:
        InputError: no table or JSON of rocprof, cut short, or without a dispatch that can be read.
    """
    found = read_dispatches(path, limit)
    held = found.held
    wall = max(d.end for d in held) - min(d.start for d in held)
    groups: dict[str, list[Dispatch]] = {}
    for dispatch in held:
        groups.setdefault(dispatch.name, []).append(dispatch)
    ops = sorted((_timed(name, group) for name, group in groups.items()), key=lambda timed: -timed.seconds)
    phase = TimedPhase(PHASE, 1, wall / _GIGA, tuple(ops), 0.0, _busy(held) / _GIGA, gpu=True)
    return Recording(
        Format.ROCPROF, (path.name,), (RecordedPhase(PhaseKind.STEP, phase),), device=found.device, notes=_notes(found)
    )


def read_rocprof_counters(path: Path) -> tuple[KernelCounters, ...]:
    """Return the counters of every dispatch in the CSV file at `path`, in its order.

    Bytes of "dram" are what leaves the L2 towards memory: on parts with an Infinity Cache some of it ends there.

    Raises:
        InputError: no table of rocprof, or one without counters that a roofline needs.
    """
    found = read_dispatches(path)
    counters = tuple(_counters(dispatch, found) for dispatch in found.held)
    if not any(c.flops_by_pipe or c.bytes_by_level for c in counters):
        raise InputError(f"{path} has no counters of a roofline; expected TCC_EA_RDREQ_sum and the others of ROCm")
    return counters


def read_rocprof_roofline(path: Path, *, device: int = 0) -> Hardware:
    """Return the roofs that rocprof-compute measured for `device`: peaks in FLOP/s, bandwidths in byte/s.

    spread of each: its High less its Low over it.

    Raises:
        HardwareError: no roofline.csv, no row of `device`, or no bandwidth of its memory.
    """
    try:
        rows = list(rows_of(read_lines(path, _ROOFS), path, _ROOFS))
    except InputError as cause:
        raise HardwareError(str(cause)) from cause
    header = [cell.strip() for cell in rows[0]] if rows else []
    if "device" not in header or "HBMBw" not in header:
        raise HardwareError(f"{path} has no columns device and HBMBw; expected {_ROOFS}")
    found = [dict(zip(header, row, strict=True)) for row in rows[1:] if len(row) == len(header)]
    devices = [row["device"].strip() for row in found]
    if str(device) not in devices:
        has = f"it has {', '.join(devices[:16])}" if devices else "it has none"
        raise HardwareError(f"{path} has no row of device {device}: {has}; expected {_ROOFS}")
    return _hardware(path, found[devices.index(str(device))], device)


def _hardware(path: Path, row: dict[str, str], device: int) -> Hardware:
    def ceiling(column: str) -> Ceiling | None:
        return _ceiling(row, column, path)

    bandwidth = ceiling("HBMBw")
    if bandwidth is None:
        raise HardwareError(f"{path} has no bandwidth of the memory of device {device}; expected {_ROOFS}")
    return Hardware(
        name=f"{path.stem}-device-{device}",
        title=f"device {device} as rocprof-compute measured it",
        vendor="AMD",
        architecture="",
        memory=MemoryLevel("HBM", bandwidth),
        matrix={dtype: c for name, dtype in _MATRIX.items() if (c := ceiling(name)) is not None},
        vector={dtype: c for name, dtype in _VECTOR.items() if (c := ceiling(name)) is not None},
        caches=tuple(MemoryLevel(name, c) for name in _CACHES if (c := ceiling(f"{name}Bw")) is not None),
        origin="measured",
    )


def _ceiling(row: dict[str, str], column: str, path: Path) -> Ceiling | None:
    value = _figure(row.get(column))
    if value is None:
        return None
    low, high = (_figure(row.get(name, row.get(_SPELT.get(name, "")))) for name in (f"{column}Low", f"{column}High"))
    spread = None if low is None or high is None or high < low else (high - low) / value
    return Ceiling(value * _GIGA, Provenance("measured", f"rocprof-compute, {path.name}", column), spread)


def _figure(text: str | None) -> float | None:
    """A positive figure; None for a benchmark that did not run (0) or for no number."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 < value < 1e9 else None


def _timed(name: str, group: Sequence[Dispatch]) -> TimedOp:
    seconds = sum(dispatch.end - dispatch.start for dispatch in group) / _GIGA
    nothing = PointwiseShape(0, 0, 0)
    op = Op(short_name(name), kernel_class(name), DType.FP32, 0, 0, Traffic(), nothing, len(group))
    return TimedOp(op, seconds, known=False)


def _busy(held: Sequence[Dispatch]) -> int:
    """Nanoseconds in which at least one dispatch ran."""
    covered = reached = 0
    for dispatch in sorted(held, key=lambda d: d.start):
        covered += max(0, dispatch.end - max(dispatch.start, reached))
        reached = max(reached, dispatch.end)
    return covered


def _counters(dispatch: Dispatch, found: Dispatches) -> KernelCounters:
    flops, levels = flops_of(dispatch.counts), bytes_of(dispatch.counts)
    return KernelCounters(
        name=dispatch.name,
        id=dispatch.id,
        seconds=(dispatch.end - dispatch.start) / _GIGA or None,
        flops_by_pipe=flops,
        bytes_by_level=levels,
        dtype=dtype_of(dispatch.counts, flops),
        device=found.device,
        missing=missing(flops, levels),
        notes=_notes(found),
    )


def _notes(found: Dispatches) -> tuple[str, ...]:
    return (f"{found.skipped:,} rows could not be read",) if found.skipped else ()
