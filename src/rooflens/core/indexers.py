"""Selectors of sparse attention that pick whole blocks of keys."""

from __future__ import annotations

from dataclasses import dataclass

from rooflens.core.blocks import Linear, Norm


@dataclass(frozen=True, slots=True)
class BlockIndexer:
    """`heads` light heads of `width` score every earlier token; the best token of a block is the block's score.

    Each picks blocks for a group of query heads (MiniMax-M3). Its one key of `width` values a token is cached.
    """

    hidden: int
    heads: int
    width: int
    blocks: int

    @property
    def linears(self) -> tuple[Linear, ...]:
        """Queries, and one key."""
        return (
            Linear("indexer_q_proj", self.hidden, self.heads * self.width),
            Linear("indexer_k_proj", self.hidden, self.width),
        )

    @property
    def norms(self) -> tuple[Norm, ...]:
        """Of queries and the key."""
        return Norm("indexer_q_norm", self.width, rows=self.heads), Norm("indexer_k_norm", self.width)
