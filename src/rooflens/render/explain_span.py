"""Which pairs attention multiplies and which cached tokens it reads, as formulas, for every span."""

from __future__ import annotations

from rooflens.core.attention import EVERYTHING, Reach, Span
from rooflens.core.op import AttentionShape, OpKind
from rooflens.core.scenario import AttentionFlops
from rooflens.count import plan as steps
from rooflens.count.span import kv_tokens_read
from rooflens.render.explain_formula import Formula, number, times
from rooflens.render.explain_view import View

LETTERS = {Reach.WINDOW: "W", Reach.CHUNK: "C", Reach.SPARSE: "K"}
"""What formulas call the limit of a span: W tokens of a window, C of a chunk, K that an indexer picks."""


def span_of(view: View) -> Span:
    """The span that the op's queries see: an indexer scores everything."""
    layer = view.attention
    return EVERYTHING if layer is None or view.op.kind is OpKind.INDEXER else layer.span


def limit(span: Span) -> int:
    """Tokens of the window, the chunk or the choice; 0 where there is no limit."""
    return span.window or span.chunk or span.top_k or 0


def span_words(view: View) -> str:
    """The span for the line that says what a kernel is."""
    span = span_of(view)
    names = {Reach.WINDOW: "window W", Reach.CHUNK: "chunks of C", Reach.SPARSE: "the top K"}
    blocks = f" in blocks of b {span.block:,}" if span.block > 1 else ""
    return "" if span == EVERYTHING else f", {names[span.reach]} {limit(span):,}{blocks}"


def pairs(view: View, shape: AttentionShape) -> Formula:
    """How many (query, key) pairs one sequence and one head multiply."""
    q, cached, span = int(shape.q_tokens), int(view.batch.cached_tokens), span_of(view)
    if isinstance(view.step, steps.AttendImages):
        words, numbers = "q x image tokens", times(q, int(view.batch.image_tokens))
    elif view.conventions.attention_flops is AttentionFlops.FULL:
        words, numbers = _dense(q, cached, span)
    elif span.block > 1 and span.top_k is not None:
        words, numbers = _blocked(q, cached, span.top_k, span.block)
    elif span.chunk is not None:
        words, numbers = _chunked(q, cached, span.chunk)
    elif q == 1:
        words, numbers = _one_query(cached, span)
    else:
        words, numbers = _many_queries(q, cached, span)
    return Formula("pairs", words, numbers, int(shape.pairs), "")


def _dense(q: int, cached: int, span: Span) -> tuple[str, str]:
    """Every query against every new token and all that the cache holds."""
    held, numbers = "cached", number(cached)
    if span.held is not None:
        letter = LETTERS[span.reach]
        held, numbers = f"min(cached, {letter} - 1)", f"min({numbers}, {number(span.held)} - 1)"
    return f"q x ({held} + q)", times(q, f"({numbers} + {number(q)})")


def _one_query(cached: int, span: Span) -> tuple[str, str]:
    seen = f"{number(cached)} + 1"
    if span == EVERYTHING:
        return "cached + 1", seen
    return f"min(cached + 1, {LETTERS[span.reach]})", f"min({seen}, {number(limit(span))})"


def _many_queries(q: int, cached: int, span: Span) -> tuple[str, str]:
    """Query i sees all that is cached and i new tokens, until the window is full or the choice is complete."""
    reach = limit(span) or q + cached
    growing = max(min(reach - cached, q), 0)
    words, numbers = "S x (S + 1) / 2", f"{times(growing, f'({number(growing)} + 1)')} / 2"
    if cached:
        words, numbers = f"S x cached + {words}", f"{times(growing, cached)} + {numbers}"
    if growing == q:
        return words, numbers
    rest = times(f"({number(q)} - {number(growing)})", reach)
    return f"{words.replace('S', 'g')} + (S - g) x {LETTERS[span.reach]}", f"{numbers} + {rest}"


def _chunked(q: int, cached: int, chunk: int) -> tuple[str, str]:
    """Token j sees those of its own chunk up to itself, j mod C + 1 of them."""
    if q == 1:
        return "cached mod C + 1", f"{_remainder(cached, chunk)} + 1"
    numbers = _in_chunks(cached + q, chunk)
    if cached:
        return "those of cached + S tokens - those of cached ones", f"{numbers} - ({_in_chunks(cached, chunk)})"
    return ("S x (S + 1) / 2" if q < chunk else "chunks x C x (C + 1) / 2 + rest x (rest + 1) / 2"), numbers


def _in_chunks(tokens: int, chunk: int) -> str:
    """Pairs of the first `tokens` tokens: those of whole chunks, and of what is left."""
    full, rest = tokens // chunk, tokens % chunk
    last = f"{times(rest, f'({number(rest)} + 1)')} / 2"
    return f"{times(full, chunk, f'({number(chunk)} + 1)')} / 2 + {last}" if full else last


def _blocked(q: int, cached: int, top_k: int, block: int) -> tuple[str, str]:
    """All keys until K are there; then K - b of other blocks, and of the query's own block those so far."""
    numbers = _in_blocks(cached + q, top_k, block)
    if cached and q > 1:
        words = "those of cached + S tokens - those of cached ones"
        return words, f"{numbers} - ({_in_blocks(cached, top_k, block)})"
    if q > 1:
        return "those while K are not reached + rest x (K - b) + those of the own block, in blocks of b", numbers
    if cached < top_k:
        return "cached + 1", f"{number(cached)} + 1"
    return "K - b + (cached - K) mod b + 1", f"{number(top_k)} - {block} + {_remainder(cached - top_k, block)} + 1"


def _in_blocks(tokens: int, top_k: int, block: int) -> str:
    """Keys that the first `tokens` positions see, summed up."""
    growing = min(tokens, top_k)
    text = f"{times(growing, f'({number(growing)} + 1)')} / 2"
    later = tokens - growing
    if not later:
        return text
    return f"{text} + {times(later, f'({number(top_k)} - {block})')} + {_in_chunks(later, block)}"


def _remainder(tokens: int, chunk: int) -> str:
    return f"{number(tokens)} - {number(chunk)} x ({number(tokens)} // {number(chunk)})"


def read_tokens(view: View) -> tuple[str, str, int]:
    """Cached tokens of one sequence that the op reads: in words, as text with its numbers, and how many."""
    q, cached, span = int(view.batch.new_tokens), int(view.batch.cached_tokens), span_of(view)
    value = int(kv_tokens_read(q, cached, span))
    text = number(cached)
    if span.window is not None:
        return "min(cached, W - 1)", f"min({text}, {number(span.window)} - 1)", value
    if span.chunk is not None:
        return "(cached mod C)", f"({_remainder(cached, span.chunk)})", value
    if span.top_k is not None and span.block > 1:
        own = f"{times(q, f'({number(span.top_k)} - {span.block})')} + {_remainder(cached, span.block)}"
        return "min(cached, q x (K - b) + cached mod b)", f"min({text}, {own})", value
    if span.top_k is not None:
        return "min(cached, q x K)", f"min({text}, {times(q, span.top_k)})", value
    return "cached tokens", text, value
