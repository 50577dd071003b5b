"""Workload: batch and lengths as users give them, checked, to a Scenario."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rooflens.core.arrays import Count, as_count, is_array
from rooflens.core.cross import CrossAttention
from rooflens.core.experts import Moe
from rooflens.core.model import ModelSpec
from rooflens.core.scenario import Conventions, Precision, Scenario
from rooflens.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LARGEST = 2**40
"""Largest batch or length that is taken: a slip of the keyboard is larger."""


def scenario(
    *,
    batch: Any,
    prompt: Any,
    output: Any,
    context: Any,
    precision: Precision,
    conventions: Conventions,
    image_tokens: Any = 0,
) -> Scenario:
    """Return the Scenario of a workload; each figure is a whole number or an array of one shape.

    Raises:
        InputError: not a whole number, below 1 (a context below 0), above `LARGEST`, or shapes that do not fit.
    """
    figures = {"batch": _checked("batch", batch, 1), "prompt": _checked("prompt", prompt, 1)}
    figures["output"] = _checked("output", output, 1)
    figures["image_tokens"] = _checked("image_tokens", image_tokens, 0)
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
        image_tokens=figures["image_tokens"],
    )


def check_contexts(contexts: Sequence[int]) -> tuple[int, ...]:
    """Return context lengths as they are. Raises InputError for one that is below 0 or above `LARGEST`."""
    return tuple(int(_checked("context", context, 0)) for context in contexts)


def checked_conventions(conventions: object) -> Conventions:
    """`conventions`, or the default ones for None. Raises InputError for something else."""
    if conventions is None or isinstance(conventions, Conventions):
        return conventions or Conventions()
    raise InputError(f"conventions is {conventions!r}; expected Conventions")


def check_experts(model: ModelSpec, measured: float | None, batch: Count) -> None:
    """Refuse a measured number of distinct experts that a layer of `model` cannot have.

    Raises:
        InputError: names both.
    """
    if measured is None:
        return
    found = [block for layer in model.layers for block in layer.blocks if isinstance(block, Moe)]
    if not found:
        raise InputError(f"{model.name} has no experts; leave out the number of distinct ones")
    for moe in found:
        most = moe.experts if is_array(batch) else min(moe.experts, moe.top_k * int(batch))
        if not moe.top_k <= measured <= most:
            raise InputError(
                f"{measured:g} distinct experts do not fit a step of {model.name}, where each of the sequences takes "
                f"{moe.top_k} of {moe.experts}; expected {moe.top_k} to {most}"
            )


def check_images(model: ModelSpec, work: Scenario) -> None:
    """Refuse image tokens for a model that has no vision encoder which is known, and no cross-attention layers.

    Raises:
        InputError: says so.
    """
    if not is_array(work.image_tokens) and not work.image_tokens:
        return
    crosses = any(isinstance(block, CrossAttention) for layer in model.layers for block in layer.blocks)
    if model.tower is None and not crosses:
        raise InputError(f"{model.name} has no vision encoder that is known; expected --image-tokens 0")


def _checked(name: str, value: Any, least: int) -> Count:
    expected = f"expected whole numbers from {least} to {LARGEST:,}"
    if isinstance(value, (str, bytes, bytearray)) or value is None:
        raise InputError(f"{name} is {value!r}; {expected}")
    try:
        count = as_count(value)
        numeric = is_array(count) or isinstance(count, (int, float))
    except (TypeError, ValueError, OverflowError) as cause:
        raise InputError(f"{name} is no number; {expected}") from cause
    if not numeric or getattr(getattr(value, "dtype", None), "kind", "i") not in "iuf":
        raise InputError(f"{name} holds no real numbers; {expected}")
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
