"""Red tests: a wrong formula put in place must make the counts on paper fail."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rooflens.count import gemm
from tests.count import test_attention, test_forward, test_sizes
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
        "rooflens.count.attention.causal_pairs", lambda new, cached, window: new * (cached + new)),
    "causal pairs without the query's own": (
        "rooflens.count.attention.causal_pairs", lambda new, cached, window: new * cached + new * (new - 1) // 2),
    "windows ignored by the pairs": (
        "rooflens.count.attention.causal_pairs", lambda new, cached, window: new * cached + new * (new + 1) // 2),
    "windows ignored by what is read": (
        "rooflens.count.attention.kv_tokens_read", lambda cached, window: cached),
    "a window that keeps one token too many": (
        "rooflens.count.attention.kv_tokens_read", lambda cached, window: min(cached, window or cached)),
    "windows ignored by the cache": (
        "rooflens.count.sizes.kv_tokens_held", lambda context, window: context),
    "the embedding counted as free": (
        "rooflens.count.sizes.embedding_params", lambda model: 0),
    "input of a GEMM forgotten": (
        "rooflens.count.gemm._activation_bytes", lambda tokens, d_in, d_out, precision: 2 * tokens * d_out),
    "biases that weigh nothing": (
        "rooflens.core.model.Linear.params", property(lambda self: self.d_in * self.d_out)),
    "K and V counted once": (
        "rooflens.core.model.Attention.values_per_token", property(lambda self: self.kv_heads * self.d_k)),
    "KV heads taken for heads": (
        "rooflens.core.model.Attention.values_per_token", property(lambda self: self.heads * (self.d_k + self.d_v))),
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


def test_head_dim_taken_as_hidden_over_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rooflens.sources.dense._head_dim", lambda fields, family, hidden, heads: hidden // heads)
    assert failed()
