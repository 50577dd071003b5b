"""Attention over a window and over compressed entries (DeepSeek-V4), and the streams that replace its residual."""

from __future__ import annotations

from dataclasses import dataclass

from rooflens.core.attention import Reach, Span
from rooflens.core.blocks import Block, Linear, Norm


@dataclass(frozen=True, slots=True)
class Compressor:
    """Makes one cached entry of `width` values out of each `rate` tokens: a gated mean, channel by channel.

    name: what the names of its projections start with. overlap: an entry is made of the tokens of its own stretch and
    of the one before, each token giving a value to either, so that projections are twice as wide (V4, section 2.3.1).
    """

    name: str
    hidden: int
    width: int
    rate: int
    overlap: bool = False

    @property
    def series(self) -> int:
        """Values that a token gives to each channel of the entries: 2 with overlap, else 1."""
        return 2 if self.overlap else 1

    @property
    def linears(self) -> tuple[Linear, ...]:
        """Values and gates, which quantised checkpoints leave in 16 bit."""
        wide, group = self.series * self.width, f"{self.name}_kv_gate_proj"
        return tuple(
            Linear(f"{self.name}_{kind}_proj", self.hidden, wide, group=group, precise=True) for kind in ("kv", "gate")
        )

    @property
    def norm(self) -> Norm:
        """The norm of an entry."""
        return Norm(f"{self.name}_norm", self.width)

    @property
    def extra_params(self) -> int:
        """A bias of the gate for each position in the stretch."""
        return self.rate * self.series * self.width

    @property
    def row_values(self) -> int:
        """Values and gates of one token, which wait until its stretch is full."""
        return 2 * self.series * self.width

    @property
    def state_values(self) -> int:
        """Values that wait at most: a stretch of tokens, two of them with overlap."""
        return self.series * self.rate * self.row_values


@dataclass(frozen=True, slots=True)
class CompressedIndexer:
    """Light heads that score every compressed key and pick `top_k` entries (V4, section 2.3.1).

    Its keys are compressed as the entries are, and cached beside them.
    """

    hidden: int
    heads: int
    width: int
    q_rank: int
    top_k: int
    compressor: Compressor

    @property
    def linears(self) -> tuple[Linear, ...]:
        """Queries from the query latent, a weight for each head, and the compressor of the keys."""
        return (
            Linear("indexer_q_proj", self.q_rank, self.heads * self.width),
            Linear("indexer_weights_proj", self.hidden, self.heads, precise=True),
            *self.compressor.linears,
        )


@dataclass(frozen=True, slots=True)
class CompressedAttention(Block):
    """Attention with one shared key that is its own value, over the last `window` tokens and compressed entries.

    Every query head meets the same key of `head_dim` values, of which `rope` are rotated; one learned sink a head.
    compressor: None where a layer has a window alone. indexer: picks entries; without one all are attended to.
    groups, out_rank: heads are projected to `out_rank` values in `groups` groups before they are mixed.
    """

    hidden: int
    heads: int
    head_dim: int
    rope: int
    q_rank: int
    groups: int
    out_rank: int
    window: int
    compressor: Compressor | None = None
    indexer: CompressedIndexer | None = None

    @property
    def part(self) -> str:
        """The attention part."""
        return "attention"

    @property
    def span(self) -> Span:
        """The window."""
        return Span(window=self.window)

    @property
    def reach(self) -> Reach:
        """What a query attends to besides the window: nothing, every entry, or those that an indexer picks."""
        if self.compressor is None:
            return Reach.WINDOW
        return Reach.COMPRESSED if self.indexer is None else Reach.SPARSE

    @property
    def compressors(self) -> tuple[Compressor, ...]:
        """Of the entries, and of the indexer's keys."""
        own = (self.compressor,) if self.compressor else ()
        return own + ((self.indexer.compressor,) if self.indexer else ())

    @property
    def linears(self) -> tuple[Linear, ...]:
        """Every projection but the grouped one (`grouped`)."""
        return (
            Linear("q_a_proj", self.hidden, self.q_rank, group="qkv_a_proj"),
            Linear("kv_proj", self.hidden, self.head_dim, group="qkv_a_proj"),
            Linear("q_b_proj", self.q_rank, self.heads * self.head_dim),
            Linear("o_b_proj", self.groups * self.out_rank, self.hidden),
            *(self.compressor.linears if self.compressor else ()),
            *(self.indexer.linears if self.indexer else ()),
        )

    @property
    def grouped(self) -> Linear:
        """The first output projection: one block for each group, each with inputs of its own."""
        return Linear("o_a_proj", self.heads * self.head_dim // self.groups, self.groups * self.out_rank)

    @property
    def norms(self) -> tuple[Norm, ...]:
        """Of the query latent, of queries (without a weight), of the key, and of entries."""
        return (
            Norm("q_a_norm", self.q_rank),
            Norm("q_b_norm", self.head_dim, weight=False, rows=self.heads),
            Norm("kv_norm", self.head_dim),
            *(compressor.norm for compressor in self.compressors),
        )

    @property
    def extra_params(self) -> int:
        """Sinks, the biases of the gates, and the grouped projection, which is no ordinary one."""
        biases = sum(compressor.extra_params for compressor in self.compressors)
        return self.heads + biases + self.grouped.params

    @property
    def state_values(self) -> int:
        """Values of unfinished entries of one sequence."""
        return sum(compressor.state_values for compressor in self.compressors)


@dataclass(frozen=True, slots=True)
class HyperConnection(Block):
    """Connections of `streams` residual streams to one block (mHC, 2512.24880): in, out, and among themselves."""

    hidden: int
    streams: int
    name: str = "hyper_connection"

    @property
    def part(self) -> str:
        """Neither attention nor MLP."""
        return "other"

    @property
    def width(self) -> int:
        """Weights of one token: into the block, out of it, and from each stream to each."""
        return self.streams * (self.streams + 2)

    @property
    def linears(self) -> tuple[Linear, ...]:
        """All streams at once to the weights, which quantised checkpoints leave alone."""
        return (Linear(f"{self.name}_proj", self.streams * self.hidden, self.width, precise=True),)

    @property
    def extra_params(self) -> int:
        """A bias for each weight, and a scale for each of the three kinds."""
        return self.width + 3
