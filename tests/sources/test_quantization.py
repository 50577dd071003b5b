"""Quantised checkpoints: what each method stores, and the bytes of published ones counted by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from rooflens.core.hardware import Ceiling
from rooflens.core.model import ModelSpec
from rooflens.core.op import DType
from rooflens.core.scenario import Batch, Conventions, Phase, PhaseKind, TrafficModel
from rooflens.count import forward, params, weight_bytes
from rooflens.errors import ConfigError, RooflensError
from rooflens.precision import Dtypes, settle
from rooflens.sources.config import read_config, spec_from_config
from rooflens.sources.models import load_model
from tests.conftest import SOURCE, part

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "torch_dtype": "bfloat16",
}
MOE: dict[str, Any] = {
    **LLAMA,
    "model_type": "qwen2_moe",
    "moe_intermediate_size": 128,
    "shared_expert_intermediate_size": 256,
    "num_experts": 4,
    "num_experts_per_tok": 2,
}
LINEAR = 2 * (512 * 512 * 2 + 2 * 512 * 256 + 3 * 512 * 1024)
"""Values of the linear layers of LLAMA: q and o, k and v, gate, up and down, in two layers."""
REST = 2 * 1000 * 512 + (2 * 2 + 1) * 512
"""Values of table, head and norms."""


def read(quantization: object, base: dict[str, Any] = LLAMA) -> ModelSpec:
    return spec_from_config({**base, "quantization_config": quantization}, name="m", origin="config.json")


def total(model: ModelSpec) -> int:
    return weight_bytes(model, model.weights_dtype, model.kept_dtype)


def stored(model: ModelSpec, layer: int = 0) -> dict[str, str]:
    return {name: str(dtype) for name, dtype in model.layers[layer].storage}


@pytest.mark.parametrize(
    ("quantization", "weights", "linear_bytes"),
    [
        (
            {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True},
            "int4_g128_zp",
            LINEAR // 128 * 66.5,
        ),
        ({"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": False}, "int4_g64", LINEAR // 64 * 34),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True}, "int4_g128_zp", LINEAR // 128 * 66.5),
        ({"quant_method": "gptq", "bits": 8, "group_size": 32}, "int8_g32_zp", LINEAR // 32 * 35),
        ({"quant_method": "gptq", "bits": 3, "group_size": 128}, "int3_g128_zp", LINEAR // 128 * (48 + 2 + 3 / 8)),
        ({"quant_method": "gptq", "bits": 2, "group_size": 64}, "int2_g64_zp", LINEAR // 64 * (16 + 2 + 2 / 8)),
        (
            {"quant_method": "gptq", "bits": 4, "group_size": -1},
            "int4_channel_zp",
            LINEAR / 2 + 2.5 * 2 * (1536 + 2560),
        ),
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
            "nf4",
            LINEAR // 64 * 36,
        ),
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True},
            "bnb_fp4_dq",
            LINEAR // 16384 * 8452,
        ),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8_row", LINEAR + 4 * 2 * (1536 + 2560)),
        ({"quant_method": "eetq", "weights": "int8"}, "int8_channel", LINEAR + 2 * 2 * (1536 + 2560)),
        ({"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0}, "fp8_row", LINEAR + 4 * 2 * (1536 + 2560)),
        ({"quant_method": "fp8", "activation_scheme": "static"}, "fp8_tensor", LINEAR + 4 * 2 * 7),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8_block", LINEAR // 16384 * 16388),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8_tensor", LINEAR + 4 * 2 * 7),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}, "nvfp4", LINEAR // 16 * 9),
        ({"quant_algo": "MXFP8"}, "mxfp8", LINEAR // 32 * 33),
        ({"quant_method": "modelopt", "quant_algo": "W4A16_AWQ", "group_size": 128}, "int4", LINEAR // 128 * 66),
        ({"quant_method": "mxfp4"}, "mxfp4", LINEAR // 32 * 17),
        (
            {"quant_method": "auto-round", "bits": 4, "group_size": 128, "packing_format": "auto_round:auto_gptq"},
            "int4_g128_zp",
            LINEAR // 128 * 66.5,
        ),
    ],
)
def test_methods(quantization: dict[str, Any], weights: str, linear_bytes: float) -> None:
    """Rows of output channels of a layer: q 512, k and v 256 each, o 512, gate and up 1,024 each, down 512: 4,096."""
    model = read(quantization)
    assert model.weights_dtype is DType(weights)
    assert total(model) == linear_bytes + 2 * REST


FLOAT8 = {"num_bits": 8, "type": "float"}
FLOAT4 = {"num_bits": 4, "type": "float"}


@pytest.mark.parametrize(
    ("weights", "inputs", "dtype", "compute"),
    [
        ({"num_bits": 8, "type": "float", "strategy": "tensor"}, FLOAT8, "fp8_tensor", "fp8"),
        ({"num_bits": 8, "type": "float", "strategy": "channel"}, FLOAT8, "fp8_channel", "fp8"),
        ({"num_bits": 8, "type": "float", "strategy": "channel"}, None, "fp8_channel", "bf16"),
        (
            {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]},
            {"num_bits": 8, "type": "float"},
            "fp8_block16",
            "fp8",
        ),
        ({"num_bits": 8, "type": "int", "strategy": "channel"}, {"num_bits": 8, "type": "int"}, "int8_channel", "int8"),
        ({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}, None, "int4", "bf16"),
        ({"num_bits": 4, "strategy": "group", "group_size": 32, "symmetric": False}, None, "int4_g32_zp", "bf16"),
        ({"num_bits": 4, "group_size": 128}, {"num_bits": 8, "type": "float"}, "int4", "fp8"),
        ({"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}, FLOAT4, "nvfp4", "fp4"),
        ({"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32}, None, "mxfp4", "bf16"),
    ],
)  # fmt: skip
def test_compressed_tensors(weights: dict[str, Any], inputs: object, dtype: str, compute: str) -> None:
    groups = {"group_0": {"weights": weights, "input_activations": inputs, "targets": ["Linear"]}}
    model = read({"quant_method": "compressed-tensors", "config_groups": groups, "ignore": ["lm_head"]})
    assert (model.weights_dtype, dict(model.arithmetic)) == (DType(dtype), {DType(dtype): DType(compute)})
    assert model.weight_only == (compute == "bf16")
    assert model.storage == ()


def test_exclusions_by_name_glob_and_regular_expression() -> None:
    """`ignore` of compressed-tensors: a name, "re:..."; of ModelOpt: globs; the others are quantised."""
    weights = {"num_bits": 8, "type": "float", "strategy": "channel"}
    groups = {"config_groups": {"g": {"weights": weights, "targets": ["Linear"]}}}
    ignore = ["re:.*self_attn.(q|k)_proj$", "model.layers.0.mlp.down_proj", "lm_head"]
    model = read({"quant_method": "compressed-tensors", **groups, "ignore": ignore})
    assert stored(model) == {"q_proj": "bf16", "k_proj": "bf16", "down_proj": "bf16"}
    assert stored(model, 1) == {"q_proj": "bf16", "k_proj": "bf16"}
    globs = ["model.layers.1.self_attn*", "*.layers.0.mlp.*", "model.visual*", "mtp.layers.0*"]
    model = read({"quant_method": "modelopt", "quant_algo": "NVFP4", "exclude_modules": globs})
    assert stored(model) == {"gate_proj": "bf16", "up_proj": "bf16", "down_proj": "bf16"}
    assert stored(model, 1) == {"q_proj": "bf16", "k_proj": "bf16", "v_proj": "bf16", "o_proj": "bf16"}


def test_exclusions_by_the_end_of_a_name() -> None:
    """The reference framework and AWQ: modules, and ends of names; "gate" is a router and no gate_proj."""
    for method in ({"quant_method": "fp8"}, {"quant_method": "awq", "bits": 4, "group_size": 128}):
        assert stored(read({**method, "modules_to_not_convert": ["gate", "lm_head"]})) == {}
        model = read({**method, "modules_to_not_convert": ["o_proj", "model.layers.1.mlp", "self_attn.k_proj"]})
        assert set(stored(model)) == {"o_proj", "k_proj"}
        assert set(stored(model, 1)) == {"o_proj", "k_proj", "gate_proj", "up_proj", "down_proj"}


def test_experts_shared_experts_and_attention_are_told_apart() -> None:
    names = ["*.mlp.shared_expert.*", "*.experts.*", "re:.*self_attn.*"]
    for name, expected in zip(names, ("shared_", "experts_", ""), strict=True):
        method = "compressed-tensors" if name.startswith("re:") else "modelopt"
        groups = {"g": {"weights": {"num_bits": 8, "type": "float"}, "targets": ["Linear"]}}
        model = read({"quant_method": method, "quant_algo": "FP8", "config_groups": groups, "ignore": [name]}, MOE)
        found = set(stored(model))
        parts = ("gate_proj", "up_proj", "down_proj") if expected else ("q_proj", "k_proj", "v_proj", "o_proj")
        assert found == {expected + kind for kind in parts}


def test_layers_one_by_one() -> None:
    """MIXED_PRECISION: attention in fp8, MLP in nvfp4 without quantised activations, the rest and layer 1 in 16 bit."""
    layers: dict[str, Any] = {f"model.layers.0.self_attn.{n}_proj": {"quant_algo": "FP8"} for n in "qkvo"}
    wide = {"quant_algo": "W4A16_NVFP4", "group_size": 16}
    layers |= {f"model.layers.0.mlp.{n}_proj": wide for n in ("gate", "up", "down")} | {"lm_head": wide}
    model = read({"quant_algo": "MIXED_PRECISION", "quantized_layers": layers, "kv_cache_quant_algo": "FP8"})
    assert (model.weights_dtype, model.kv_dtype) == (DType("fp8_tensor"), DType.FP8)
    assert stored(model) == dict.fromkeys(("gate_proj", "up_proj", "down_proj"), "nvfp4")
    assert set(stored(model, 1).values()) == {"bf16"}
    assert model.storage == (("lm_head", DType.NVFP4),)
    attention, mlp = 2 * 512 * 512 + 2 * 512 * 256, 3 * 512 * 1024
    kept = 2 * (attention + mlp + REST - 512 * 1000)
    assert total(model) == attention + 4 * 4 + mlp * 9 // 16 + 1000 * 512 * 9 // 16 + kept


def test_what_runs_in_what() -> None:
    """fp8 layers in fp8, weight-only ones in 16 bit, unquantised ones in 16 bit; the roof follows."""
    layers: dict[str, Any] = {"model.layers.0.self_attn": {"quant_algo": "FP8"}}
    layers["model.layers.0.mlp"] = {"quant_algo": "W4A16_NVFP4"}
    model = read({"quant_algo": "MIXED_PRECISION", "quantized_layers": layers})
    settled, found = settle(model, part(), Dtypes())
    ops = forward(model, Phase(PhaseKind.DECODE, Batch(1, 1, 8)), settled, Conventions())
    assert [str(op.dtype) for op in ops if op.name == "qkv_proj"] == ["fp8", "bf16"]
    assert [str(op.dtype) for op in ops if op.name == "down_proj"] == ["bf16", "bf16"]
    assert found == ()
    fast = part(matrix={DType(name): Ceiling(peak, SOURCE) for name, peak in (("bf16", 1e14), ("fp4", 4e14))})
    nvfp4 = {"model.layers.0.self_attn": {"quant_algo": "NVFP4"}, "model.layers.0.mlp": {"quant_algo": "FP8"}}
    mixed = read({"quant_algo": "MIXED_PRECISION", "quantized_layers": nvfp4})
    assert settle(mixed, fast, Dtypes())[0].arithmetic == ((DType("fp8_tensor"), DType.BF16),)


def test_four_bits_with_eight_bit_activations() -> None:
    model = read({"quant_method": "modelopt", "quant_algo": "W4A8_AWQ", "group_size": 128})
    assert settle(model, part(), Dtypes())[0].compute is DType.FP8
    slow, found = settle(model, part(matrix={DType.BF16: Ceiling(1e14, SOURCE)}), Dtypes())
    assert slow.compute is DType.BF16
    assert "no fp8 peak: int4 weights are read as they are" in found[0].text


def test_the_users_weights_dtype_wins_over_quantised_ones() -> None:
    """int4 takes the place of fp8 but not of what the checkpoint leaves in 16 bit; bf16 takes the place of both."""
    model = read({"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": ["self_attn"]})
    attention = 2 * (2 * 512 * 512 + 2 * 512 * 256)
    narrow, _ = settle(model, part(), Dtypes(weights=DType.INT4))
    assert weight_bytes(model, DType.INT4, DType.BF16) == 2 * attention + (LINEAR - attention) // 128 * 66 + 2 * REST
    assert weight_bytes(model, DType.FP32, DType.FP32) == 4 * (LINEAR + REST)
    counted = Conventions(traffic=TrafficModel.WEIGHTS)
    ops = forward(model, Phase(PhaseKind.DECODE, Batch(1, 1, 8)), narrow, counted)
    moved = {op.name: op.traffic.weights for op in ops}
    assert (moved["qkv_proj"], moved["down_proj"]) == (2 * 2 * 512 * 1024, 2 * 1024 * 512 // 128 * 66)


def test_the_checkpoints_cache_dtype_holds_unless_the_user_asks() -> None:
    scheme = {"num_bits": 8, "type": "float", "dynamic": False}
    model = read({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_scheme": scheme})
    assert "KV cache in fp8, as the checkpoint says" in model.notes
    assert settle(model, part(), Dtypes())[0].kv is DType.FP8
    assert settle(model, part(), Dtypes(kv=DType.BF16))[0].kv is DType.BF16
    plain = read({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": None})
    assert settle(plain, part(), Dtypes())[0].kv is DType.BF16


def test_a_modelopt_file_beside_the_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    inner = {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": ["lm_head"]}
    beside = tmp_path / "hf_quant_config.json"
    beside.write_text(json.dumps({"producer": {"name": "modelopt"}, "quantization": inner}))
    model = load_model(tmp_path)
    assert (model.weights_dtype, model.kv_dtype) == (DType.NVFP4, DType.FP8)
    own = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "quantization_config": own}))
    assert load_model(tmp_path).weights_dtype is DType("fp8_block")
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    for text, words in (
        ("[1]", "holds a list"),
        ('{"quantization": 3}', "quantization is a int"),
        ("{", "not complete JSON"),
    ):
        beside.write_text(text)
        with pytest.raises(ConfigError, match=words):
            read_config(tmp_path)


def test_modules_with_bits_of_their_own() -> None:
    """GPTQ's `dynamic` and list of modules, AutoRound's `extra_config`, DeepSeek-V4's experts."""
    base = {"quant_method": "gptq", "bits": 4, "group_size": 128}
    dynamic = {"+:.*down_proj": {"bits": 8, "group_size": 32}, "-:.*self_attn": {}}
    found = stored(read({**base, "dynamic": dynamic}))
    assert found == {"q_proj": "bf16", "k_proj": "bf16", "v_proj": "bf16", "o_proj": "bf16", "down_proj": "int8_g32_zp"}
    inside = [["self_attn.q_proj", "self_attn.k_proj"], ["mlp.down_proj"]]
    assert set(stored(read({**base, "modules_in_block_to_quantize": inside}))) == {
        "v_proj", "o_proj", "gate_proj", "up_proj",
    }  # fmt: skip
    assert read({**base, "lm_head": True}).storage == (("lm_head", DType("int4_g128_zp")),)
    rounded = {**base, "quant_method": "auto-round", "packing_format": "auto_round:auto_awq"}
    extra = {"model.layers.0.mlp.up_proj": {"bits": 16}, "model.layers.1.mlp.up_proj": {"bits": 8}}
    model = read({**rounded, "extra_config": extra})
    assert (stored(model), stored(model, 1)) == ({"up_proj": "bf16"}, {"up_proj": "int8_g128_zp"})
    block = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    model = read(block, {**MOE, "expert_dtype": "fp4"})
    assert model.weights_dtype is DType.MXFP4
    assert "experts_up_proj" not in stored(model)
    assert stored(model)["shared_up_proj"] == "fp8_block"


@pytest.mark.parametrize(
    ("quantization", "text"),
    [
        ({"quant_method": "hqq"}, "the method 'hqq' is not known; known are auto-round, awq, bitsandbytes"),
        ({"quant_method": "fp8", "weight_block_size": [64, 64]}, "weight_block_size is [64, 64]; expected [128, 128]"),
        ({"quant_method": "gptq", "bits": 5}, "bits is 5; expected 2, 3, 4 or 8"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 48}, "group_size is 48 for 4 bit"),
        ({"quant_method": "gptq", "bits": 4, "group_size": []}, "group_size is [] for 4 bit"),
        ({"quant_method": "bitsandbytes"}, "neither load_in_4bit nor load_in_8bit"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf5"}, "is 'nf5'"),
        ({"quant_method": "awq", "bits": 4, "w_bit": 8}, "bits is 4, w_bit is 8; they mean the same"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 32}, "group_size is 32; expected 16"),
        ({"quant_method": "modelopt", "quant_algo": "FP3"}, "quant_algo is 'FP3'; known are FP8"),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, "quantized_layers is empty"),
        ({"quant_method": "modelopt", "kv_cache_quant_algo": "FP6"}, "kv_cache_quant_algo is 'FP6'"),
        ({"quant_method": "compressed-tensors"}, "config_groups is missing or empty"),
        ({"config_groups": {"g": 3}}, "config_groups, 'g' is 3; expected an object"),
        ({"config_groups": {"g": {"weights": {"num_bits": 5}}}}, "'int' of 5 bit is not known"),
        ({"config_groups": {"g": {"weights": {"num_bits": 6, "type": "float"}}}}, "float of 6 bit"),
        ({"config_groups": {"g": {"weights": {"num_bits": 8}}}, "ignore": ["re:("]}, "is no regular expression"),
        ({"config_groups": {"g": {"weights": {"num_bits": 8}}}, "ignore": ["re:(a+)+$"]}, "'(a+)+$' is not tried"),
        ({"quant_method": "auto-round", "bits": 4, "packing_format": "mx"}, "packed as 'mx' is not known"),
    ],
)
def test_what_is_refused(quantization: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(quantization)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_uncompressed_checkpoint_counts_as_it_is() -> None:
    model = read({"quant_method": "compressed-tensors", "format": "dense", "config_groups": {}})
    assert total(model) == 2 * (LINEAR + REST)


# Published checkpoints, counted by hand


@pytest.mark.parametrize(
    ("name", "layers", "experts", "published"),
    [("gpt-oss-20b", 24, 32, 13_761_264_768), ("gpt-oss-120b", 36, 128, 65_248_815_744)],
)
def test_gpt_oss(name: str, layers: int, experts: int, published: int) -> None:
    """Experts in mxfp4 (17 bytes for 32), the rest in bf16; the total is what the published index says.

    A layer: gate and up 2,880 x 5,760, down 2,880 x 2,880 in each expert, with biases; q and o 2,880 x 4,096, k and
    v 2,880 x 512 with biases; router with bias; a sink for each of 64 heads; two norms.
    """
    model = load_model(name)
    expert = (2880 * 5760 + 2880 * 2880) * 17 // 32 + 2 * (5760 + 2880)
    attention = 2 * (2880 * (2 * 4096 + 2 * 512) + 4096 + 2 * 512 + 2880 + 64)
    layer = experts * expert + attention + 2 * (2880 * experts + experts) + 2 * 2 * 2880
    assert total(model) == layers * layer + 2 * (2 * 201_088 * 2880 + 2880) == published


def test_deepseek_v3() -> None:
    """Projections in fp8 with an fp32 scale for each square of 128 x 128, at the edges too; the rest in bf16.

    kv_a_proj is 576 wide: 4.5 squares, so that 56 x 5 scales are stored.
    """
    model = load_model("deepseek-v3")

    def fp8(d_in: int, d_out: int) -> int:
        return d_in * d_out + 4 * -(-d_in // 128) * -(-d_out // 128)

    attention = fp8(7168, 1536) + fp8(1536, 24576) + fp8(7168, 576) + fp8(512, 32768) + fp8(16384, 7168)
    norms = 2 * (1536 + 512 + 2 * 7168)
    dense = 2 * fp8(7168, 18432) + fp8(18432, 7168)
    expert = 2 * fp8(7168, 2048) + fp8(2048, 7168)
    layers = 61 * (attention + norms) + 3 * dense + 58 * (257 * expert + 2 * 256 * 7168)
    assert total(model) == layers + 2 * (2 * 129_280 * 7168 + 7168) == 673_150_552_416


def test_qwen3_235b_in_nvfp4() -> None:
    """ModelOpt's own list of exclusions: every router and the head. 9 bytes for 16 weights everywhere else."""
    base = json.loads(
        (Path(load_model.__code__.co_filename).parents[1] / "data/models/qwen3-235b-a22b.json").read_text()
    )
    excluded = [f"model.layers.{i}.mlp.gate" for i in range(94)] + ["lm_head"]
    quantization = {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16, "exclude_modules": excluded}
    model = read(quantization, base["config"])
    linear = 4096 * (2 * 8192 + 2 * 512) + 128 * 3 * 4096 * 1536
    wide = 4096 * 128 + 2 * 4096 + 2 * 128
    assert total(model) == 94 * (linear * 9 // 16 + 2 * wide) + 2 * (2 * 151_936 * 4096 + 4096) == 134_101_359_616
    assert stored(model) == {}


def test_llama_70b_in_fp8() -> None:
    """ModelOpt fp8: 68,451,041,280 linear weights in a byte each, 560 matrices with an fp32 scale; the rest in bf16."""
    model = load_model("llama-3.1-70b-fp8")
    linear = 80 * (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672)
    rest = 2 * 128_256 * 8192 + 161 * 8192
    assert (linear, linear + rest) == (68_451_041_280, params(model))
    assert total(model) == linear + 4 * 560 + 2 * rest


# Anybody's file


WORDS = st.sampled_from([
    "fp8", "awq", "gptq", "modelopt", "compressed-tensors", "bitsandbytes", "mxfp4", "auto-round", "FP8", "NVFP4",
    "int", "float", "group", "channel", "block", "MIXED_PRECISION", "Linear", "re:.*mlp", "*.mlp.*", "model.layers.0",
    "lm_head",
])  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 300) | st.floats() | st.text(max_size=6) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | WORDS, inner, max_size=3) | inner,
    max_leaves=8,
)
FIELDS = [
    "quant_method", "quant_algo", "bits", "group_size", "zero_point", "sym", "config_groups", "ignore", "targets",
    "weights", "num_bits", "type", "strategy", "weight_block_size", "modules_to_not_convert", "load_in_4bit",
    "exclude_modules", "quantized_layers", "kv_cache_scheme", "kv_cache_quant_algo", "dynamic", "format",
    "extra_config", "modules_in_block_to_quantize", "packing_format", "llm_int8_skip_modules", "bnb_4bit_quant_type",
]  # fmt: skip


@settings(max_examples=500)
@given(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=7), WORDS)
def test_random_quantisation_raises_only_our_errors(quantization: dict[str, Any], method: str) -> None:
    try:
        model = read({"quant_method": method, **quantization})
    except RooflensError as error:
        assert "\n" not in str(error)
    else:
        assert 0 < total(model) <= 4 * params(model)


@settings(max_examples=300)
@given(st.lists(st.text(alphabet="re:.*+?()[]{}|\\^$ab01lmp_", max_size=24), max_size=4))
def test_random_patterns_raise_only_our_errors(patterns: list[str]) -> None:
    groups = {"g": {"weights": {"num_bits": 8}, "targets": ["Linear"]}}
    for name, method in (("ignore", "compressed-tensors"), ("modules_to_not_convert", "fp8"), ("ignore", "modelopt")):
        try:
            model = read({"quant_method": method, "config_groups": groups, name: patterns})
        except RooflensError as error:
            assert "\n" not in str(error)
        else:
            assert total(model) > 0
