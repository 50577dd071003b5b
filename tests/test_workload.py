"""Batch and lengths, as users give them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rooflens.core.scenario import Conventions, PhaseKind, Scenario
from rooflens.errors import InputError
from rooflens.workload import LARGEST, scenario
from tests.conftest import precision


def work(**changed: Any) -> Scenario:
    given = {"batch": 1, "prompt": 512, "output": 128, "context": None, **changed}
    return scenario(**given, precision=precision(), conventions=Conventions())


def test_decode_is_the_middle_of_the_output() -> None:
    assert work().decode_context == 512 + 64
    assert work(context=7).decode_context == 7
    assert work(output=3).decode_context == 513


def test_an_output_of_one_token_has_no_decode_phase() -> None:
    assert [phase.kind for phase in work(output=1).phases] == [PhaseKind.PREFILL]
    assert [phase.kind for phase in work(output=1, context=5).phases] == [PhaseKind.PREFILL, PhaseKind.DECODE]


@pytest.mark.parametrize(
    "value", [0, -1, 1.5, float("nan"), float("inf"), LARGEST + 1, "many", True, [], [0, 1], [1.5]]
)
@pytest.mark.parametrize("name", ["batch", "prompt", "output"])
def test_figures_that_are_no_counts(name: str, value: object) -> None:
    with pytest.raises(InputError, match=f"{name} is .*expected whole numbers from 1 to"):
        work(**{name: value})


def test_a_context_may_be_empty() -> None:
    assert work(context=0).decode_context == 0
    with pytest.raises(InputError, match="from 0 to"):
        work(context=-1)


def test_whole_floats_and_numpy_numbers_are_exact_integers() -> None:
    assert isinstance(work(batch=np.int64(4)).batch, int)
    assert isinstance(work(batch=4.0).batch, int)


def test_arrays_have_one_shape() -> None:
    both = work(batch=[1, 2], context=np.array([5, 6], dtype=np.int32))
    assert both.batch.dtype == np.float64
    with pytest.raises(InputError, match=r"batch \(2,\), prompt \(3,\)"):
        work(batch=[1, 2], prompt=[1, 2, 3])
