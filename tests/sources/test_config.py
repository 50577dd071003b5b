"""Configs: the rules by which fields are read, and everything that can be wrong with a file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from rooflens.core.model import ModelSpec
from rooflens.core.op import DType
from rooflens.count import params
from rooflens.errors import ConfigError, RooflensError, UnknownArchitectureError
from rooflens.sources.config import MAX_CONFIG_BYTES, read_config, spec_from_config
from rooflens.sources.models import bundled_names, load_model

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
    return read(**changed).layers[0].attention


def windows(**changed: Any) -> list[tuple[int, int | None]]:
    return [(layer.count, layer.attention.window) for layer in read(**changed).layers]


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
    ("data", "text"),
    [
        (b"", "is not complete JSON"),
        (b'{"hidden_size": 64', "is not complete JSON"),
        (b"[1, 2]", "holds a JSON list; expected an object"),
        (b"null", "holds a JSON NoneType"),
        (b"\xff\xfe\x00", "is not UTF-8"),
        (b"[" * 100_000, "cannot be read"),
        (b'{"a": ' + b"9" * 5000 + b"}", "cannot be read"),
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
