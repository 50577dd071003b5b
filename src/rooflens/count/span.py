"""Spans: how many (query, key) pairs are multiplied, and how many cached tokens are read and held.

`new` queries of one sequence come after `cached` tokens; each figure is an int or an array.
"""

from __future__ import annotations

from rooflens.core.arrays import Count, least, most
from rooflens.core.attention import Span
from rooflens.core.scenario import AttentionFlops, Batch


def causal_pairs(new: Count, cached: Count, span: Span) -> Count:
    """(query, key) pairs of one sequence and head under a causal mask.

    Query i of `new` sees min(cached + i, reach) keys, i from 1, the reach being the window or the top k.
    Derivation: the first n = clamp(reach - cached, 0, new) queries see a growing prefix, n cached + n (n + 1) / 2
    pairs; the others see `reach` keys each. In chunks, token j sees j mod chunk + 1.
    """
    if span.chunk is not None:
        return _in_chunks(cached + new, span.chunk) - _in_chunks(cached, span.chunk)
    if span.block > 1 and span.top_k is not None:
        return _in_blocks(cached + new, span.top_k, span.block) - _in_blocks(cached, span.top_k, span.block)
    reach = span.window if span.window is not None else span.top_k
    if reach is None:
        return new * cached + new * (new + 1) // 2
    growing = most(least(reach - cached, new), 0)
    return growing * cached + growing * (growing + 1) // 2 + (new - growing) * reach


def _in_chunks(tokens: Count, chunk: int) -> Count:
    """Sum of j mod chunk + 1 over the first `tokens` positions j: whole chunks, and what is left of the last."""
    whole, rest = tokens // chunk, tokens % chunk
    return whole * (chunk * (chunk + 1) // 2) + rest * (rest + 1) // 2


def _in_blocks(tokens: Count, top_k: int, block: int) -> Count:
    """Sum over the first `tokens` positions of the keys in the blocks that each sees, its own (so far) among them.

    Derivation: while all blocks fit, position j sees j + 1 keys; after `top_k` positions it sees `top_k` - `block`
    keys of other blocks, and j mod block + 1 of its own.
    """
    growing = least(tokens, top_k)
    later = tokens - growing
    return growing * (growing + 1) // 2 + later * (top_k - block) + _in_chunks(later, block)


def full_pairs(new: Count, cached: Count, span: Span) -> Count:
    """Pairs of a dense mask: every query against every new token and all that the cache holds."""
    held = cached if span.held is None else least(cached, span.held - 1)
    return new * (held + new)


def kv_tokens_read(new: Count, cached: Count, span: Span) -> Count:
    """Cached tokens that a pass reads.

    All of them; the `window` - 1 before the first new token; those of the chunk that the first new token falls into;
    at most `top_k` for each new token, or as many blocks but its own, and what the cache holds of the last block.
    """
    if span.window is not None:
        return least(cached, span.window - 1)
    if span.chunk is not None:
        return cached % span.chunk
    if span.block > 1 and span.top_k is not None:
        return least(cached, new * (span.top_k - span.block) + cached % span.block)
    return cached if span.top_k is None else least(cached, new * span.top_k)


def kv_tokens_held(context: Count, span: Span) -> Count:
    """Tokens that the cache of one layer holds after `context` tokens: min(context, window or chunk)."""
    return context if span.held is None else least(context, span.held)


def pairs(batch: Batch, span: Span, convention: AttentionFlops) -> Count:
    """(query, key) pairs of one sequence and head by the convention that is asked for."""
    count = causal_pairs if convention is AttentionFlops.CAUSAL else full_pairs
    return count(batch.new_tokens, batch.cached_tokens, span)
