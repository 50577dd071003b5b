"""Counts of the reference framework's own model code, for every architecture that is known.

tests/data/reference_*.jsonl come from scripts/reference_counts.py: transformers' classes on the meta
device under PyTorch's FlopCounterMode, batch 2, a prefill of 48 tokens and one decode step after it, full
attention, logits for every token. Cache bytes are of one sequence of 96 tokens in bf16.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rooflens.core.compressed import CompressedAttention
from rooflens.core.linear_attention import DeltaNet, ShortConv
from rooflens.core.model import Attention, ModelSpec
from rooflens.core.op import DType
from rooflens.core.recurrent import Mamba, Mamba2
from rooflens.core.scenario import AttentionFlops, Batch, Conventions, LatentForm, Logits, Phase, PhaseKind
from rooflens.count import forward, kv_cache_bytes, params
from rooflens.count.sizes import state_bytes
from rooflens.sources.architectures import ALIASES, FAMILIES
from rooflens.sources.config import spec_from_config
from tests.conftest import precision

DATA = Path(__file__).parent.parent / "data"
ROWS = [
    json.loads(line)
    for name in ("reference_dense", "reference_moe")
    for line in (DATA / f"{name}.jsonl").read_text().splitlines()
]
NOT_IN_THE_FRAMEWORK = {
    "chatglm",
    "internlm3",
    "kimi_k2",
    "mimo",
    "nemotron-nas",
    "qwen3_vl_moe_text",
    "qwen3_vl_text",
}
ARTEFACTS = {
    "deepseek_v4": {"state"},
    "deepseek_v4-ratios": {"state", "cache"},
    "deepseek_v4-rates": {"state", "cache"},
    "falcon-new-decoder": {"cache"},
    "falcon-new-decoder-one-norm": {"cache"},
    "gpt_neo": {"cache", "decode"},
    "gpt_neo-inner": {"cache", "decode"},
    "llama4_text": {"flops"},
    "llama4-nested": {"flops"},
    "mimo_v2_flash": {"decode", "cache"},
    "minimax": {"state"},
    "rwkv": {"decode"},
}
"""Where the framework does what engines do not: Falcon's cache repeats K and V for every head, GPT-Neo's local layers
keep every token, Llama 4 runs every expert on every token, MiMo's window is one token wider than its config says,
MiniMax keeps its recurrent state in 16 bit, RWKV's decode step meets the batch with itself, DeepSeek-V4's tokens that
wait to be compressed grow and drain where engines keep room for all of them, and its layers with nothing but a window
keep their one key twice."""


def check(row: dict[str, Any]) -> None:
    model, name = spec_from_config(row["config"], name=row["name"], origin=row["name"]), row["name"]
    skipped = ARTEFACTS.get(name, set())
    assert params(model) == row["params"], name
    assert model.tied == row["tied"], name
    if "flops" not in skipped:
        assert flops(model, PhaseKind.PREFILL) == row["prefill_flops"], name
    if not skipped & {"flops", "decode"}:
        assert flops(model, PhaseKind.DECODE) == row["decode_flops"], name
    if "cache" not in skipped:
        assert kv_cache_bytes(model, 96, DType.BF16) == row["cache_bytes_96"] + kept_back(model), name
    if "state" not in skipped:
        assert state_bytes(model, None, DType.BF16) == row["state_bytes"] - oldest_columns(model), name


def flops(model: ModelSpec, kind: PhaseKind) -> object:
    """As the framework runs it: full attention, all logits, latents of every cached token expanded in each step."""
    batch = Batch(2, 48, 0) if kind is PhaseKind.PREFILL else Batch(2, 1, 48)
    conventions = Conventions(AttentionFlops.FULL, Logits.ALL, latent=LatentForm.EXPANDED)
    return sum(op.model_flops for op in forward(model, Phase(kind, batch), precision(), conventions))


def kept_back(model: ModelSpec) -> int:
    """A full window holds W tokens here and W - 1 in the framework, which makes room for the next one at once."""
    blocks = [(layer.count, block) for layer in model.layers for block in layer.blocks if isinstance(block, Attention)]
    full = [(count, block) for count, block in blocks if block.span.held is not None and block.span.held <= 96]
    compressed = [
        (layer.count, block)
        for layer in model.layers
        for block in layer.blocks
        if isinstance(block, CompressedAttention)
    ]
    shared = sum(count * 2 * block.head_dim for count, block in compressed if block.window <= 96)
    return shared + sum(count * 2 * block.values_per_token for count, block in full if block.owns_cache)


def oldest_columns(model: ModelSpec) -> int:
    """The framework keeps `kernel` columns of a convolution, engines the kernel - 1 that the next token needs."""
    blocks = [(layer.count, block) for layer in model.layers for block in layer.blocks]
    kept = (Mamba, Mamba2, DeltaNet, ShortConv)
    return sum(count * 2 * block.conv_channels for count, block in blocks if isinstance(block, kept))


def test_every_reference_row() -> None:
    for row in ROWS:
        check(row)


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_reference(row: dict[str, Any]) -> None:
    check(row)


def test_every_architecture_has_a_row() -> None:
    covered = {row["config"]["model_type"] for row in ROWS}
    nested = {row["config"]["text_config"].get("model_type") for row in ROWS if "text_config" in row["config"]}
    covered |= {ALIASES[name] for name in covered if name in ALIASES}
    assert set(FAMILIES) - covered - nested - NOT_IN_THE_FRAMEWORK == set()
