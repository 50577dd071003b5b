"""Formula: one line of an explanation, in words, then in numbers, then its value.

Every line of an explanation that holds " = " is one of these: what stands before the last " = " can be
evaluated, and gives what stands after it. The signs are + - x / // ^ ( ) min max ceil.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rooflens.core.dtype import DType, Mixed, Stored
from rooflens.units import DTYPES, si

_LABEL = 15
_LARGE = 10_000
_VAST = 1e9


@dataclass(frozen=True, slots=True)
class Formula:
    """A figure with its derivation.

    words: the formula in the field's words. numbers: the same with the numbers in their places.
    value: what it gives, an int or a float in the base of `unit` (a share in 0..1 for "%"), never an array.
    """

    label: str
    words: str
    numbers: str
    value: Any
    unit: str
    note: str = ""

    def __str__(self) -> str:
        """One line: label, words, numbers, value."""
        return f"{self.label:<{_LABEL}}{self.words} = {self.numbers} = {shown(self.value, self.unit)}{self.note}"


def shown(value: Any, unit: str) -> str:
    """`value` with its unit: whole numbers in full, the rest to four digits."""
    if unit == "%":
        return f"{100 * value:.4g} %"
    if unit == "s":
        return duration(value)
    if unit in ("FLOP", "B"):
        short = f" ({si(value, unit)})" if value >= _LARGE else ""
        return f"{whole(value)} {unit}{short}"
    return f"{number(value)} {unit}".strip()


def duration(seconds: Any) -> str:
    """Seconds with a prefix, to four digits."""
    return si(seconds, "s")


def number(value: Any) -> str:
    """A bare number: whole ones in full, others to four digits and at least one decimal."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"


def whole(value: Any) -> str:
    """A count in full. Expected ones (bytes of the experts that a pass reads) are fractions: three decimals at most."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.{0 if value >= _VAST else 3}f}"


def fraction(value: Any) -> str:
    """A number with every digit that matters: 163.307339561."""
    return f"{value:,}" if value == int(value) else f"{value:.12g}"


def exact(value: Any, unit: str) -> str:
    """`value` with an SI prefix and every digit that it has: 1.979 PFLOP/s, not rounded to four digits."""
    return si(value, unit, digits=12)


def times(*factors: Any) -> str:
    """The product of `factors` as text; whole numbers get their commas, text stays as it is."""
    return " x ".join(f if isinstance(f, str) else number(f) for f in factors)


def stored(product: str, values: Any, dtype: DType) -> str:
    """Bytes of `values` values in `dtype` as text, `product` being how their number comes about.

    Blocked dtypes hold `block_values` values in `block_bytes` bytes, scales included, and fill whole blocks.
    """
    row = DTYPES[dtype.value]
    if row.block_values == 1:
        return times(product, row.block_bytes)
    if values % row.block_values == 0:
        return f"{times(product, row.block_bytes)} / {row.block_values}"
    return times(f"ceil(({product}) / {row.block_values})", row.block_bytes)


def matrix(d_in: Any, d_out: Any, dtype: Stored) -> str:
    """Bytes of the weights W[d_in, d_out] in `dtype` as text, with the scales of squares, channels and the matrix."""
    if isinstance(dtype, Mixed):
        return _parts(times(d_in, d_out), d_in * d_out, dtype)
    row, product = DTYPES[dtype.value], times(d_in, d_out)
    if row.tile:
        squares = f"ceil({number(d_in)} / {row.tile}) x ceil({number(d_out)} / {row.tile})"
        return f"({product} + {squares} x {row.block_bytes - row.block_values})"
    terms = [stored(product, d_in * d_out, dtype)]
    terms += [f"ceil({number(d_out)} x {row.channel_bits} / 8)"] if row.channel_bits else []
    terms += [number(row.tensor_bytes)] if row.tensor_bytes else []
    return f"({' + '.join(terms)})" if len(terms) > 1 else terms[0]


def _parts(product: str, values: int, mixed: Mixed) -> str:
    """Bytes of `values` weights that are stored in parts; where there are more parts than that, a share of them."""
    size = " + ".join(stored(number(many), many, dtype) for dtype, many in mixed.parts)
    total = sum(many for _, many in mixed.parts)
    return f"({size})" if total == values else f"({size}) x {product} / {number(total)}"


def matrix_words(dtype: Stored) -> str:
    """How `matrix` spells the bytes of k x n weights of `dtype` in words."""
    if isinstance(dtype, Mixed):
        return f"bytes of the weights in {dtype}"
    row = DTYPES[dtype.value]
    if row.tile:
        return f"(k x n + squares of {row.tile} x {row.tile}, {row.block_bytes - row.block_values} bytes of scale each)"
    scales = [f"n x {row.channel_bits} bits of scale"] if row.channel_bits else []
    scales += ["scale of the matrix"] if row.tensor_bytes else []
    words = f"k x n x {size_words(dtype)}"
    return f"({' + '.join((words, *scales))})" if scales else words


def size_words(dtype: DType) -> str:
    """How `stored` spells the size of a value of `dtype` in words."""
    row = DTYPES[dtype.value]
    if row.block_values == 1:
        return "bytes"
    return f"{row.block_bytes} bytes for {row.block_values}"
