"""Models of every layer kind, small enough for their counts to fit on a sheet of paper."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rooflens.core.attention import Attention, Indexer, LatentAttention, Span
from rooflens.core.blocks import Block, Linear, Mlp, Norm, NormKind
from rooflens.core.compressed import CompressedAttention, CompressedIndexer, Compressor, HyperConnection
from rooflens.core.cross import CrossAttention
from rooflens.core.dtype import DType, Mixed
from rooflens.core.experts import Moe
from rooflens.core.gated_recurrence import RgLru, Rwkv4, RwkvChannelMix
from rooflens.core.indexers import BlockIndexer
from rooflens.core.linear_attention import DeltaNet, LightningAttention, ShortConv
from rooflens.core.model import Layer, ModelSpec
from rooflens.core.recurrent import Mamba, Mamba2
from rooflens.core.tower import Tower
from tests.conftest import tiny_model


def layer(count: int = 2, **changed: Any) -> Layer:
    attention = {"hidden": 6, "heads": 4, "kv_heads": 2, "d_k": 3, "d_v": 3, **changed.pop("attention", {})}
    mlp = {"hidden": 6, "width": 10, **changed.pop("mlp", {})}
    norms = changed.pop("norms", (Norm("input_norm", 6), Norm("post_attention_norm", 6)))
    return Layer(count, (Attention(**attention), Mlp(**mlp)), norms, **changed)


def model_of(*layers: Layer, **changed: Any) -> ModelSpec:
    return replace(tiny_model(), hidden=6, vocab=11, layers=layers, final_norm=Norm("final_norm", 6), **changed)


_BIASED = layer(attention={"qkv_bias": True, "out_bias": True}, mlp={"up_bias": True, "down_bias": True})
_QK = (Norm("q_norm", 3, rows=4), Norm("k_norm", 3, NormKind.LAYER, bias=True, rows=2, own_rows=True))
_PLAIN_MLP = layer(mlp={"gated": False}, parallel=True, norms=(Norm("input_norm", 6, NormKind.LAYER, bias=True),))
DENSE = {
    "tiny": tiny_model(),
    "biases": model_of(_BIASED),
    "qk norms": model_of(layer(attention={"qk_norms": _QK})),
    "window": model_of(layer(attention={"span": Span(window=3)})),
    "mixed windows": model_of(
        layer(1, attention={"span": Span(window=3)}),
        layer(3),
        layer(1, attention={"span": Span(window=2), "d_v": 5}),
    ),
    "tied head": model_of(layer(), tied=True, head_bias=True),
    "gpt": model_of(_PLAIN_MLP, positions=16, embedding_norm=Norm("embedding_norm", 6, NormKind.LAYER, weight=False)),
    "narrow table": model_of(layer(), embedding_width=4),
    "fused matrices": model_of(layer(attention={"fused_qkv": True, "rotary": False}, mlp={"fused": True})),
    "multi-query": replace(model_of(layer(attention={"kv_heads": 1, "d_k": 5})), final_norm=None),
}


def blocks(*parts: Block, count: int = 2, **changed: Any) -> Layer:
    """A layer of `parts`, each with a norm before it."""
    return Layer(count, parts, tuple(Norm(f"norm_{i}", 6) for i in range(len(parts))), **changed)


def attention(**changed: Any) -> Attention:
    """Four heads of three over two KV heads, with what is `changed`."""
    return Attention(**{"hidden": 6, "heads": 4, "kv_heads": 2, "d_k": 3, "d_v": 3, **changed})


_MLP = Mlp(6, 10)
_EXPERT = Mlp(6, 4, up_bias=True, down_bias=True)
_MOE = Moe(6, experts=5, top_k=2, expert=Mlp(6, 4))
_INDEXER = Indexer(6, heads=2, width=4, q_rank=5)
_MLA = LatentAttention(6, heads=4, q_rank=5, kv_rank=8, nope=3, rope=2, d_v=4)
_STORED = tuple((f"experts_{name}_proj", DType.MXFP4) for name in ("gate", "up", "down"))
_MIXED = (("experts_gate_proj", DType.NVFP4), ("shared_down_proj", DType.BF16), ("q_proj", DType.FP8))
_APART = tuple(
    (f"experts_{name}_proj", Mixed(((DType("q8_0"), 96), (DType.BF16, 24)))) for name in ("gate", "up", "down")
)
_HALVES = (("kv_b_proj", Mixed(((DType("q4_0"), 96), (DType("q8_0"), 128)))),)
_V4 = CompressedAttention(6, heads=4, head_dim=3, rope=1, q_rank=5, groups=2, out_rank=2, window=3)
_ENTRIES = Compressor("entries", 6, 3, 2)
_KEYS = Compressor("keys", 6, 4, 2, overlap=True)
_PICKS = CompressedIndexer(6, heads=2, width=4, q_rank=5, top_k=1, compressor=_KEYS)
_STREAMS = HyperConnection(6, 2)
EXPERTS = {
    "experts": model_of(blocks(attention(), _MOE), blocks(attention(), _MLP)),
    "shared experts": model_of(
        blocks(attention(), replace(_MOE, expert=_EXPERT, shared=Mlp(6, 8), shared_gate=True, router_bias=True))
    ),
    "plain experts, all taken": model_of(
        blocks(attention(sinks=True, out_norm=True), replace(_MOE, top_k=5, expert=Mlp(6, 4, gated=False)))
    ),
    "latent experts": model_of(
        blocks(attention(), replace(_MOE, latent=3, expert=Mlp(3, 4, gated=False), routing_params=2))
    ),
    "experts in four bit": model_of(blocks(attention(), replace(_MOE, expert=_EXPERT), storage=_STORED)),
    "mixed storage": model_of(blocks(attention(), replace(_MOE, shared=Mlp(6, 8)), storage=_MIXED)),
    "a dtype for each expert": model_of(blocks(attention(), _MOE, storage=_APART)),
}
LATENT = {
    "latent": model_of(blocks(_MLA, _MOE), blocks(_MLA, _MLP)),
    "latent without q rank": model_of(blocks(replace(_MLA, q_rank=None, bias=True, rotary=False), _MLP)),
    "halves in a dtype each": model_of(blocks(_MLA, _MLP, storage=_HALVES)),
    "sparse": model_of(blocks(replace(_MLA, indexer=_INDEXER, top_k=2), _MLP)),
    "shared indexer": model_of(
        blocks(replace(_MLA, indexer=_INDEXER, top_k=3), _MLP), blocks(replace(_MLA, top_k=3), _MLP), blocks(_MLA, _MLP)
    ),
    "compressed": model_of(
        blocks(_V4, _MOE, _STREAMS),
        blocks(replace(_V4, compressor=_ENTRIES), _MOE, _STREAMS),
        blocks(replace(_V4, compressor=replace(_ENTRIES, overlap=True), indexer=_PICKS), _MOE, _STREAMS),
    ),
}
ATTENTION = {
    "chunked": model_of(blocks(attention(span=Span(chunk=3)), _MLP), blocks(attention(rotary=False), _MLP)),
    "chunks longer than the prompt": model_of(blocks(attention(span=Span(chunk=64)), _MLP)),
    "K as V": model_of(
        blocks(attention(value_proj=False, qk_norms=_QK), _MLP), blocks(attention(span=Span(window=2), d_v=5), _MLP)
    ),
    "shared KV": model_of(blocks(attention(), _MLP), blocks(attention(owns_cache=False), _MLP)),
    "block indexer": model_of(
        blocks(attention(span=Span(top_k=4, block=2), indexer=BlockIndexer(6, heads=2, width=4, blocks=2)), _MLP)
    ),
    "images": model_of(blocks(attention(), _MLP), blocks(CrossAttention(6, heads=4, kv_heads=2, head_dim=3), _MLP)),
    "vision encoder": model_of(
        blocks(attention(), _MLP),
        tower=Tower(
            patch=Linear("patch_embed", 12, 6, True),
            patches=4,
            layers=(blocks(attention(kv_heads=4), Mlp(6, 10, gated=False)),),
            mergers=(Linear("merger", 24, 6, True),),
            norms=(Norm("post_norm", 6),),
        ),
    ),
    "gate for each head": model_of(blocks(attention(gate="head"), _MLP)),
    "gates": model_of(blocks(attention(gate="query"), _MLP), blocks(attention(gate="own", sinks=True), _MLP)),
    "no attention in some": model_of(blocks(attention(), count=3), blocks(_MLP), blocks(attention(kv_heads=4), _MLP)),
}
_RECURRENT: dict[str, Block] = {
    "mamba": Mamba(6, inner=12, state=3, conv=4, rank=2, inner_norms=True),
    "mamba2": Mamba2(6, heads=4, head_dim=3, groups=2, state=5, conv=4, chunk=3),
    "delta net": DeltaNet(6, k_heads=2, d_k=3, v_heads=4, d_v=5, conv=4, chunk=4),
    "low-rank delta net": DeltaNet(6, k_heads=2, d_k=3, v_heads=2, d_v=3, conv=2, low_rank=3),
    "short convolution": ShortConv(6, conv=3, bias=True),
    "lightning": LightningAttention(6, heads=2, head_dim=3, chunk=4),
    "rg-lru": RgLru(6, width=8, heads=2, conv=4),
}
RECURRENT = {
    **{name: model_of(blocks(block, _MLP), blocks(attention(), _MLP, count=1)) for name, block in _RECURRENT.items()},
    "rwkv": model_of(blocks(Rwkv4(6, 8), RwkvChannelMix(6, 12))),
}
SMALL = {**DENSE, **EXPERTS, **LATENT, **ATTENTION, **RECURRENT}
