"""Published numbers, each from a report of somebody who had it wrong: cache bytes, parameters, windows, states."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rooflens import load_model
from rooflens.core.op import DType
from rooflens.core.scenario import Conventions, LatentForm
from rooflens.count import active_params, kv_cache_bytes, params
from rooflens.count.sizes import kv_bytes_per_token, state_bytes
from rooflens.errors import InputError

GIB = 2**30


@pytest.mark.parametrize(
    ("name", "grows", "derivation"),
    [
        ("llama-3.1-8b", 131_072, "2 x 32 layers x 8 KV heads x 128 x 2 B"),
        ("llama-3.1-70b", 327_680, "2 x 80 x 8 x 128 x 2"),
        ("llama-2-7b", 524_288, "2 x 32 x 32 x 128 x 2: one KV head for each head"),
        ("qwen3-32b", 262_144, "2 x 64 x 8 x 128 x 2: head_dim is stated, hidden / heads is 80"),
        ("deepseek-v3", 70_272, "(512 + 64) x 2 x 61: one latent for K and V"),
        ("gpt-oss-120b", 36_864, "2 x 18 full layers x 8 x 64 x 2"),
        ("qwen3-next-80b-a3b", 24_576, "2 x 12 of 48 layers x 2 x 256 x 2"),
        ("nemotron-h-56b", 40_960, "2 x 10 of 118 layers x 8 x 128 x 2"),
        ("gpt2", 36_864, "2 x 12 x 12 x 64 x 2"),
        ("chatglm3-6b", 28_672, "2 x 28 x 2 x 128 x 2"),
        ("dbrx", 163_840, "2 x 40 x 8 x 128 x 2"),
        ("qwen3-vl-30b-a3b", 98_304, "2 x 48 x 4 x 128 x 2"),
        ("nemotron-super-49b", 200_704, "2 x 49 of 80 blocks x 8 x 128 x 2"),
        ("mimo-v2-flash", 23_040, "9 full layers x 4 x (192 + 128) x 2: K and V differ"),
    ],
)
def test_growth_of_the_cache(name: str, grows: int, derivation: str) -> None:
    model = load_model(name)
    assert kv_bytes_per_token(model, DType.BF16, windowed=False) == grows, derivation
    far = 10**6
    assert kv_cache_bytes(model, far + 1, DType.BF16) - kv_cache_bytes(model, far, DType.BF16) == grows


def test_case_2_a_million_tokens() -> None:
    """327,680 B x 1,000,000 = 327.68 GB = 305.2 GiB."""
    held = kv_cache_bytes(load_model("llama-3.1-70b"), 10**6, DType.BF16)
    assert (held, round(held / GIB, 1)) == (327_680_000_000, 305.2)


def test_case_7_packed_fp8_latents() -> None:
    """512 fp8 + 4 fp32 scales + 64 bf16 = 656 B a layer, 61 layers."""
    assert kv_bytes_per_token(load_model("deepseek-v3"), DType.FP8_DS_MLA, windowed=False) == 40_016


def test_case_9_what_a_paged_engine_reserves() -> None:
    """36 layers x 2,048 B where windowed layers are paged like the others, 18 x 2,048 grow."""
    model = load_model("gpt-oss-120b")
    assert kv_bytes_per_token(model, DType.BF16, windowed=True) == 73_728


def test_case_11_floor_and_reservation() -> None:
    """gpt-oss-20b, 32 sequences of 8,192: 24 layers x 2,048 B reserve 12 GiB; 12 of them hold 128 tokens: 6.094 GiB."""
    model = load_model("gpt-oss-20b")
    reserved = 32 * 8192 * kv_bytes_per_token(model, DType.BF16, windowed=True)
    assert reserved / GIB == 12.0
    assert 32 * kv_cache_bytes(model, 8192, DType.BF16) / GIB == pytest.approx(6.094, abs=5e-4)


def test_case_12_alternating_windows() -> None:
    """Gemma-2-9B at 8,192: 21 layers of 8,192 tokens and 21 of 4,096, 8,192 B each: 1.96875 GiB, not 2.625."""
    assert kv_cache_bytes(load_model("gemma-2-9b"), 8192, DType.BF16) / GIB == 1.96875


def test_case_15_a_hybrid_at_262144() -> None:
    """KV 16 layers x 2 x 4 x 256 x 2 B x 262,144 = 16,384 MiB; four states of 149.625 MiB in fp32: 598.5 MiB."""
    model = load_model("qwen3.5-27b")
    assert kv_cache_bytes(model, 262_144, DType.BF16) / 2**20 == 16_384
    assert 4 * state_bytes(model, DType.FP32, DType.BF16) / 2**20 == 598.5


def test_case_27_the_windowed_part() -> None:
    """39 windowed layers x 8 KV heads x 320 x 2 B x 128 tokens = 25,559,040 B."""
    model = load_model("mimo-v2-flash")
    assert kv_cache_bytes(model, 128, DType.BF16) - 128 * 23_040 == 25_559_040


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [("mixtral-8x7b", 46_702_792_704, 12_879_925_248), ("gpt2", 124_439_808, 124_439_808)],
)
def test_parameters(name: str, total: int, active: int) -> None:
    """Case 37: embedding, head and final norm, and 32 layers of attention, router, two norms and experts."""
    model = load_model(name)
    assert (params(model), active_params(model)) == (total, active)


def test_case_35_untied() -> None:
    model = load_model("llama-3.2-1b")
    assert (params(model), params(replace(model, tied=False))) == (1_235_814_400, 1_498_482_688)


def test_conventions_take_words_and_refuse_others() -> None:
    assert Conventions(latent="absorbed").latent is LatentForm.ABSORBED  # type: ignore[arg-type]
    with pytest.raises(InputError, match="traffic is 'all'; expected one of weights, fused, eager"):
        Conventions(traffic="all")  # type: ignore[arg-type]
