"""A model as one of several ranks sees it, counted on paper."""

from __future__ import annotations

import pytest

from rooflens.core.attention import Attention, LatentAttention
from rooflens.core.blocks import Mlp, Norm
from rooflens.core.experts import Moe
from rooflens.core.linear_attention import ShortConv
from rooflens.core.model import Layer, ModelSpec
from rooflens.core.op import DType, Op, OpKind
from rooflens.core.scenario import Batch, Conventions, Fusion, Phase, PhaseKind, Precision
from rooflens.count.sequence import sequence
from rooflens.count.shard import shard
from rooflens.errors import InputError

BF16 = Precision(*[DType.BF16] * 6)
NORM = Norm("norm", 8)


def model(*blocks, vocab: int = 12) -> ModelSpec:
    layer = Layer(1, blocks, (NORM,) * len(blocks))
    return ModelSpec("small", "Small", 8, vocab, (layer,), False, DType.BF16, DType.BF16, True, NORM)


def attention(heads: int = 4, kv_heads: int = 2, **more) -> Attention:
    return Attention(8, heads, kv_heads, d_k=2, d_v=2, **more)


def run(spec: ModelSpec, tp: int = 1, tokens: int = 3, fusion: Fusion = Fusion.ENGINE) -> list[Op]:
    return sequence(spec, Phase(PhaseKind.PREFILL, Batch(1, tokens, 0)), BF16, Conventions(fusion=fusion), tp=tp)


def test_heads_widths_and_vocabulary_are_split_and_norms_are_whole():
    part = shard(model(attention(), Mlp(8, 10)), 2)
    first, mlp = part.layers[0].blocks
    assert (first.heads, first.kv_heads, mlp.width, part.vocab) == (2, 1, 5, 6)
    assert part.layers[0].norms == (NORM, NORM)
    assert [(one.d_in, one.d_out) for one in first.linears] == [(8, 4), (8, 2), (8, 2), (4, 8)]
    assert [(one.d_in, one.d_out) for one in mlp.linears] == [(8, 5), (8, 5), (5, 8)]


def test_one_rank_is_the_model_itself():
    whole = model(attention())
    assert shard(whole, 1) is whole


def test_kv_heads_that_are_fewer_than_ranks_are_replicated():
    part = shard(model(attention(heads=4, kv_heads=2)), 4)
    assert (part.layers[0].blocks[0].heads, part.layers[0].blocks[0].kv_heads) == (1, 1)


def test_norms_of_each_head_run_over_the_heads_of_the_rank():
    norms = (Norm("q_norm", 2, rows=4), Norm("k_norm", 2, rows=2), Norm("whole", 8))
    part = shard(model(attention(qk_norms=norms)), 2)
    assert [norm.rows for norm in part.layers[0].blocks[0].qk_norms] == [2, 1, 1]


def test_experts_are_split_by_width_and_the_router_is_whole():
    part = shard(model(Moe(8, 6, 2, Mlp(8, 4), shared=Mlp(8, 8))), 2)
    moe = part.layers[0].blocks[0]
    assert (moe.experts, moe.top_k, moe.expert.width, moe.shared.width) == (6, 2, 2, 4)
    assert moe.linears[0].d_out == 6


def test_latents_are_whole_on_every_rank():
    part = shard(model(LatentAttention(8, heads=4, q_rank=3, kv_rank=5, nope=2, rope=1, d_v=2)), 4)
    latent = part.layers[0].blocks[0]
    assert (latent.heads, latent.kv_rank, latent.q_rank) == (1, 5, 3)
    assert (latent.expansion.d_in, latent.expansion.d_out) == (5, 4)


@pytest.mark.parametrize(
    ("blocks", "vocab", "tp", "said"),
    [
        ((attention(),), 12, 3, "--tp 3 does not divide the heads 4 of small"),
        ((attention(heads=6, kv_heads=2),), 12, 3, "--tp 3 does not divide the KV heads 2 of small"),
        ((Mlp(8, 10),), 12, 4, "--tp 4 does not divide the MLP width 10 of small"),
        ((Mlp(8, 10),), 13, 2, "--tp 2 does not divide the vocabulary 13 of small"),
        ((ShortConv(8, 3),), 12, 2, "--tp 2: small has ShortConv layers, which are not sharded"),
    ],
)
def test_what_does_not_divide_is_refused_by_name(blocks, vocab, tp, said):
    with pytest.raises(InputError, match=said):
        shard(model(*blocks, vocab=vocab), tp)


def test_an_all_reduce_follows_the_embedding_and_each_block():
    ops = run(shard(model(attention(), Mlp(8, 10)), 2), tp=2)
    names = [op.name for op in ops]
    assert names.count("all_reduce") == 3
    assert [names[i - 1] for i, name in enumerate(names) if name == "all_reduce"] == [
        "embed_tokens",
        "o_proj",
        "down_proj",
    ]
    assert names[-3:] == ["lm_head", "gather_logits", "choose_token"]


def test_link_bytes_of_a_ring():
    """3 tokens x 8 values x 2 bytes are 48 bytes: 2 x 3/4 of them over the link of each of 4 ranks, 18 sums each."""
    part = shard(model(attention(), Mlp(8, 12)), 4)
    ops = run(part, tp=4)
    summed = next(op for op in ops if op.name == "all_reduce")
    assert summed.kind is OpKind.COLLECTIVE
    assert (summed.traffic.link, summed.traffic.activations, summed.flops, summed.model_flops) == (72, 96, 18, 0)
    gathered = next(op for op in ops if op.name == "gather_logits")
    assert (gathered.traffic.link, gathered.traffic.activations) == (3 * 3 * 2, 5 * 3 * 2)


def test_a_token_is_chosen_among_the_whole_vocabulary():
    chosen = run(shard(model(attention()), 2), tp=2)[-1]
    assert (chosen.name, chosen.traffic.activations) == ("choose_token", 12 * 4)


def test_one_rank_meets_no_other():
    assert not any(op.kind is OpKind.COLLECTIVE for op in run(model(attention(), Mlp(8, 10))))


def test_experts_are_chosen_before_they_multiply_and_summed_after():
    ops = run(model(Moe(8, 6, 2, Mlp(8, 4), shared=Mlp(8, 8))))
    names = [op.name for op in ops if op.name.startswith(("shared", "experts", "router"))]
    assert names == [
        "shared_gate_up_proj",
        "shared_activation",
        "shared_down_proj",
        "router",
        "experts_routing",
        "experts_gate_up_proj",
        "experts_activation",
        "experts_down_proj",
        "experts_sum",
    ]
    summed = ops[[op.name for op in ops].index("experts_sum")]
    assert summed.traffic.activations == 3 * 2 * 8 * 2 + 3 * 8 * 2


def test_the_framework_runs_a_norm_as_eight_kernels_and_the_activation_between_gate_and_up():
    ops = run(model(Mlp(8, 10)), fusion=Fusion.FRAMEWORK)
    names = [op.name for op in ops]
    start = names.index("gate_proj")
    assert names[start : start + 6] == [
        "gate_proj",
        "activation",
        "up_proj",
        "activation.gate",
        "down_proj",
        "residual_add",
    ]
    assert names[start - 8 : start] == [
        f"norm.{part}" for part in ("widen", "square", "mean", "add", "rsqrt", "scale", "narrow", "weight")
    ]
    square = ops[start - 7]
    assert (square.flops, square.traffic.activations) == (3 * 8, 3 * 8 * 8)
