"""ModelSpec: a model as layers whose shapes are known, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rooflens.core.attention import Attention, Indexer, LatentAttention, Reach, Span
from rooflens.core.blocks import Block, Linear, Mlp, Norm, NormKind
from rooflens.core.dtype import Stored
from rooflens.core.experts import Moe
from rooflens.core.op import DType

if TYPE_CHECKING:
    from rooflens.core.tower import Tower

__all__ = [
    "Attention",
    "Block",
    "Indexer",
    "LatentAttention",
    "Layer",
    "Linear",
    "Mlp",
    "ModelSpec",
    "Moe",
    "Norm",
    "NormKind",
    "Reach",
    "Span",
]


@dataclass(frozen=True, slots=True)
class Layer:
    """`count` equal decoder layers: blocks that are each added to the residual stream.

    parallel: the blocks read the same input and are added at once (GPT-J, GPT-NeoX).
    extra_params: learned values outside blocks and norms (Apertus: two scalars of the activation).
    storage: (projection, dtype) of those that this layer stores otherwise than the model's linear layers.
    """

    count: int
    blocks: tuple[Block, ...]
    norms: tuple[Norm, ...]
    parallel: bool = False
    extra_params: int = 0
    storage: tuple[tuple[str, Stored], ...] = ()

    def stored(self, linears: tuple[Linear, ...]) -> tuple[Linear, ...]:
        """`linears` with the dtype that this layer stores each in."""
        known = dict(self.storage)
        return tuple(replace(linear, stored=known.get(linear.name, linear.stored)) for linear in linears)

    @property
    def params(self) -> int:
        """Parameters of one layer."""
        return sum(block.params for block in self.blocks) + sum(norm.params for norm in self.norms) + self.extra_params


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A decoder-only language model.

    weights_dtype: of the checkpoint's linear layers; `kept_dtype` of what quantisation leaves alone
        (embedding, norms, output head); `dtype_stated` is False where the config names no dtype;
        `weight_only` where quantised weights are multiplied in 16 bit.
    embedding_width: width of the token table where it is not `hidden` (OPT-350m projects in and out of it).
    tower: the vision encoder, where the config has one that is known; counted where a scenario has image tokens.
    mtp_layers: multi-token-prediction modules, which are a model of their own.
    extra_params: learned values of the model that belong to no layer; `inputs` projections that belong to none.
    storage: (embed_tokens, lm_head or vectors, dtype) of what lies outside linear layers and is not in `kept_dtype`;
        vectors are norms, biases and all else that is no matrix.
    arithmetic: (stored, multiplied in) of quantised weights, where that is not the stored dtype's own.
    kv_dtype: of the cache, where the checkpoint says it. checkpoint_bytes: of all tensors, read from their headers.
    """

    name: str
    architecture: str
    hidden: int
    vocab: int
    layers: tuple[Layer, ...]
    tied: bool
    weights_dtype: DType
    kept_dtype: DType
    dtype_stated: bool
    final_norm: Norm | None
    weight_only: bool = False
    positions: int = 0
    embedding_norm: Norm | None = None
    embedding_width: int = 0
    head_bias: bool = False
    max_context: int | None = None
    extra_params: int = 0
    inputs: tuple[Linear, ...] = ()
    tower: Tower | None = None
    mtp_layers: int = 0
    notes: tuple[str, ...] = ()
    source: str = ""
    storage: tuple[tuple[str, DType], ...] = ()
    arithmetic: tuple[tuple[DType, DType], ...] = ()
    kv_dtype: DType | None = None
    checkpoint_bytes: int | None = None

    @property
    def depth(self) -> int:
        """Number of decoder layers."""
        return sum(layer.count for layer in self.layers)

    @property
    def head(self) -> Linear:
        """The output head: hidden -> vocabulary, a GEMM also where its table is the embedding's."""
        stored = dict(self.storage).get("embed_tokens" if self.tied else "lm_head")
        return Linear("lm_head", self.table_width, self.vocab, self.head_bias, stored=stored, precise=True)

    @property
    def table(self) -> Linear:
        """The token table, vocabulary x width, which quantisation leaves alone unless `storage` says otherwise."""
        stored = dict(self.storage).get("embed_tokens")
        return Linear("embed_tokens", self.table_width, self.vocab, stored=stored, precise=True)

    @property
    def table_width(self) -> int:
        """Width of the token table; equal to `hidden` unless the model projects in and out of it."""
        return self.embedding_width or self.hidden

    @property
    def table_projections(self) -> tuple[Linear, ...]:
        """Projections from the token table's width to `hidden` and back; none where they are equal."""
        if self.table_width == self.hidden:
            return ()
        return (
            Linear("project_in", self.table_width, self.hidden),
            Linear("project_out", self.hidden, self.table_width),
        )
