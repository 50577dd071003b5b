"""The only prefix table and the only dtype table: parse and print figures with their units.

1 kB is 1e3 bytes, 1 GB is 1e9; 1 KiB is 2**10 bytes, 1 GiB is 2**30 (IEC 80000-13).
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from rooflens.errors import UnitError

PREFIXES: dict[str, float | int] = {
    "p": 1e-12,
    "n": 1e-9,
    "u": 1e-6,
    "µ": 1e-6,
    "m": 1e-3,
    "": 1,
    "k": 10**3,
    "K": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
    "E": 10**18,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
"""Factor of each prefix: SI below and above one, IEC binary with the `i`."""

_UP = ("", "k", "M", "G", "T", "P", "E")
_DOWN = ("", "m", "µ", "n", "p")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti")

UNITS: dict[str, tuple[str, ...]] = {
    "B": ("B", "byte", "bytes"),
    "B/s": ("B/s", "Bps"),
    "FLOP": ("FLOP", "FLOPs", "flop", "flops", "OP", "OPs"),
    "FLOP/s": ("FLOP/s", "FLOPS", "flop/s", "flops/s", "OP/s", "OPS"),
    "s": ("s", "sec", "second", "seconds"),
}
"""Spellings of each unit. `FLOPS` is a rate when a rate is asked for, as data sheets print it."""

_FIGURE = re.compile(r"^\s*([-+]?(?:\d[\d_,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([^\d\s].*?)?\s*$")


class DTypeRow(NamedTuple):
    """Storage and arithmetic of one dtype: `block_bytes` hold `block_values` values."""

    block_values: int
    block_bytes: int
    compute: str
    aliases: tuple[str, ...]
    note: str


_FP8_NAMES = ("float8", "e4m3", "fp8_e4m3", "e5m2", "fp8_e5m2", "float8_e4m3fn")
_INT4_NAMES = ("i4", "w4a16", "int4-g128", "int4_g128")

DTYPES: dict[str, DTypeRow] = {
    "fp64": DTypeRow(1, 8, "fp64", ("float64", "f64", "double"), "IEEE 754 binary64"),
    "fp32": DTypeRow(1, 4, "fp32", ("float32", "f32", "float", "single"), "IEEE 754 binary32"),
    "tf32": DTypeRow(1, 4, "tf32", ("tensorfloat32",), "stored in 4 bytes, 19 bits multiplied"),
    "bf16": DTypeRow(1, 2, "bf16", ("bfloat16",), "8 exponent bits"),
    "fp16": DTypeRow(1, 2, "fp16", ("float16", "f16", "half"), "IEEE 754 binary16"),
    "fp8": DTypeRow(1, 1, "fp8", _FP8_NAMES, "8 bit, scale per tensor"),
    "int8": DTypeRow(1, 1, "int8", ("i8", "w8a8"), "8 bit, scale per tensor"),
    "fp4": DTypeRow(2, 1, "fp4", ("e2m1",), "4 bit without scales"),
    "mxfp4": DTypeRow(32, 17, "fp4", ("mx4",), "32 values of 4 bit and one 8-bit scale (OCP MX 1.0): 4.25 bit"),
    "nvfp4": DTypeRow(16, 9, "fp4", (), "16 values of 4 bit and one fp8 scale: 4.5 bit"),
    "int4": DTypeRow(128, 66, "int4", _INT4_NAMES, "groups of 128 with one 16-bit scale: 4.125 bit"),
}
"""Every dtype: values and bytes of a block (scales included), the arithmetic it runs in, aliases."""


def dtype_name(text: str) -> str:
    """Return the one name of the dtype written as `text` ("bfloat16" gives "bf16").

    Raises:
        UnitError: `text` names no dtype that is known.
    """
    word = text.strip().lower().removeprefix("torch.")
    for name, row in DTYPES.items():
        if word == name or word in row.aliases:
            return name
    raise UnitError(f"dtype {text!r} is not known; known are {', '.join(DTYPES)}")


def parse(text: str, unit: str) -> float:
    """Read a figure such as "1.5TB/s" or "120 TFLOP/s" in `unit` (a key of `UNITS`).

    A bare number is taken in `unit` itself. GB is 1e9 bytes, GiB is 2**30.

    Raises:
        UnitError: no number, a unit of another kind, an unknown prefix, or a figure that is not finite.
    """
    match = _FIGURE.match(text)
    if not match:
        raise UnitError(f"{text!r} is not a figure; write a number and a unit, such as 1.5T{unit}")
    number = float(match[1].replace(",", "").replace("_", "")) * _factor(text, match[2] or "", unit)
    if not math.isfinite(number):
        raise UnitError(f"{text!r} is not a finite figure")
    return number


def parse_amount(text: str, unit: str, *, name: str, zero: bool = False) -> float:
    """Read a figure that must be positive (or zero, with `zero`); `name` is the option or field it came from.

    Raises:
        UnitError: not a figure in `unit`, not finite, or negative (or zero).
    """
    try:
        value = parse(text, unit)
    except UnitError as cause:
        raise UnitError(f"{name}: {cause}") from cause
    if value < 0 or (value == 0 and not zero):
        raise UnitError(f"{name} is {text!r}; expected a positive figure in {unit}")
    return value


def _factor(text: str, suffix: str, unit: str) -> float:
    if not suffix:
        return 1.0
    for spelling in sorted(UNITS[unit], key=len, reverse=True):
        prefix = suffix.removesuffix(spelling)
        if prefix != suffix and prefix in PREFIXES:
            return float(PREFIXES[prefix])
    raise UnitError(f"{text!r} has the unit {suffix!r}; expected {unit} with a prefix such as G{unit} or T{unit}")


def si(value: float, unit: str, digits: int = 4) -> str:
    """Print `value` with an SI prefix and `digits` significant digits: si(3.35e12, "B/s") is "3.35 TB/s"."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g} {unit}".strip()
    exponent = math.floor(math.log10(abs(value)) / 3 + 1e-12)
    exponent = max(-(len(_DOWN) - 1), min(len(_UP) - 1, exponent))
    scaled = float(f"{value / 1000.0**exponent:.{digits}g}")
    if abs(scaled) >= 1000 and exponent < len(_UP) - 1:
        exponent, scaled = exponent + 1, scaled / 1000
    prefix = _UP[exponent] if exponent >= 0 else _DOWN[-exponent]
    number = f"{scaled:.{digits}g}" if abs(scaled) < 10**digits else f"{scaled:,.0f}"
    return f"{number} {prefix}{unit}".strip()


def binary(value: float, digits: int = 4) -> str:
    """Print bytes with a binary prefix: binary(2**30) is "1 GiB"."""
    exponent = 0
    while abs(value) >= 1024 and exponent < len(_BINARY) - 1:
        value, exponent = value / 1024, exponent + 1
    return f"{value:.{digits}g} {_BINARY[exponent]}B"
