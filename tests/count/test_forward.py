"""forward, held by counts on paper and by published ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rooflens.core.model import Attention, Layer, Linear, Mlp, ModelSpec, Norm
from rooflens.core.op import DType, Op, OpKind, Traffic
from rooflens.core.scenario import (
    AttentionFlops,
    Batch,
    Conventions,
    Fusion,
    Logits,
    Phase,
    PhaseKind,
    TrafficModel,
)
from rooflens.count import forward, params
from rooflens.count.gemm import linear
from rooflens.count.setting import Setting
from tests.conftest import precision, tiny_model

FULL = Conventions(AttentionFlops.FULL, Logits.ALL)


def prefill(batch: int, tokens: int) -> Phase:
    return Phase(PhaseKind.PREFILL, Batch(batch, tokens, 0))


def decode(batch: int, cached: int) -> Phase:
    return Phase(PhaseKind.DECODE, Batch(batch, 1, cached))


def total(ops: tuple[Op, ...]) -> Traffic:
    traffic = Traffic()
    for op in ops:
        traffic = traffic + op.traffic
    return traffic


def model_flops(ops: tuple[Op, ...]) -> object:
    return sum(op.model_flops for op in ops)


def test_tiny_prefill_flops() -> None:
    """3 tokens: 2 x 120 weights x 3 tokens x 2 layers = 1440; head of the last token 2 x 4 x 10 = 80;
    attention 6 pairs x 2 heads x 2 x (2 + 2) x 2 layers = 192."""
    assert model_flops(forward(tiny_model(), prefill(1, 3), precision(), Conventions())) == 1440 + 80 + 192


def test_tiny_prefill_flops_full() -> None:
    """Logits of 3 tokens 240, 9 pairs: 288."""
    assert model_flops(forward(tiny_model(), prefill(1, 3), precision(), FULL)) == 1440 + 240 + 288


def test_tiny_decode_flops() -> None:
    """One token after 3 cached: 480 + 80 + 4 pairs x 16 x 2 layers = 128."""
    assert model_flops(forward(tiny_model(), decode(1, 3), precision(), Conventions())) == 480 + 80 + 128


def test_tiny_windowed_decode_flops() -> None:
    """A window of 2 leaves 2 pairs: 64."""
    assert model_flops(forward(tiny_model(window=2), decode(1, 3), precision(), Conventions())) == 480 + 80 + 64


def test_tiny_prefill_bytes() -> None:
    """2 bytes a value, 3 tokens, 2 layers.

    weights: rows 24, linears 120 x 2 x 2 = 480, norms 8 x 2 x 2 = 32, final norm 8, head 80.
    activations a layer: qkv (4 + 8), attention 4 + 4 + 4, o (4 + 4), gate and up (4 + 12), down (6 + 4): 58 values
    x 3 x 2 = 348; twice 696; head (4 + 10) x 2 = 28. K and V written 4 x 3 x 2 x 2 = 48.
    """
    traffic = total(forward(tiny_model(), prefill(1, 3), precision(), Conventions()))
    assert traffic == Traffic(weights=624, kv_read=0, kv_write=48, activations=724)


def test_tiny_decode_bytes() -> None:
    """K and V of 3 tokens: 3 x 4 x 2 x 2 layers = 48 read, 16 written; activations 58 x 2 x 2 + 28 = 260."""
    traffic = total(forward(tiny_model(), decode(1, 3), precision(), Conventions()))
    assert traffic == Traffic(weights=608, kv_read=48, kv_write=16, activations=260)


def test_the_textbook_model_charges_weights_alone() -> None:
    ops = forward(tiny_model(), prefill(1, 3), precision(), Conventions(traffic=TrafficModel.WEIGHTS))
    assert total(ops) == Traffic(weights=624)
    assert [op.intensity for op in ops if op.name == "qkv_proj"] == [3]


def test_framework_fusion_keeps_projections_apart() -> None:
    """FLOP and weights are the same; q, k and v read the input three times, gate and up twice: 3 x 4 values more."""
    engine = forward(tiny_model(), prefill(1, 3), precision(), Conventions())
    framework = forward(tiny_model(), prefill(1, 3), precision(), Conventions(fusion=Fusion.FRAMEWORK))
    assert model_flops(framework) == model_flops(engine)
    assert total(framework).weights == total(engine).weights
    assert total(framework).activations - total(engine).activations == 3 * 4 * 3 * 2 * 2
    assert {"q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"} <= {op.name for op in framework}


def test_residual_adds_are_fused_in_engines_only() -> None:
    """Two adds a layer of 4 values and 3 tokens either way."""
    engine = forward(tiny_model(), prefill(1, 3), precision(), Conventions())
    framework = forward(tiny_model(), prefill(1, 3), precision(), Conventions(fusion=Fusion.FRAMEWORK))
    assert sum(op.flops for op in engine) == sum(op.flops for op in framework)
    adds = [op for op in framework if op.kind is OpKind.RESIDUAL]
    assert [(op.count, op.flops) for op in adds] == [(4, 48)]


def test_eager_traffic_holds_the_score_matrix() -> None:
    """Scores of 1 x 2 heads x 3 x 3 = 18 values go through memory; FLOP stay the same."""
    fused = forward(tiny_model(), prefill(1, 3), precision(), Conventions())
    eager = forward(tiny_model(), prefill(1, 3), precision(), Conventions(traffic=TrafficModel.EAGER))
    assert model_flops(eager) == model_flops(fused)
    softmax = next(op for op in eager if op.kind is OpKind.SOFTMAX)
    # 6 passes in 2 bytes, 2 in 4 bytes, and the mask of 3 x 3 once: (6 x 2 + 2 x 4) x 18 + 2 x 9, in two layers
    assert softmax.traffic == Traffic(activations=2 * ((6 * 2 + 2 * 4) * 18 + 2 * 9))
    assert total(eager).activations > total(fused).activations


@pytest.mark.parametrize("model", [tiny_model(), tiny_model(window=4)])
def test_what_is_compulsory_does_not_depend_on_the_traffic_model(model: ModelSpec) -> None:
    """Copies of the cache, repeated heads and score matrices are what a better kernel would not move."""
    for phase in (prefill(2, 5), decode(2, 9)):
        fused = forward(model, phase, precision(), Conventions())
        eager = forward(model, phase, precision(), Conventions(traffic=TrafficModel.EAGER))
        assert sum(op.compulsory_bytes for op in eager) == sum(op.compulsory_bytes for op in fused)


def test_ragged_blocks_are_whole_over_arrays_too() -> None:
    """K and V of 4 values in nvfp4 take whole blocks of 16 (9 B), however many tokens an array asks for."""
    cached = np.array([1.0, 3.0, 5.0])
    narrow = precision(kv=DType.NVFP4)
    swept = forward(tiny_model(), Phase(PhaseKind.DECODE, Batch(1, 1, cached)), narrow, Conventions())
    read = next(op.traffic.kv_read for op in swept if op.kind is OpKind.ATTENTION)
    single = [forward(tiny_model(), decode(1, int(c)), narrow, Conventions()) for c in cached]
    assert read.tolist() == [next(op.traffic.kv_read for op in ops if op.kind is OpKind.ATTENTION) for ops in single]


def test_case_34_linear_with_bias() -> None:
    """8 x 16 with bias, 4 tokens: 2 x 4 x 8 x 16 = 1,024 model FLOP, 4 x 16 = 64 more for the bias."""
    setting = Setting(prefill(1, 4), precision(), Conventions())
    op = linear("l", 4, (Linear("l", 8, 16, bias=True),), setting)
    assert (op.model_flops, op.flops) == (1024, 1088)


def test_quantised_weights_leave_the_rest_in_16_bit() -> None:
    """fp8: linears 240 B instead of 480; rows, norms and head as before: 624 - 240. The head is no fp8 GEMM."""
    mixed = precision(DType.BF16, weights=DType.FP8, compute=DType.FP8)
    ops = forward(tiny_model(), prefill(1, 3), mixed, Conventions())
    assert total(ops).weights == 384
    dtypes = {op.name: op.dtype for op in ops}
    assert (dtypes["qkv_proj"], dtypes["attention"], dtypes["lm_head"]) == (DType.FP8, DType.BF16, DType.BF16)


def small_llama() -> ModelSpec:
    """Hidden 1024, 8 layers, 16 heads, 4 KV heads, MLP 2816, vocabulary 32000, fp32."""
    layer = Layer(
        count=8,
        blocks=(Attention(hidden=1024, heads=16, kv_heads=4, d_k=64, d_v=64), Mlp(hidden=1024, width=2816)),
        norms=(Norm("input_norm", 1024), Norm("post_attention_norm", 1024)),
    )
    return replace(
        tiny_model(), hidden=1024, vocab=32000, layers=(layer,), final_norm=Norm("final_norm", 1024),
        weights_dtype=DType.FP32, kept_dtype=DType.FP32,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("phase", "conventions", "flops"),
    [
        (prefill(1, 512), FULL, 134_486_163_456),
        (prefill(1, 512), Conventions(logits=Logits.ALL), 130_199_584_768),
        (decode(1, 512), Conventions(), 262_701_056),
    ],
)
def test_small_llama_flops(phase: Phase, conventions: Conventions, flops: int) -> None:
    """2 x 122,945,536 weights a token, and 4 x 64 x 16 x 8 FLOP a pair: counted by hand."""
    assert model_flops(forward(small_llama(), phase, precision(DType.FP32), conventions)) == flops


def test_small_llama_decode_bytes() -> None:
    """Compulsory: 4 x 122,945,536 + norms 69,632 + row 4,096 + KV 8,388,608 + 16,384 + logits 128,000 = 500,388,864.

    Kernels as the framework runs them add 20,736 values a layer and the head's input, 4 bytes each.
    """
    conventions = Conventions(fusion=Fusion.FRAMEWORK)
    ops = forward(small_llama(), decode(1, 512), precision(DType.FP32), conventions)
    assert sum(op.compulsory_bytes for op in ops) == 500_388_864
    assert total(ops).total == 500_388_864 + 4 * (8 * 20_736 + 1024) == 501_056_512


def test_parameters() -> None:
    """Layers 2 x (48 + 72 + 8) = 256, table 40, head 40, final norm 4."""
    assert params(tiny_model()) == 340
    assert params(replace(tiny_model(), tied=True)) == 300
