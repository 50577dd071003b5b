"""Documents of models of every layer kind: their sums are the model's own, and their table shows every figure."""

from __future__ import annotations

import io
import json
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from rooflens.core.model import ModelSpec
from rooflens.core.op import DType
from rooflens.core.scenario import Conventions, LatentForm
from rooflens.count.sizes import kv_bytes_per_token, params, state_bytes
from rooflens.render.document import ModelDocument, encode
from rooflens.render.documents import model_document, profile_document
from rooflens.render.model import model_table
from rooflens.sources.config import read_config
from tests.conftest import precision
from tests.render.explanations import predicted
from tests.render.small_models import SMALL

CONFIGS = Path(__file__).resolve().parents[3] / "shared" / "data" / "configs"


def document(model: ModelSpec, kv: DType = DType.BF16) -> ModelDocument:
    return model_document(model, contexts=[8, 1024], weights=DType.BF16, kept=DType.BF16, kv=kv)


def shared(name: str, kv: DType = DType.BF16) -> ModelDocument:
    path = CONFIGS / f"{name}.json"
    if not path.exists():
        pytest.skip("the shared configs are not here")
    return document(read_config(path), kv)


def printed(made: ModelDocument, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(model_table(made))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("name", SMALL)
def test_layers_add_up_to_the_model(name: str) -> None:
    model = SMALL[name]
    made = document(model)
    assert sum(layer.count for layer in made.layers) == model.depth
    assert sum(layer.count * layer.kv_bytes_per_token for layer in made.layers) == made.kv_bytes_per_token_all_layers
    assert made.kv_bytes_per_token == kv_bytes_per_token(model, DType.BF16, windowed=False)
    assert sum(layer.count * layer.state_bytes for layer in made.layers) == made.state_bytes
    assert made.state_bytes == state_bytes(model, None, DType.BF16)
    for layer, found in zip(model.layers, made.layers, strict=True):
        norms = sum(norm.params for norm in layer.norms)
        assert sum(block.params for block in found.blocks) + norms + layer.extra_params == found.params == layer.params
    assert params(model) == made.params
    assert msgspec.json.decode(encode(made), type=ModelDocument) == made


@pytest.mark.parametrize("name", SMALL)
def test_the_table_shows_every_block(name: str) -> None:
    made = document(SMALL[name])
    text = printed(made, 160)
    for layer in made.layers:
        for block in layer.blocks:
            assert block.kind in text
            assert f"{block.params:,}" in text
            for figure in (block.window, block.chunk, block.top_k, block.kv_rank, block.state_values, block.width):
                assert figure is None or f"{figure:,}" in text


def test_fields_of_a_dense_layer_stay() -> None:
    layer = document(SMALL["window"]).layers[0]
    assert (layer.kind, layer.mlp, layer.intermediate) == ("window attention, gated mlp", "gated", 10)
    assert (layer.heads, layer.kv_heads, layer.head_dim, layer.value_head_dim, layer.window) == (4, 2, 3, 3, 3)
    assert layer.kv_bytes_per_token == 2 * (3 + 3) * 2


def test_fields_that_a_layer_does_not_have_are_null() -> None:
    mixed = document(SMALL["mamba2"]).layers[0]
    assert mixed.kind == "Mamba-2, gated mlp"
    assert (mixed.heads, mixed.kv_heads, mixed.window, mixed.kv_bytes_per_token) == (None, None, None, 0)
    assert mixed.blocks[0].state_values == 4 * 3 * 5
    assert (mixed.blocks[0].conv_channels, mixed.blocks[0].conv_kernel) == (12 + 2 * 2 * 5, 4)
    assert mixed.state_bytes == 60 * 4 + 32 * 3 * 2
    experts = document(SMALL["shared experts"]).layers[0]
    assert (experts.mlp, experts.intermediate) == (None, None)
    assert experts.kind == "full attention, 5 experts"
    block = experts.blocks[1]
    assert (block.experts, block.top_k, block.expert_width, block.shared_width) == (5, 2, 4, 8)


def test_blocks_leave_out_what_they_do_not_have() -> None:
    block = json.loads(encode(document(SMALL["sparse"])))["layers"][0]["blocks"][0]
    assert block["kind"] == "sparse latent attention"
    assert (block["kv_rank"], block["rope_dim"], block["q_rank"], block["top_k"]) == (8, 2, 5, 2)
    assert (block["indexer_heads"], block["indexer_width"]) == (2, 4)
    assert not {"window", "experts", "kv_heads", "state_values"} & set(block)


def test_both_figures_of_a_windowed_cache_are_printed() -> None:
    """gpt-oss-120b: 18 of 36 layers grow, an engine that pages all alike reserves for 36."""
    made = shared("gpt-oss-120b")
    assert (made.kv_bytes_per_token, made.kv_bytes_per_token_all_layers) == (36_864, 73_728)
    text = printed(made)
    assert "beyond every window" in text
    assert "36,864 B" in text
    assert "reserved where every layer is paged alike" in text
    assert "73,728 B" in text


def test_latent_caches() -> None:
    assert shared("deepseek-v3").kv_bytes_per_token == 70_272
    assert shared("deepseek-v3", DType.FP8_DS_MLA).kv_bytes_per_token == 40_016
    layers = shared("deepseek-v3").layers
    assert [layer.kind for layer in layers] == ["latent attention, gated mlp", "latent attention, 256 experts"]


def test_state_of_a_hybrid() -> None:
    """Qwen3.5-27B: 48 layers of 48 states of 128 x 128, and 3 columns of 10,240 channels."""
    made = shared("qwen3.5-27b-hybrid")
    assert made.state_bytes == 48 * (48 * 128 * 128 * 4 + 10_240 * 3 * 2)
    four = model_document(
        read_config(CONFIGS / "qwen3.5-27b-hybrid.json"),
        contexts=[], weights=DType.BF16, kept=DType.BF16, kv=DType.BF16, state=DType.FP32,
    )  # fmt: skip
    assert 4 * four.state_bytes == 598.5 * 2**20


def test_no_number_of_the_table_is_cut_off() -> None:
    for name in ("deepseek-v3", "qwen3-next-80b-a3b", "mimo-v2-flash"):
        assert "…" not in printed(shared(name))


def test_choices_of_a_run_are_in_its_document() -> None:
    counted = Conventions(latent=LatentForm.ABSORBED, distinct_experts=3.5)
    profile = predicted(SMALL["latent"], precision(), counted, (2, 4, 4, None))
    made = profile_document(profile)
    assert (made.conventions.latent, made.conventions.distinct_experts) == ("absorbed", 3.5)
    assert any("3.5 experts" in note for note in made.conventions.notes)
    assert any("absorbed" in note for note in made.conventions.notes)
    plain = profile_document(predicted(SMALL["tiny"], precision(), Conventions(), (2, 4, 4, None)))
    assert not any("latent" in note or "experts" in note for note in plain.conventions.notes)
    assert (plain.scenario.state_dtype, plain.metrics.state_bytes) == (None, 0)


def test_state_is_part_of_what_the_memory_holds() -> None:
    metrics = profile_document(predicted(SMALL["mamba"], precision(), Conventions(), (3, 4, 4, None))).metrics
    assert metrics.state_bytes == 3 * 2 * (12 * 3 * 4 + 12 * 3 * 2)
    assert metrics.memory_needed_bytes == metrics.weight_bytes + metrics.kv_cache_bytes + metrics.state_bytes
