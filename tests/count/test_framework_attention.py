"""Attention of the framework in each of its forms, counted pair by pair."""

from __future__ import annotations

import pytest

from rooflens.core.op import AttentionShape, DType, OpKind
from rooflens.core.scenario import AttentionFlops
from rooflens.count.framework import counted
from rooflens.count.framework_products import CAUSAL_AT
from tests.count.calls import call, count, moved, t

SOFTMAX = 5
"""FLOP a score: FlashAttention, 2205.14135, algorithm 1."""

SDPA = "scaled_dot_product_attention"


def arguments(name: str, *, causal: bool, mask: object = "") -> tuple[object, ...]:
    """What stands after q, k and v, in the order of the op's own schema."""
    if name == "_scaled_dot_product_flash_attention":
        return (0.0, causal, False, "")
    if name == "_scaled_dot_product_flash_attention_for_cpu":
        return (0.0, causal, mask, "")
    if name in ("_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention"):
        return (mask, "False", 0.0, causal, "")
    return (mask, 0.0, causal, "", "False")


@pytest.mark.parametrize("name", CAUSAL_AT)
def test_causal_prefill(name: str) -> None:
    """2 sequences, 3 heads, 4 tokens: 1 + 2 + 3 + 4 = 10 pairs of each head, 60 in all; 2 x (8 + 8) FLOP a pair."""
    q = t(2, 3, 4, 8)
    op = count(name, q, q, q, *arguments(name, causal=True))
    assert op.model_flops == 60 * 32
    assert op.flops == 60 * (32 + SOFTMAX)
    assert op.traffic == moved(activations=2 * 4 * 2 * 3 * 4 * 8)
    assert op.shape == AttentionShape(2, 4, 0, 10, 3, 3, 8, 8)
    assert (op.kind, op.dtype) == (OpKind.ATTENTION, DType.BF16)


@pytest.mark.parametrize("name", CAUSAL_AT)
def test_without_the_flag_all_pairs_are_multiplied(name: str) -> None:
    q = t(2, 3, 4, 8)
    assert count(name, q, q, q, *arguments(name, causal=False)).model_flops == 2 * 3 * 16 * 32


def test_full_convention_counts_all_pairs() -> None:
    q = t(2, 3, 4, 8)
    op = counted(call(SDPA, q, q, q, *arguments(SDPA, causal=True)), AttentionFlops.FULL)
    assert op is not None
    assert op.model_flops == 2 * 3 * 16 * 32


def test_decode_reads_the_cache() -> None:
    """One query of 6 heads over 10 tokens of 2 KV heads: 60 pairs of 2 x 16 FLOP. Of K and V 9 tokens are cached."""
    k = t(1, 2, 10, 8)
    op = count(SDPA, t(1, 6, 1, 8), k, k, *arguments(SDPA, causal=False))
    assert op.model_flops == 60 * 32
    assert op.traffic == moved(kv_read=2 * 2 * 2 * 9 * 8, activations=2 * (48 + 48) + 2 * 2 * 2 * 8)
    assert op.shape == AttentionShape(1, 1, 9, 10, 6, 2, 8, 8)


def test_explicit_mask_is_read_and_multiplies_all_pairs() -> None:
    """A mask [1, 1, 4, 4] of 16 values beside q, k, v and the result of 96 each."""
    q = t(1, 3, 4, 8)
    for name in (SDPA, "_scaled_dot_product_flash_attention_for_cpu"):
        op = count(name, q, q, q, *arguments(name, causal=False, mask=t(1, 1, 4, 4)))
        assert op.model_flops == 3 * 16 * 32
        assert op.traffic == moved(activations=2 * (4 * 96 + 16))


def test_a_repeated_mask_is_read_once() -> None:
    q = t(2, 3, 4, 8)
    mask = t(2, 3, 4, 4, strides=(0, 0, 4, 1))
    op = count(SDPA, q, q, q, *arguments(SDPA, causal=False, mask=mask))
    assert op.traffic == moved(activations=2 * (4 * 192 + 16))


def test_values_of_another_width() -> None:
    """d_k 6 and d_v 4 (latent attention in prefill): 2 x 10 FLOP a pair, 3 heads, 10 causal pairs."""
    op = count(SDPA, t(1, 3, 4, 6), t(1, 3, 4, 6), t(1, 3, 4, 4), *arguments(SDPA, causal=True))
    assert op.model_flops == 30 * 20
    assert op.traffic == moved(activations=2 * 3 * 4 * (6 + 6 + 4 + 4))


def test_causal_over_more_keys_than_queries_is_top_left() -> None:
    """torch's own words: torch.ones(L, S).tril(diagonal=0). 3 queries meet 1 + 2 + 3 keys of 5; 5 of 3 meet
    1 + 2 + 3 + 3 + 3."""
    q, k = t(1, 1, 3, 8), t(1, 1, 5, 8)
    assert count(SDPA, q, k, k, *arguments(SDPA, causal=True)).model_flops == 6 * 32
    assert count(SDPA, k, q, q, *arguments(SDPA, causal=True)).model_flops == 12 * 32


def test_keys_expanded_over_heads_are_read_once() -> None:
    """K and V [1, 4, 10, 8] that repeat one head (stride 0): 80 values each, 9 of 10 tokens cached."""
    k = t(1, 4, 10, 8, strides=(80, 0, 8, 1))
    op = count(SDPA, t(1, 4, 1, 8), k, k, *arguments(SDPA, causal=False))
    assert op.traffic == moved(kv_read=2 * 2 * 72, activations=2 * (32 + 32) + 2 * 2 * 8)


WRONG = {
    "three dimensions": (t(3, 4, 8), t(3, 4, 8), t(3, 4, 8)),
    "no values": (t(1, 3, 4, 8), t(1, 3, 4, 8), ""),
    "another width": (t(1, 3, 4, 8), t(1, 3, 4, 6), t(1, 3, 4, 8)),
    "more keys than values": (t(1, 3, 4, 8), t(1, 3, 5, 8), t(1, 3, 4, 8)),
    "3 heads over 2": (t(1, 3, 4, 8), t(1, 2, 4, 8), t(1, 2, 4, 8)),
    "no KV head": (t(1, 3, 4, 8), t(1, 0, 4, 8), t(1, 0, 4, 8)),
    "other sequences": (t(2, 3, 4, 8), t(3, 3, 4, 8), t(2, 3, 4, 8)),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_not_counted(name: str) -> None:
    assert counted(call(SDPA, *WRONG[name], *arguments(SDPA, causal=True))) is None


def test_nothing_to_attend_to() -> None:
    op = count(SDPA, t(1, 3, 4, 8), t(1, 3, 0, 8), t(1, 3, 0, 8), *arguments(SDPA, causal=False))
    assert op.model_flops == 0
    assert op.traffic == moved(activations=2 * (96 + 96))
