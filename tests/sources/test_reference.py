"""Counts of the reference framework's own model code, for every architecture that is known.

tests/data/reference_dense.jsonl comes from scripts/reference_counts.py: transformers' classes on the meta
device under PyTorch's FlopCounterMode, batch 2, a prefill of 48 tokens and one decode step after it, full
attention, logits for every token. Cache bytes are of one sequence of 96 tokens in bf16.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rooflens.core.model import ModelSpec
from rooflens.core.op import DType
from rooflens.core.scenario import AttentionFlops, Batch, Conventions, Logits, Phase, PhaseKind
from rooflens.count import forward, kv_cache_bytes, params
from rooflens.sources.config import spec_from_config
from rooflens.sources.families import FAMILIES
from tests.conftest import precision

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parent.parent / "data" / "reference_dense.jsonl").read_text().splitlines()
]
NOT_IN_THE_FRAMEWORK = {"chatglm", "internlm3", "qwen3_vl_text"}
EXPANDED_CACHE = ("falcon-new-decoder", "falcon-new-decoder-one-norm")
"""The framework's Falcon keeps K and V repeated for every head; engines keep `num_kv_heads`."""


def check(row: dict[str, Any]) -> None:
    model = spec_from_config(row["config"], name=row["name"], origin=row["name"])
    assert params(model) == row["params"], row["name"]
    assert model.tied == row["tied"], row["name"]
    assert flops(model, PhaseKind.PREFILL) == row["prefill_flops"], row["name"]
    assert flops(model, PhaseKind.DECODE) == row["decode_flops"], row["name"]
    if row["name"] not in EXPANDED_CACHE:
        assert kv_cache_bytes(model, 96, DType.BF16) == row["cache_bytes_96"] + kept_back(model), row["name"]


def flops(model: ModelSpec, kind: PhaseKind) -> object:
    batch = Batch(2, 48, 0) if kind is PhaseKind.PREFILL else Batch(2, 1, 48)
    conventions = Conventions(AttentionFlops.FULL, Logits.ALL)
    return sum(op.model_flops for op in forward(model, Phase(kind, batch), precision(), conventions))


def kept_back(model: ModelSpec) -> int:
    """A full window holds W tokens here and W - 1 in the framework, which makes room for the next one at once."""
    full = (layer for layer in model.layers if layer.attention.window is not None and layer.attention.window <= 96)
    return sum(layer.count * 2 * layer.attention.values_per_token for layer in full)


def test_every_reference_row() -> None:
    for row in ROWS:
        check(row)


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_reference(row: dict[str, Any]) -> None:
    check(row)


def test_every_architecture_has_a_row() -> None:
    covered = {row["config"]["model_type"] for row in ROWS}
    assert set(FAMILIES) - covered - NOT_IN_THE_FRAMEWORK == {"gemma3_text"} - covered
