"""Accelerators as tables and as plain values: the list of all, and one part with every source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rooflens.core.hardware import Ceiling, Hardware, KernelShape, MemoryLevel
from rooflens.core.op import DType
from rooflens.roofline import ridge_point
from rooflens.units import binary, si

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

SCHEMA = "rooflens.hardware/1"
LIST_SCHEMA = "rooflens.hardware-list/1"
UNKNOWN = "-"
"""Stands in tables for a figure that is not known."""

_SHAPES = {
    KernelShape.M1_LINEAR: "linear, 1 row",
    KernelShape.SKINNY_LINEAR: "linear, 16 rows",
    KernelShape.DECODE_ATTENTION: "decode attention",
}
_PATTERNS = {"copy_nt": "copy, nt", "triad_nt": "triad, nt"}

_SIXTEEN_BIT = (DType.BF16, DType.FP16)


def hardware_list_document(parts: Iterable[Hardware]) -> dict[str, Any]:
    """The list of `parts` as plain values.

    Peaks are dense, in FLOP/s; memory is in bytes (the driver's figure where known, else the vendor's);
    bandwidth is in byte/s; the ridge point is in FLOP/byte at bf16, at fp16 where bf16 is not known.
    None stands for a figure that is not known.
    """
    return {"schema": LIST_SCHEMA, "parts": [_row(part) for part in parts]}


def hardware_document(hardware: Hardware) -> dict[str, Any]:
    """One part as plain values: each figure {value, unit, source, kind, note, spread}, or None where not known.

    `ridge_points` are in FLOP/byte by dtype, over the device memory. `absent` lists the dtypes that the matrix
    units do not have. `memory.used` says which of its two sizes counts: that of the driver where it is known.
    """
    memory = hardware.memory
    return {
        "schema": SCHEMA,
        "name": hardware.name,
        "title": hardware.title,
        "vendor": hardware.vendor,
        "architecture": hardware.architecture,
        "confidence": hardware.confidence,
        "origin": hardware.origin,
        "aliases": list(hardware.aliases),
        "device_names": list(hardware.device_names),
        "matrix": {str(dtype): _figure(peak, _rate(dtype)) for dtype, peak in hardware.matrix.items()},
        "vector": {str(dtype): _figure(peak, _rate(dtype)) for dtype, peak in hardware.vector.items()},
        "absent": [str(dtype) for dtype in DType if dtype in hardware.absent],
        "ridge_points": {str(dtype): ridge_point(hardware.roof(dtype)) for dtype in hardware.dtypes()},
        "memory": {
            "type": memory.name,
            "bandwidth": _figure(memory.bandwidth, "B/s"),
            "label": _figure(hardware.memory_label, "B"),
            "driver": _figure(hardware.memory_driver, "B"),
            "used": "driver" if hardware.memory_driver else "label" if hardware.memory_label else None,
            "patterns": _patterns(memory),
        },
        "caches": [
            {
                "name": c.name,
                "size": _figure(c.capacity, "B"),
                "bandwidth": _figure(c.bandwidth, "B/s"),
                "patterns": _patterns(c),
            }
            for c in hardware.caches
        ],
        "links": [
            {"name": n.name, "per_direction": _figure(n.per_direction, "B/s"), "total": _figure(n.total, "B/s")}
            for n in hardware.links
        ],
        "multiprocessors": _figure(hardware.multiprocessors, ""),
        "boost": _figure(hardware.boost_hz, "Hz"),
        "power": _figure(hardware.power_w, "W"),
        "conflicts": [
            {"field": c.field, "values": list(c.values), "used": c.used, "why": c.why} for c in hardware.conflicts
        ],
        "notes": list(hardware.notes),
        "kernels": _kernels(hardware),
        "conditions": dict(hardware.conditions),
    }


def hardware_list(parts: Sequence[Hardware]) -> Table:
    """The list of `parts` as a table: dense peaks, memory, bandwidth, ridge point at 16 bit and confidence."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Accelerators (dense peaks)", caption="ridge point in FLOP/byte at bf16, else fp16")
    for heading in ("name", "bf16 peak", "fp8 peak", "memory", "bandwidth", "ridge, FLOP/B", "confidence"):
        table.add_column(heading, justify="left" if heading in ("name", "confidence") else "right", overflow="fold")
    table.columns[0].no_wrap = True
    for row in map(_row, parts):
        ridge = row["ridge_point"]
        table.add_row(
            Text(row["name"]),
            _printed(row["bf16_peak_flops_per_s"], "FLOP/s"),
            _printed(row["fp8_peak_flops_per_s"], "FLOP/s"),
            _printed(row["memory_bytes"], "B"),
            _printed(row["bandwidth_bytes_per_s"], "B/s"),
            UNKNOWN if ridge is None else f"{ridge:.1f}",
            Text(row["confidence"]),
        )
    return table


def hardware_table(hardware: Hardware) -> Group:
    """One part in full: every figure with unit, kind and the number of its source; conflicts, sources and notes."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    lines = figure_lines(hardware)
    sources = list(dict.fromkeys(ceiling.provenance.source for *_, ceiling in lines if ceiling))
    figures = Table("figure", "value", "ridge point", "kind", "source", title=Text(hardware.title))
    figures.columns[0].no_wrap = True
    for name, value, ridge, ceiling in lines:
        kind, source = (ceiling.provenance.kind, _cited(ceiling, sources)) if ceiling else (UNKNOWN, UNKNOWN)
        figures.add_row(Text(name), Text(value), ridge, kind, Text(source))
    conflicts = Table("figure", "values", "used", "why", title="Where sources disagree")
    for conflict in hardware.conflicts:
        row = (conflict.field, "\n".join(conflict.values), conflict.used, conflict.why)
        conflicts.add_row(*map(Text, row))
    tables = [figures, conflicts] if hardware.conflicts else [figures]
    cited = [f"source {number}: {source}" for number, source in enumerate(sources, 1)]
    return Group(*tables, *(Text(line) for line in (*cited, *_remarks(hardware))))


def _row(part: Hardware) -> dict[str, Any]:
    dtype = next((d for d in _SIXTEEN_BIT if part.peak(d)), None)
    size, bandwidth = part.memory_bytes, part.memory.bandwidth
    return {
        "name": part.name,
        "title": part.title,
        "bf16_peak_flops_per_s": _value(part.peak(DType.BF16)),
        "fp8_peak_flops_per_s": _value(part.peak(DType.FP8)),
        "memory_bytes": _value(size),
        "bandwidth_bytes_per_s": _value(bandwidth),
        "ridge_point": ridge_point(part.roof(dtype)) if dtype else None,
        "ridge_point_dtype": str(dtype) if dtype else None,
        "confidence": part.confidence,
    }


def figure_lines(hardware: Hardware) -> list[tuple[str, str, str, Ceiling | None]]:
    """Name, printed value, printed ridge point and ceiling of every figure; a line without one says what is absent."""
    lines: list[tuple[str, str, str, Ceiling | None]] = []
    for units, peaks in (("matrix", hardware.matrix), ("vector", hardware.vector)):
        for dtype, peak in peaks.items():
            over_memory = hardware.peak(dtype) is peak
            ridge = f"{ridge_point(hardware.roof(dtype)):.1f} {_rate(dtype)[:-2]}/byte" if over_memory else ""
            lines.append((f"{dtype} peak, {units} units", si(peak.value, _rate(dtype), 6), ridge, peak))
    if hardware.absent:
        absent = ", ".join(str(dtype) for dtype in DType if dtype in hardware.absent)
        lines.append(("not on the matrix units", absent, "", None))
    sizes: list[tuple[str, Ceiling | None, str]] = [
        ("memory bandwidth", hardware.memory.bandwidth, "B/s"),
        *_pattern_lines("memory", hardware.memory),
        ("memory, vendor's label", hardware.memory_label, "B"),
    ]
    sizes.append(("memory, driver's figure", hardware.memory_driver, "B"))
    for cache in hardware.caches:
        sizes += [(cache.name, cache.capacity, "B"), (f"{cache.name} bandwidth", cache.bandwidth, "B/s")]
        sizes += _pattern_lines(cache.name, cache)
    sizes += [(f"{_SHAPES[shape]}, {dtype}", rate, "B/s") for (shape, dtype), rate in hardware.kernels.items()]
    for link in hardware.links:
        sizes += [
            (f"{link.name}, each direction", link.per_direction, "B/s"),
            (f"{link.name}, total", link.total, "B/s"),
        ]
    sizes += [("multiprocessors", hardware.multiprocessors, ""), ("boost clock", hardware.boost_hz, "Hz")]
    sizes.append(("power", hardware.power_w, "W"))
    lines += [(name, _shown(figure, unit), "", figure) for name, figure, unit in sizes if figure is not None]
    lines += [(n.name, "rate not known", "", None) for n in hardware.links if not (n.per_direction or n.total)]
    return lines


def _pattern_lines(name: str, level: MemoryLevel) -> list[tuple[str, Ceiling | None, str]]:
    """The patterns beside reading, which is the bandwidth, in words."""
    return [(f"{name} {_PATTERNS.get(p, p)}", rate, "B/s") for p, rate in level.patterns.items() if p != "read"]


def _remarks(hardware: Hardware) -> list[str]:
    names = ", ".join(hardware.aliases) or UNKNOWN
    devices = ", ".join(f'"{name}"' for name in hardware.device_names) or UNKNOWN
    head = [f"architecture: {hardware.architecture or UNKNOWN}", f"confidence: {hardware.confidence or UNKNOWN}"]
    return [
        *head,
        f"memory: {hardware.memory.name}",
        f"also named: {names}",
        f"reported as: {devices}",
        *(f"{name}: {value}" for name, value in hardware.conditions),
        *hardware.notes,
    ]


def _cited(ceiling: Ceiling, sources: Sequence[str]) -> str:
    """The number of the figure's source among `sources`, from 1, and the note on it."""
    origin = ceiling.provenance
    return f"{sources.index(origin.source) + 1}{f' ({origin.note})' if origin.note else ''}"


def _shown(figure: Ceiling, unit: str) -> str:
    """The figure with its unit; bytes with both prefixes, since labels in GB and drivers' GiB are confused."""
    printed = si(figure.value, unit, 6) if unit else f"{figure.value:,g}"
    return f"{si(figure.value, unit)} ({binary(figure.value)})" if unit == "B" else printed


def _figure(ceiling: Ceiling | None, unit: str) -> dict[str, Any] | None:
    if ceiling is None:
        return None
    origin = ceiling.provenance
    return {
        "value": ceiling.value,
        "unit": unit,
        "source": origin.source,
        "kind": origin.kind,
        "note": origin.note,
        "spread": ceiling.spread,
    }


def _patterns(level: MemoryLevel) -> dict[str, Any]:
    return {name: _figure(rate, "B/s") for name, rate in level.patterns.items()}


def _kernels(hardware: Hardware) -> dict[str, dict[str, Any]]:
    """Rates of kernels by shape, then by dtype."""
    shapes = dict.fromkeys(str(shape) for shape, _ in hardware.kernels)
    return {
        name: {str(d): _figure(rate, "B/s") for (shape, d), rate in hardware.kernels.items() if str(shape) == name}
        for name in shapes
    }


def _rate(dtype: DType) -> str:
    return "OP/s" if dtype in (DType.INT8, DType.INT4) else "FLOP/s"


def _value(ceiling: Ceiling | None) -> float | None:
    return ceiling.value if ceiling else None


def _printed(value: float | None, unit: str) -> str:
    return UNKNOWN if value is None else si(value, unit)
