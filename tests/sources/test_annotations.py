"""Step annotations of engines, in every form that was seen, with the numbers that they state."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from rooflens.core.recording import Step
from rooflens.core.scenario import PhaseKind
from rooflens.sources.annotations import is_capture, kind_of, phase_of, step_of

SHORT = "execute_context_1(888_788544)_generation_0(0)"
LONG = "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)"
REPLAY = "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)"


def test_a_prompt_with_nothing_cached() -> None:
    """888 new tokens attend to 888; 888 x 888 = 788,544."""
    assert step_of(SHORT) == Step(1, 0, (888, 0), (888, 0), (788_544, 0), (788_544, 0))
    assert phase_of(SHORT) is PhaseKind.PREFILL


def test_sums_of_prompts_and_single_tokens() -> None:
    """9 prompts with 8,155 new tokens of 8,430, 37 sequences with 37 of 34,489; products before squares."""
    assert step_of(LONG) == Step(9, 37, (8155, 37), (8430, 34_489), (7_671_310, 34_489), (7_475_785, 37))
    assert phase_of(LONG) is PhaseKind.CHUNKED_PREFILL


def test_a_replayed_step() -> None:
    assert step_of(REPLAY) == Step(0, 32, (0, 32), (0, 32_785), (0, 32_785), (0, 32))
    assert phase_of(REPLAY) is PhaseKind.DECODE


def test_what_single_tokens_attend_to_is_not_in_the_short_form() -> None:
    """5 sequences with one new token each: of what they have cached it says nothing."""
    step = step_of("execute_context_0(0)_generation_5(5)")
    assert step == Step(0, 5, (0, 5), None, None, (0, 5))
    assert step_of("execute_context_1(8_64)_generation_5(5)") == Step(1, 5, (8, 5), None, None, (64, 5))


def test_steps_of_sglang() -> None:
    assert step_of("step[DECODE bs=32]") == Step(0, 32, (0, 32))
    assert step_of("step[EXTEND bs=15 toks=15360]") == Step(15, 0, (15_360, 0))
    assert phase_of("step[DECODE bs=32]") is PhaseKind.DECODE
    assert phase_of("step[EXTEND bs=15 toks=15360]") is PhaseKind.PREFILL
    assert (step_of("step[IDLE bs=3]"), phase_of("step[IDLE bs=3]")) == (None, PhaseKind.STEP)


@pytest.mark.parametrize("name", ["ProfilerStep#6", "ProfilerStep#0"])
def test_steps_of_the_profiler(name: str) -> None:
    assert (step_of(name), phase_of(name)) == (None, PhaseKind.STEP)


@pytest.mark.parametrize("name", ["prefill", "Prefill", "DECODE", "chunked_prefill", "step"])
def test_ranges_of_a_phase(name: str) -> None:
    assert phase_of(name) is PhaseKind(name.lower())


@pytest.mark.parametrize("name", ["capture_32_FULL", "capture_8192_PIECEWISE"])
def test_captures(name: str) -> None:
    assert is_capture(name)
    assert (step_of(name), phase_of(name)) == (None, None)


@pytest.mark.parametrize(
    "name",
    ["", "aten::mm", "execute_diffusion_1_256x256", "execute_context_(888)_generation_0(0)", "execute_context_1(8_64)",
     "execute_context_1(8_64_7)_generation_0(0)", "execute_context_1(x)_generation_0(0)", "step[DECODE bs=]",
     "execute_context_0(0)_generation_0(0)", "step[DECODE bs=-1]", "ProfilerStep#", "ProfilerStep#6 x",
     "execute_context_1(sq1sk1)_generation_0(0)", "execute_context_1()_generation_0()", SHORT + "\n", "x" + SHORT,
     "step[DECODE bs=0]", "execute_context_1(²_4)_generation_0(0)", "capture_x_FULL",
     f"step[DECODE bs={10**30}]", f"execute_context_1({10**30}_1)_generation_0(0)",
     f"execute_context_{10**30}(8_64)_generation_0(0)", f"step[DECODE bs={'9' * 5000}]",
     f"execute_context_1({'9' * 5000}_1)_generation_0(0)"],
    ids=range(24),
)  # fmt: skip
def test_nonsense_has_no_tokens(name: str) -> None:
    assert step_of(name) is None


@pytest.mark.parametrize("name", ["", "aten::mm", "capture_32_FULL", "execute_diffusion_1_256x256", "Step 7"])
def test_what_is_no_pass(name: str) -> None:
    assert phase_of(name) is None
    assert kind_of(name) is PhaseKind.STEP


@given(st.text(alphabet="execut_()[]=#0123456789sqkDECO bgnrai\n²٣", max_size=80) | st.text(max_size=30))
def test_any_name(name: str) -> None:
    assert phase_of(name) is None or isinstance(phase_of(name), PhaseKind)
