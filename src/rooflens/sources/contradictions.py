"""Fields that contradict the number of layers: lists of another length, or that name layers beyond the last."""

from __future__ import annotations

from rooflens.core.experts import Moe
from rooflens.core.model import Layer
from rooflens.core.recurrent import Mamba2
from rooflens.sources.fields import Fields, show

_ONE_A_LAYER = ("layer_types", "mlp_layer_types", "indexer_types", "block_configs", "hybrid_layer_pattern",
                "moe_layer_freq", "compress_ratios", "attn_type_list",
                "sparse_attention_freq")  # fmt: skip
"""Lists with one entry for each layer, where they are lists; heads for multi-token prediction may follow."""
_CHOICES = ("mlp_only_layers", "moe_layers", "attn_layer_indices", "full_attn_idxs", "cross_attention_layers")
"""Lists of the layers that are something, counted from 0."""


def check_layers(fields: Fields, depth: int) -> None:
    """Check lists about layers against the number of layers.

    Raises:
        ConfigError: a list of another length (`num_nextn_predict_layers` more are no fault), or one that names a
            layer beyond the last; names both fields.
    """
    extra = fields.number("num_nextn_predict_layers", 0)
    dense = fields.number("first_k_dense_replace", 0)
    if dense > depth:
        raise fields.fail(f"first_k_dense_replace is {dense}, num_hidden_layers is {depth:,}; expected at most as many")
    for name in _ONE_A_LAYER:
        listed = fields.values.get(name)
        if isinstance(listed, list) and not depth <= len(listed) <= depth + extra:
            fields.for_each_layer(name, len(listed), depth)
    for name in _CHOICES:
        beyond = [i for i in fields.numbers(name) if not 0 <= i < depth]
        if beyond:
            raise fields.fail(
                f"{name} names layer {show(beyond[0])}, num_hidden_layers is {depth:,}; expected 0 to {depth - 1:,}"
            )


def check_experts(fields: Fields, layers: tuple[Layer, ...]) -> None:
    """Check groups of experts, and groups of state-space heads, against what they divide.

    Raises:
        ConfigError: names both fields.
    """
    for block in (block for layer in layers for block in layer.blocks):
        if isinstance(block, Moe):
            _check_groups(fields, block)
        if isinstance(block, Mamba2) and block.heads % block.groups:
            raise fields.fail(
                f"{block.heads} state-space heads cannot share n_groups {block.groups}; expected a divisor"
            )


def _check_groups(fields: Fields, moe: Moe) -> None:
    groups, chosen = fields.number("n_group", 1) or 1, fields.number("topk_group", 1) or 1
    if moe.experts % groups:
        raise fields.fail(f"{moe.experts} experts cannot be in n_group {groups}; expected a divisor")
    if chosen > groups:
        raise fields.fail(f"topk_group {chosen} is more than n_group {groups}; expected at most as many")
    if moe.top_k > chosen * (moe.experts // groups):
        most = chosen * (moe.experts // groups)
        raise fields.fail(
            f"{moe.top_k} experts for each token are more than topk_group {chosen} of n_group {groups} holds; expected "
            f"at most {most}"
        )


_FOREIGN = {"num_local_experts": 1, "n_routed_experts": 1, "num_experts": 1, "kv_lora_rank": 0}
"""Fields of experts and latent attention, with the largest value that means none of them."""


def check_dense(fields: Fields, architecture: str) -> None:
    """Check that the config of a dense architecture names neither experts nor a latent: it would be counted wrong.

    Raises:
        ConfigError: it does; names the field and the architecture.
    """
    for name, none in _FOREIGN.items():
        value = fields.values.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > none:
            raise fields.fail(
                f"{name} is {show(value)}, but {architecture} has no such layers; expected another model_type"
            )


def check_widths(fields: Fields, layers: tuple[Layer, ...]) -> None:
    """Check that every projection has a width: those that follow from a division may come to nothing.

    Raises:
        ConfigError: a projection from or to a width of 0; names it.
    """
    for block in (block for layer in layers for block in layer.blocks):
        for linear in block.linears + (block.expert_linears if isinstance(block, Moe) else ()):
            if linear.d_in < 1 or linear.d_out < 1:
                raise fields.fail(
                    f"{linear.name} comes to {linear.d_in:,} x {linear.d_out:,} values; expected at least 1 x 1"
                )
