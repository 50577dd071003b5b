"""GGUF files: shapes from keys, dtype and bytes of every tensor, and everything that can be wrong with a file."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from rooflens.api import predict
from rooflens.core.model import ModelSpec
from rooflens.core.op import DType
from rooflens.count import params, weight_bytes
from rooflens.count.sizes import kv_bytes_per_token
from rooflens.errors import ConfigError, MissingExtraError, RooflensError, UnknownArchitectureError
from rooflens.sources.gguf import read_gguf
from rooflens.sources.gguf_header import tensor_types
from rooflens.sources.models import load_model
from rooflens.units import DTYPES

gguf = pytest.importorskip("gguf")

Shapes = dict[str, tuple[str, tuple[int, ...]]]
"""Type and shape of each tensor, inputs first."""


def write(path: Path, arch: str, keys: dict[str, Any], tensors: Shapes, tokens: int = 32) -> Path:
    """A GGUF file of zeros."""
    writer = gguf.GGUFWriter(str(path), arch)
    for name, value in keys.items():
        key = name if name.startswith(("split.", "general.")) else f"{arch}.{name}"
        if isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, list):
            writer.add_array(key, value)
        else:
            writer.add_uint32(key, value)
    writer.add_array("tokenizer.ggml.tokens", [f"t{i}" for i in range(tokens)])
    for name, (kind, shape) in tensors.items():
        block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
        rows = [*reversed(shape[1:]), shape[0] // block * size]
        data = np.zeros(rows, dtype=np.uint8)
        writer.add_tensor(name, data, raw_dtype=gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


LLAMA_KEYS: dict[str, Any] = {
    "block_count": 2,
    "context_length": 512,
    "embedding_length": 256,
    "feed_forward_length": 512,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
}


def llama_layer(index: int, down: str = "Q4_K") -> Shapes:
    blk = f"blk.{index}."
    return {
        f"{blk}attn_norm.weight": ("F32", (256,)),
        f"{blk}attn_q.weight": ("Q4_K", (256, 256)),
        f"{blk}attn_k.weight": ("Q4_K", (256, 128)),
        f"{blk}attn_v.weight": ("Q6_K", (256, 128)),
        f"{blk}attn_output.weight": ("Q4_K", (256, 256)),
        f"{blk}ffn_norm.weight": ("F32", (256,)),
        f"{blk}ffn_gate.weight": ("Q4_K", (256, 512)),
        f"{blk}ffn_up.weight": ("Q4_K", (256, 512)),
        f"{blk}ffn_down.weight": (down, (512, 256)),
    }


LLAMA: Shapes = {
    "token_embd.weight": ("Q8_0", (256, 32)),
    "output_norm.weight": ("F32", (256,)),
    "output.weight": ("Q6_K", (256, 32)),
    **llama_layer(0, "Q6_K"),
    **llama_layer(1),
}


def total(model: ModelSpec) -> int:
    return weight_bytes(model, model.weights_dtype, model.kept_dtype)


def test_every_type_has_the_size_that_the_package_states() -> None:
    types = tensor_types()
    assert len(types) == len(gguf.GGML_QUANT_SIZES)
    for kind, (block, size) in gguf.GGML_QUANT_SIZES.items():
        row = DTYPES[types[int(kind)].value]
        assert row.block_bytes * block == size * row.block_values, kind.name


def test_a_mix_of_types_counts_to_the_byte(tmp_path: Path) -> None:
    """Q4_K 144 bytes for 256 values, Q6_K 210, Q8_0 34 for 32; two layers whose down projections differ."""
    path = write(tmp_path / "tiny.gguf", "llama", LLAMA_KEYS, LLAMA)
    model = load_model(path)
    blocks = 256 + 128 + 256 + 512 + 512
    q6 = 128 + 512 + 128 + 32
    by_hand = (2 * blocks + 512) * 144 + q6 * 210 + 32 * 8 * 34 + 5 * 256 * 4
    assert model.checkpoint_bytes == by_hand == total(model)
    assert [layer.count for layer in model.layers] == [1, 1]
    assert dict(model.layers[0].storage) == {"v_proj": DType("q6_k"), "down_proj": DType("q6_k")}
    assert (model.weights_dtype, model.kept_dtype, model.weight_only) == (DType("q4_k"), DType.FP16, True)
    assert dict(model.storage) == {"embed_tokens": DType("q8_0"), "lm_head": DType("q6_k"), "vectors": DType.FP32}
    assert (model.max_context, model.vocab, model.tied, model.name) == (512, 32, False, "tiny")
    assert f"GGUF: 21 tensors of {by_hand:,} B; counted: {by_hand:,} B" in model.notes


def test_predict_reads_a_gguf_file(tmp_path: Path) -> None:
    """Weights move as they are stored and are multiplied in 16 bit; the head is no exception."""
    profile = predict(write(tmp_path / "t.gguf", "llama", LLAMA_KEYS, LLAMA), "h100-sxm", prompt=8, output=4)
    points = {point.op.name: point.op for point in profile.phases[1].points}
    assert (points["lm_head"].traffic.weights, points["lm_head"].dtype) == (32 * 210, DType.FP16)
    assert points["down_proj"].dtype is DType.FP16
    assert profile.scenario.precision.kv is DType.FP16
    moved = sum(point.op.traffic.weights for point in profile.phases[1].points if point.op.name == "down_proj")
    assert moved == 512 * 210 + 512 * 144
    assert not {f.code for f in profile.findings} & {"weight_only", "compute_dtype"}


def test_the_users_weights_dtype_wins(tmp_path: Path) -> None:
    model = load_model(write(tmp_path / "t.gguf", "llama", LLAMA_KEYS, LLAMA))
    linear = 2 * 256 * (256 + 128 + 128 + 256 + 3 * 512)
    assert weight_bytes(model, DType.BF16, DType.BF16) == 2 * (linear + 2 * 32 * 256 + 5 * 256) == 2 * params(model)
    assert weight_bytes(model, DType.INT4, DType.FP16) == linear // 128 * 66 + 32 * 210 + 32 * 8 * 34 + 5 * 256 * 4


def test_experts_of_one_tensor_or_of_many(tmp_path: Path) -> None:
    keys = {**LLAMA_KEYS, "block_count": 1, "expert_count": 2, "expert_used_count": 1}
    layer = {name: shape for name, shape in LLAMA.items() if "blk.1" not in name and "ffn_" not in name}
    rest: Shapes = {"blk.0.ffn_norm.weight": ("F32", (256,)), "blk.0.ffn_gate_inp.weight": ("F32", (256, 2))}
    fused = {
        "blk.0.ffn_gate_exps.weight": ("Q4_K", (256, 512, 2)),
        "blk.0.ffn_up_exps.weight": ("Q4_K", (256, 512, 2)),
        "blk.0.ffn_down_exps.weight": ("Q6_K", (512, 256, 2)),
    }
    apart = {
        f"blk.0.ffn_{kind}.{expert}.weight": ("Q6_K" if kind == "down" else "Q4_K", shape)
        for kind, shape in (("gate", (256, 512)), ("up", (256, 512)), ("down", (512, 256)))
        for expert in range(2)
    }
    for name, experts in (("fused", fused), ("apart", apart)):
        model = load_model(write(tmp_path / f"{name}.gguf", "llama", keys, {**layer, **rest, **experts}))
        assert model.architecture == "mixtral"
        assert total(model) == model.checkpoint_bytes
        stored = dict(model.layers[0].storage)
        assert (stored["router"], stored["experts_down_proj"]) == (DType.FP32, DType("q6_k"))


def test_experts_of_several_types(tmp_path: Path) -> None:
    """Early Mixtral files: a tensor for each expert, Q4_K 144 and Q6_K 210 bytes for 256 values.

    A step of one token reads one of two experts, so half of both on the average.
    """
    keys = {**LLAMA_KEYS, "block_count": 1, "expert_count": 2, "expert_used_count": 1}
    layer = {name: shape for name, shape in LLAMA.items() if "blk.1" not in name and "ffn_" not in name}
    rest: Shapes = {"blk.0.ffn_norm.weight": ("F32", (256,)), "blk.0.ffn_gate_inp.weight": ("F32", (256, 2))}
    experts: Shapes = {
        f"blk.0.ffn_{kind}.{expert}.weight": ("Q6_K" if kind == "down" and expert else "Q4_K", shape)
        for kind, shape in (("gate", (256, 512)), ("up", (256, 512)), ("down", (512, 256)))
        for expert in range(2)
    }
    path = write(tmp_path / "t.gguf", "llama", keys, {**layer, **rest, **experts})
    model = load_model(path)
    assert total(model) == model.checkpoint_bytes
    assert str(dict(model.layers[0].storage)["experts_down_proj"]) == "q4_k and q6_k"
    step = predict(path, "h100-sxm", prompt=8, output=4).phases[1]
    ops = {point.op.name: point.op for point in step.points}
    assert ops["experts_down_proj"].traffic.weights == 512 * (144 + 210) / 2
    assert ops["experts_down_proj"].dtype is DType.FP16


def test_latent_attention(tmp_path: Path) -> None:
    """DeepSeek: a dense layer, then experts with a shared one; the expansion in one tensor or in two.

    Each half has 2 x 16 x 32 values. Keys, whose rows of 16 fill no block, stay in F16 where values are in Q4_0, 18
    bytes for 32: 2,048 and 576 bytes in each of two layers, which a step reads apart and a prefill together.
    """
    keys = {
        "block_count": 2, "context_length": 64, "embedding_length": 64, "feed_forward_length": 96,
        "attention.head_count": 2, "attention.head_count_kv": 1, "attention.key_length": 40,
        "attention.value_length": 32, "attention.key_length_mla": 24, "attention.value_length_mla": 16,
        "attention.kv_lora_rank": 32, "attention.q_lora_rank": 32, "rope.dimension_count": 8, "expert_count": 4,
        "expert_used_count": 2, "expert_feed_forward_length": 32, "expert_shared_count": 1,
        "leading_dense_block_count": 1,
    }  # fmt: skip
    attention: Shapes = {
        "attn_norm": ("F32", (64,)), "attn_q_a": ("Q8_0", (64, 32)), "attn_q_a_norm": ("F32", (32,)),
        "attn_q_b": ("Q8_0", (32, 48)), "attn_kv_a_mqa": ("Q8_0", (64, 40)), "attn_kv_a_norm": ("F32", (32,)),
        "attn_output": ("Q4_0", (32, 64)), "ffn_norm": ("F32", (64,)),
    }  # fmt: skip
    whole: Shapes = {"attn_kv_b": ("Q8_0", (32, 64))}
    halves: Shapes = {"attn_k_b": ("Q8_0", (32, 16, 2)), "attn_v_b": ("Q8_0", (32, 16, 2))}
    mixed: Shapes = {"attn_k_b": ("F16", (16, 32, 2)), "attn_v_b": ("Q4_0", (32, 16, 2))}
    dense: Shapes = {
        "ffn_gate": ("Q4_0", (64, 96)), "ffn_up": ("Q4_0", (64, 96)), "ffn_down": ("Q4_0", (96, 64)),
    }  # fmt: skip
    sparse: Shapes = {
        "ffn_gate_inp": ("F32", (64, 4)),
        "ffn_gate_exps": ("Q4_0", (64, 32, 4)), "ffn_up_exps": ("Q4_0", (64, 32, 4)),
        "ffn_down_exps": ("Q4_0", (32, 64, 4)), "ffn_gate_shexp": ("Q4_0", (64, 32)),
        "ffn_up_shexp": ("Q4_0", (64, 32)), "ffn_down_shexp": ("Q4_0", (32, 64)),
    }  # fmt: skip
    for name, expansion in (("whole", whole), ("halves", halves), ("mixed", mixed)):
        tensors: Shapes = {"token_embd.weight": ("F16", (64, 32)), "output_norm.weight": ("F32", (64,))}
        for index, feed in enumerate((dense, sparse)):
            blk = {**attention, **expansion, **feed}
            tensors |= {f"blk.{index}.{part}.weight": shape for part, shape in blk.items()}
        model = load_model(write(tmp_path / f"{name}.gguf", "deepseek2", keys, tensors))
        assert total(model) == model.checkpoint_bytes
        assert kv_bytes_per_token(model, DType.FP16, windowed=True) == 2 * 2 * (32 + 8)
        assert model.tied
    prefill, step = predict(tmp_path / "mixed.gguf", "h100-sxm", prompt=8, output=4).phases
    moved = {point.op.name: point.op.traffic.weights for point in (*prefill.points, *step.points)}
    assert (moved["kv_b_proj"], moved["absorb_k_proj"], moved["absorb_v_proj"]) == (2 * 2624, 2 * 2048, 2 * 576)


def dense(width: int, changed: dict[str, tuple[int, ...]]) -> Shapes:
    """Layer 0 of width 32 in F16, with what is `changed`: a shape of () leaves a tensor out."""
    hidden, kv, prefix = 32, 16, "blk.0."
    shapes: dict[str, tuple[int, ...]] = {
        "attn_norm.weight": (hidden,), "attn_q.weight": (hidden, hidden), "attn_k.weight": (hidden, kv),
        "attn_v.weight": (hidden, kv), "attn_output.weight": (hidden, hidden), "ffn_norm.weight": (hidden,),
        "ffn_gate.weight": (hidden, width), "ffn_up.weight": (hidden, width), "ffn_down.weight": (width, hidden),
    }  # fmt: skip
    shapes |= {name.replace("__", "."): shape for name, shape in changed.items()}
    return {prefix + name: ("F32" if len(shape) == 1 else "F16", shape) for name, shape in shapes.items() if shape}


GONE: tuple[int, ...] = ()
QKV = {"attn_q__weight": GONE, "attn_k__weight": GONE, "attn_v__weight": GONE, "attn_qkv__weight": (32, 64)}
MHA = {**QKV, "attn_qkv__weight": (32, 96)}
BIASES = {"attn_norm__bias": (32,), "ffn_norm__bias": (32,), "attn_qkv__bias": (96,), "attn_output__bias": (32,),
          "ffn_up__bias": (64,), "ffn_down__bias": (32,), "ffn_gate__weight": GONE}  # fmt: skip
HEAD_NORMS: dict[str, tuple[int, ...]] = {"attn_q_norm__weight": (8,), "attn_k_norm__weight": (8,)}
FOUR = {"post_attention_norm__weight": (32,), "post_ffw_norm__weight": (32,)}
QUERY_BIASES: dict[str, tuple[int, ...]] = {"attn_q__bias": (32,), "attn_k__bias": (16,), "attn_v__bias": (16,)}


@pytest.mark.parametrize(
    ("arch", "changed", "outside", "keys"),
    [
        ("qwen2", QUERY_BIASES, {}, {}),
        ("qwen3", HEAD_NORMS, {}, {}),
        ("gemma", {}, {}, {}),
        ("gemma2", FOUR, {}, {"attention.sliding_window": 16}),
        ("gemma3", {**FOUR, **HEAD_NORMS}, {}, {"attention.sliding_window": 16}),
        ("phi3", {**QKV, "ffn_gate__weight": GONE, "ffn_up__weight": (32, 128)}, {}, {}),
        ("olmo2", {"attn_norm__weight": GONE, "ffn_norm__weight": GONE, **FOUR, "attn_q_norm__weight": (32,),
                   "attn_k_norm__weight": (16,)}, {}, {}),
        ("starcoder2", {**BIASES, "attn_qkv__bias": GONE, **QUERY_BIASES}, {"output_norm.bias": (32,)}, {}),
        ("gptneox", {**MHA, **BIASES}, {"output_norm.bias": (32,)}, {"use_parallel_residual": True}),
        ("bloom", {**MHA, **BIASES}, {"output_norm.bias": (32,), "token_embd_norm.weight": (32,),
                                      "token_embd_norm.bias": (32,)}, {}),
        ("falcon", {**QKV, "ffn_norm__weight": GONE, "ffn_gate__weight": GONE, "attn_norm__bias": (32,),
                    "attn_norm_2__weight": (32,), "attn_norm_2__bias": (32,)}, {"output_norm.bias": (32,)}, {}),
        ("mpt", {**QKV, "ffn_gate__weight": GONE}, {}, {}),
    ],
)  # fmt: skip
def test_architectures(
    tmp_path: Path, arch: str, changed: dict[str, tuple[int, ...]], outside: dict[str, tuple[int, ...]],
    keys: dict[str, Any],
) -> None:  # fmt: skip
    """The shapes that keys give are those of the tensors: as many values and bytes as the file has."""
    full = arch in ("gptneox", "bloom")
    sizes = {
        "block_count": 1, "context_length": 64, "embedding_length": 32, "feed_forward_length": 64,
        "attention.head_count": 4, "attention.head_count_kv": 4 if full else 2, **keys,
    }  # fmt: skip
    width = 128 if arch in ("bloom", "mpt") else 64
    if arch in ("bloom", "mpt"):
        changed = {**changed, "ffn_up__weight": (32, 128), "ffn_down__weight": (128, 32)}
        changed |= {"ffn_up__bias": (128,)} if arch == "bloom" else {}
        sizes["feed_forward_length"] = 128
    tensors: Shapes = {"token_embd.weight": ("F16", (32, 32)), "output_norm.weight": ("F32", (32,))}
    tensors |= {name: ("F32", shape) for name, shape in outside.items()}
    if arch == "gptneox":
        tensors["output.weight"] = ("F16", (32, 32))
    model = load_model(write(tmp_path / "m.gguf", arch, sizes, {**tensors, **dense(width, changed)}))
    assert model.tied is (arch != "gptneox")
    assert total(model) == model.checkpoint_bytes, model.notes
    assert len(model.notes) == 1, model.notes


def test_gpt_oss_and_qwen_moe(tmp_path: Path) -> None:
    keys = {
        "block_count": 1, "context_length": 64, "embedding_length": 32, "feed_forward_length": 64,
        "expert_feed_forward_length": 64, "attention.head_count": 4, "attention.head_count_kv": 2,
        "attention.key_length": 8, "expert_count": 4, "expert_used_count": 2, "attention.sliding_window": 16,
    }  # fmt: skip
    experts: Shapes = {
        "blk.0.ffn_gate_inp.weight": ("F32", (32, 4)),
        "blk.0.ffn_gate_exps.weight": ("MXFP4", (32, 64, 4)),
        "blk.0.ffn_up_exps.weight": ("MXFP4", (32, 64, 4)),
        "blk.0.ffn_down_exps.weight": ("MXFP4", (64, 32, 4)),
    }
    gone: dict[str, tuple[int, ...]] = {"ffn_gate__weight": GONE, "ffn_up__weight": GONE, "ffn_down__weight": GONE}
    tables: Shapes = {
        "token_embd.weight": ("Q8_0", (32, 32)), "output.weight": ("Q8_0", (32, 32)),
        "output_norm.weight": ("F32", (32,)),
    }  # fmt: skip
    biases: Shapes = {
        "blk.0.ffn_gate_inp.bias": ("F32", (4,)), "blk.0.ffn_gate_exps.bias": ("F32", (64, 4)),
        "blk.0.ffn_up_exps.bias": ("F32", (64, 4)), "blk.0.ffn_down_exps.bias": ("F32", (32, 4)),
        "blk.0.attn_output.bias": ("F32", (32,)), "blk.0.attn_sinks.weight": ("F32", (4,)),
    }  # fmt: skip
    oss = {**tables, **experts, **biases, **dense(64, {**gone, **QUERY_BIASES})}
    model = load_model(write(tmp_path / "oss.gguf", "gpt-oss", keys, oss))
    assert (total(model), len(model.notes), model.weights_dtype) == (model.checkpoint_bytes, 1, DType.MXFP4)
    qwen3 = {**tables, **experts, **dense(64, {**gone, **HEAD_NORMS})}
    model = load_model(write(tmp_path / "q3.gguf", "qwen3moe", keys, qwen3))
    assert (total(model), len(model.notes)) == (model.checkpoint_bytes, 1)
    shared: Shapes = {
        "blk.0.ffn_gate_inp_shexp.weight": ("F32", (32,)), "blk.0.ffn_gate_shexp.weight": ("F16", (32, 64)),
        "blk.0.ffn_up_shexp.weight": ("F16", (32, 64)), "blk.0.ffn_down_shexp.weight": ("F16", (64, 32)),
    }  # fmt: skip
    qwen2 = {**tables, **experts, **shared, **dense(64, {**gone, **QUERY_BIASES})}
    model = load_model(
        write(tmp_path / "q2.gguf", "qwen2moe", {**keys, "expert_shared_feed_forward_length": 64}, qwen2)
    )
    assert (total(model), len(model.notes)) == (model.checkpoint_bytes, 1)


def test_a_file_in_parts(tmp_path: Path) -> None:
    names = list(LLAMA)
    parts = [{name: LLAMA[name] for name in some} for some in (names[:9], names[9:])]
    for number, tensors in enumerate(parts):
        keys = {**(LLAMA_KEYS if number == 0 else {}), "split.count": 2, "split.no": number}
        write(tmp_path / f"m-{number + 1:05d}-of-00002.gguf", "llama", keys, tensors)
    model = load_model(tmp_path / "m-00001-of-00002.gguf")
    assert model == load_model(tmp_path / "m-00001-of-00002.gguf")
    assert model.checkpoint_bytes == total(model)
    (tmp_path / "m-00002-of-00002.gguf").rename(tmp_path / "gone")
    with pytest.raises(ConfigError, match=r"m-00002-of-00002\.gguf could not be read"):
        load_model(tmp_path / "m-00001-of-00002.gguf")
    (tmp_path / "m-00001-of-00002.gguf").rename(tmp_path / "renamed.gguf")
    with pytest.raises(ConfigError, match="is one of 2 files; expected a name that ends in -00001-of-00002"):
        load_model(tmp_path / "renamed.gguf")


def test_buffers_are_said(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", "llama", LLAMA_KEYS, {**LLAMA, "rope_freqs.weight": ("F32", (32,))})
    assert "+32 to the parameters" in load_model(path).notes[-1]


@pytest.mark.parametrize(
    ("keys", "tensors", "text"),
    [
        ({"embedding_length": 0}, {}, "hidden_size is 0"),
        ({"attention.head_count_kv": 3}, {}, "4 attention heads cannot share 3"),
        ({"attention.head_count_kv": [2, 1]}, {}, "head_count_kv differs from layer to layer"),
        ({"block_count": 3}, {}, "q_proj of layer 2 is missing; expected a tensor of blk.2"),
        ({"feed_forward_length": 256}, {}, "of layer 0 has 131,072 values and its keys give 65,536"),
        ({"block_count": True}, {}, "llama.block_count is true; expected a whole number"),
        ({}, {"token_embd.weight": None}, "token_embd.weight is missing"),
    ],
)
def test_contradictions(tmp_path: Path, keys: dict[str, Any], tensors: dict[str, Any], text: str) -> None:
    kept = {name: shape for name, shape in LLAMA.items() if name not in tensors}
    path = write(tmp_path / "m.gguf", "llama", {**LLAMA_KEYS, **keys}, kept)
    with pytest.raises(RooflensError) as caught:
        load_model(path)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_architectures_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UnknownArchitectureError, match="architecture 'llamb' are not read; known are near it is llama"):
        load_model(write(tmp_path / "m.gguf", "llamb", {}, {"token_embd.weight": ("F16", (32, 32))}))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "ends at byte 0"),
        (b"PK\x03\x04" + bytes(40), r"it starts with b'PK\\x03\\x04'; expected a GGUF file"),
        (b"GGUF" + struct.pack(">I", 3) + bytes(16), "written for big-endian machines"),
        (b"GGUF" + struct.pack("<I", 1) + bytes(16), "GGUF version 1; expected 2 or 3"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**63, 0), "9,223,372,036,854,775,808 tensors in 24 bytes"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**40), "1,099,511,627,776 keys in 24 bytes"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**50), "bytes of text in"),
        (b"GGUF" + struct.pack("<IQQQ1sI", 3, 0, 1, 1, b"a", 99), "the key 'a' has the type 99"),
        (b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"a", 9, 9, 2), "values of type 9"),
        (b"GGUF" + struct.pack("<IQQQ1sIIQQ", 3, 0, 1, 1, b"a", 9, 8, 2, 2**60), "inside its header"),
        (b"GGUF" + struct.pack("<IQQQ1sIIQQ", 3, 0, 1, 1, b"a", 9, 10, 2, 5), "inside its header"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 0), "general.architecture is null"),
        (b"GGUF" + struct.pack("<IQQQ1sIQIQ", 3, 1, 0, 1, b"t", 1, 8, 999, 0), "type 999, which the gguf package"),
        (b"GGUF" + struct.pack("<IQQQ1sIQIQ", 3, 1, 0, 1, b"t", 1, 8, 12, 0), "expected rows of whole q4_k blocks"),
        (b"GGUF" + struct.pack("<IQQQ1sIQIQ", 3, 1, 0, 1, b"t", 1, 8, 0, 0), "lies outside the file"),
    ],
)
def test_hostile_files(tmp_path: Path, data: bytes, text: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=text):
        read_gguf(path)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "none.gguf", tmp_path):
        with pytest.raises(ConfigError, match="expected a GGUF file"):
            read_gguf(path)


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "m.gguf", "llama", LLAMA_KEYS, LLAMA)
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(MissingExtraError, match=r"needs the extra 'gguf' \(pip install 'rooflens\[gguf\]'\)"):
        load_model(path)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 2600), spliced=st.binary(min_size=1, max_size=9), cut=st.integers(0, 3000) | st.none())
def test_spliced_and_cut_files_raise_only_our_errors(tmp_path: Path, at: int, spliced: bytes, cut: int | None) -> None:
    path = tmp_path / "m.gguf"
    if not path.exists():
        write(path, "llama", LLAMA_KEYS, LLAMA)
    data = path.read_bytes()
    broken = tmp_path / "broken.gguf"
    broken.write_bytes((data[:at] + spliced + data[at + len(spliced) :])[: cut or len(data)])
    try:
        model = read_gguf(broken)
    except RooflensError as error:
        assert "\n" not in str(error)
    else:
        assert model.checkpoint_bytes
