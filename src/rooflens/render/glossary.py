"""`rooflens explain`: the 30-second revision, the table of the two phases, and the glossary."""

from __future__ import annotations

import difflib
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import fill
from typing import Any

from rooflens.errors import UnknownNameError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

_FILE = Path(__file__).parent.parent / "data" / "glossary.toml"
_WIDTH = 100

_REVISION = (
    ("roofline", "how fast a kernel can be: the smaller of the peak and bandwidth x intensity"),
    ("FLOP", "the work; a multiply-add is two"),
    ("traffic", "the bytes that move: weights, KV cache, activations"),
    ("intensity", "FLOP / bytes; with 16-bit weights about the number of tokens that share a read"),
    ("ridge point", "peak / bandwidth; below it memory is the bound, above it compute"),
    ("prefill", "the whole prompt in one pass, many tokens a weight: usually compute-bound"),
    ("decode", "one token per sequence and step, all weights and the cache read: usually memory-bound"),
    ("KV cache", "keys and values kept, so that a step runs one token; paid in memory and bandwidth"),
    ("larger batch", "shares the weights, not the caches: linear layers gain, attention does not"),
    ("MFU, MBU", "share of the peak, share of the bandwidth: grade prefill by the first, decode by the second"),
    ("usually", "short prompts are memory-bound in prefill, small models wait for launches: look at the numbers"),
)

_TABLE = (
    ("", "prefill", "decode"),
    ("processes", "the whole prompt", "one token per sequence"),
    ("parallel?", "yes, all tokens at once", "across sequences, not along one"),
    ("main work", "matrix x matrix (GEMM)", "reading weights and KV cache"),
    ("bottleneck", "compute", "memory"),
    ("limited by", "peak FLOP/s", "memory bandwidth"),
)
_TENDENCIES = """
These are tendencies, not laws. A prefill of fewer tokens than the ridge point (153 on an A100, 295 on an H100) is \
memory-bound too; a decode batch can be compute-bound, and a small model waits for launches in both. \
`rooflens predict` computes which holds for a model, a part and a workload.
"""


@dataclass(frozen=True, slots=True)
class Topic:
    """An entry of the glossary: the idea, an example with numbers, and what the short story leaves out."""

    name: str
    title: str
    aliases: tuple[str, ...]
    text: str
    example: tuple[str, ...]
    beyond: str
    see: tuple[str, ...]

    def __str__(self) -> str:
        """The entry for a reader: plain text, ending in a newline."""
        example = "\n".join(f"  {'  ' if ' = ' in line else ''}{line}" for line in self.example)
        return "\n".join(
            [
                self.title,
                "=" * len(self.title),
                fill(self.text, _WIDTH),
                "",
                "For example:",
                example,
                "",
                fill(f"Beyond the short story: {self.beyond}", _WIDTH),
                "",
                f"See also: {', '.join(self.see)}",
                "",
            ]
        )


def revision() -> str:
    """Return the 30-second revision, the table of the two phases and the list of topics: plain text."""
    width = max(len(word) for word, _ in _REVISION)
    lines = ["The roofline of LLM inference in 30 seconds", ""]
    lines += [f"  {word:<{width}}  {text}" for word, text in _REVISION]
    named = fill(", ".join(topics()), _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join([*lines, "", phase_table(), "Topics of `rooflens explain TOPIC`:", named, ""])


def phase_table() -> str:
    """Return the five rows that set prefill against decode, and that they are tendencies: plain text."""
    widths = [max(len(row[column]) for row in _TABLE) for column in range(3)]
    rows = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in _TABLE]
    rows.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([*(f"  {row}" for row in rows), "", fill(_TENDENCIES.strip(), _WIDTH), ""])


def topics() -> tuple[str, ...]:
    """The names of the glossary's entries, in the order in which they are best read."""
    return tuple(_entries())


def topic(name: str) -> Topic:
    """Return the entry that `name` stands for; case, spaces, hyphens and underscores do not matter.

    Raises:
        UnknownNameError: no entry has that name or alias; the nearest are named.
    """
    wanted = _key(name)
    known = _known()
    if wanted in known:
        return _entries()[known[wanted]]
    close = difflib.get_close_matches(wanted[:64], known, n=6, cutoff=0.6)
    near = list(dict.fromkeys(known[match] for match in close))[:3]
    hint = f"the nearest are {', '.join(near)}" if len(near) > 1 else f"the nearest is {near[0]}" if near else ""
    shown = name if len(name) <= 60 else f"{name[:57]}..."
    raise UnknownNameError(f"no topic is named {shown!r}: {hint or 'none is near it'}; `rooflens explain` lists all")


def _key(text: str) -> str:
    return re.sub(r"[\s_-]+", "-", text.strip().lower())


@cache
def _entries() -> dict[str, Topic]:
    """Every entry by its name."""
    rows = tomllib.loads(_FILE.read_text(encoding="utf-8"))["topic"]
    return {row["name"]: _topic(row) for row in rows}


def _topic(row: dict[str, Any]) -> Topic:
    return Topic(
        name=row["name"],
        title=row["title"],
        aliases=tuple(row["aliases"]),
        text=row["text"].strip(),
        example=tuple(row["example"]),
        beyond=row["beyond"].strip(),
        see=tuple(row["see"]),
    )


@cache
def _known() -> dict[str, str]:
    """The name of the entry for each name, title and alias, as `_key` writes them."""
    return {_key(word): t.name for t in _entries().values() for word in (t.name, t.title, *t.aliases)}
