"""Red tests: a wrong formula put in place must make the counts on paper fail."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rooflens.count import gemm, latent
from tests.count import test_attention, test_forward, test_kinds, test_sizes
from tests.sources import test_reference

CHECKS: tuple[Callable[[], None], ...] = (
    test_forward.test_tiny_prefill_flops,
    test_forward.test_tiny_decode_flops,
    test_forward.test_tiny_windowed_decode_flops,
    test_forward.test_tiny_prefill_bytes,
    test_forward.test_tiny_decode_bytes,
    test_forward.test_parameters,
    test_forward.test_case_34_linear_with_bias,
    test_forward.test_small_llama_decode_bytes,
    test_attention.test_bytes_of_a_decode_step,
    test_attention.test_a_window_bounds_what_is_read,
    test_kinds.test_expert_flops,
    test_kinds.test_one_token_reads_the_experts_it_is_routed_to,
    test_kinds.test_moe_parameters,
    test_kinds.test_latent_prefill_is_expanded,
    test_kinds.test_an_absorbed_step_reads_the_latent_once,
    test_kinds.test_an_indexer_scores_everything_and_attention_reads_the_top,
    test_kinds.test_the_indexer_has_a_cache_of_its_own,
    test_kinds.test_chunked_attention,
    test_kinds.test_a_mamba2_step,
    test_kinds.test_mamba2_in_chunks,
    test_kinds.test_state_bytes,
    test_sizes.test_kv_bytes,
    test_sizes.test_weight_bytes,
    test_reference.test_every_reference_row,
)


def failed() -> int:
    """How many of the checks fail as things are."""
    count = 0
    for check in CHECKS:
        try:
            check()
        except AssertionError:
            count += 1
    return count


MUTANTS: dict[str, tuple[str, Any]] = {
    "causal pairs counted as S x S": (
        "rooflens.count.span.causal_pairs", lambda new, cached, span: new * (cached + new)),
    "causal pairs without the query's own": (
        "rooflens.count.span.causal_pairs", lambda new, cached, span: new * cached + new * (new - 1) // 2),
    "windows ignored by the pairs": (
        "rooflens.count.span.causal_pairs", lambda new, cached, span: new * cached + new * (new + 1) // 2),
    "windows ignored by what is read": (
        "rooflens.count.attention.kv_tokens_read", lambda new, cached, span: cached),
    "a window that keeps one token too many": (
        "rooflens.count.attention.kv_tokens_read", lambda new, cached, span: min(cached, span.window or cached)),
    "windows ignored by the cache": (
        "rooflens.count.sizes.kv_tokens_held", lambda context, span: context),
    "the embedding counted as free": (
        "rooflens.count.sizes.embedding_params", lambda model: 0),
    "input of a GEMM forgotten": (
        "rooflens.count.gemm.activation_bytes", lambda tokens, d_in, d_out, arithmetic, setting: 2 * tokens * d_out),
    "biases that weigh nothing": (
        "rooflens.core.blocks.Linear.params", property(lambda self: self.d_in * self.d_out)),
    "K and V counted once": (
        "rooflens.core.attention.Attention.values_per_token", property(lambda self: self.kv_heads * self.d_k)),
    "KV heads taken for heads": (
        "rooflens.core.attention.Attention.values_per_token", property(lambda self: self.heads * 2 * self.d_k)),
    "a layer without its router": (
        "rooflens.core.experts.Moe.linears", property(lambda self: ())),
    "min(T k, E) experts read": (
        "rooflens.count.moe.distinct_experts", lambda experts, top_k, tokens: experts),
    "every expert active": (
        "rooflens.core.experts.Moe.idle_params", property(lambda self: 0)),
    "a layer without its scan": (
        "rooflens.count.recurrent.products", lambda *args: ()),
    "a scan that reads its state once": (
        "rooflens.count.recurrent._state_bytes", lambda values, dtype, setting: dtype.bytes_of(values)),
    "a latent counted for K and for V": (
        "rooflens.core.attention.LatentAttention.latent_values", property(lambda self: 2 * (self.kv_rank + self.rope))),
    "the top k ignored": (
        "rooflens.count.latent.kv_tokens_read", lambda new, cached, span: cached),
    "an indexer without a cache": (
        "rooflens.count.sizes.index_bytes", lambda indexer, tokens, kv: 0),
    "the dtype's size ignored": (
        "rooflens.core.op.DType.bytes_of", lambda self, values: values),
}  # fmt: skip


def test_the_checks_pass_as_they_are() -> None:
    assert failed() == 0


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_formula_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, wrong = MUTANTS[name]
    monkeypatch.setattr(target, wrong)
    assert failed(), f"no check fails with {name}"


def test_multiply_adds_taken_for_flop(monkeypatch: pytest.MonkeyPatch) -> None:
    right = gemm.linear

    def wrong(*args: Any, **kwargs: Any) -> Any:
        op = right(*args, **kwargs)
        return replace(op, flops=op.flops // 2, model_flops=op.model_flops // 2)

    monkeypatch.setattr(sys.modules["rooflens.count.forward"], "linear", wrong)
    assert failed()


def test_head_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    right = gemm.output_head
    free = lambda *a: replace(right(*a), flops=0, model_flops=0)
    monkeypatch.setattr(sys.modules["rooflens.count.forward"], "output_head", free)
    assert failed()


def test_a_layer_without_its_indexer(monkeypatch: pytest.MonkeyPatch) -> None:
    right = latent.indexer_scores
    free = lambda *a: replace(right(*a), flops=0, model_flops=0)
    monkeypatch.setattr(latent, "indexer_scores", free)
    assert failed()


def test_head_dim_taken_as_hidden_over_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rooflens.sources.build._head_dim", lambda fields, family, hidden, heads: hidden // heads)
    assert failed()
