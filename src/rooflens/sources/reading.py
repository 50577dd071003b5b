"""Reading: one config being read by its family, and the blocks that families are made of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rooflens.core.attention import EVERYTHING, Attention, Span
from rooflens.core.blocks import Block, Mlp, Norm
from rooflens.core.experts import Moe
from rooflens.sources.family import flag
from rooflens.sources.fields import Fields

if TYPE_CHECKING:
    from rooflens.sources.family import Family

EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
TOP_K = ("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_k", "moe_topk", "top_k_experts")


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes that every decoder has; heads and head width are 0 where it has no attention."""

    hidden: int
    depth: int
    heads: int
    kv_heads: int
    head_dim: int
    width: int
    vocab: int


@dataclass(frozen=True, slots=True)
class Reading:
    """A config with the family that reads it, its sizes, and the span of each layer's attention."""

    fields: Fields
    family: Family
    sizes: Sizes
    spans: tuple[Span, ...] = ()

    def attention(self, index: int, **changed: Any) -> Attention:
        """The attention of layer `index`, with what is `changed`."""
        fields, family, sizes = self.fields, self.family, self.sizes
        built = Attention(
            hidden=sizes.hidden,
            heads=sizes.heads,
            kv_heads=sizes.kv_heads,
            d_k=sizes.head_dim,
            d_v=sizes.head_dim,
            span=self.spans[index] if self.spans else EVERYTHING,
            qkv_bias=flag(fields, family.qkv_bias),
            out_bias=flag(fields, family.out_bias),
            fused_qkv=family.fused_qkv,
            rotary=family.rotary,
            gate=family.gate,
            sinks=family.sinks,
        )
        built = replace(built, **changed)
        if built.heads % built.kv_heads:
            raise fields.fail(
                f"{built.heads} attention heads of layer {index} cannot share {built.kv_heads} key-value heads; "
                "num_attention_heads must be a multiple of their number"
            )
        return replace(built, qk_norms=self.qk_norms(built)) if "qk_norms" not in changed else built

    def qk_norms(self, attention: Attention) -> tuple[Norm, ...]:
        """Norms of q and k: over each head with one vector or one a head, or over the whole projection."""
        family = self.family
        if not family.qk_norm or not flag(self.fields, family.qk_norm_if):
            return ()
        style, width = family.qk_style or family.norm, attention.d_k
        both = [("q_norm", attention.heads)] + ([("k_norm", attention.kv_heads)] if attention.owns_cache else [])
        if family.qk_norm == "whole":
            return tuple(style.norm(name, heads * width) for name, heads in both)
        own = family.qk_norm == "rows"
        return tuple(style.norm(name, width, rows=heads, own_rows=own) for name, heads in both)

    def mlp(self, width: int | None = None, **changed: Any) -> Mlp:
        """The dense feed-forward layer, `width` wide unless the config's own width holds."""
        fields, family = self.fields, self.family
        built = Mlp(
            hidden=self.sizes.hidden,
            width=self.sizes.width if width is None else width,
            gated=family.gated,
            up_bias=flag(fields, family.up_bias),
            down_bias=flag(fields, family.down_bias),
            fused=family.fused_mlp,
        )
        return replace(built, **changed)

    def moe(self, width: int, *, shared: int = 0, expert: Mlp | None = None, **given: Any) -> Moe:
        """Experts of `width`, and shared ones that are `shared` wide together (0: none).

        Raises:
            ConfigError: more experts for each token than there are.
        """
        fields = self.fields
        experts, top_k = fields.agreed("experts", *EXPERTS), fields.agreed("experts", *TOP_K)
        if top_k > experts:
            many, few = fields.first(*TOP_K), fields.first(*EXPERTS)
            raise fields.fail(f"{many} is {top_k}, {few} is {experts}; expected at most as many as there are experts")
        plain = Mlp(self.sizes.hidden, width, gated=self.family.gated)
        return Moe(
            hidden=self.sizes.hidden,
            experts=experts,
            top_k=top_k,
            expert=expert or plain,
            shared=replace(plain, width=shared) if shared else None,
            **given,
        )

    def norms(self, *names: str) -> tuple[Norm, ...]:
        """Norms of the family's style over the hidden size."""
        return tuple(self.family.norm.norm(name, self.sizes.hidden) for name in names)


def dense_blocks(reading: Reading, index: int) -> tuple[Block, ...]:
    """Attention and an MLP: what a layer is unless its family says otherwise."""
    return reading.attention(index), reading.mlp()
