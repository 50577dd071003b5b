"""Compressed entries, blocks of keys, image tokens: sums checked against loops, and against the reference's figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from rooflens.core.attention import Span
from rooflens.core.compressed import CompressedAttention, Compressor, HyperConnection
from rooflens.core.model import ModelSpec
from rooflens.core.op import DType, Op, OpKind
from rooflens.core.scenario import AttentionFlops, Batch, Conventions, Logits, Phase, PhaseKind
from rooflens.count import forward, kv_cache_bytes
from rooflens.count.compressed import entry_pairs, growth_bytes, held_bytes, key_bytes, rows_waiting
from rooflens.count.sizes import state_bytes
from rooflens.count.span import causal_pairs, kv_tokens_read
from rooflens.sources.config import spec_from_config
from tests.conftest import precision

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parent.parent / "data" / "reference_moe.jsonl").read_text().splitlines()
]


def model(name: str, **changed: Any) -> ModelSpec:
    config = next(row for row in ROWS if row["name"] == name)["config"]
    return spec_from_config({**config, **changed}, name=name, origin=name)


def step(spec: ModelSpec, cached: Any, new: int = 1, *, images: int = 0, full: bool = False) -> tuple[Op, ...]:
    flops = AttentionFlops.FULL if full else AttentionFlops.CAUSAL
    kind = PhaseKind.DECODE if new == 1 else PhaseKind.PREFILL
    return forward(spec, Phase(kind, Batch(2, new, cached, images)), precision(), Conventions(flops, Logits.ALL))


COUNTS = st.integers(0, 60)


@given(COUNTS, COUNTS, st.integers(1, 9), st.none() | st.integers(1, 9))
def test_entries_that_each_query_sees(new: int, cached: int, rate: int, top_k: int | None) -> None:
    seen = [position // rate for position in range(cached + 1, cached + new + 1)]
    expected = sum(count if top_k is None else min(count, top_k) for count in seen)
    assert entry_pairs(Batch(1, new, cached), rate, top_k, AttentionFlops.CAUSAL) == expected
    assert entry_pairs(Batch(1, new, cached), rate, top_k, AttentionFlops.FULL) == new * ((cached + new) // rate)


@given(COUNTS, COUNTS, st.integers(2, 7), st.integers(1, 5))
def test_keys_in_the_blocks_that_each_query_sees(new: int, cached: int, block: int, blocks: int) -> None:
    """All tokens while the blocks so far fit, then full blocks and the query's own up to itself."""
    span = Span(top_k=blocks * block, block=block)
    seen = [min(j + 1, (blocks - 1) * block + j % block + 1) for j in range(cached, cached + new)]
    assert causal_pairs(new, cached, span) == sum(seen)
    if new:
        assert kv_tokens_read(1, cached, span) == min(cached, (blocks - 1) * block + cached % block)


def test_what_a_layer_holds() -> None:
    """Window 16, rate 4 with overlap, key of 32, bf16: after 50 tokens 16 keys and 12 entries of 64 bytes.

    One more token adds a quarter of an entry, 16 bytes, and a key where windows count. Two stretches of 4 tokens wait
    with values and gates for two entries of 32 values each: 2 x 4 x 2 x 2 x 32 values.
    """
    layer = CompressedAttention(96, 6, 32, 8, 40, 2, 24, 16, Compressor("compressor", 96, 32, 4, overlap=True))
    assert held_bytes(layer, 50, DType.BF16) == (16 + 12) * 64
    assert held_bytes(layer, 3, DType.BF16) == 3 * 64
    assert growth_bytes(layer, DType.BF16, windowed=False) == 16
    assert growth_bytes(layer, DType.BF16, windowed=True) == 64 + 16
    assert layer.state_values == 1024


def test_every_layer_has_its_window() -> None:
    assert not [note for note in model("deepseek_v4").notes if "sliding_window" in note]


def test_the_packed_layout() -> None:
    """448 fp8 values, 7 scales padded to 8 bytes, 64 values in bf16: 584 bytes."""
    layer = CompressedAttention(4096, 64, 512, 64, 1024, 8, 1024, 128)
    assert key_bytes(layer, 3, DType.FP8_DS_MLA) == 3 * 584


@pytest.mark.parametrize(
    ("new", "cached", "expected"),
    [
        (1, 4, (0, 1)),  # the first of a stretch: nothing is filled, it waits
        (1, 7, (3, 0)),  # the last: three come back, none is left
        (9, 0, (0, 1)),  # two stretches of new tokens alone, one is left
        (2, 0, (0, 2)),
    ],
)
def test_rows_that_wait_to_be_compressed(new: int, cached: int, expected: tuple[int, int]) -> None:
    assert rows_waiting(Compressor("c", 8, 8, 4), Batch(1, new, cached)) == expected


def test_streams_of_a_hyper_connection() -> None:
    """2 streams: 2 + 2 + 4 weights from 2 x 96 values, 8 biases and 3 scales."""
    assert HyperConnection(96, 2).params == 192 * 8 + 8 + 3


def test_an_indexer_reads_its_keys_and_its_choice_bounds_what_attention_reads() -> None:
    spec = model("deepseek_v4")
    sparse = {op.name: op for op in step(spec, 400)}
    scores, attention = sparse["indexer_scores"], sparse["attention_sparse"]
    assert scores.traffic.kv_read == 2 * 100 * 16 * 2
    assert attention.traffic.kv_read == 2 * (15 + 8) * 32 * 2
    assert (scores.kind, scores.model_flops) == (OpKind.INDEXER, 2 * 2 * 100 * 4 * 16)


@pytest.mark.parametrize("name", ["deepseek_v4", "deepseek_v4-rates", "minimax_m3_vl", "mllama", "step3p7"])
def test_arrays_are_counted_as_numbers_are(name: str) -> None:
    spec, contexts = model(name), [0, 1, 15, 16, 17, 127, 128, 500]
    swept = step(spec, np.array(contexts, dtype=np.float64), images=3)
    for i, context in enumerate(contexts):
        for op, one in zip(swept, step(spec, context, images=3), strict=True):
            assert op.name == one.name
            for many, single in ((op.flops, one.flops), (op.traffic.memory, one.traffic.memory)):
                assert np.broadcast_to(np.asarray(many), (len(contexts),))[i] == pytest.approx(single, rel=1e-12), name


def test_cross_attention_over_image_tokens() -> None:
    """FLOP of the reference's own class with 20 image tokens a sequence; 3 text layers hold 48 tokens of 64 bytes."""
    spec = model("mllama")
    assert sum(op.model_flops for op in step(spec, 0, 48, images=20, full=True)) == 58_732_544
    assert sum(op.model_flops for op in step(spec, 48, images=20, full=True)) == 1_218_304
    assert kv_cache_bytes(spec, 48, DType.BF16, image_tokens=20) == 3 * 48 * 64 + 2 * 20 * 64
    assert kv_cache_bytes(spec, 500, DType.BF16) == 3 * 500 * 64


def test_without_images_cross_attention_layers_do_not_run() -> None:
    assert not [op for op in step(model("mllama"), 10) if op.name.startswith("cross_")]
    (crossed,) = [op for op in step(model("mllama"), 10, images=5) if op.name == "cross_attention"]
    assert crossed.traffic.kv_read == 2 * 2 * 5 * 64
    assert crossed.traffic.kv_write == 0


def test_tokens_that_wait_are_state() -> None:
    """Three heavy layers wait with 128 x 64 values and gates; a light one with 2 x 4 x 128, its indexer with half."""
    assert state_bytes(model("deepseek_v4"), None, DType.BF16) == 4 * (3 * 128 * 64 + 8 * 128 + 8 * 64)
