"""Headers of safetensors files: exact bytes of every tensor, and everything that can be wrong with a file."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from rooflens.count import weight_bytes
from rooflens.errors import ConfigError, RooflensError
from rooflens.sources.models import load_model
from rooflens.sources.safetensors import INDEX, read_checkpoint, read_header

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 10,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
SHAPES: dict[str, list[int]] = {
    "model.embed_tokens.weight": [10, 8],
    "model.layers.0.self_attn.q_proj.weight": [8, 8],
    "model.layers.0.self_attn.k_proj.weight": [4, 8],
    "model.layers.0.self_attn.v_proj.weight": [4, 8],
    "model.layers.0.self_attn.o_proj.weight": [8, 8],
    "model.layers.0.mlp.gate_proj.weight": [16, 8],
    "model.layers.0.mlp.up_proj.weight": [16, 8],
    "model.layers.0.mlp.down_proj.weight": [8, 16],
    "model.layers.0.input_layernorm.weight": [8],
    "model.layers.0.post_attention_layernorm.weight": [8],
    "model.norm.weight": [8],
    "lm_head.weight": [10, 8],
}
BYTES = 2 * (2 * 80 + 2 * 64 + 2 * 32 + 3 * 128 + 3 * 8)
"""Of those in bf16: table and head, q and o, k and v, the MLP, three norms."""


def entries(shapes: dict[str, list[int]], dtype: str = "BF16", width: int = 2) -> dict[str, Any]:
    found, at = {}, 0
    for name, shape in shapes.items():
        size = width
        for side in shape:
            size *= side
        found[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    return found


def write(path: Path, header: object, data: int | None = None) -> Path:
    """A file with `header`, and as many bytes of zeros as it names unless `data` says otherwise."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    if data is None:
        assert isinstance(header, dict)
        data = max(entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(data))
    return path


def model_folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    return tmp_path


def test_one_file(tmp_path: Path) -> None:
    folder = model_folder(tmp_path)
    write(folder / "model.safetensors", {"__metadata__": {"format": "pt"}, **entries(SHAPES)})
    model = load_model(folder)
    assert model.checkpoint_bytes == BYTES == weight_bytes(model, model.weights_dtype, model.kept_dtype)
    text = f"checkpoint: {BYTES:,} B by 12 tensors in 1 safetensors file (BF16 {BYTES:,} B); counted: {BYTES:,} B"
    assert text in model.notes


def test_the_headers_give_the_dtype_of_each_weight(tmp_path: Path) -> None:
    """bf16, but for a down projection (128 weights) and the head (80) in fp32: 2 bytes more for each of them."""
    folder, wide = model_folder(tmp_path), ("model.layers.0.mlp.down_proj.weight", "lm_head.weight")
    narrow = entries({name: shape for name, shape in SHAPES.items() if name not in wide})
    at = max(entry["data_offsets"][1] for entry in narrow.values())
    header = dict(narrow)
    for name, entry in entries({name: SHAPES[name] for name in wide}, "F32", 4).items():
        header[name] = entry | {"data_offsets": [at + end for end in entry["data_offsets"]]}
    write(folder / "model.safetensors", header)
    model = load_model(folder)
    assert model.checkpoint_bytes == BYTES + 2 * (128 + 80)
    assert weight_bytes(model, model.weights_dtype, model.kept_dtype) == BYTES + 2 * (128 + 80)


def test_many_shards(tmp_path: Path) -> None:
    """An index names the files; a file that it does not name is not counted; a missing one leaves its total."""
    folder, names = model_folder(tmp_path), list(SHAPES)
    files = {"model-00001-of-00002.safetensors": names[:5], "model-00002-of-00002.safetensors": names[5:]}
    for file, inside in files.items():
        write(folder / file, entries({name: SHAPES[name] for name in inside}))
    write(folder / "other.safetensors", entries({"x": [4]}))
    found = {name: file for file, inside in files.items() for name in inside}
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": BYTES}, "weight_map": found}))
    whole = read_checkpoint(folder)
    assert whole is not None
    assert (whole.size, whole.tensors, whole.files, whole.whole) == (BYTES, 12, 2, True)
    (folder / "model-00002-of-00002.safetensors").unlink()
    model = load_model(folder)
    assert model.checkpoint_bytes == BYTES
    assert "by the safetensors index (2 files, not all of them here)" in model.notes[-1]


def test_several_dtypes(tmp_path: Path) -> None:
    """fp8 weights with fp32 scales, and 4-bit values two to a byte."""
    header = entries({"a": [128, 128]}, "F8_E4M3", 1)
    header["a_scale_inv"] = {"dtype": "F32", "shape": [1, 1], "data_offsets": [16384, 16388]}
    header["b"] = {"dtype": "F4", "shape": [4, 6], "data_offsets": [16388, 16400]}
    header["empty"] = {"dtype": "I64", "shape": [0], "data_offsets": [16400, 16400]}
    write(tmp_path / "m.safetensors", header)
    found = read_checkpoint(tmp_path)
    assert found is not None
    assert (found.size, found.by_dtype) == (16400, (("F8_E4M3", 16384), ("F4", 12), ("F32", 4), ("I64", 0)))


def test_a_folder_without_weights(tmp_path: Path) -> None:
    assert read_checkpoint(tmp_path) is None
    assert load_model(model_folder(tmp_path)).checkpoint_bytes is None


def test_a_consolidated_copy_counts_only_alone(tmp_path: Path) -> None:
    write(tmp_path / "consolidated.safetensors", entries({"x": [4]}))
    assert read_checkpoint(tmp_path).size == 8
    write(tmp_path / "model.safetensors", entries({"x": [6]}))
    assert read_checkpoint(tmp_path).size == 12


GOOD = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("header", "data", "text"),
    [
        (b"", 0, "a header of 0 bytes in a file of 8"),
        (b"[1]", 0, "holds a list"),
        (b"{", 0, "a header of 1 bytes"),
        (b'{"a"', 0, "is not complete JSON"),
        ({"a": 3}, 0, "'a' has no data_offsets"),
        ({"a": {**GOOD, "data_offsets": [8, 0]}}, 0, "'a' ends at byte 0, before its start at 8"),
        ({"a": {**GOOD, "data_offsets": [-8, 0]}}, 0, "'a' has no data_offsets"),
        ({"a": {**GOOD, "data_offsets": [0, True]}}, 0, "'a' has no data_offsets"),
        ({"a": {**GOOD, "dtype": "F33"}}, 8, "has the dtype 'F33'; known are BOOL"),
        ({"a": {**GOOD, "dtype": ["F32"]}}, 8, "has the dtype"),
        ({"a": {**GOOD, "shape": [3]}}, 8, "has 8 bytes; expected 12"),
        ({"a": {**GOOD, "shape": [2.0]}}, 8, "has the shape [2.0]"),
        ({"a": {**GOOD, "shape": [2**62, 2**62]}}, 8, "has 8 bytes; expected"),
        ({"a": GOOD, "b": GOOD}, 8, "share byte 0"),
        ({"a": GOOD, "b": {**GOOD, "data_offsets": [12, 20]}}, 20, "leave out or share byte 8"),
        ({"a": GOOD}, 4, "4 bytes of tensors and its header names 8; is it cut short"),
        ({"a": GOOD}, 12, "12 bytes of tensors and its header names 8"),
    ],
)
def test_hostile_headers(tmp_path: Path, header: object, data: int, text: str) -> None:
    path = write(tmp_path / "m.safetensors", header, data)
    with pytest.raises(ConfigError) as caught:
        read_header(path)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_header_longer_than_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(struct.pack("<Q", 2**63) + b"{}")
    with pytest.raises(ConfigError, match="a header of 9,223,372,036,854,775,808 bytes in a file of 10"):
        read_header(path)
    path.write_bytes(b"123")
    with pytest.raises(ConfigError, match="a header of 0 bytes in a file of 3"):
        read_header(path)
    with pytest.raises(ConfigError, match="could not be read"):
        read_header(tmp_path / "none.safetensors")


@pytest.mark.parametrize(
    ("index", "text"),
    [
        ("[]", "holds a list"),
        ("{}", "weight_map is null"),
        ('{"weight_map": {"a": "../x.safetensors"}}', "names '../x.safetensors'; expected files in the same folder"),
        ('{"weight_map": {"a": "/etc/passwd"}}', "names '/etc/passwd'"),
        ('{"weight_map": {"a": ".."}}', "names '..'"),
    ],
)
def test_hostile_indices(tmp_path: Path, index: str, text: str) -> None:
    (tmp_path / INDEX).write_text(index)
    with pytest.raises(ConfigError, match=text.replace("[", r"\[").replace(".", r"\.")):
        read_checkpoint(tmp_path)


def test_weights_are_never_unpickled(tmp_path: Path) -> None:
    for name, text in (
        ("m.bin", "pickled weights, which are never opened"),
        ("m.safetensors", "without a model's shape"),
    ):
        path = tmp_path / name
        path.write_bytes(b"\x80\x02.")
        with pytest.raises(ConfigError, match=text):
            load_model(path)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 2**70)
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["F32", "F4"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["dtype", "shape", "data_offsets", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(header=VALUES | st.dictionaries(st.text(max_size=4), VALUES, max_size=3), data=st.integers(0, 16))
def test_random_headers_raise_only_our_errors(tmp_path: Path, header: object, data: int) -> None:
    path = write(tmp_path / "m.safetensors", json.dumps(header).encode(), data)
    try:
        found = read_header(path)
    except RooflensError as error:
        assert "\n" not in str(error)
    else:
        assert sum(tensor.size for tensor in found) == data


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 900), spliced=st.binary(max_size=9))
def test_cut_and_spliced_files_raise_only_our_errors(tmp_path: Path, cut: int, spliced: bytes) -> None:
    path = write(tmp_path / "m.safetensors", entries({name: SHAPES[name] for name in list(SHAPES)[:4]}))
    data = path.read_bytes()
    path.write_bytes(data[:cut] + spliced + data[cut + len(spliced) :])
    try:
        read_header(path)
    except RooflensError as error:
        assert "\n" not in str(error)
