"""Configs: the rules by which fields are read, and everything that can be wrong with a file."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from rooflens.core.model import ModelSpec
from rooflens.core.op import DType
from rooflens.core.scenario import Batch, Conventions, Phase, PhaseKind
from rooflens.count import forward, params
from rooflens.count.sizes import kv_bytes_per_token
from rooflens.errors import ConfigError, RooflensError, UnknownArchitectureError
from rooflens.sources import config
from rooflens.sources.config import MAX_CONFIG_BYTES, read_config, spec_from_config
from rooflens.sources.models import bundled_names, load_model
from tests.conftest import precision

READER = Path(config.__file__).parent
ROWS = [
    json.loads(line)
    for line in (Path(__file__).parent.parent / "data" / "reference_moe.jsonl").read_text().splitlines()
]

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "torch_dtype": "bfloat16",
}


def read(**changed: Any) -> ModelSpec:
    values = {**LLAMA, **changed}
    return spec_from_config({k: v for k, v in values.items() if v != "absent"}, name="m", origin="config.json")


def attention(**changed: Any) -> Any:
    return read(**changed).layers[0].blocks[0]


def windows(**changed: Any) -> list[tuple[int, int | None]]:
    return [(layer.count, layer.blocks[0].span.window) for layer in read(**changed).layers]


def test_explicit_head_dim_wins() -> None:
    assert attention().d_k == 8
    assert attention(head_dim=128).d_k == 128
    assert attention(head_dim=None).d_k == 8


def test_missing_kv_heads_mean_one_for_each_head() -> None:
    assert attention(num_key_value_heads="absent").kv_heads == 8
    assert attention().kv_heads == 2


def test_null_kv_heads_with_per_layer_data_are_refused() -> None:
    with pytest.raises(ConfigError, match="num_key_value_heads is null and block_configs"):
        read(num_key_value_heads=None, block_configs=[{}])


def test_gpt2_names() -> None:
    """GPT-2: wte + wpe + 12 (12 n^2 + 13 n) + 2 n = 124,439,808 parameters, head tied (case 20)."""
    model = spec_from_config(
        {"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024, "vocab_size": 50257},
        name="gpt2",
        origin="config.json",
    )
    assert model.tied
    assert params(model) == 124_439_808


def test_tied_or_not_case_35() -> None:
    """Llama-3.2-1B: 1,235,814,400 with the head tied, 128,256 x 2,048 more without."""
    base = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32}
    sizes = {**base, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256}
    assert params(read(**sizes, tie_word_embeddings=True)) == 1_235_814_400
    assert params(read(**sizes, tie_word_embeddings=False)) == 1_498_482_688


def test_nested_text_config() -> None:
    model = spec_from_config(
        {"model_type": "gemma3", "torch_dtype": "float16", "text_config": {**LLAMA, "model_type": "gemma3_text"}},
        name="m",
        origin="config.json",
    )
    assert (model.architecture, model.kept_dtype) == ("gemma3_text", DType.BF16)
    inherited = {k: v for k, v in LLAMA.items() if k != "torch_dtype"}
    outer = {"model_type": "gemma3", "dtype": "float16", "text_config": inherited | {"model_type": "gemma3_text"}}
    assert spec_from_config(outer, name="m", origin="c").kept_dtype is DType.FP16


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"sliding_window": 16}, [(2, 16)]),
        ({"sliding_window": None}, [(2, None)]),
        ({}, [(2, 4096)]),
        ({"sliding_window": 16, "max_position_embeddings": 16}, [(2, None)]),
        ({"sliding_window": 16, "max_position_embeddings": 17}, [(2, 16)]),
    ],
)
def test_windows_of_a_whole_model(changed: dict[str, Any], expected: object) -> None:
    assert windows(model_type="mistral", **changed) == expected


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"use_sliding_window": False, "sliding_window": 16}, [(2, None)]),
        ({"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1}, [(1, None), (1, 16)]),
        ({"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 0}, [(2, 16)]),
        ({"use_sliding_window": True, "sliding_window": None}, [(2, None)]),
    ],
)
def test_windows_from_a_layer_on(changed: dict[str, Any], expected: object) -> None:
    assert windows(model_type="qwen2", **changed) == expected


def test_alternating_windows() -> None:
    assert windows(model_type="gemma2", sliding_window=16, num_hidden_layers=5) == [(3, 16), (2, None)]
    pattern = windows(model_type="gemma3_text", sliding_window=16, num_hidden_layers=13, sliding_window_pattern=6)
    assert pattern == [(11, 16), (2, None)]
    types = ["full_attention", "sliding_attention"]
    assert windows(model_type="gemma3_text", sliding_window=16, layer_types=types) == [(1, None), (1, 16)]
    assert windows(model_type="exaone4", sliding_window=16, num_hidden_layers=4, sliding_window_pattern="LLLG") == [
        (3, 16),
        (1, None),
    ]


def test_layer_types_of_the_wrong_length_name_both() -> None:
    with pytest.raises(ConfigError, match="layer_types has 3 entries, num_hidden_layers is 2"):
        read(model_type="gemma2", layer_types=["full_attention"] * 3)


def test_layer_types_that_are_not_known() -> None:
    with pytest.raises(ConfigError, match="'linear_attention'"):
        read(model_type="gemma2", layer_types=["linear_attention"] * 2)


def test_dtype_fields() -> None:
    assert read().dtype_stated
    assert read(torch_dtype="absent", dtype="float32").kept_dtype is DType.FP32
    unstated = read(torch_dtype="absent")
    assert (unstated.kept_dtype, unstated.dtype_stated) == (DType.BF16, False)
    assert "no dtype" in unstated.notes[0]


@pytest.mark.parametrize(
    ("quantization", "weights", "weight_only"),
    [
        ({"quant_method": "fp8"}, DType.FP8, False),
        ({"quant_method": "mxfp4"}, DType.MXFP4, False),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, DType.NVFP4, False),
        ({"quant_method": "awq", "bits": 4}, DType.INT4, True),
        ({"quant_method": "gptq", "bits": 8}, DType.INT8, True),
    ],
)
def test_quantised_checkpoints(quantization: dict[str, Any], weights: DType, weight_only: bool) -> None:
    model = read(quantization_config=quantization)
    assert (model.weights_dtype, model.weight_only, model.kept_dtype) == (weights, weight_only, DType.BF16)


def test_a_narrow_dtype_is_one_of_weights() -> None:
    narrow = read(torch_dtype="float8_e4m3fn")
    assert (narrow.weights_dtype, narrow.kept_dtype) == (DType.FP8, DType.BF16)
    assert not read(torch_dtype="auto").dtype_stated


def test_class_name_stands_in_for_a_missing_model_type() -> None:
    assert read(model_type="absent", architectures=["LlamaForCausalLM"]).architecture == "llama"


def test_remote_code_is_never_run_and_unknown_architectures_are_refused_by_name() -> None:
    with pytest.raises(UnknownArchitectureError, match=r"'mystery' has no mapping.*auto_map\) is never run"):
        read(model_type="mystery", auto_map={"AutoModelForCausalLM": "modeling.Mystery"})
    assert read(auto_map={"AutoModelForCausalLM": "modeling.Mystery"}).architecture == "llama"


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"hidden_size": -1}, "hidden_size is -1; expected a whole number from 1"),
        ({"hidden_size": 0}, "hidden_size is 0"),
        ({"hidden_size": 64.5}, "hidden_size is 64.5; expected a positive whole number"),
        ({"hidden_size": float("nan")}, "hidden_size is nan"),
        ({"hidden_size": True}, "hidden_size is true"),
        ({"hidden_size": "64"}, "hidden_size is '64'"),
        ({"hidden_size": "absent"}, "hidden_size or n_embd or d_model is missing"),
        ({"vocab_size": 10**9}, "vocab_size is 1,000,000,000; expected a whole number from 1 to"),
        ({"num_hidden_layers": 10**400}, "num_hidden_layers is a number of 1329 bits"),
        ({"num_key_value_heads": 3}, "8 attention heads cannot share 3 key-value heads"),
        (
            {"model_type": "llama", "num_attention_heads": 7, "num_key_value_heads": 7},
            "hidden size 64 is no multiple of 7",
        ),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings is 'yes'; expected true or false"),
        ({"torch_dtype": "bfloat17"}, "torch_dtype: dtype 'bfloat17' is not known"),
        ({"torch_dtype": 5}, "torch_dtype is 5; expected a string"),
        ({"dtype": "float16"}, "torch_dtype bf16 and dtype fp16 contradict each other"),
        ({"num_local_experts": 8}, "num_local_experts is 8, but gemma2 has no such layers"),
        ({"kv_lora_rank": 64}, "kv_lora_rank is 64, but gemma2 has no such layers"),
        ({"quantization_config": {"quant_method": "magic"}}, "the method 'magic' is not known"),
        ({"quantization_config": 3}, "quantization_config is 3; expected an object"),
        ({"layer_types": "full"}, "layer_types is 'full'; expected a list of strings"),
    ],
)
def test_contradictions_are_named(changed: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(**{"model_type": "gemma2", **changed})
    assert text in str(caught.value)
    assert str(caught.value).startswith("config.json")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "changed", "text"),
    [
        ("mixtral", {"num_experts_per_tok": 9}, "num_experts_per_tok is 9, num_local_experts is 6"),
        ("qwen3_moe", {"mlp_only_layers": [99]}, "mlp_only_layers names layer 99, num_hidden_layers is"),
        ("llama4_text", {"moe_layers": [-1]}, "moe_layers names layer -1, num_hidden_layers is"),
        ("mllama", {"cross_attention_layers": [5]}, "cross_attention_layers names layer 5, num_hidden_layers is 5"),
        ("lfm2", {"layer_types": ["conv"]}, "layer_types has 1 entries, num_hidden_layers is"),
        ("mimo_v2_flash", {"hybrid_layer_pattern": [0, 1]}, "hybrid_layer_pattern has 2 entries, num_hidden_layers is"),
        ("minimax_m3_vl", {"moe_layer_freq": [1]}, "moe_layer_freq has 1 entries, num_hidden_layers is 4"),
        ("minimax_m3_vl", {"sparse_attention_config": {"sparse_attention_freq": [1]}}, "sparse_attention_freq has 1 "),
        ("minimax_m3_vl", {"index_n_heads": 3, "sparse_attention_config": {}, "layer_types": ["minimax_m3_sparse"] * 4},
         "index_n_heads is 3, num_attention_heads is 8"),
        ("deepseek_v4", {"o_groups": 4}, "o_groups is 4, num_attention_heads is 6"),
        ("deepseek_v4", {"num_key_value_heads": 2}, "num_key_value_heads is 2; expected 1"),
        ("deepseek_v4", {"qk_rope_head_dim": 64}, "qk_rope_head_dim is 64, head_dim is 32"),
        ("deepseek_v4", {"layer_types": ["full_attention"] * 4}, "layer_types names 'full_attention'; expected"),
        ("deepseek_v4-ratios", {"compress_ratios": [0, 4]}, "compress_ratios has 2 entries, num_hidden_layers is 6"),
        ("deepseek_v4-ratios", {"compress_ratios": [7] * 6}, "compress_ratios holds 7; expected 0, 4 or 128"),
        ("nemotron_h-latent", {"hybrid_override_pattern": "MX"}, "hybrid_override_pattern holds 'X'"),
        ("nemotron_h-latent", {"hybrid_override_pattern": None}, "hybrid_override_pattern is missing"),
        ("nemotron_h-block-types", {"layers_block_type": ["rnn"]}, "layers_block_type names 'rnn'"),
        ("qwen3_next", {"linear_num_value_heads": 3}, "linear_num_value_heads is 3, linear_num_key_heads is"),
        ("recurrent_gemma", {"lru_width": 7}, "lru_width is 7; expected a divisor of it"),
        ("kimi_linear", {"attn_res_block_size": 12}, "attn_res_block_size is set, as in Kimi K3"),
        ("kimi_linear", {"linear_attn_config": {"full_attn_layers": [2], "kda_layers": [1]}}, "name 2 layers"),
        ("step3p7", {"num_sliding_attention_heads": 7}, "7 heads of sliding layers cannot share num_key_value_heads 2"),
        ("step3p7", {"moe_layers_enum": "1,x"}, "moe_layers_enum is '1,x'; expected numbers"),
        ("nemotron_h", {"num_hidden_layers": 4}, "hybrid_override_pattern has 5 layers, num_hidden_layers is 4"),
        ("nemotron_h-block-types", {"num_hidden_layers": 4}, "layers_block_type has 5 layers, num_hidden_layers is 4"),
        ("deepseek_v3", {"n_group": 3}, "8 experts cannot be in n_group 3; expected a divisor"),
        ("deepseek_v3", {"topk_group": 3}, "topk_group 3 is more than n_group 2; expected at most as many"),
        ("deepseek_v3", {"num_experts_per_tok": 5}, "5 experts for each token are more than topk_group 1 of n_group 2"),
        ("deepseek_v3", {"first_k_dense_replace": 9}, "first_k_dense_replace is 9, num_hidden_layers is 3"),
        ("bamba", {"mamba_n_groups": 5}, "12 state-space heads cannot share n_groups 5; expected a divisor"),
        ("mixtral", {"num_experts": 8}, "num_experts is 8, num_local_experts is 6; they mean the same"),
        ("mixtral", {"moe_topk": 1}, "num_experts_per_tok is 2, moe_topk is 1; they mean the same"),
        ("mixtral", {"n_layer": 9}, "n_layer is 9; they mean the same"),
        ("mixtral", {"n_embd": 9}, "n_embd is 9; they mean the same"),
    ],
)  # fmt: skip
def test_fields_that_contradict_each_other_are_named(name: str, changed: dict[str, Any], text: str) -> None:
    base = next(row for row in ROWS if row["name"] == name)["config"]
    values = {**base, "text_config": {**base["text_config"], **changed}} if "text_config" in base else base | changed
    with pytest.raises(ConfigError) as caught:
        spec_from_config(values, name="m", origin="config.json")
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"model_type": "t5"}, "'t5' is an encoder-decoder"),
        ({"model_type": "whisper", "is_encoder_decoder": True}, "'whisper' is an encoder-decoder"),
        ({"model_type": "novel", "is_encoder_decoder": True}, "'novel' is an encoder-decoder"),
        ({"model_type": "bert"}, "'bert' is an encoder"),
        ({"model_type": "mistral", "architectures": ["MistralModel"]}, "'MistralModel' is an embedding model"),
        ({"model_type": "llama", "architectures": ["LlamaForSequenceClassification"]}, "labels or embeds its input"),
        ({"__version__": {"sentence_transformers": "3.0"}}, "SentenceTransformers embedding model"),
        ({"_class_name": "UNet2DConditionModel"}, "'UNet2DConditionModel' is part of a diffusion model"),
    ],
)
def test_what_is_no_decoder_is_refused_in_words(values: dict[str, Any], text: str) -> None:
    with pytest.raises(UnknownArchitectureError, match="decoder-only language models") as caught:
        spec_from_config({**LLAMA, "model_type": None, **values}, name="m", origin="config.json")
    assert text in str(caught.value)


def test_classes_that_only_look_like_embedding_models() -> None:
    assert read(architectures=["LlamaForCausalLM"]).architecture == "llama"
    nested = {"architectures": ["InternVLChatModel"], "llm_config": LLAMA}
    assert spec_from_config(nested, name="m", origin="c").architecture == "llama"


def nas(blocks: list[dict[str, Any]], **changed: Any) -> ModelSpec:
    return read(model_type="nemotron-nas", num_key_value_heads=None, intermediate_size=None,
                num_hidden_layers=len(blocks), block_configs=blocks, **changed)  # fmt: skip


def test_nemotron_nas_of_equal_blocks_is_a_llama() -> None:
    """Width 2/3 x 3.75 x 64 = 160, rounded up to 256; 8 heads in groups of 4 share 2 KV heads."""
    block = {"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 3.75}}
    model, same = nas([block] * 2), read(intermediate_size=256)
    assert model.layers == same.layers
    assert params(model) == params(same)


def test_nemotron_nas_blocks_that_are_nothing_or_a_projection() -> None:
    """Embedding and head 2 x 100 x 64, final norm 64; a projection of 64 x 64 with its norm; an MLP with its norm."""
    nothing = {"attention": {"no_op": True}, "ffn": {"no_op": True}}
    plain = {"attention": {"replace_with_linear": True}, "ffn": {"no_op": True}}
    feed = {"attention": {"no_op": True}, "ffn": {"ffn_mult": 1.0}}
    assert params(nas([nothing])) == 12_864
    assert params(nas([plain])) == 12_864 + 64 * 64 + 64
    assert params(nas([feed])) == 12_864 + 3 * 64 * 256 + 64
    assert kv_bytes_per_token(nas([nothing, plain, feed]), DType.BF16, windowed=False) == 0


@pytest.mark.parametrize(
    ("attention", "feed", "text"),
    [
        ({"n_heads_in_group": 3}, {"no_op": True}, "n_heads_in_group is 3, num_attention_heads is 8"),
        ({"n_heads_in_group": None}, {"no_op": True}, "n_heads_in_group is missing"),
        ({"n_heads_in_group": 8, "num_sink_tokens": 4}, {"no_op": True}, "num_sink_tokens is set"),
        ({"no_op": True}, {"ffn_mult": -1}, "ffn_mult is -1; expected a positive number"),
        ({"no_op": True}, {"ffn_mult": 2**20}, "width from ffn_mult is 44,739,328"),
        ({"no_op": True}, 5, "ffn is 5; expected an object"),
    ],
)
def test_nemotron_nas_blocks_that_say_too_little(attention: Any, feed: Any, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        nas([{"attention": attention, "ffn": feed}])
    assert text in str(caught.value)


def test_a_layer_for_each_block() -> None:
    with pytest.raises(ConfigError, match="block_configs has 1 entries, num_hidden_layers is 2"):
        read(model_type="nemotron-nas", block_configs=[{}])


def test_a_flattened_step_config_must_say_the_heads_of_its_sliding_layers() -> None:
    flat = {**LLAMA, "model_type": "step3p7", "layer_types": ["sliding_attention", "full_attention"],
            "sliding_window": 8, "n_routed_experts": 4, "num_experts_per_tok": 2}  # fmt: skip
    with pytest.raises(ConfigError, match="num_sliding_attention_heads is missing"):
        spec_from_config(flat, name="m", origin="c")
    assert spec_from_config({**flat, "num_sliding_attention_heads": 8}, name="m", origin="c").architecture == "step3p5"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "is not complete JSON"),
        (b'{"hidden_size": 64', "is not complete JSON"),
        (b"[1, 2]", "holds a list and no object"),
        (b"null", "holds null and no object"),
        (b"\xff\xfe\x00", "is not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "thousands of digits"),
        (b'{"a": 1, "a": 2}', "names the field 'a' twice"),
        (b"{}", "neither model_type nor architectures"),
    ],
)
def test_files_that_are_no_config(tmp_path: Path, data: bytes, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(data)
    with pytest.raises(RooflensError, match=text):
        read_config(path)


def test_a_folder_stands_for_its_config(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert read_config(tmp_path).name == tmp_path.name


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(LLAMA).encode())
    assert read_config(path).name == "mine"


def test_a_huge_config_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with open(path, "wb") as file:
        file.truncate(100 * 2**20)
    with pytest.raises(ConfigError, match=f"104,857,600 bytes; expected .* of at most {MAX_CONFIG_BYTES:,} bytes"):
        read_config(path)


def test_a_symlink_loop(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.symlink_to(path)
    with pytest.raises(ConfigError, match="could not be read"):
        read_config(path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    os.mkfifo(path)
    with pytest.raises(ConfigError, match="not a regular file"):
        read_config(path)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = sorted({*LLAMA, "head_dim", "layer_types", "sliding_window", "quantization_config", "text_config", "dtype",
                 "attn_config", "multi_query", "use_sliding_window", "max_window_layers", "sliding_window_pattern",
                 "max_position_embeddings", "architectures", "auto_map", "block_configs", "num_kv_heads", "n_embed",
                 "num_ln_in_parallel_attn", "word_embed_proj_dim", "attention_bias", "ffn_hidden_size"})  # fmt: skip
KNOWN_TO_FAMILIES = sorted(
    {*FIELDS, *re.findall(r'"([a-z][a-z0-9]*_[a-zA-Z0-9_]*)"', "".join(f.read_text() for f in READER.glob("*.py")))}
)
"""Every name with an underscore that the reader's own text holds: fields of every architecture, and a few words."""


@settings(max_examples=600)
@given(
    st.dictionaries(st.sampled_from(KNOWN_TO_FAMILIES), VALUES, max_size=5),
    st.sampled_from([row["config"] for row in ROWS]),
    st.lists(st.integers(0, 2**20), max_size=3),
)
def test_mutated_configs_of_every_family_raise_only_our_errors(
    changed: dict[str, Any], base: dict[str, Any], picks: list[int]
) -> None:
    """Fields of any architecture are changed, and some of its own get values that other fields of it have."""
    inner = dict(base.get("text_config", base))
    own = sorted(inner)
    for pick in picks:
        inner[own[pick % len(own)]] = inner[own[pick // len(own) % len(own)]]
    values = {**base, "text_config": {**inner, **changed}} if "text_config" in base else {**inner, **changed}
    try:
        model = spec_from_config(values, name="m", origin="config.json")
    except RooflensError as error:
        assert "\n" not in str(error)
    else:
        step = Phase(PhaseKind.DECODE, Batch(1, 1, 100))
        assert params(model) > 0
        assert all(op.flops >= 0 for op in forward(model, step, precision(), Conventions()))


@settings(max_examples=400)
@given(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=6), st.sampled_from([None, *bundled_names()]))
def test_mutated_configs_raise_only_our_errors(changed: dict[str, Any], base: str | None) -> None:
    values = dict(LLAMA)
    if base:
        folder = Path(load_model.__code__.co_filename).parent.parent / "data" / "models"
        values = json.loads((folder / f"{base}.json").read_text())["config"]
    try:
        model = spec_from_config({**values, **changed}, name="m", origin="config.json")
    except RooflensError as error:
        assert "\n" not in str(error)
    else:
        assert params(model) > 0


@settings(max_examples=200)
@given(st.dictionaries(st.text(max_size=12), VALUES, max_size=5))
def test_random_objects_raise_only_our_errors(values: dict[str, Any]) -> None:
    with pytest.raises(RooflensError):
        spec_from_config(values, name="m", origin="config.json")


@settings(max_examples=200)
@given(st.integers(0, 400), st.binary(max_size=3))
def test_cut_and_spliced_files_raise_only_our_errors(cut: int, spliced: bytes) -> None:
    from rooflens.sources.files import parse_json_object

    data = json.dumps(LLAMA).encode()
    try:
        spec_from_config(parse_json_object(data[:cut] + spliced, "f", ConfigError), name="m", origin="f")
    except RooflensError as error:
        assert "\n" not in str(error)


ORACLE = Path(__file__).parents[3] / "shared" / "data"


@pytest.mark.skipif(not ORACLE.exists(), reason="needs the shared data folder")
def test_published_configs_against_the_oracle() -> None:
    checked = 0
    for line in (ORACLE / "oracle.jsonl").read_text().splitlines():
        row = json.loads(line)
        try:
            model = read_config(ORACLE / "configs" / f"{row['name']}.json")
        except UnknownArchitectureError:
            continue
        assert params(model) == row["params"], row["name"]
        checked += 1
    assert checked >= 19
