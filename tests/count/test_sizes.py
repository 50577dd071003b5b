"""Cache and weight bytes."""

from __future__ import annotations

from dataclasses import replace

from rooflens.core.model import Linear
from rooflens.core.op import DType
from rooflens.count.sizes import active_params, kv_bytes_per_token, kv_cache_bytes, params, parts, weight_bytes
from tests.conftest import tiny_model


def test_kv_bytes() -> None:
    """4 values a token and layer, 2 layers, 2 bytes: 16 a token; a window of 8 stops at 8 tokens."""
    assert kv_cache_bytes(tiny_model(), 100, DType.BF16) == 1600
    assert kv_cache_bytes(tiny_model(), 100, DType.FP8) == 800
    assert kv_cache_bytes(tiny_model(window=8), 100, DType.BF16) == 128
    assert kv_cache_bytes(tiny_model(window=8), 5, DType.BF16) == 80


def test_kv_growth_beyond_every_window() -> None:
    assert kv_bytes_per_token(tiny_model(), DType.BF16, windowed=False) == 16
    assert kv_bytes_per_token(tiny_model(window=8), DType.BF16, windowed=False) == 0
    assert kv_bytes_per_token(tiny_model(window=8), DType.BF16, windowed=True) == 16


def test_weight_bytes() -> None:
    """340 parameters in bf16: 680 B. In fp8 the 240 values of linears take a byte, the 100 others two."""
    assert weight_bytes(tiny_model(), DType.BF16, DType.BF16) == 680
    assert weight_bytes(tiny_model(), DType.FP8, DType.BF16) == 440


def test_parts_add_up() -> None:
    model = replace(tiny_model(), positions=7, head_bias=True, embedding_width=2)
    # table 20, positions 28, layers 256 with 16 norm values, final norm 4, head 20 + 10, projections 8 + 8
    assert {name: size for name, size in parts(model) if size} == {
        "embedding": 20, "positions": 28, "attention": 96, "mlp": 144, "norms": 20, "other": 16, "output head": 30,
    }  # fmt: skip
    assert params(model) == active_params(model) == 354


def test_linear_params() -> None:
    assert Linear("l", 8, 16, bias=True).params == 144
