"""Traces: the framework's ops as ours, with the bytes that eager execution moves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

REASON = "a trace runs the reference framework (extra torch)"
pytest.importorskip("torch", reason=REASON)
pytest.importorskip("transformers", reason=REASON)

from rooflens.api import predict  # noqa: E402
from rooflens.audit.trace import trace_forward  # noqa: E402
from rooflens.core.op import DType, Op, OpKind, Traffic  # noqa: E402
from rooflens.core.scenario import Batch, Conventions, Phase, PhaseKind, TrafficModel  # noqa: E402
from rooflens.count import kv_cache_bytes, params  # noqa: E402
from rooflens.errors import InputError, RooflensError, UnknownArchitectureError  # noqa: E402
from rooflens.metrics import profile_metrics  # noqa: E402
from tests.conftest import precision  # noqa: E402

LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2,
    "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 100, "tie_word_embeddings": False,
}  # fmt: skip
XGLM: dict[str, Any] = {
    "model_type": "xglm", "d_model": 64, "num_layers": 3, "attention_heads": 4, "ffn_dim": 128, "vocab_size": 100,
    "torch_dtype": "float16",
}  # fmt: skip
"""A model that the framework knows and no mapping describes."""
PREFILL = Phase(PhaseKind.PREFILL, Batch(3, 16, 0))
DECODE = Phase(PhaseKind.DECODE, Batch(3, 1, 16))
KV_TOKEN = 2 * 2 * 2 * 8 * 2
"""Bytes of a token in LLAMA's cache: 2 layers, K and V of 2 heads of 8 values of 2 bytes."""


def trace(phase: Phase, config: dict[str, Any] = LLAMA, **changed: DType) -> dict[str, Op]:
    return {op.name: op for op in trace_forward(config, phase, precision(**changed))}


def test_a_projection_is_one_op_of_all_layers() -> None:
    """48 rows through 2 matrices of 64 x 160: each reads x and the matrix and writes y, 2 bytes a value."""
    op = trace(PREFILL)["model.layers.*.mlp.gate_proj"]
    assert (op.kind, op.count, op.dtype) == (OpKind.GEMM, 2, DType.BF16)
    assert op.flops == op.model_flops == 2 * 2 * 48 * 64 * 160
    assert op.traffic == Traffic(weights=2 * 2 * 64 * 160, activations=2 * 2 * 48 * (64 + 160))
    assert (op.shape.m, op.shape.n, op.shape.k) == (48, 160, 64)


def test_attention_is_not_fused() -> None:
    """Scores and weighted sum: 3 sequences x 8 heads x 16 x 16 pairs x 8 wide, twice, in 2 layers."""
    ops = trace(PREFILL)
    product, softmax = ops["model.layers.*.self_attn:bmm"], ops["model.layers.*.self_attn:_softmax"]
    assert product.kind is OpKind.ATTENTION
    assert product.flops == 2 * 2 * (2 * 3 * 8 * 16 * 16 * 8)
    assert softmax.traffic.activations == 2 * 2 * 4 * 3 * 8 * 16 * 16


def test_logits_are_of_the_last_token() -> None:
    head = trace(PREFILL)["lm_head"]
    assert head.flops == 2 * 3 * 64 * 100
    assert head.leaving_bytes == 3 * 100 * 2


@pytest.mark.parametrize(("phase", "read", "written"), [(PREFILL, 0, 48), (DECODE, 48, 3)])
def test_the_cache_is_told_apart(phase: Phase, read: int, written: int) -> None:
    total = Traffic.total_of([op.traffic for op in trace(phase).values()])
    assert total.kv_read == read * KV_TOKEN
    assert total.kv_write == written * KV_TOKEN
    narrow = Traffic.total_of([op.traffic for op in trace(phase, kv=DType.FP8).values()])
    assert narrow.kv_write == written * KV_TOKEN // 2


def test_weights_are_all_parameters_and_the_rows_looked_up() -> None:
    """A decode step of 3 sequences reads every matrix, and 3 rows of the table of 100."""
    ops = trace(DECODE)
    linear = 2 * (2 * 64 * 64 + 2 * 64 * 16 + 3 * 64 * 160)
    matrices = [op.traffic.weights for op in ops.values() if op.kind is OpKind.GEMM]
    assert sum(matrices) == 2 * (linear + 6400)
    assert ops["model.embed_tokens"].traffic.weights == 2 * 3 * 64
    assert ops["model.embed_tokens"].kind is OpKind.EMBEDDING


def test_quantised_matrices_are_read_as_they_are_stored() -> None:
    ops = trace(DECODE, weights=DType.FP8)
    assert ops["model.layers.*.mlp.up_proj"].traffic.weights == 2 * 64 * 160
    assert ops["lm_head"].traffic.weights == 2 * 64 * 100


def test_a_recurrent_state_is_told_apart(tmp_path: Path) -> None:
    rows = (Path(__file__).parent.parent / "data").glob("reference_*.jsonl")
    configs = {row["name"]: row["config"] for file in rows for row in map(json.loads, file.read_text().splitlines())}
    total = Traffic.total_of([op.traffic for op in trace(DECODE, configs["mamba2"]).values()])
    assert total.state > 0
    assert total.kv_read == total.kv_write == 0


def config(tmp_path: Path, values: dict[str, Any]) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(values))
    return tmp_path


def test_predict_with_a_trace(tmp_path: Path) -> None:
    """Weights, cache and FLOP of matrix products are those that are counted; eager bytes are more."""
    folder = config(tmp_path, LLAMA)
    traced = predict(folder, "h100-sxm", batch=3, prompt=16, output=8, trace=True)
    eager = Conventions(traffic=TrafficModel.EAGER)
    counted = predict(folder, "h100-sxm", batch=3, prompt=16, output=8, conventions=eager)
    assert profile_metrics(traced).weight_bytes == profile_metrics(counted).weight_bytes
    for one, other in zip(traced.phases, counted.phases, strict=True):
        assert one.traffic.kv_write == other.traffic.kv_write
        assert one.traffic.kv_read == other.traffic.kv_read
        assert one.traffic.activations > other.traffic.activations
    assert traced.phases[1].model_flops == counted.phases[1].model_flops
    assert {"traced"} <= {finding.code for finding in traced.findings}


def test_an_architecture_without_a_mapping(tmp_path: Path) -> None:
    """3 layers of 4 x 64 x 64 + 64 x 4 and 2 x 64 x 128 + 192 and two norms, a tied table of 100, a last norm."""
    folder = config(tmp_path, XGLM)
    with pytest.raises(UnknownArchitectureError):
        predict(folder, "h100-sxm")
    profile = predict(folder, "h100-sxm", prompt=16, output=8, trace=True)
    layer = 4 * (64 * 64 + 64) + 2 * 64 * 128 + 128 + 64 + 4 * 64
    assert params(profile.model) == 3 * layer + 100 * 64 + 2 * 64
    assert kv_cache_bytes(profile.model, 24, DType.FP16) == 24 * 3 * 2 * 64 * 2
    assert profile.scenario.precision.compute is DType.FP16
    assert profile.phases[1].traffic.kv_read == 20 * 3 * 2 * 64 * 2
    assert any("no mapping to layer kinds" in finding.text for finding in profile.findings)


def test_windows_are_found_in_the_cache() -> None:
    from rooflens.audit.build import build
    from rooflens.audit.facts import facts

    windows = {**LLAMA, "model_type": "gemma3_text", "head_dim": 8, "sliding_window": 20, "num_hidden_layers": 6}
    found = facts(build(windows, "windows"), 100)
    assert (found.growing, found.bounded, found.held) == (2 * 2 * 8, 5 * 2 * 2 * 8, 19)


def test_a_model_from_anywhere_and_what_cannot_be_traced(tmp_path: Path) -> None:
    remote = {"model_type": "theirs", "auto_map": {"AutoModelForCausalLM": "theirs.Model"}}
    with pytest.raises(UnknownArchitectureError, match="never run"):
        predict(config(tmp_path, remote), "h100-sxm", trace=True)
    folder = config(tmp_path, LLAMA)
    for wrong in ({"batch": [1, 2]}, {"conventions": Conventions(traffic=TrafficModel.WEIGHTS)}):
        with pytest.raises(InputError, match="a trace"):
            predict(folder, "h100-sxm", trace=True, **wrong)
    with pytest.raises(RooflensError):
        trace(PREFILL, activations=DType.FP8)
