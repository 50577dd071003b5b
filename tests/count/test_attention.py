"""Pairs and cached tokens, against a count one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from rooflens.core.attention import EVERYTHING, Span
from rooflens.core.op import DType
from rooflens.core.scenario import AttentionFlops, Batch, Conventions, Phase, PhaseKind
from rooflens.count.attention import attention
from rooflens.count.setting import Setting
from rooflens.count.span import causal_pairs, full_pairs, kv_tokens_held, kv_tokens_read
from tests.conftest import precision, tiny_model

WINDOWS = st.none() | st.integers(1, 40)


def setting(new: int, cached: int, **conventions: object) -> Setting:
    phase = Phase(PhaseKind.PREFILL, Batch(3, new, cached))
    return Setting(phase, precision(DType.FP16), Conventions(**conventions))  # type: ignore[arg-type]


@given(st.integers(1, 30), st.integers(0, 60), WINDOWS)
def test_causal_pairs_one_by_one(new: int, cached: int, window: int | None) -> None:
    """Query i (from 0) sees every token up to its own position, the last `window` of them at most."""
    seen = [min(cached + i + 1, window or cached + new) for i in range(new)]
    assert causal_pairs(new, cached, Span(window=window)) == sum(seen)


@given(st.integers(1, 30), st.integers(0, 60), WINDOWS)
def test_tokens_read_are_those_before_the_first_query(new: int, cached: int, window: int | None) -> None:
    """The first query sees min(cached + 1, window) tokens and one of them is its own."""
    assert kv_tokens_read(new, cached, Span(window=window)) == min(cached + 1, window or cached + 1) - 1
    assert kv_tokens_held(cached, Span(window=window)) == min(cached, window or cached)
    assert full_pairs(new, cached, Span(window=window)) == new * (
        kv_tokens_read(new, cached, Span(window=window)) + new
    )


def test_full_prefill_ignores_the_window() -> None:
    assert full_pairs(512, 0, Span(window=128)) == 512 * 512


def test_full_decode_counts_what_the_cache_holds() -> None:
    assert full_pairs(1, 1000, Span(window=128)) == 128
    assert full_pairs(1, 1000, EVERYTHING) == 1001


def test_pairs_over_arrays() -> None:
    new, cached = np.array([1.0, 5.0, 9.0]), np.array([0.0, 3.0, 50.0])
    expected = [causal_pairs(int(n), int(c), Span(window=8)) for n, c in zip(new, cached, strict=True)]
    assert causal_pairs(new, cached, Span(window=8)).tolist() == expected


def test_case_33_fused_attention() -> None:
    """q = (1, 12, 64, 64): 4 B H S S D = 12,582,912 FLOP with a dense mask; a causal one keeps S (S + 1) / 2."""
    from rooflens.core.model import Attention

    layer = Attention(hidden=768, heads=12, kv_heads=12, d_k=64, d_v=64)
    phase = Phase(PhaseKind.PREFILL, Batch(1, 64, 0))
    full = Setting(phase, precision(), Conventions(attention_flops=AttentionFlops.FULL))
    assert attention("a", layer, full).model_flops == 12_582_912
    assert attention("a", layer, Setting(phase, precision(), Conventions())).model_flops == 4 * 12 * 64 * (64 * 65 // 2)


def test_bytes_of_a_decode_step() -> None:
    """3 sequences, 1 new token after 5 cached, one KV head of 2 + 2 values, 2 query heads, 2 bytes each.

    Read 3 x 5 x 4 x 2 = 120 B, written 3 x 4 x 2 = 24 B, q and out 3 x 2 x 4 x 2 = 48 B, new K and V 24 B.
    """
    op = attention("a", tiny_model().layers[0].blocks[0], setting(1, 5))
    assert (op.traffic.kv_read, op.traffic.kv_write, op.traffic.activations) == (120, 24, 72)


def test_a_window_bounds_what_is_read() -> None:
    """A window of 4 leaves the 3 tokens before the new one: 3 sequences x 3 x 4 values x 2 bytes."""
    op = attention("a", tiny_model(window=4).layers[0].blocks[0], setting(1, 9))
    assert op.traffic.kv_read == 72


def test_intensity_of_decode_is_near_the_group_size() -> None:
    """GQA at 16 bit: 2 x heads x (d_k + d_v) FLOP over kv_heads x (d_k + d_v) x 2 bytes is the group size, here 4."""
    from rooflens.core.model import Attention

    layer = Attention(hidden=4096, heads=32, kv_heads=8, d_k=128, d_v=128)
    op = attention("a", layer, Setting(Phase(PhaseKind.DECODE, Batch(64, 1, 100_000)), precision(), Conventions()))
    assert op.model_flops / op.traffic.kv_read == pytest.approx(4, rel=1e-4)
