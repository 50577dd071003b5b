"""The public door, and the numbers that must come out of it."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import rooflens
from rooflens import Bound, Conventions, Fusion, Profile, TrafficModel, phase_metrics, predict, profile_metrics
from rooflens.core.scenario import PhaseKind
from rooflens.errors import InputError

H100 = "h100-sxm"


def phase(kind: str, gpu: str = H100, **given: Any) -> rooflens.PhaseProfile:
    profile = predict("llama-3.1-8b", gpu, **given)
    return next(p for p in profile.phases if p.phase.kind == PhaseKind(kind))


def test_every_name_is_there_and_documented() -> None:
    for name in rooflens.__all__:
        thing = getattr(rooflens, name)
        if name != "__version__" and (inspect.isclass(thing) or inspect.isfunction(thing)):
            assert (thing.__doc__ or "").strip(), name
    assert set(rooflens.__all__) <= set(dir(rooflens))
    with pytest.raises(AttributeError):
        rooflens.nonsense  # noqa: B018


@pytest.mark.parametrize(
    ("kind", "given", "flops"),
    [
        # 2 x 6,979,321,856 weights x 2048 + head 1,050,673,152 + 16,384 FLOP x 2,098,176 pairs x 32 layers
        ("prefill", {"prompt": 2048}, 29_688_401_494_016),
        ("prefill", {"batch": 64, "prompt": 512}, 461_870_716_682_240),
        # 2 x 7,504,658,432 + 16,384 x 2,049 x 32
        ("decode", {"context": 2048}, 16_083_582_976),
        ("decode", {"batch": 64, "context": 2048}, 1_029_349_310_464),
    ],
)
def test_llama_flops(kind: str, given: dict[str, Any], flops: int) -> None:
    assert phase(kind, **given).model_flops == flops


def test_llama_decode_bytes() -> None:
    """Weights 2 x 7,504,658,432, norms 65 x 4,096 x 2, one row a sequence; KV 131,072 B a token."""
    step = phase("decode", batch=64, context=2048)
    assert step.traffic.weights == 15_009_316_864 + 65 * 4096 * 2 + 64 * 4096 * 2
    assert step.traffic.kv_read == 17_179_869_184
    assert step.traffic.kv_write == 64 * 131_072


def test_llama_floors_on_h100() -> None:
    prefill = phase("prefill", prompt=2048)
    assert 30e-3 < prefill.floor_s < 33e-3
    assert prefill.ideal_s == pytest.approx(29_688_401_494_016 / 989.5e12, rel=1e-9)
    assert prefill.bound is Bound.COMPUTE
    one, many = phase("decode", context=2048), phase("decode", batch=64, context=2048)
    assert 4.5e-3 < one.floor_s < 4.7e-3
    assert 9.5e-3 < many.floor_s < 10e-3
    assert (one.bound, many.bound) == (Bound.MEMORY, Bound.MEMORY)


def test_a_short_prompt_is_memory_bound() -> None:
    for gpu in ("a100-sxm-80gb", H100):
        assert phase("prefill", gpu, prompt=32).bound is Bound.MEMORY


def test_the_textbook_and_what_it_leaves_out() -> None:
    """Q projection, 64 x 512 tokens: 32,768 with weights alone, else 32768 x 4096^2 / (4096^2 + 2 x 32768 x 4096)."""

    def q_proj(traffic: TrafficModel, **given: Any) -> float:
        conventions = Conventions(traffic=traffic, fusion=Fusion.FRAMEWORK)
        placed = phase(given.pop("kind", "prefill"), conventions=conventions, **given)
        return float(next(p.op.intensity for p in placed.points if p.op.name == "q_proj"))

    assert q_proj(TrafficModel.WEIGHTS, batch=64, prompt=512) == 32768
    assert q_proj(TrafficModel.WEIGHTS, kind="decode", batch=1) == 1
    assert q_proj(TrafficModel.FUSED, batch=64, prompt=512) == pytest.approx(1927.5, abs=0.05)


def test_ridge_points_case_31() -> None:
    for gpu, ridge in (("h100-sxm", 295.4), ("a100-sxm-80gb", 153.0), ("h100-pcie", 378.2), ("h20", 37.0)):
        assert phase("prefill", gpu).ridge_point == pytest.approx(ridge, abs=0.051)


@pytest.mark.parametrize(
    ("precision", "batch"),
    # weights alone: 2 x batch / bytes per weight = peak / bandwidth: 295.4; fp8 twice the peak, half the bytes; int4
    # 295.4 x 4.125 / 16 = 76.2
    [("bf16", 295), ("fp8", 295), ("int4", 76)],
)
def test_case_32_crossover_of_weights_alone(precision: str, batch: int) -> None:
    def bound(sequences: int) -> Any:
        step = phase(
            "decode", batch=sequences, precision=precision, conventions=Conventions(traffic=TrafficModel.WEIGHTS)
        )
        return next(p.timing.bound for p in step.points if p.op.name == "down_proj")

    assert bound(batch) is Bound.MEMORY
    assert bound(batch + 1) is Bound.COMPUTE


def test_metrics() -> None:
    profile = predict("llama-3.1-8b", H100, batch=64, prompt=512, output=128)
    prefill, decode = profile.phases
    figures = profile_metrics(profile)
    assert figures.ttft_s == prefill.floor_s
    assert figures.tpot_s == decode.floor_s
    assert figures.tokens_per_s == pytest.approx(64 / decode.floor_s)
    assert figures.e2e_s == pytest.approx(prefill.floor_s + 127 * decode.floor_s)
    assert figures.weight_bytes == 2 * 8_030_261_248
    assert figures.kv_cache_bytes == 64 * 640 * 131_072
    rates = phase_metrics(decode)
    assert rates.mfu == pytest.approx(decode.model_flops / decode.floor_s / 989.5e12)
    assert 0.95 < rates.mbu <= 1


def test_no_decode_phase() -> None:
    profile = predict("llama-3.1-8b", H100, output=1)
    assert profile_metrics(profile).tpot_s is None
    assert profile_metrics(profile).e2e_s == profile_metrics(profile).ttft_s


def test_counts_beyond_64_bit_are_exact() -> None:
    """405B x batch 512 x 131,072 tokens: the linear layers alone are 2 x 401,650,745,344 x 67,108,864 FLOP."""
    profile = predict("llama-3.1-405b", "b200-sxm", batch=512, prompt=131_072, output=1)
    flops = profile.phases[0].model_flops
    assert isinstance(flops, int)
    assert flops > 2**64


def test_a_sweep_is_one_call() -> None:
    batches, contexts = np.array([1, 8, 64, 512]), np.array([1, 2048, 100_000, 5])
    swept = predict("gemma-2-9b", H100, batch=batches, context=contexts)
    for i, (batch, context) in enumerate(zip(batches, contexts, strict=True)):
        single = predict("gemma-2-9b", H100, batch=int(batch), context=int(context))
        for many, one in zip(swept.phases, single.phases, strict=True):
            for name in ("flops", "model_flops", "compulsory_bytes", "floor_s", "ideal_s", "intensity"):
                assert getattr(many, name)[i] == pytest.approx(getattr(one, name), rel=1e-12), name
            assert many.bound[i] == one.bound.value
            for kind in ("weights", "kv_read", "kv_write", "activations"):
                got = np.broadcast_to(getattr(many.traffic, kind), 4)[i]
                assert got == pytest.approx(getattr(one.traffic, kind), rel=1e-12)


def test_findings() -> None:
    def codes(profile: Profile) -> set[str]:
        return {finding.code for finding in profile.findings}

    assert "does_not_fit" in codes(predict("llama-3.1-70b", H100))
    assert "fits" in codes(predict("llama-3.1-8b", H100))
    assert "memory_bound_prefill" in codes(predict("llama-3.1-8b", H100, prompt=32))
    assert "overhead_likely" in codes(predict("gpt2", H100))
    assert "context" in codes(predict("gpt2", H100, prompt=2000))
    assert "model" in codes(predict("gpt2", H100))
    assert "weight_only" in codes(predict("llama-3.1-70b-fp8", "a100-sxm-80gb"))
    assert "compute_dtype" in codes(predict("llama-3.1-8b", "t4"))


def test_it_refuses_what_is_no_scenario() -> None:
    with pytest.raises(InputError, match="batch is 0"):
        predict("llama-3.1-8b", H100, batch=0)
