"""The metrics of one launch, by the vendor's names and in base units -> KernelCounters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from rooflens.core.counters import KernelCounters
from rooflens.core.ncu_metrics import (
    CACHES,
    CYCLES_PER_SECOND,
    DRAM,
    DRAM_READ,
    DRAM_WRITE,
    DURATION,
    PACKED_OPS,
    TENSOR_INSTRUCTIONS,
    TENSOR_OPS,
    VECTOR_OPS,
    instructions,
)
from rooflens.core.op import DType

REPLAY = (
    "ncu runs a kernel again for each group of counters and by default holds clocks and flushes caches: "
    "its times are not those of another profiler"
)

DRAM_RATE = "dram__bytes.sum.per_second"
DRAM_WIDTH = "dram__bytes.sum.peak_sustained"
DRAM_CLOCK = "dram__cycles_elapsed.avg.per_second"
DRAM_SHARE = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
DEVICE = "device__attribute_display_name"

_READ = re.compile(
    r"gpu__time_duration\.sum|lts__t_bytes\.sum|l1tex__t_bytes\.sum"
    r"|dram__bytes(_op)?(_read|_write)?\.sum|dram__bytes\.sum\.(per_second|peak_sustained)"
    r"|dram__cycles_elapsed\.avg\.per_second|dram__throughput\.avg\.pct_of_peak_sustained_elapsed"
    r"|(sm|smsp)__cycles_elapsed\.avg\.per_second|(sm|smsp)__inst_executed_pipe_tensor\w*\.sum"
    r"|((sm|smsp)__sass_thread_inst_executed_op_\w+_pred_on|sm__ops_path_tensor_src_\w+)\.sum(\.per_cycle_elapsed)?"
    r"|derived__smsp__sass_thread_inst_executed_op_\w+_pred_on_x[24]"
)
_DERIVED = re.compile(r"derived__(smsp__sass_thread_inst_executed_op_\w+_pred_on)_x([24])")
_PER_CYCLE = ".per_cycle_elapsed"
_SOURCES = {
    "bf16": DType.BF16,
    "fp16": DType.FP16,
    "tf32": DType.TF32,
    "fp64": DType.FP64,
    "fp8": DType.FP8,
    "fp4": DType.FP4,
    "int8": DType.INT8,
    "int4": DType.INT4,
}
_PATH = re.compile(r"sm__ops_path_tensor_src_([a-z0-9]+)(_dst_\w+)?(_sparsity_(on|off))?\.sum")
_VECTOR = {"ffma": DType.FP32, "hfma": DType.FP16, "dfma": DType.FP64}


@dataclass(slots=True)
class Launch:
    """One launch as a report names it, and its metrics; None stands for n/a."""

    name: str
    id: int
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    device: str = ""
    capability: str = ""
    values: dict[str, float | None] = field(default_factory=dict)

    def add(self, metric: str, value: float | None) -> None:
        """Take `value`, unless there is one: n/a in one section does not undo a count in another."""
        derived = _DERIVED.fullmatch(metric)
        if derived:
            metric = f"{derived[1]}.sum{_PER_CYCLE}"
            value = None if value is None else value / int(derived[2])
        if self.values.get(metric) is None:
            self.values[metric] = value


@dataclass(slots=True)
class _Found:
    """What is being gathered of one launch."""

    launch: Launch
    seconds: float | None
    missing: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def value(self, *names: str) -> float | None:
        """The first of `names` that has a value."""
        return next((v for v in map(self.launch.values.get, names) if v is not None), None)


def is_read(metric: str) -> bool:
    """Whether `metric` is one that counters are made of."""
    return _READ.fullmatch(metric) is not None


def counters_of(
    launch: Launch, *, notes: tuple[str, ...] = (), controls: Mapping[str, str] | None = None
) -> KernelCounters:
    """The counters of `launch`: FLOP by pipe, bytes by level, and by name what of them is missing.

    A rate of a section stands in for a count that the report lacks, times the duration; a note then says so.
    controls: "clock" and "cache", where the report names them.
    """
    seconds = launch.values.get(DURATION) or None
    found = _Found(launch, seconds, [] if seconds else [DURATION])
    flops = _vector(found)
    tensor, dtype = _tensor(found)
    if tensor is not None:
        flops = {"tensor": tensor, **flops}
    levels = _levels(found)
    held = controls or {}
    return KernelCounters(
        name=launch.name,
        id=launch.id,
        seconds=seconds,
        flops_by_pipe=flops,
        bytes_by_level=levels,
        peaks=_peaks(found),
        dtype=_dtype(flops, dtype),
        grid=launch.grid,
        block=launch.block,
        device=launch.device or (f"CC {launch.capability}" if launch.capability else ""),
        clock_control=held.get("clock", ""),
        cache_control=held.get("cache", ""),
        missing=tuple(found.missing),
        notes=(REPLAY, *notes, *found.notes),
    )


def _vector(found: _Found) -> dict[str, float]:
    """FLOP of each pipe of the vector units of which every instruction was counted."""
    flops: dict[str, float] = {}
    rated = False
    for pipe, ops in VECTOR_OPS.items():
        counts = [(op, factor, *_instructions(found, op)) for op, factor in ops]
        absent = [instructions(op) for op, _, count, _ in counts if count is None]
        if absent:
            found.missing += absent
            continue
        packed = ((factor, _instructions(found, op)[0] or 0) for op, factor in PACKED_OPS.get(pipe, ()))
        flops[pipe] = sum(f * (c or 0) for _, f, c, _ in counts) + sum(factor * count for factor, count in packed)
        rated = rated or any(of_rate and count for *_, count, of_rate in counts)
    if rated:
        found.notes.append(
            "FLOP of the vector units are derived: instructions per cycle times cycles per second and time"
        )
    return flops


def _instructions(found: _Found, op: str) -> tuple[float | None, bool]:
    """Thread instructions of `op`, and whether they were derived from a rate."""
    name = instructions(op)
    count = found.value(name, f"sm{name.removeprefix('smsp')}")
    return (count, False) if count is not None else (_rated(found, name), True)


def _rated(found: _Found, name: str) -> float | None:
    per_cycle, cycles = found.value(name + _PER_CYCLE), found.value(*CYCLES_PER_SECOND)
    if per_cycle == 0:
        return 0
    if per_cycle is None or cycles is None or found.seconds is None:
        return None
    return per_cycle * cycles * found.seconds


def _tensor(found: _Found) -> tuple[float | None, DType | None]:
    """Operations of the matrix units, and the dtype of most of them; None where they were not counted."""
    names = {name.removesuffix(_PER_CYCLE) for name in found.launch.values if name.startswith(TENSOR_OPS)}
    counts: dict[str, float] = {}
    for name in sorted(names):
        value = found.value(name)
        value = _rated(found, name) if value is None else value
        if value is not None:
            counts[name] = value
    # "src_fp16" is the sum of "src_fp16_dst_fp16" and "src_fp16_dst_fp32", and each of what its sparsity was
    roots = {n: c for n, c in counts.items() if not any(_holds(other, n) for other in counts)}
    if roots:
        lead = max(roots, key=lambda name: roots[name])
        path = _PATH.fullmatch(lead)
        return sum(roots.values()), _SOURCES.get(path[1]) if path and roots[lead] else None
    instructed = [v for n, v in found.launch.values.items() if n.startswith(TENSOR_INSTRUCTIONS) and v is not None]
    if (instructed and not any(instructed)) or _before_tensor(found.launch.capability):
        return 0, None
    if instructed:
        found.notes.append(
            "the report counts instructions of the matrix units, whose FLOP differ by shape, dtype and part: "
            f"collect {TENSOR_OPS}*.sum, which count operations"
        )
    found.missing.append(f"{TENSOR_OPS}*.sum")
    return None, None


def _holds(whole: str, part: str) -> bool:
    return whole != part and part.startswith(whole.removesuffix(".sum") + "_")


def _before_tensor(capability: str) -> bool:
    """Whether the part has no matrix units: those came with CC 7.0."""
    major = capability.partition(".")[0]
    return major.isdigit() and 0 < int(major) < 7


def _levels(found: _Found) -> dict[str, float]:
    """Bytes at each level that was counted."""
    levels: dict[str, float] = {}
    dram = _dram(found)
    if dram is None:
        found.missing += [name for name in (DRAM_READ[0], DRAM_WRITE[0]) if found.value(name) is None]
    else:
        levels["dram"] = dram
    for level, name in CACHES.items():
        value = found.value(name)
        if value is None:
            found.missing.append(name)
        else:
            levels[level] = value
    return levels


def _dram(found: _Found) -> float | None:
    read, written = found.value(*DRAM_READ), found.value(*DRAM_WRITE)
    if read is not None and written is not None:
        return read + written
    whole, rate = found.value(DRAM), found.value(DRAM_RATE)
    if whole is not None:
        return whole
    share, peak = found.value(DRAM_SHARE), _peaks(found).get("dram")
    if rate is None and share is not None and peak is not None:
        rate = share / 100 * peak
    if rate is None or found.seconds is None:
        return None
    found.notes.append("bytes of device memory are derived: throughput times time")
    return rate * found.seconds


def _peaks(found: _Found) -> dict[str, float]:
    """Byte/s that device memory has at most: bytes per cycle times the clock that it ran at."""
    width, clock = found.value(DRAM_WIDTH), found.value(DRAM_CLOCK)
    return {"dram": width * clock} if width and clock else {}


def _dtype(flops: Mapping[str, float], tensor: DType | None) -> DType | None:
    """The arithmetic of most FLOP; None where nothing was counted, or the matrix units were not."""
    if "tensor" not in flops or not any(flops.values()):
        return None
    lead = max(flops, key=lambda pipe: flops[pipe])
    return tensor if lead == "tensor" else _VECTOR[lead]
