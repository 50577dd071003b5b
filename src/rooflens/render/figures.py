"""Numbers as every page prints them."""

from __future__ import annotations


def figure(value: object) -> str:
    """A number without a prefix: four significant digits, thousands separated."""
    number = float(value)  # type: ignore[arg-type]
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def percent(share: object) -> str:
    """A share in 0..1 as a percentage with one decimal; what is not nothing never prints as 0."""
    value = 100 * float(share)  # type: ignore[arg-type]
    return "< 0.1 %" if 0 < value < 0.1 else f"{value:.1f} %"
