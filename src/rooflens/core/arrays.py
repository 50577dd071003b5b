"""Arithmetic that takes exact Python integers or float64 arrays alike, importing NumPy only for arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from typing import TypeGuard

    import numpy as np
    from numpy.typing import NDArray

    Count: TypeAlias = int | float | NDArray[np.float64]
else:
    Count = Any


def is_array(value: object) -> TypeGuard[NDArray[np.float64]]:
    """Return whether `value` is a NumPy array; NumPy is not imported to find out."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def as_count(value: Any) -> Count:
    """Return `value` as an exact int, a float, or a float64 array (any sequence or array).

    int64 never gets through: 405B parameters x batch 512 x 131,072 tokens overflows it.
    """
    if isinstance(value, (int, float)):
        return value
    if hasattr(value, "item") and not getattr(value, "shape", ()):
        number: int | float = value.item()
        return number
    import numpy as np

    return np.asarray(value, dtype=np.float64)


def least(a: Count, b: Count) -> Count:
    """Return the smaller of `a` and `b`, element by element."""
    return _pick(a, b, min, "minimum")


def most(a: Count, b: Count) -> Count:
    """Return the larger of `a` and `b`, element by element."""
    return _pick(a, b, max, "maximum")


def where(condition: Any, yes: Count, no: Count) -> Count:
    """Return `yes` where `condition` holds and `no` elsewhere."""
    if not is_array(condition):
        return yes if condition else no
    import numpy as np

    return np.where(condition, yes, no)


def plus(*terms: Count) -> Count:
    """Return the sum of `terms`; those that are exactly 0 cost nothing, and arrays are added in place."""
    counted = [term for term in terms if is_array(term) or term != 0]
    if len(counted) < 2:
        return counted[0] if counted else 0
    total = counted[0] + counted[1]
    for term in counted[2:]:
        total = _add_in_place(total, term)
    return total


def add_where(total: Count, condition: Any, value: Count) -> Count:
    """Return `total` + `value` where `condition` holds and `total` elsewhere; an array `total` is changed in place."""
    if not is_array(condition):
        return total + value if condition else total
    import numpy as np

    if not is_array(total):
        total = np.full(condition.shape, total, dtype=np.float64)
    return np.add(total, value, out=total, where=condition)


def negate(condition: Any) -> Any:
    """Return the opposite of a boolean, or of each in an array."""
    if not is_array(condition):
        return not condition
    import numpy as np

    return np.logical_not(condition)


def _add_in_place(total: Count, term: Count) -> Count:
    if is_array(total) and total.shape == getattr(term, "shape", total.shape):
        total += term
        return total
    return total + term


def ratio(a: Count, b: Count) -> Count:
    """Return a / b; infinite where only `b` is 0 and not-a-number where both are."""
    if is_array(a) or is_array(b):
        import numpy as np

        with np.errstate(divide="ignore", invalid="ignore"):
            quotient: Count = np.true_divide(a, b)
        return quotient
    if b == 0:
        return float("nan") if a == 0 else float("inf")
    return a / b


def _pick(a: Count, b: Count, scalar: Callable[[Any, Any], Count], array: str) -> Count:
    if not (is_array(a) or is_array(b)):
        return scalar(a, b)
    import numpy as np

    picked: Count = getattr(np, array)(a, b)
    return picked
