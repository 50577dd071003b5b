"""Attention layers: multi-head, grouped-query, multi-query, windowed, chunked, latent, sparse."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rooflens.core.blocks import Block, Linear, Norm, NormKind
from rooflens.core.indexers import BlockIndexer


class Reach(str, Enum):
    """Which earlier tokens a query attends to."""

    FULL = "full"
    WINDOW = "window"
    CHUNK = "chunk"
    SPARSE = "sparse"
    COMPRESSED = "compressed"


@dataclass(frozen=True, slots=True)
class Span:
    """Which of the earlier tokens a query attends to; at most one of the three is set.

    window: itself and the `window` - 1 tokens before it. chunk: the tokens of its own chunk up to itself (Llama 4).
    top_k: the `top_k` tokens that an indexer picks (DeepSeek V3.2), in whole blocks of `block` tokens, the query's
    own always among them (MiniMax-M3).
    """

    window: int | None = None
    chunk: int | None = None
    top_k: int | None = None
    block: int = 1

    @property
    def reach(self) -> Reach:
        """What kind of span it is."""
        if self.window is not None:
            return Reach.WINDOW
        if self.chunk is not None:
            return Reach.CHUNK
        return Reach.FULL if self.top_k is None else Reach.SPARSE

    @property
    def held(self) -> int | None:
        """Most tokens that the cache of such a layer needs to hold; None where it holds them all."""
        return self.window if self.window is not None else self.chunk


EVERYTHING = Span()


@dataclass(frozen=True, slots=True)
class Attention(Block):
    """Multi-head, grouped-query or multi-query attention (1911.02150, 2305.13245).

    fused_qkv: the checkpoint stores q, k and v as one matrix. rotary: whether q and k are rotated.
    gate: "" none, "query" an output gate that the query projection computes as well (Qwen3-Next), "own" one with a
    projection of its own, "head" one value a head with a projection of its own (Step 3.5). value_proj: False where
    values are the keys before their norm and rotation (Gemma 4): the projection is one, the cache still holds both.
    owns_cache: False where K and V of an earlier layer are used. sinks: one learned logit for each head. out_norm: a
    norm before the output projection (BitNet). indexer: picks the blocks of keys that are attended to.
    """

    hidden: int
    heads: int
    kv_heads: int
    d_k: int
    d_v: int
    span: Span = EVERYTHING
    qkv_bias: bool = False
    out_bias: bool = False
    fused_qkv: bool = False
    rotary: bool = True
    qk_norms: tuple[Norm, ...] = ()
    gate: str = ""
    value_proj: bool = True
    owns_cache: bool = True
    sinks: bool = False
    out_norm: bool = False
    indexer: BlockIndexer | None = None

    @property
    def part(self) -> str:
        """The attention part."""
        return "attention"

    @property
    def norms(self) -> tuple[Norm, ...]:
        """Norms of q and k, and one before the output projection."""
        own = self.qk_norms + ((Norm("attention_norm", self.hidden),) if self.out_norm else ())
        return own + (self.indexer.norms if self.indexer else ())

    @property
    def extra_params(self) -> int:
        """The sinks."""
        return self.heads if self.sinks else 0

    @property
    def linears(self) -> tuple[Linear, ...]:
        """q, k, v and output projections; k and v have `kv_heads` heads."""
        out = Linear("o_proj", self.heads * self.d_v, self.hidden, self.out_bias)
        if self.fused_qkv:
            width = sum(size for _, size in self._inputs())
            return Linear("qkv_proj", self.hidden, width, self.qkv_bias), out
        group = "qkv_proj" if self.owns_cache else ""
        inputs = (Linear(name, self.hidden, size, self.qkv_bias, group) for name, size in self._inputs())
        return (*inputs, *self._own_gate, out, *(self.indexer.linears if self.indexer else ()))

    @property
    def _own_gate(self) -> tuple[Linear, ...]:
        """One value for each head."""
        return (Linear("gate_proj", self.hidden, self.heads),) if self.gate == "head" else ()

    def _inputs(self) -> list[tuple[str, int]]:
        query = self.heads * self.d_k + (self.heads * self.d_v if self.gate == "query" else 0)
        sizes = [("q_proj", query)]
        if self.owns_cache:
            sizes.append(("k_proj", self.kv_heads * self.d_k))
            if self.value_proj:
                sizes.append(("v_proj", self.kv_heads * self.d_v))
        return [*sizes, *([("gate_proj", self.heads * self.d_v)] if self.gate == "own" else [])]

    @property
    def values_per_token(self) -> int:
        """Values of K and V of one token in one layer, over every KV head."""
        return self.kv_heads * (self.d_k + self.d_v)


@dataclass(frozen=True, slots=True)
class Indexer:
    """The selector of sparse attention: `heads` light heads of `width` score every earlier token (2512.02556).

    Its one key of `width` values a token is cached beside the latents.
    """

    hidden: int
    heads: int
    width: int
    q_rank: int

    @property
    def linears(self) -> tuple[Linear, ...]:
        """Queries from the query latent, one key, and a weight for each head."""
        return (
            Linear("indexer_q_proj", self.q_rank, self.heads * self.width),
            Linear("indexer_k_proj", self.hidden, self.width),
            Linear("indexer_weights_proj", self.hidden, self.heads, precise=True),
        )

    @property
    def norms(self) -> tuple[Norm, ...]:
        """LayerNorm of the key."""
        return (Norm("indexer_k_norm", self.width, NormKind.LAYER, bias=True),)


@dataclass(frozen=True, slots=True)
class LatentAttention(Block):
    """Multi-head latent attention (DeepSeek-V2, 2405.04434): K and V of all heads from one cached latent.

    q_rank: width of the query latent, None for a plain query projection. kv_rank: width of the cached latent.
    nope, rope: parts of a key without and with rotation, the second cached beside the latent; d_v: width of a value.
    """

    hidden: int
    heads: int
    q_rank: int | None
    kv_rank: int
    nope: int
    rope: int
    d_v: int
    bias: bool = False
    indexer: Indexer | None = None
    top_k: int | None = None
    rotary: bool = True

    @property
    def part(self) -> str:
        """The attention part."""
        return "attention"

    @property
    def span(self) -> Span:
        """Everything, or what an indexer picks."""
        return EVERYTHING if self.top_k is None else Span(top_k=self.top_k)

    @property
    def d_k(self) -> int:
        """Width of an expanded key."""
        return self.nope + self.rope

    @property
    def linears(self) -> tuple[Linear, ...]:
        """Every projection but the one that expands latents (`expansion`), which runs in one of two forms."""
        down = Linear("kv_a_proj", self.hidden, self.kv_rank + self.rope, self.bias, self._group)
        out = Linear("o_proj", self.heads * self.d_v, self.hidden, self.bias)
        indexer = self.indexer.linears if self.indexer else ()
        return (*self._queries, down, out, *indexer)

    @property
    def _group(self) -> str:
        return "" if self.q_rank is None else "qkv_a_proj"

    @property
    def _queries(self) -> tuple[Linear, ...]:
        width = self.heads * self.d_k
        if self.q_rank is None:
            return (Linear("q_proj", self.hidden, width),)
        down = Linear("q_a_proj", self.hidden, self.q_rank, self.bias, self._group)
        return down, Linear("q_b_proj", self.q_rank, width)

    @property
    def expansion(self) -> Linear:
        """Latents to keys and values of every head."""
        return Linear("kv_b_proj", self.kv_rank, self.heads * (self.nope + self.d_v))

    @property
    def norms(self) -> tuple[Norm, ...]:
        """Norms of the two latents, and the indexer's."""
        latents = [Norm("kv_a_norm", self.kv_rank)]
        if self.q_rank is not None:
            latents.insert(0, Norm("q_a_norm", self.q_rank))
        return (*latents, *(self.indexer.norms if self.indexer else ()))

    @property
    def extra_params(self) -> int:
        """The expansion, which is no ordinary projection."""
        return self.expansion.params

    @property
    def latent_values(self) -> int:
        """Cached values of one token in one layer: latent and rotated key, read once for K and V alike."""
        return self.kv_rank + self.rope
