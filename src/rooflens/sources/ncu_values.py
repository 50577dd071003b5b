"""Values as Nsight Compute prints them: thousands separators, scaled units, n/a."""

from __future__ import annotations

import math
import re
from functools import lru_cache

from rooflens.units import PREFIXES

LARGEST = 2**63
"""Counts from here on are counters that overflowed or sentinels."""

_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?(?:[eE][-+]?\d{1,3})?")
_COMMA = re.compile(r"[-+]?(?:\d+|\d{1,3}(?:[.\s]\d{3})+),(?:\d{1,2}|\d{4,})|[-+]?\d{1,3}(?:\.\d{3})+(?:,\d+|\.\d{3})")
_NAMES = ("seconds", "second", "bytes", "sector", "request", "thread", "block", "cycle", "byte", "inst", "warp")
_SHORT = ("sec", "hz", "op", "%", "s", "")
_LONGEST = 60


def decimal_comma(text: str) -> bool:
    """Whether `text` is a number with a comma before its fraction, as some locales print it ("3,35")."""
    return len(text) <= _LONGEST and _COMMA.fullmatch(text.strip()) is not None


def number(text: str, unit: str) -> float | None:
    """The value of `text` in base units (bytes, seconds, hertz, counts, percent), exact where it is whole.

    None where it is no number ("n/a"), negative, beyond 64 bit, or in a unit that is not known.
    """
    text = text.strip()
    factor = scale(unit)
    if factor is None or len(text) > _LONGEST or not _NUMBER.fullmatch(text):
        return None
    plain = text.replace(",", "")
    value = (int(plain) if plain.lstrip("+-").isdigit() else float(plain)) * factor
    return value if 0 <= value < LARGEST and math.isfinite(value) else None


@lru_cache(maxsize=256)
def scale(unit: str) -> float | None:
    """What a value in `unit` is multiplied by to be in base units; None for one that is not known.

    Kbyte is 1e3 bytes: a report that prints 3.35 Mbyte in 23.42 us prints 143.20 Gbyte/s beside them.
    """
    over, slash, under = unit.strip().partition("/")
    top, bottom = _factor(over), _factor(under) if slash else 1
    return None if top is None or bottom is None else top if bottom == 1 else top / bottom


def _factor(unit: str) -> float | None:
    for name in (*_NAMES, *_SHORT):
        if unit.lower().endswith(name):
            prefix = unit[: len(unit) - len(name)].strip()
            if prefix in PREFIXES:
                return PREFIXES[prefix]
    return None
