"""Workload: batch and lengths as users give them, checked, to a Scenario."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rooflens.core.arrays import Count, as_count, is_array
from rooflens.core.scenario import Conventions, Precision, Scenario
from rooflens.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LARGEST = 2**40
"""Largest batch or length that is taken: a slip of the keyboard is larger."""


def scenario(
    *, batch: Any, prompt: Any, output: Any, context: Any, precision: Precision, conventions: Conventions
) -> Scenario:
    """Return the Scenario of a workload; each figure is a whole number or an array of one shape.

    Raises:
        InputError: not a whole number, below 1 (a context below 0), above `LARGEST`, or shapes that do not fit.
    """
    figures = {"batch": _checked("batch", batch, 1), "prompt": _checked("prompt", prompt, 1)}
    figures["output"] = _checked("output", output, 1)
    if context is not None:
        figures["context"] = _checked("context", context, 0)
    _check_shapes(figures)
    return Scenario(
        batch=figures["batch"],
        prompt=figures["prompt"],
        output=figures["output"],
        context=figures.get("context"),
        precision=precision,
        conventions=conventions,
    )


def check_contexts(contexts: Sequence[int]) -> tuple[int, ...]:
    """Return context lengths as they are. Raises InputError for one that is below 0 or above `LARGEST`."""
    return tuple(int(_checked("context", context, 0)) for context in contexts)


def _checked(name: str, value: Any, least: int) -> Count:
    expected = f"expected whole numbers from {least} to {LARGEST:,}"
    if value is None or isinstance(value, str):
        raise InputError(f"{name} is {value!r}; {expected}")
    try:
        count = as_count(value)
    except (TypeError, ValueError) as cause:
        raise InputError(f"{name} is {value!r}; {expected}") from cause
    if is_array(count):
        if not _whole_array(count, least):
            raise InputError(f"{name} is an array with other values; {expected}")
        return count
    if isinstance(count, bool) or not least <= count <= LARGEST or count != int(count):
        raise InputError(f"{name} is {value!r}; {expected}")
    return int(count)


def _whole_array(count: NDArray[np.float64], least: int) -> bool:
    import numpy as np

    whole = np.isfinite(count) & (count >= least) & (count <= LARGEST) & (count == np.floor(count))
    return bool(count.size) and bool(whole.all())


def _check_shapes(figures: dict[str, Count]) -> None:
    shapes = {name: count.shape for name, count in figures.items() if is_array(count)}
    if len(set(shapes.values())) > 1:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise InputError(f"arrays of different shapes: {listed}; expected one shape, or single numbers")
