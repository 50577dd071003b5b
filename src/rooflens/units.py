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

_FIGURE = re.compile(r"([-+]?(?:\d{1,3}(?:,\d{3})+|\d[\d_]*)?(?:\.\d+|\.)?(?:[eE][-+]?\d+)?)\s*([^\d\s].*)?")
_LONGEST = 80
_LIMIT = 1e30
"""Largest figure, and one over the smallest, that is taken: beyond them a slip of the keyboard."""


class DTypeRow(NamedTuple):
    """Storage and arithmetic of one dtype: `block_bytes` hold `block_values` values, scales of the block included.

    compute: the arithmetic, fp16 where the format has none of its own and is widened. channel_bits: scale and zero
    point of each output channel of a matrix. tensor_bytes: scale of a whole matrix. tile: side of the square that a
    block is, 0 where a block is a run of values.
    """

    block_values: int
    block_bytes: int
    compute: str
    aliases: tuple[str, ...]
    note: str
    channel_bits: int = 0
    tensor_bytes: int = 0
    tile: int = 0


_FP8_NAMES = ("float8", "e4m3", "fp8_e4m3", "e5m2", "fp8_e5m2", "float8_e4m3fn")
_INT4_NAMES = ("i4", "w4a16", "int4-g128", "int4_g128")

_GGML: dict[str, tuple[int, int]] = {
    "q1_0": (128, 18),
    "q4_0": (32, 18),
    "q4_1": (32, 20),
    "q5_0": (32, 22),
    "q5_1": (32, 24),
    "q8_0": (32, 34),
    "q8_1": (32, 40),
    "q2_k": (256, 84),
    "q3_k": (256, 110),
    "q4_k": (256, 144),
    "q5_k": (256, 176),
    "q6_k": (256, 210),
    "q8_k": (256, 292),
    "iq1_s": (256, 50),
    "iq1_m": (256, 56),
    "iq2_xxs": (256, 66),
    "iq2_xs": (256, 74),
    "iq2_s": (256, 82),
    "iq3_xxs": (256, 98),
    "iq3_s": (256, 110),
    "iq4_nl": (32, 18),
    "iq4_xs": (256, 136),
    "tq1_0": (256, 54),
    "tq2_0": (256, 66),
}
"""Values and bytes of a block of each GGUF type. Source: GGML_QUANT_SIZES of the gguf package, 0.19.0."""


def _grouped() -> dict[str, DTypeRow]:
    """Integers in groups of a row with one 16-bit scale, and with a zero point as wide as a value ("_zp").

    Source: the layouts of GPTQ (2210.17323) and AWQ (2306.00978) checkpoints: qweight, scales in 16 bit, qzeros packed.
    """
    rows = {}
    for bits, group, zero in ((b, g, z) for b in (2, 3, 4, 8) for g in (16, 32, 64, 128, 256) for z in (0, b)):
        total = bits * group + 16 + zero
        times = 8 // math.gcd(8, total)
        note = f"groups of {group} with one 16-bit scale{' and zero point' if zero else ''}: {total / group:g} bit"
        row = DTypeRow(group * times, total * times // 8, "int8" if bits == 8 else "int4", (), note)
        rows[f"int{bits}_g{group}{'_zp' if zero else ''}"] = row
    del rows["int4_g128"]  # `int4` is that one
    return rows


DTYPES: dict[str, DTypeRow] = {
    "fp64": DTypeRow(1, 8, "fp64", ("float64", "f64", "double"), "IEEE 754 binary64"),
    "fp32": DTypeRow(1, 4, "fp32", ("float32", "f32", "float", "single"), "IEEE 754 binary32"),
    "tf32": DTypeRow(1, 4, "tf32", ("tensorfloat32",), "stored in 4 bytes, 19 bits multiplied"),
    "bf16": DTypeRow(1, 2, "bf16", ("bfloat16",), "8 exponent bits"),
    "fp16": DTypeRow(1, 2, "fp16", ("float16", "f16", "half"), "IEEE 754 binary16"),
    "fp8": DTypeRow(1, 1, "fp8", _FP8_NAMES, "8 bit, scales not counted"),
    "fp8_tensor": DTypeRow(1, 1, "fp8", (), "8 bit and an fp32 scale of the matrix", tensor_bytes=4),
    "fp8_channel": DTypeRow(1, 1, "fp8", (), "8 bit and a 16-bit scale of each output channel", channel_bits=16),
    "fp8_row": DTypeRow(1, 1, "fp8", (), "8 bit and an fp32 scale of each output channel", channel_bits=32),
    "fp8_block": DTypeRow(16384, 16388, "fp8", (), "squares of 128 x 128 with one fp32 scale (2412.19437)", tile=128),
    "fp8_block16": DTypeRow(16384, 16386, "fp8", (), "squares of 128 x 128 with one 16-bit scale", tile=128),
    "fp8_ds_mla": DTypeRow(128, 132, "fp8", (), "packed latent cache: 128 fp8 values and an fp32 scale"),
    "mxfp8": DTypeRow(32, 33, "fp8", ("mx8",), "32 values of 8 bit and one 8-bit scale (OCP MX 1.0): 8.25 bit"),
    "int8": DTypeRow(1, 1, "int8", ("i8", "w8a8"), "8 bit, scales not counted"),
    "int8_channel": DTypeRow(1, 1, "int8", (), "8 bit and a 16-bit scale of each output channel", channel_bits=16),
    "int8_row": DTypeRow(1, 1, "int8", (), "8 bit and an fp32 scale of each output channel", channel_bits=32),
    "fp4": DTypeRow(2, 1, "fp4", ("e2m1",), "4 bit without scales"),
    "mxfp4": DTypeRow(32, 17, "fp4", ("mx4",), "32 values of 4 bit and one 8-bit scale (OCP MX 1.0): 4.25 bit"),
    "nvfp4": DTypeRow(16, 9, "fp4", (), "16 values of 4 bit and one fp8 scale: 4.5 bit"),
    "nf4": DTypeRow(64, 36, "fp16", ("bnb_nf4",), "64 values of 4 bit and one fp32 absmax (2305.14314): 4.5 bit"),
    "nf4_dq": DTypeRow(16384, 8452, "fp16", (), "nf4, absmax in 8 bit with an fp32 scale for 256 of them: 4.127 bit"),
    "bnb_fp4": DTypeRow(64, 36, "fp16", (), "as nf4, with other values"),
    "bnb_fp4_dq": DTypeRow(16384, 8452, "fp16", (), "as nf4_dq, with other values"),
    "int4": DTypeRow(128, 66, "int4", _INT4_NAMES, "groups of 128 with one 16-bit scale: 4.125 bit"),
    "int4_channel": DTypeRow(2, 1, "int4", (), "4 bit and a 16-bit scale of each output channel", channel_bits=16),
    "int4_channel_zp": DTypeRow(2, 1, "int4", (), "int4_channel and a 4-bit zero point of each", channel_bits=20),
    **_grouped(),
    "int16": DTypeRow(1, 2, "fp32", ("i16",), "16-bit integers"),
    "int32": DTypeRow(1, 4, "fp32", ("i32",), "32-bit integers"),
    "int64": DTypeRow(1, 8, "fp64", ("i64",), "64-bit integers"),
    **{name: DTypeRow(*size, "fp16", (), f"GGUF, blocks of {size[0]}") for name, size in _GGML.items()},
}
"""Every dtype: values and bytes of a block (scales included), the arithmetic it runs in, aliases."""

_COMMON = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp8_block", "int8", "mxfp4", "nvfp4", "nf4", "int4", "q4_k")


def dtype_name(text: str) -> str:
    """Return the one name of the dtype written as `text` ("bfloat16" gives "bf16").

    Raises:
        UnitError: `text` names no dtype that is known.
    """
    word = text.strip().lower().removeprefix("torch.")
    for name, row in DTYPES.items():
        if word == name or word in row.aliases:
            return name
    raise UnitError(f"dtype {text!r} is not known; known are {', '.join(_COMMON)} and others (docs/models.md)")


def parse(text: str, unit: str) -> float:
    """Read a figure such as "1.5TB/s" or "120 TFLOP/s" in `unit` (a key of `UNITS`).

    A bare number is taken in `unit` itself. GB is 1e9 bytes, GiB is 2**30.

    Raises:
        UnitError: no number, a unit of another kind, an unknown prefix, or a figure that is not finite.
    """
    match = _FIGURE.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    if not match or not any(c.isdigit() for c in match[1]):
        raise UnitError(f"{text[:_LONGEST]!r} is not a figure; write a number and a unit, such as 1.5T{unit}")
    number = float(match[1].replace(",", "").replace("_", "")) * _factor(text, match[2] or "", unit)
    if number and not 1 / _LIMIT <= abs(number) <= _LIMIT:
        raise UnitError(f"{text!r} is out of range; expected a figure from {1 / _LIMIT:g} to {_LIMIT:g} {unit}")
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
