"""shard: a model as one of the ranks of tensor parallelism sees it.

Heads, the width of MLPs and of experts, and the vocabulary are split over the ranks, so that q, k, v, gate and up are
split by columns and what follows them by rows; norms, routers and what makes latents are whole on every rank. Source:
Megatron-LM, 1909.08053, section 3; K and V heads that are fewer than ranks are replicated, as vLLM and SGLang do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rooflens.core.attention import Attention, LatentAttention
from rooflens.core.blocks import Block, Mlp, Norm
from rooflens.core.experts import Moe
from rooflens.core.model import Layer, ModelSpec
from rooflens.errors import InputError


def shard(model: ModelSpec, tp: int) -> ModelSpec:
    """Return `model` as one of `tp` tensor-parallel ranks holds it; the model itself for one rank.

    Collectives between ranks are not in it: `sequence` adds them.

    Raises:
        InputError: `tp` does not divide heads, a width or the vocabulary, or the model has layers that are not sharded
            here (recurrent, compressed and cross-attention ones).
    """
    if tp == 1:
        return model
    rank = _Rank(model.name, tp)
    return replace(
        model,
        name=f"{model.name}, one of {tp} tensor-parallel ranks",
        vocab=rank.part("vocabulary", model.vocab),
        layers=tuple(rank.layer(layer) for layer in model.layers),
        checkpoint_bytes=None,
    )


@dataclass(frozen=True, slots=True)
class _Rank:
    model: str
    tp: int

    def part(self, what: str, whole: int) -> int:
        """An equal part of `whole`."""
        if whole % self.tp:
            raise InputError(
                f"--tp {self.tp} does not divide the {what} {whole:,} of {self.model}; expected a divisor of it"
            )
        return whole // self.tp

    def layer(self, layer: Layer) -> Layer:
        return replace(layer, blocks=tuple(self.block(block) for block in layer.blocks))

    def block(self, block: Block) -> Block:
        match block:
            case Attention():
                return self.attention(block)
            case LatentAttention():
                return replace(block, heads=self.part("heads", block.heads))
            case Mlp():
                return replace(block, width=self.part("MLP width", block.width))
            case Moe():
                expert = replace(block.expert, width=self.part("experts' width", block.expert.width))
                shared = block.shared
                if shared is not None:
                    shared = replace(shared, width=self.part("shared expert's width", shared.width))
                return replace(block, expert=expert, shared=shared)
            case _:
                kind = type(block).__name__
                raise InputError(f"--tp {self.tp}: {self.model} has {kind} layers, which are not sharded; expected 1")

    def attention(self, block: Attention) -> Attention:
        heads, kv_heads = self.part("heads", block.heads), self.kv_heads(block.kv_heads)
        parts = {block.kv_heads: kv_heads, block.heads: heads}
        norms = tuple(self.norm(norm, parts) for norm in block.qk_norms)
        return replace(block, heads=heads, kv_heads=kv_heads, qk_norms=norms)

    def kv_heads(self, whole: int) -> int:
        """A part of the KV heads, or one of them that several ranks hold."""
        return 1 if self.tp > whole and self.tp % whole == 0 else self.part("KV heads", whole)

    @staticmethod
    def norm(norm: Norm, parts: dict[int, int]) -> Norm:
        """A norm of each head runs over the rank's heads; one over all of them at once is whole."""
        return replace(norm, rows=parts.get(norm.rows, norm.rows)) if norm.rows > 1 else norm
