"""`rooflens.profiling()` around loops that others wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rooflens
from rooflens import DType
from rooflens.errors import InputError
from tests.live.test_profile import CARD, TINY

torch = pytest.importorskip("torch", reason="a run needs the extra 'measure'")
transformers = pytest.importorskip("transformers", reason="a run needs the extra 'measure'")


@pytest.fixture
def card(tmp_path: Path) -> Path:
    path = tmp_path / "card.toml"
    path.write_text(CARD)
    return path


@pytest.fixture(scope="module")
def llama() -> Any:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**TINY)).eval()


def ids(tokens: int = 8) -> Any:
    return torch.arange(1, tokens + 1).unsqueeze(0)


def flops(tokens: int, pairs: int, heads: int) -> int:
    """TINY: 4 layers of 2 x 64 x 64 + 2 x 64 x 16 + 3 x 64 x 160 weights, a head of 64 x 100 for `heads` tokens."""
    return 2 * tokens * 4 * 40_960 + 2 * heads * 6_400 + 4 * 4 * 64 * pairs


def test_generate_is_taken_apart(card: Path, llama: Any) -> None:
    """8 tokens of prompt and 5 new ones: a prefill, and 4 steps after 8 to 11 tokens, the mean 9.5."""
    with rooflens.profiling(llama, hardware=card) as run:
        for _ in run.passes(2):
            llama.generate(ids(), max_new_tokens=5, min_new_tokens=5, do_sample=False, pad_token_id=0)
    first, step = run.profile.phases
    assert (first.phase.batch.new_tokens, first.phase.batch.cached_tokens) == (8, 0)
    assert first.model_flops == flops(8, 36, 1)
    assert step.model_flops == sum(flops(1, cached + 1, 1) for cached in range(8, 12)) / 4
    assert step.measured is not None
    assert (len(step.measured.times_s), step.measured.instrumented) == (8, False)
    assert first.predicted is not None
    assert first.predicted.model_flops == first.model_flops
    assert "decode is" in str(run)


def test_named_phases_of_a_loop_without_a_model(card: Path, llama: Any) -> None:
    """Sizes are those of the attention that ran; nothing is predicted; times are with the instrument on, and say so."""
    with torch.inference_mode(), rooflens.profiling(hardware=card) as run:
        with run.phase("prefill"):
            output = llama(ids(), use_cache=True)
        with run.phase("decode", steps=3):
            for _ in range(3):
                output = llama(ids(1), past_key_values=output.past_key_values, use_cache=True)
    first, step = run.profile.phases
    assert first.model_flops == flops(8, 36, 8)
    assert step.model_flops == pytest.approx(sum(flops(1, cached + 1, 1) for cached in range(8, 11)) / 3)
    assert first.predicted is None
    assert (first.phase.batch.new_tokens, step.phase.batch.cached_tokens) == (8, 8)
    assert {"model", "instrumented"} <= {finding.code for finding in run.profile.findings}


def test_passes_of_the_model_count_as_steps(card: Path, llama: Any) -> None:
    with torch.inference_mode(), rooflens.profiling(llama, hardware=card) as run:
        with run.phase("prefill"):
            output = llama(ids(), use_cache=True)
        with run.phase("decode"):
            for _ in range(4):
                output = llama(ids(1), past_key_values=output.past_key_values, use_cache=True)
    step = run.profile.phases[1]
    assert step.model_flops == pytest.approx(sum(flops(1, cached + 1, 1) for cached in range(8, 12)) / 4)


def test_a_module_of_ones_own(card: Path) -> None:
    """No config: parameters are counted, kernels are those that ran."""
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).eval()
    with torch.inference_mode(), rooflens.profiling(model, hardware=card) as run:
        model(torch.randn(5, 16))
    (phase,) = run.profile.phases
    assert phase.model_flops == 2 * 5 * (16 * 32 + 32 * 4)
    assert rooflens.params(run.profile.model) == 16 * 32 + 32 + 32 * 4 + 4
    assert run.profile.scenario.precision.compute is DType.FP32


def test_what_cannot_be_a_phase_is_refused(card: Path) -> None:
    with rooflens.profiling(hardware=card) as run:
        with pytest.raises(InputError, match="expected prefill or decode"), run.phase("train"):
            pass
        with pytest.raises(InputError, match="inside prefill"), run.phase("prefill"), run.phase("decode"):
            pass
        with pytest.raises(InputError, match="plain is 0; expected a whole number from 1"):
            next(iter(run.passes(0)))
    with rooflens.profiling(hardware=card) as run:
        pass
    with pytest.raises(InputError, match="where a phase ran"):
        _ = run.profile


def test_an_error_of_the_loop_comes_through(card: Path, llama: Any) -> None:
    def loop() -> None:
        with rooflens.profiling(llama, hardware=card) as run, run.phase("prefill"):
            llama(ids())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        loop()
    assert not llama._forward_pre_hooks
