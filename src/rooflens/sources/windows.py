"""Sliding windows: which layers have one, as each architecture's config says it."""

from __future__ import annotations

from rooflens.core.attention import EVERYTHING, Span
from rooflens.sources.family import SpanRule
from rooflens.sources.fields import Fields

Spans = tuple[Span, ...]


def every_layer(default: int | None) -> SpanRule:
    """All layers slide where `sliding_window` is set; `default` holds where the field is absent."""

    def rule(fields: Fields, depth: int) -> Spans:
        return (sliding(fields, default),) * depth

    return rule


def from_layer(fields: Fields, depth: int) -> Spans:
    """Qwen2 and Qwen3: with `use_sliding_window`, layers from `max_window_layers` on slide."""
    if not fields.flag("use_sliding_window", False):
        return (EVERYTHING,) * depth
    window = sliding(fields, 4096)
    first = fields.number("max_window_layers", 28)
    return by_types(fields, depth, window) or tuple(window if i >= first else EVERYTHING for i in range(depth))


def alternating(
    default: int,
    pattern: int,
    *,
    full_first: bool = False,
    last_full: bool = False,
    key: str = "sliding_window_pattern",
) -> SpanRule:
    """One layer in `pattern` has full attention: the last of each group, or the first (`full_first`).

    `layer_types` says it layer by layer where it is there, else the field `key` overrides `pattern`. With
    `last_full` the model's last layer has full attention whatever the pattern says.
    """

    def rule(fields: Fields, depth: int) -> Spans:
        window = sliding(fields, default)
        typed = by_types(fields, depth, window)
        if typed:
            return typed
        every = _pattern(fields, key, pattern)
        full = 0 if full_first else every - 1
        last = depth - 1 if last_full else None
        return tuple(EVERYTHING if i % every == full or i == last else window for i in range(depth))

    return rule


def by_types(fields: Fields, depth: int, window: Span) -> Spans | None:
    """The windows that `layer_types` gives, or None where the config has no such field.

    Raises:
        ConfigError: a list of another length than there are layers, or a type that is not known.
    """
    types = fields.strings("layer_types")
    if types is None:
        return None
    _check_length(fields, "layer_types", len(types), depth)
    known = {"full_attention": EVERYTHING, "sliding_attention": window}
    for name in types:
        if name not in known:
            raise fields.fail(f"layer_types names {name!r}; a dense decoder has {' or '.join(known)}")
    return tuple(known[name] for name in types)


def typed(fields: Fields, depth: int) -> Spans:
    """By `layer_types`, which may go on for the layers of multi-token prediction; without them all are full."""
    listed = fields.strings("layer_types")
    if listed is None:
        return (EVERYTHING,) * depth
    shorter = Fields({**fields.values, "layer_types": list(listed[:depth])}, fields.origin)
    return by_types(shorter, depth, sliding(fields, None)) or ()


def sliding(fields: Fields, default: int | None) -> Span:
    """The span that `sliding_window` gives; see `window_size`."""
    return Span(window=window_size(fields, default))


def window_size(fields: Fields, default: int | None) -> int | None:
    """`sliding_window` in tokens; null, or at least `max_position_embeddings`, is full attention.

    `default` holds where the field is absent (not where it is null).
    """
    if fields.is_null("sliding_window"):
        window = None if "sliding_window" in fields.values else default
    else:
        window = fields.size("window", "sliding_window")
    if window is None:
        return None
    longest = fields.size("positions", "max_position_embeddings", default=window + 1)
    return None if window >= longest else window


def _pattern(fields: Fields, key: str, default: int) -> int:
    """A number, or a string of L (local) and G (global) such as "LLLG"."""
    value = fields.values.get(key)
    if isinstance(value, str) and value and set(value) <= {"L", "G"}:
        return len(value)
    return fields.size("layers", key, default=default)


def smollm3(fields: Fields, depth: int) -> Spans:
    """SmolLM3: with `use_sliding_window`, the layers without rotary embedding slide (every fourth by default)."""
    window = sliding(fields, None)
    if not fields.flag("use_sliding_window", False) or window == EVERYTHING:
        return (EVERYTHING,) * depth
    interval = fields.size("layers", "no_rope_layer_interval", default=4)
    return by_types(fields, depth, window) or tuple(EVERYTHING if (i + 1) % interval else window for i in range(depth))


def first_odd(fields: Fields, depth: int) -> Spans:
    """Qwen2-MoE: with `use_sliding_window`, every other layer below `max_window_layers` slides, the first included."""
    if not fields.flag("use_sliding_window", False):
        return (EVERYTHING,) * depth
    window, below = sliding(fields, 4096), fields.number("max_window_layers", 28)
    return by_types(fields, depth, window) or tuple(
        window if i % 2 == 0 and i < below else EVERYTHING for i in range(depth)
    )


def always_from_layer(fields: Fields, depth: int) -> Spans:
    """dots.llm1: layers from `max_window_layers` on slide wherever a window is set."""
    window, first = sliding(fields, 4096), fields.number("max_window_layers", 62)
    return by_types(fields, depth, window) or tuple(window if i >= first else EVERYTHING for i in range(depth))


def all_or_none(fields: Fields, depth: int) -> Spans:
    """Qwen3-MoE: with `use_sliding_window`, every layer slides."""
    if not fields.flag("use_sliding_window", False):
        return (EVERYTHING,) * depth
    window = sliding(fields, 4096)
    return by_types(fields, depth, window) or (window,) * depth


def after_prefix(default: int, pattern: int) -> SpanRule:
    """Cohere2-MoE: the pattern starts after the dense layers at the front, which have one of their own (all full)."""

    def rule(fields: Fields, depth: int) -> Spans:
        window, first = sliding(fields, default), fields.number("first_k_dense_replace", 0)
        typed = by_types(fields, depth, window)
        every = fields.size("layers", "sliding_window_pattern", default=pattern)
        before = fields.size("layers", "prefix_dense_sliding_window_pattern", default=1)
        full = [(i + 1) % before == 0 if i < first else (i - first + 1) % every == 0 for i in range(depth)]
        return typed or tuple(EVERYTHING if everything else window for everything in full)

    return rule


def chunked(fields: Fields, depth: int) -> Spans:
    """Llama 4: attention within chunks, but for each `no_rope_layer_interval`-th layer, which sees everything."""
    size = None if fields.is_null("attention_chunk_size") and "attention_chunk_size" in fields.values else 8192
    if fields.has("attention_chunk_size"):
        size = fields.size("window", "attention_chunk_size")
    longest = fields.size("positions", "max_position_embeddings", default=2**32)
    chunk = EVERYTHING if size is None or size >= longest else Span(chunk=size)
    types = fields.strings("layer_types")
    if types is not None:
        _check_length(fields, "layer_types", len(types), depth)
        return tuple(chunk if kind == "chunked_attention" else EVERYTHING for kind in types)
    every = fields.size("layers", "no_rope_layer_interval", default=4)
    return tuple(EVERYTHING if (i + 1) % every == 0 else chunk for i in range(depth))


def flagged(key: str, default: int, pattern: int) -> SpanRule:
    """`layer_types`, else a list of 0 (full) and 1 (sliding) under `key`, else full first and each `pattern`-th."""

    def rule(fields: Fields, depth: int) -> Spans:
        window = sliding(fields, default)
        typed = by_types(fields, depth, window)
        if typed:
            return typed
        marks = fields.numbers(key)
        if marks:
            _check_length(fields, key, len(marks), depth)
            return tuple(window if mark else EVERYTHING for mark in marks)
        return tuple(EVERYTHING if i == 0 or (i + 1) % pattern == 0 else window for i in range(depth))

    return rule


def _check_length(fields: Fields, name: str, entries: int, depth: int) -> None:
    if entries != depth:
        raise fields.fail(f"{name} has {entries:,} entries, num_hidden_layers is {depth:,}; they must agree")


def local(fields: Fields, depth: int) -> Spans:
    """GPT-Neo: local layers see `window_size` tokens."""
    layers = fields.strings("attention_layers") or ()
    _check_length(fields, "attention_types", len(layers), depth)
    window = Span(window=fields.size("window", "window_size", default=256))
    return tuple(window if kind == "local" else EVERYTHING for kind in layers)
