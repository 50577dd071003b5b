"""Reads the formulas that explanations, glossary and documentation print: the left side must give the right one."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil, isclose

from rooflens.units import PREFIXES

UNITS = "FLOP/byte|FLOP/s|B/s|FLOP|B|s"
NUMBER = re.compile(
    r"(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)"
    rf"(?: ([apfnµmkMGTPE]?)({UNITS})(?![\w/])|( %)| (?:tokens/s|tokens)\b)?"
)


POWER = re.compile(r"\(([^()]*)\)\^(\d[\d,]*)")
"""A base in parentheses and its exponent; powers are taken in floating point, all else is exact."""


@lru_cache(maxsize=4096)
def evaluate(text: str) -> Fraction:
    """What an expression of an explanation gives, exactly but for powers; prefixes count, units do not."""
    text = POWER.sub(lambda m: f"{float(evaluate(m[1])) ** int(m[2].replace(',', '')):.17f}", text)
    code = NUMBER.sub(_code, text).replace(" x ", " * ")
    names = {"F": Fraction, "max": max, "min": min, "ceil": lambda value: Fraction(ceil(value))}
    result: Fraction = eval(code, {"__builtins__": {}}, names)
    return Fraction(result)


def _code(match: re.Match[str]) -> str:
    """A number as Python text: a whole one without a unit as it is, any other exactly."""
    if match[2] or match[4] or "." in match[1]:
        return f'F("{_exact(match)}")'
    return f"F({match[1].replace(',', '').lstrip('0') or '0'})"


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
        assert isclose(printed, value, rel_tol=1.1e-3), line
    return printed
