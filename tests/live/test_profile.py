"""Real runs of small models on this CPU: what they report is held against counts on paper."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="a run needs the extra 'measure'")
pytest.importorskip("transformers", reason="a run needs the extra 'measure'")

import rooflens
from rooflens import AttentionFlops, Conventions, Fusion, Logits, Profile
from rooflens.errors import InputError

CARD = """
name = "card"
[matrix]
fp32 = "100 GFLOP/s"
bf16 = "200 GFLOP/s"
[memory]
bandwidth = "20 GB/s"
size = "16 GB"
"""
TINY: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "tie_word_embeddings": False,
}
SMALL = {**TINY, "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 8, "num_attention_heads": 16}
SMALL |= {"num_key_value_heads": 4, "vocab_size": 32000}


@pytest.fixture
def card(tmp_path: Path) -> Path:
    path = tmp_path / "card.toml"
    path.write_text(CARD)
    return path


def config(folder: Path, values: dict[str, Any]) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(values))
    return path


def run(folder: Path, values: dict[str, Any], **options: Any) -> Profile:
    given = {"hardware": folder / "card.toml", "random_weights": True, "dtype": "fp32", "repeat": 2, **options}
    return rooflens.profile(config(folder, values), **given)


@pytest.mark.parametrize(
    ("convention", "prefill"), [(AttentionFlops.FULL, 134_486_163_456), (AttentionFlops.CAUSAL, 130_199_584_768)]
)
def test_a_small_llama_reports_its_exact_count(
    card: Path, tmp_path: Path, convention: AttentionFlops, prefill: int
) -> None:
    """Hidden 1024, 8 layers, 16 heads over 4, MLP 2816, vocabulary 32000, in fp32.

    A layer has 2 x 1024 x 1024 + 2 x 1024 x 256 + 3 x 1024 x 2816 = 11,272,192 weights, eight and the head 122,945,536:
    2 FLOP each for 512 tokens. Attention: 4 x 16 x 64 x 8 for each of 512 x 512 or 512 x 513 / 2 pairs. A decode step
    after 512 tokens: 2 x 122,945,536 + 4 x 16 x 64 x 8 x 513. It moves 491,855,872 bytes of weights, norms and an
    embedding row, 8,388,608 of K and V and 16,384 of new ones, and 128,000 of logits.
    """
    counted = Conventions(convention, Logits.ALL, fusion=Fusion.FRAMEWORK)
    first, step = run(tmp_path, SMALL, prompt=512, output=2, repeat=1, warmup=0, conventions=counted).phases
    assert (first.model_flops, step.model_flops) == (prefill, 262_701_056)
    assert step.compulsory_bytes == 491_855_872 + 8_388_608 + 16_384 + 128_000 == 500_388_864
    assert step.predicted is not None
    assert step.predicted.traffic.total == 501_056_512
    assert not {point.op.name for point in first.points} - {point.op.name for point in first.points if point.known}


def test_times_add_up_and_everything_is_covered(card: Path, tmp_path: Path) -> None:
    profile = run(tmp_path, TINY, prompt=32, output=20)
    assert [str(phase.phase.kind) for phase in profile.phases] == ["prefill", "decode"]
    for phase in profile.phases:
        measured = phase.measured
        assert measured is not None
        assert measured.traced is not None
        traced = measured.traced
        assert traced.coverage > 0.95, traced.unknown
        assert (traced.busy_s + traced.dispatch_s + traced.gap_s) * measured.scale == pytest.approx(measured.time_s)
        assert sum(float(point.time_s) for point in phase.points) <= measured.time_s * 1.001
        assert sum(phase.bound_share.values()) == pytest.approx(1)
    names = {point.op.name for point in profile.phases[1].points}
    assert {"self_attn.q_proj", "mlp.down_proj", "lm_head", "self_attn.attention"} <= names
    assert profile.phases[1].phase.batch.cached_tokens == 32 + 9  # the mean of 32 to 50


def test_a_slice_gives_the_whole_model(card: Path, tmp_path: Path) -> None:
    """One of four layers: FLOP of all four, since layers are alike."""
    whole = run(tmp_path, TINY, prompt=16, output=4)
    part = run(tmp_path, TINY, prompt=16, output=4, layers=1)
    for one, other in zip(whole.phases, part.phases, strict=True):
        assert other.model_flops == pytest.approx(float(one.model_flops))
    assert ("slice", "1 of 4 layers ran, scaled to all") in part.conditions


def test_a_slice_that_lacks_a_kind_of_layer_is_refused(card: Path, tmp_path: Path) -> None:
    mixed = {**TINY, "model_type": "gemma2", "head_dim": 8, "sliding_window": 8, "max_position_embeddings": 64}
    with pytest.raises(InputError, match="1 of its 2 kinds of layers"):
        run(tmp_path, mixed, prompt=16, output=2, layers=1, attention="eager")


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_both_ways_of_attention_count_the_same_products(card: Path, tmp_path: Path, attention: str) -> None:
    """Eager attention multiplies all 16 x 16 pairs; so does the other under the full convention."""
    counted = Conventions(AttentionFlops.FULL, fusion=Fusion.FRAMEWORK)
    first = run(tmp_path, TINY, prompt=16, output=1, attention=attention, conventions=counted).phases[0]
    linear = 4 * (2 * 64 * 64 + 2 * 64 * 16 + 3 * 64 * 160)
    assert first.model_flops == 2 * 16 * linear + 2 * 64 * 100 + 4 * 4 * 8 * 8 * 16 * 16


def test_a_checkpoint_runs_with_its_weights(card: Path, tmp_path: Path) -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    folder = tmp_path / "checkpoint"
    LlamaForCausalLM(LlamaConfig(**TINY)).to(torch.bfloat16).save_pretrained(folder)
    profile = rooflens.profile(folder, hardware=card, dtype="fp32", prompt=8, output=3, repeat=1)
    assert profile.phases[1].measured is not None
    with pytest.raises(InputError, match="pass --random-weights"):
        rooflens.profile(config(tmp_path, TINY), hardware=card)


def test_traces_are_kept(card: Path, tmp_path: Path) -> None:
    run(tmp_path, TINY, prompt=8, output=3, keep=tmp_path / "traces")
    assert {"prefill.json", "decode.json"} <= {path.name for path in (tmp_path / "traces").iterdir()}


def test_a_sweep_loads_once(card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rooflens import profiler

    loads: list[object] = []
    real = profiler.random_weights

    def counted(*args: Any) -> Any:
        loads.append(args)
        return real(*args)

    monkeypatch.setattr(profiler, "random_weights", counted)
    options = {"hardware": card, "random_weights": True, "dtype": "fp32", "repeat": 1, "output": 2}
    found = list(rooflens.profile_sweep(config(tmp_path, TINY), batch=(1, 2), prompt=(8, 16), **options))
    assert len(loads) == 1
    assert [(p.scenario.batch, p.scenario.prompt) for p in found] == [(1, 8), (1, 16), (2, 8), (2, 16)]
    assert [p.phases[0].phase.batch.tokens for p in found] == [8, 16, 16, 32]


def test_what_does_not_fit_is_refused_before_it_is_loaded(card: Path) -> None:
    with pytest.raises(InputError, match=r"needs about .*iB and cpu has .* free"):
        rooflens.profile("llama-3.1-405b", random_weights=True, hardware=card, dtype="fp32")


def test_an_interrupted_run_keeps_what_it_has(card: Path, tmp_path: Path) -> None:
    """Ctrl-C after the second repeat: two of five are there, without a breakdown; before the first it is Ctrl-C."""
    done: list[float] = []

    def stop(step: str, share: float) -> None:
        done.append(share)
        if step.startswith("timing") and sum(1 for _ in done) > limit:
            raise KeyboardInterrupt

    limit = 4  # loading, warm-up, two repeats
    profile = run(tmp_path, TINY, prompt=8, output=3, repeat=5, progress=stop)
    assert [len(phase.measured.times_s) for phase in profile.phases if phase.measured] == [2, 2]
    assert profile.findings[0].code == "interrupted"
    done.clear()
    limit = 1
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, TINY, prompt=8, output=3, repeat=5, warmup=0, progress=stop)


@pytest.mark.parametrize(
    ("cause", "said"), [("CUDA out of memory", "ran out of memory"), ("CUDA error: device lost", "did not run on cpu")]
)
def test_a_run_that_fails_is_one_sentence(
    card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cause: str, said: str
) -> None:
    def fail(*_args: object) -> None:
        raise RuntimeError(cause)

    monkeypatch.setattr("rooflens.live.passes.Runner.prefill", fail)
    with pytest.raises(InputError, match=said):
        run(tmp_path, TINY, prompt=8, output=3)


def test_a_breakdown_that_fails_leaves_the_times(card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object, **_options: object) -> None:
        raise RuntimeError("device lost")

    monkeypatch.setattr("rooflens.profiler.trace_phases", fail)
    profile = run(tmp_path, TINY, prompt=8, output=3)
    assert profile.phases[0].measured is not None
    assert profile.phases[0].measured.traced is None
    assert any("device lost" in f.text and f.code == "interrupted" for f in profile.findings)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dtype": "fp8"}, "a model is run in fp32, bf16, fp16"),
        ({"device": "cuda:7"}, "is not there"),
        ({"attention": "magic"}, "attention 'magic' is not known"),
        ({"layers": 9}, "has 4 layers"),
        ({"layers": 0}, "expected a whole number from 1"),
        ({"output": 0}, "output is 0"),
        ({"prompt": 2.5}, "prompt is 2.5"),
        ({"repeat": 0}, "repeat is 0"),
    ],
)
def test_bad_options_are_refused(card: Path, tmp_path: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        run(tmp_path, TINY, **options)
