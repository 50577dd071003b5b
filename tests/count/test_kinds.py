"""Experts, latent attention and recurrent layers, held by counts on paper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rooflens.core.attention import Indexer, LatentAttention, Span
from rooflens.core.blocks import Block, Mlp, Norm
from rooflens.core.experts import Moe
from rooflens.core.linear_attention import DeltaNet, ShortConv
from rooflens.core.model import Layer, ModelSpec
from rooflens.core.op import DType, Op, OpKind
from rooflens.core.recurrent import Mamba2
from rooflens.core.scenario import Batch, Conventions, LatentForm, Phase, PhaseKind, Precision
from rooflens.count import active_params, forward, kv_cache_bytes, params
from rooflens.count.moe import distinct_experts
from rooflens.count.sizes import kv_bytes_per_token, state_bytes, weight_bytes
from tests.conftest import precision, tiny_model

EXPANDED = Conventions(latent=LatentForm.EXPANDED)
ABSORBED = Conventions(latent=LatentForm.ABSORBED)


def model_of(*blocks: Block) -> ModelSpec:
    """One layer of `blocks`, hidden size 4."""
    return replace(tiny_model(), layers=(Layer(1, blocks, (Norm("norm", 4),)),))


def ops(model: ModelSpec, phase: Phase, conventions: Conventions | None = None, **dtypes: DType) -> dict[str, Op]:
    counted = forward(model, phase, precision(**dtypes), conventions or Conventions())
    return {op.name: op for op in counted}


def prefill(tokens: int, batch: int = 1) -> Phase:
    return Phase(PhaseKind.PREFILL, Batch(batch, tokens, 0))


def decode(cached: int, batch: int = 1) -> Phase:
    return Phase(PhaseKind.DECODE, Batch(batch, 1, cached))


MOE = Moe(hidden=4, experts=8, top_k=2, expert=Mlp(4, 3), shared=Mlp(4, 5), shared_gate=True)


def test_expert_flops() -> None:
    """10 tokens x 2 experts x 2 x 4 x (2 x 3) = 960 for gate and up, 10 x 2 x 2 x 3 x 4 = 480 down; router
    10 x 2 x 4 x 8 = 640; shared 10 x 2 x 4 x 10 = 800 and 10 x 2 x 5 x 4 = 400; its gate 10 x 2 x 4 = 80."""
    found = ops(model_of(MOE), prefill(10))
    flops = {name: found[name].model_flops for name in found if found[name].model_flops and name != "lm_head"}
    assert flops == {
        "router": 640,
        "shared_gate_up_proj": 800,
        "shared_down_proj": 400,
        "shared_gate": 80,
        "experts_gate_up_proj": 960,
        "experts_down_proj": 480,
    }


def test_one_token_reads_the_experts_it_is_routed_to() -> None:
    """2 of 8 experts, 4 x 6 + 3 x 4 = 36 weights each, 2 bytes; two routed rows of 4 + 6 and 3 + 4 values."""
    found = ops(model_of(MOE), decode(0))
    up, down = found["experts_gate_up_proj"], found["experts_down_proj"]
    assert (up.kind, up.traffic.weights, down.traffic.weights) == (OpKind.EXPERTS, 2 * 24 * 2, 2 * 12 * 2)
    assert (up.traffic.activations, down.traffic.activations) == (2 * 10 * 2, 2 * 7 * 2)


@pytest.mark.parametrize(
    ("experts", "top_k", "tokens", "expected"),
    [(8, 2, 3, 4.625), (256, 8, 32, 163.31), (256, 8, 64, 222.44), (128, 8, 32, 111.77), (8, 2, 1, 2), (4, 4, 9, 4)],
)
def test_case_29_distinct_experts(experts: int, top_k: int, tokens: int, expected: float) -> None:
    """E (1 - (1 - k / E)^T): 8 (1 - 0.75^3) = 4.625; measured were 164 and 226 of 256, 115 of 128."""
    assert distinct_experts(experts, top_k, tokens) == pytest.approx(expected, abs=0.005)
    assert distinct_experts(experts, top_k, np.array([float(tokens)])) == pytest.approx(expected, abs=0.005)


def test_a_measured_count_of_experts_wins() -> None:
    found = ops(model_of(MOE), decode(0, batch=64), Conventions(distinct_experts=7))
    assert found["experts_down_proj"].traffic.weights == 7 * 12 * 2


def test_a_measured_count_of_experts_is_of_a_decode_step() -> None:
    """64 tokens of a prefill touch all 8 experts but for 8 (1 - 2/8)^64 = 8e-8, whatever a decode step reads."""
    found = ops(model_of(MOE), prefill(64), Conventions(distinct_experts=3))
    assert found["experts_down_proj"].traffic.weights == pytest.approx(8 * 12 * 2)


def test_moe_parameters() -> None:
    """Router 32, 8 experts of 36, shared 60, gate 4; table and head 40 each, norms 4 + 4. 6 experts are idle."""
    model = model_of(MOE)
    assert params(model) == 32 + 288 + 60 + 4 + 80 + 8
    assert active_params(model) == params(model) - 6 * 36


def test_a_router_stays_in_16_bit() -> None:
    """fp8: experts and shared MLP take a byte a weight; router, gate, table, head and norms two."""
    assert weight_bytes(model_of(MOE), DType.FP8, DType.BF16) == 288 + 60 + 2 * (32 + 4 + 80 + 8)
    narrow = ops(model_of(MOE), decode(0), weights=DType.FP8, compute=DType.FP8)
    assert (narrow["router"].dtype, narrow["router"].traffic.weights) == (DType.BF16, 64)
    assert narrow["experts_down_proj"].dtype is DType.FP8


MLA = LatentAttention(hidden=4, heads=2, q_rank=3, kv_rank=5, nope=2, rope=1, d_v=2)


def test_latent_parameters() -> None:
    """q_a 4 x 3, q_b 3 x 6, kv_a 4 x 6, kv_b 5 x 8, o 4 x 4, norms 3 + 5."""
    assert MLA.params == 12 + 18 + 24 + 40 + 16 + 8


def test_latent_prefill_is_expanded() -> None:
    """3 tokens: kv_b 2 x 3 x 5 x 8 = 240; attention 6 pairs x 2 heads x 2 x (3 + 2) = 120."""
    found = ops(model_of(MLA), prefill(3))
    assert (found["kv_b_proj"].model_flops, found["attention"].model_flops) == (240, 120)
    assert found["attention"].traffic.kv_write == 3 * 6 * 2


def test_an_expanded_step_expands_the_whole_cache() -> None:
    """1 + 9 tokens through kv_b: 2 x 10 x 40 = 800; 10 pairs x 2 heads x 2 x 5 = 200; latents of 9 x 6 values read."""
    found = ops(model_of(MLA), decode(9), EXPANDED)
    assert (found["kv_b_proj"].model_flops, found["attention"].model_flops) == (800, 200)
    assert found["kv_b_proj"].traffic.kv_read == 9 * 6 * 2


def test_an_absorbed_step_reads_the_latent_once() -> None:
    """Queries into the latent 2 x 2 heads x 2 x 5 = 40, out of it the same; 10 pairs x 2 heads x 2 x (6 + 5) = 440."""
    found = ops(model_of(MLA), decode(9), ABSORBED)
    assert (found["absorb_k_proj"].model_flops, found["absorb_v_proj"].model_flops) == (40, 40)
    assert found["absorb_k_proj"].traffic.weights + found["absorb_v_proj"].traffic.weights == 40 * 2
    assert found["attention"].model_flops == 440
    assert (found["attention"].traffic.kv_read, found["attention"].traffic.kv_write) == (9 * 6 * 2, 6 * 2)


def test_decode_is_absorbed_unless_asked_otherwise() -> None:
    assert ops(model_of(MLA), decode(9)).keys() == ops(model_of(MLA), decode(9), ABSORBED).keys()
    assert "kv_b_proj" in ops(model_of(MLA), prefill(3))


V3 = LatentAttention(hidden=7168, heads=128, q_rank=1536, kv_rank=512, nope=128, rope=64, d_v=128)


def test_cases_6_and_7_latent_cache() -> None:
    """(512 + 64) x 2 bytes x 61 layers = 70,272, no factor for K and V; packed fp8: (512 + 4 x 4 + 64 x 2) x 61."""
    model = replace(model_of(V3), layers=(Layer(61, (V3,), ()),))
    assert kv_bytes_per_token(model, DType.BF16, windowed=False) == 70_272
    assert kv_bytes_per_token(model, DType.FP8_DS_MLA, windowed=False) == 40_016


def test_intensity_of_absorbed_attention() -> None:
    """2 x (576 + 512) x 128 over 1,152 bytes a cached token: 241.8 FLOP/byte at 16 bit (arXiv 2405.04434)."""
    step = ops(model_of(V3), decode(10**6), ABSORBED)["attention"]
    assert step.model_flops / step.traffic.kv_read == pytest.approx(241.8, abs=0.05)


SPARSE = replace(MLA, indexer=Indexer(hidden=4, heads=3, width=2, q_rank=3), top_k=4)


def test_an_indexer_scores_everything_and_attention_reads_the_top() -> None:
    """10 keys x 3 heads x (2 x 2 + 2) = 180 FLOP; its keys of 9 x 2 values are read; attention meets 4 of 10."""
    found = ops(model_of(SPARSE), decode(9))
    scores = found["indexer_scores"]
    assert (scores.model_flops, scores.traffic.kv_read, scores.traffic.kv_write) == (180, 9 * 2 * 2, 2 * 2)
    assert found["attention"].model_flops == 4 * 2 * 2 * (6 + 5)
    assert found["attention"].traffic.kv_read == 4 * 6 * 2


def test_the_indexer_has_a_cache_of_its_own() -> None:
    assert kv_cache_bytes(model_of(SPARSE), 10, DType.BF16) == 10 * (6 + 2) * 2


def test_chunked_attention() -> None:
    """Chunks of 4: token 9 sees itself and token 8; tokens 0 to 9 see 1 + 2 + 3 + 4, twice, then 1 + 2."""
    from rooflens.count.span import causal_pairs, kv_tokens_held, kv_tokens_read

    chunk = Span(chunk=4)
    assert causal_pairs(1, 9, chunk) == 2
    assert causal_pairs(10, 0, chunk) == 23
    assert kv_tokens_read(1, 9, chunk) == 1
    assert kv_tokens_held(9, chunk) == 4


SSD = Mamba2(hidden=4, heads=2, head_dim=3, groups=1, state=5, conv=4, chunk=8)


def test_mamba2_parameters() -> None:
    """in 4 x (12 + 10 + 2) = 96, out 6 x 4 = 24, convolution 16 channels x (4 + 1) = 80, 3 x 2 heads, norm 6."""
    assert SSD.params == 96 + 24 + 80 + 6 + 6


def test_a_mamba2_step() -> None:
    """C . state: 2 x 6 x 5 = 60 model FLOP. State 30 values in fp32, convolution 16 x 3 in bf16, read and written."""
    found = ops(model_of(SSD), decode(7))
    assert found["scan"].model_flops == 60
    assert found["scan"].traffic.state == 2 * 30 * 4
    assert found["convolution"].traffic.state == 2 * 48 * 2
    assert found["convolution"].model_flops == 0


def test_mamba2_in_chunks() -> None:
    """9 tokens are 2 chunks of 8. A head: 2 x (64 x (5 + 3) + 2 x 8 x 5 x 3) + 9 x 15 multiply-adds."""
    head = 2 * (64 * 8 + 2 * 8 * 15) + 9 * 15
    assert ops(model_of(SSD), prefill(9))["scan"].model_flops == 2 * 2 * head


def test_what_decode_reads_does_not_grow_with_the_context() -> None:
    short, long = (ops(model_of(SSD), decode(context))["scan"].traffic for context in (1, 10**6))
    assert short == long
    assert kv_cache_bytes(model_of(SSD), 10**6, DType.BF16) == 0


def test_state_bytes() -> None:
    """30 values in fp32 and 48 in bf16; both in fp32 where asked."""
    assert state_bytes(model_of(SSD), None, DType.BF16) == 120 + 96
    assert state_bytes(model_of(SSD), DType.FP32, DType.BF16) == 120 + 192


def test_case_15_state_of_a_hybrid() -> None:
    """48 layers: 48 heads x 128 x 128 in fp32, 10,240 channels x 3 columns in fp32: 149.625 MiB a sequence."""
    layer = DeltaNet(hidden=5120, k_heads=16, d_k=128, v_heads=48, d_v=128, conv=4)
    model = replace(tiny_model(), layers=(Layer(48, (layer,), ()),))
    assert state_bytes(model, DType.FP32, DType.BF16) == 149.625 * 2**20


def test_a_delta_net_in_chunks() -> None:
    """65 tokens are 2 chunks of 64: 2 x 3 heads x (2 x 64^2 x 2 + 64^2 x 5 + 3 x 64 x 2 x 5) multiply-adds."""
    layer = DeltaNet(hidden=4, k_heads=1, d_k=2, v_heads=3, d_v=5, conv=4)
    chunk = 2 * 64 * 64 * 2 + 64 * 64 * 5 + 3 * 64 * 2 * 5
    assert ops(model_of(layer), prefill(65))["scan"].model_flops == 2 * 2 * 3 * chunk
    assert ops(model_of(layer), decode(5))["scan"].model_flops == 0
    assert ops(model_of(layer), decode(5))["scan"].flops > 0


def test_a_short_convolution_has_no_other_state() -> None:
    found = ops(model_of(ShortConv(hidden=4, conv=3)), decode(9))
    assert found["scan"].traffic.state == 0
    assert found["convolution"].traffic.state == 2 * 4 * 2 * 2


@pytest.mark.parametrize("block", [MOE, MLA, SPARSE, SSD])
def test_arrays_equal_single_calls(block: Block) -> None:
    batches, contexts = np.array([1.0, 3.0, 700.0]), np.array([0.0, 9.0, 4000.0])
    model, both = model_of(block), Precision(*[DType.BF16] * 6)
    swept = forward(model, Phase(PhaseKind.DECODE, Batch(batches, 1, contexts)), both, Conventions())
    for i in range(3):
        single = forward(model, decode(int(contexts[i]), int(batches[i])), both, Conventions())
        for many, one in zip(swept, single, strict=True):
            assert np.broadcast_to(many.flops, 3)[i] == pytest.approx(one.flops, rel=1e-12)
            assert np.broadcast_to(many.traffic.total, 3)[i] == pytest.approx(one.traffic.total, rel=1e-12)
