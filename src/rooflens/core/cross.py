"""Cross-attention layers, whose keys and values come from images (Llama 3.2 Vision)."""

from __future__ import annotations

from dataclasses import dataclass

from rooflens.core.blocks import Block, Linear, Norm


@dataclass(frozen=True, slots=True)
class CrossAttention(Block):
    """Attention of text tokens over image tokens; without any, the layer that it is in does not run.

    K and V of the image tokens are computed once and cached: the cache does not grow with the text.
    """

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int

    @property
    def part(self) -> str:
        """The attention part."""
        return "attention"

    @property
    def linears(self) -> tuple[Linear, ...]:
        """q and output projections, which text tokens pass through."""
        width = self.heads * self.head_dim
        return Linear("cross_q_proj", self.hidden, width), Linear("cross_o_proj", width, self.hidden)

    @property
    def image_linears(self) -> tuple[Linear, ...]:
        """k and v projections, which image tokens pass through."""
        width = self.kv_heads * self.head_dim
        return tuple(Linear(f"cross_{kind}_proj", self.hidden, width, group="cross_kv_proj") for kind in ("k", "v"))

    @property
    def norms(self) -> tuple[Norm, ...]:
        """Of queries and keys, one vector for all heads."""
        return Norm("cross_q_norm", self.head_dim, rows=self.heads), Norm("cross_k_norm", self.head_dim)

    @property
    def extra_params(self) -> int:
        """The projections of image tokens, which are no ordinary ones."""
        return sum(linear.params for linear in self.image_linears)

    @property
    def values_per_token(self) -> int:
        """Values of K and V of one image token, over every KV head."""
        return 2 * self.kv_heads * self.head_dim
