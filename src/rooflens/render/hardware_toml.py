"""Hardware as the TOML file that would be read as it: every figure exact, with its source."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rooflens.core.hardware import Ceiling, Hardware, MemoryLevel
from rooflens.core.op import DType
from rooflens.units import PREFIXES, parse

_INTEGERS = (DType.INT8, DType.INT4)


def hardware_toml(hardware: Hardware) -> str:
    """The accelerator file that `read_hardware` reads as `hardware`, figures to the last bit.

    A figure that names no kind or source of its own has those of the file, as docs/accelerators.md describes it.

    Raises:
        ValueError: a text that such a file cannot hold (several lines, control characters).
    """
    return "\n".join(_lines(hardware)) + "\n"


def _lines(hardware: Hardware) -> Iterator[str]:
    yield from _texts({key: getattr(hardware, key) for key in ("name", "title", "vendor", "architecture")})
    yield from _texts({"confidence": hardware.confidence, "kind": hardware.origin})
    for key in ("aliases", "device_names", "notes"):
        if getattr(hardware, key):
            yield f"{key} = {_list(getattr(hardware, key))}"
    absent = [str(dtype) for dtype in DType if dtype in hardware.absent]
    yield from _table("matrix", _peaks(hardware.matrix), {"absent": _list(absent)} if absent else {})
    yield from _table("vector", _peaks(hardware.vector))
    yield from _memory(hardware)
    yield from _chip(hardware)
    for cache in hardware.caches:
        yield from ("", "[[caches]]", f"name = {_text(cache.name)}")
        yield from _figures({"size": (cache.capacity, "B"), "bandwidth": (cache.bandwidth, "B/s")})
        yield from _table("caches.patterns", _rates(cache.patterns))
    for link in hardware.links:
        yield from ("", "[[links]]", f"name = {_text(link.name)}")
        yield from _figures({"per_direction": (link.per_direction, "B/s"), "total": (link.total, "B/s")})
    for shape in dict.fromkeys(shape for shape, _ in hardware.kernels):
        rates = {str(dtype): rate for (own, dtype), rate in hardware.kernels.items() if own is shape}
        yield from _table(f"kernels.{shape}", _rates(rates))
    for conflict in hardware.conflicts:
        yield from ("", "[[conflicts]]", f"values = {_list(conflict.values)}")
        yield from _texts({"field": conflict.field, "used": conflict.used, "why": conflict.why})
    if hardware.conditions:
        yield from ("", "[conditions]", *(f"{_text(name)} = {_text(value)}" for name, value in hardware.conditions))


def _memory(hardware: Hardware) -> Iterator[str]:
    level: MemoryLevel = hardware.memory
    yield from ("", "[memory]", f"type = {_text(level.name)}")
    sizes = {"size": (hardware.memory_label, "B"), "driver_size": (hardware.memory_driver, "B")}
    yield from _figures({"bandwidth": (level.bandwidth, "B/s"), **sizes})
    yield from _table("memory.patterns", _rates(level.patterns))


def _chip(hardware: Hardware) -> Iterator[str]:
    boost = hardware.boost_hz
    megahertz = boost and Ceiling(_over_a_million(boost.value), boost.provenance, boost.spread)
    figures = {"multiprocessors": hardware.multiprocessors, "boost_mhz": megahertz, "power_w": hardware.power_w}
    yield from _table("chip", {name: (figure, "") for name, figure in figures.items() if figure})


def _peaks(peaks: Mapping[DType, Ceiling]) -> dict[str, tuple[Ceiling | None, str]]:
    return {str(dtype): (peak, "OP/s" if dtype in _INTEGERS else "FLOP/s") for dtype, peak in peaks.items()}


def _rates(rates: Mapping[str, Ceiling]) -> dict[str, tuple[Ceiling | None, str]]:
    return {name: (rate, "B/s") for name, rate in rates.items()}


def _table(
    name: str, figures: Mapping[str, tuple[Ceiling | None, str]], others: Mapping[str, str] | None = None
) -> Iterator[str]:
    """The table [name] with its figures, or nothing where it would be empty."""
    if figures or others:
        yield from ("", f"[{name}]", *_figures(figures), *(f"{key} = {value}" for key, value in (others or {}).items()))


def _figures(figures: Mapping[str, tuple[Ceiling | None, str]]) -> Iterator[str]:
    return (f"{name} = {_figure(figure, unit)}" for name, (figure, unit) in figures.items() if figure is not None)


def _figure(figure: Ceiling, unit: str) -> str:
    origin = figure.provenance
    parts = {"value": _value(figure.value, unit), "source": _text(origin.source), "kind": _text(origin.kind)}
    if origin.note:
        parts["note"] = _text(origin.note)
    if figure.spread is not None:
        parts["spread"] = repr(figure.spread)
    return "{ " + ", ".join(f"{key} = {value}" for key, value in parts.items()) + " }"


def _value(value: float, unit: str) -> str:
    """`value` as the reader takes it: text with the shortest digits that come back to the last bit, or a number."""
    if not unit:
        return repr(value)
    kind = "FLOP/s" if unit == "OP/s" else unit
    for text in _spellings(value, unit):
        if parse(text, kind) == value:
            return _text(text)
    raise ValueError(f"{value!r} {unit} cannot be written exactly")


def _spellings(value: float, unit: str) -> Iterator[str]:
    """`value` with binary prefixes (bytes alone) and decimal ones, then without any, which is always exact."""
    binary = [p for p in ("Ti", "Gi", "Mi", "Ki") if value % PREFIXES[p] == 0] if unit == "B" else []
    decimal = [p for p in "PTGMk" if value >= PREFIXES[p]]
    for prefix in (*binary, *decimal[:1]):
        for digits in (4, 6, 9, 12, 15, 17):
            yield f"{value / PREFIXES[prefix]:.{digits}g} {prefix}{unit}"
    yield f"{float(value)!r} {unit}"


def _over_a_million(value: float) -> float:
    """The number that gives `value` to the last bit when it is multiplied by 1e6."""
    near = value / 1e6
    candidates = (near, math.nextafter(near, math.inf), math.nextafter(near, 0), *(round(near, d) for d in range(4)))
    return next((number for number in candidates if number * 1e6 == value), near)


def _texts(values: Mapping[str, Any]) -> Iterator[str]:
    return (f"{key} = {_text(value)}" for key, value in values.items() if value)


def _list(values: Iterable[str]) -> str:
    """A list with one entry a line: readers take lines of a bounded length."""
    return "[" + ",".join(f"\n  {_text(value)}" for value in values) + "\n]"


def _text(value: str) -> str:
    """`value` as a TOML string of one line; its escapes are those of JSON."""
    if not value.strip() or not value.isprintable():
        raise ValueError(f"{value!r} cannot be written: one line of printable text is expected")
    return json.dumps(value, ensure_ascii=False)
