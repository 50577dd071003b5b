"""Reads the formulas that explanations, glossary and documentation print: the left side must give the right one."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil

import pytest

from rooflens.units import PREFIXES

UNITS = "FLOP/byte|FLOP/s|B/s|FLOP|B|s"
NUMBER = re.compile(
    r"(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)"
    rf"(?: ([apfnµmkMGTPE]?)({UNITS})(?![\w/])|( %)| (?:tokens/s|tokens)\b)?"
)


@lru_cache(maxsize=4096)
def evaluate(text: str) -> Fraction:
    """What an expression of an explanation gives, exactly; prefixes count, units do not."""
    code = NUMBER.sub(lambda m: f'F("{_exact(m)}")', text).replace(" x ", " * ")
    names = {"F": Fraction, "max": max, "min": min, "ceil": lambda value: Fraction(ceil(value))}
    result: Fraction = eval(code, {"__builtins__": {}}, names)
    return Fraction(result)


def _exact(match: re.Match[str]) -> Fraction:
    factor = Fraction(str(PREFIXES[match[2] or ""])) * (Fraction(1, 100) if match[4] else 1)
    return Fraction(match[1].replace(",", "")) * factor


def check_line(line: str) -> Fraction:
    """Hold the last step of a line against the step before it; return what the line gives."""
    *_, expression, result = line.split(" = ")
    match = NUMBER.match(result)
    assert match, line
    printed, value = _exact(match), evaluate(expression)
    whole = "." not in match[1] and not match[2] and match[3] != "s" and not match[4]
    if whole and value.denominator == 1:
        assert printed == value, line
    else:
        assert float(printed) == pytest.approx(float(value), rel=1.1e-3, abs=0), line
    return printed
