"""What checkpoints call the projections that a model is counted by: `layers.3.self_attn.q_proj` is q_proj of layer 3.

A projection has several names, one for each way in which published checkpoints spell it; a rule of a quantisation
config holds for it if it holds for one of them. The first names that precede `layers` are left out: `canonical`
takes them off the config's own names as well.

Source: parameter names of the reference framework's models and of the published checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from rooflens.core.blocks import Block, Linear
from rooflens.core.model import Layer

_PREFIXES = frozenset(("model", "language_model", "backbone", "transformer", "decoder", "gpt_neox"))
_LAYERS = frozenset(("h", "blocks", "block"))
_PARENTS: dict[str, tuple[str, ...]] = {
    "attention": ("self_attn", "attn", "attention", "self_attention", "mixer", "cross_attn"),
    "recurrent": ("mixer", "mamba", "linear_attn", "self_attn", "conv", "temporal_block", "attention"),
    "mlp": ("mlp", "feed_forward", "ffn", "mixer", "shared_mlp"),
    "experts": ("mlp", "block_sparse_moe", "feed_forward", "ffn", "mixer", "moe"),
}
_SHARED = ("shared_expert", "shared_experts", "shared_mlp")
_FUSED_QKV = ("qkv_proj", "query_key_value", "c_attn", "W_pack", "Wqkv")
_LEAVES: dict[str, tuple[str, ...]] = {
    "q_proj": ("q_proj", "wq", *_FUSED_QKV),
    "k_proj": ("k_proj", "wk", *_FUSED_QKV),
    "v_proj": ("v_proj", "wv", *_FUSED_QKV),
    "qkv_proj": (*_FUSED_QKV, "q_proj"),
    "o_proj": ("o_proj", "out_proj", "dense", "c_proj", "wo"),
    "gate_proj": ("gate_proj", "w1", "gate_up_proj"),
    "up_proj": ("up_proj", "w3", "gate_up_proj", "fc1", "c_fc", "dense_h_to_4h", "fc_in"),
    "gate_up_proj": ("gate_up_proj", "gate_proj", "dense_h_to_4h"),
    "down_proj": ("down_proj", "w2", "fc2", "c_proj", "dense_4h_to_h", "fc_out"),
    "q_a_proj": ("q_a_proj", "wq_a"),
    "q_b_proj": ("q_b_proj", "wq_b"),
    "kv_a_proj": ("kv_a_proj_with_mqa",),
    "kv_proj": ("kv_proj", "wkv"),
    "o_a_proj": ("o_a_proj", "wo_a"),
    "o_b_proj": ("o_b_proj", "wo_b"),
    "cross_q_proj": ("q_proj",),
    "cross_k_proj": ("k_proj",),
    "cross_v_proj": ("v_proj",),
    "cross_o_proj": ("o_proj",),
    "indexer_q_proj": ("indexer.wq_b", "index_q_proj"),
    "indexer_k_proj": ("indexer.wk", "index_k_proj"),
    "linear_qkv_proj": ("in_proj_qkv", "in_proj_qkvz", "qkv_proj", "q_proj"),
    "linear_z_proj": ("in_proj_z", "in_proj_qkvz"),
    "linear_b_proj": ("in_proj_b", "in_proj_ba", "b_proj"),
    "linear_a_proj": ("in_proj_a", "in_proj_ba"),
    "linear_gate_proj": ("output_gate",),
    "linear_out_proj": ("out_proj", "o_proj"),
    "latent_down_proj": ("fc1_latent_proj",),
    "latent_up_proj": ("fc2_latent_proj",),
}
HEAD_NAMES = ("lm_head", "head", "output_layer")
"""What checkpoints call the output head."""


def canonical(name: str) -> str:
    """`name` without the parts before `layers`: "model.language_model.layers.0.mlp" is "layers.0.mlp"."""
    head, dot, rest = name.partition(".")
    while dot and head in _PREFIXES:
        name = rest
        head, dot, rest = name.partition(".")
    return f"layers.{rest}" if dot and head in _LAYERS else name


def linears_of(layer: Layer) -> Iterator[tuple[Block, Linear, int]]:
    """Every projection of `layer` with its block and how often it is there: once, or once for each expert."""
    for block in layer.blocks:
        yield from ((block, linear, 1) for linear in block.linears)
        experts = getattr(block, "experts", 1)
        yield from ((block, linear, experts) for linear in getattr(block, "expert_linears", ()))
        yield from ((block, linear, 1) for linear in getattr(block, "image_linears", ()))
        single = (getattr(block, name, None) for name in ("expansion", "grouped"))
        yield from ((block, linear, 1) for linear in single if linear is not None)


def module_names(layer: Layer, block: Block, linear: Linear, index: int) -> tuple[str, ...]:
    """Every name of `linear`, of a block of layer `index`."""
    beside = block.part == "experts" and any(other.part == "mlp" for other in layer.blocks)
    return tuple(f"layers.{index}.{path}" for path in _paths(block.part, linear.name, beside))


@cache
def _paths(part: str, linear: str, beside: bool) -> tuple[str, ...]:
    """Names of `linear` inside a layer; experts that are `beside` a dense MLP are not inside it (Gemma 4)."""
    if linear.startswith("experts_"):
        leaves = _leaves(linear.removeprefix("experts_"))
        inside = [f"experts.{one}{leaf}" for one in ("0.", "") for leaf in leaves]
    elif linear.startswith("shared_"):
        leaves = _leaves(linear.removeprefix("shared_"))
        inside = [f"{shared}.{leaf}" for shared in _SHARED for leaf in leaves]
    else:
        inside = list(_leaves(linear))
    parents = () if beside else _PARENTS.get(part, ())
    bare = inside if part in ("experts", "mlp") else []
    return (*(f"{parent}.{path}" for parent in parents for path in inside), *bare)


def _leaves(linear: str) -> tuple[str, ...]:
    return _LEAVES.get(linear, (linear, linear.removeprefix("linear_")))
