"""Sliding windows: which layers have one, as each architecture's config says it."""

from __future__ import annotations

from rooflens.sources.family import WindowRule
from rooflens.sources.fields import Fields

Windows = tuple[int | None, ...]


def every_layer(default: int | None) -> WindowRule:
    """All layers slide where `sliding_window` is set; `default` holds where the field is absent."""

    def rule(fields: Fields, depth: int) -> Windows:
        return (window_size(fields, default),) * depth

    return rule


def from_layer(fields: Fields, depth: int) -> Windows:
    """Qwen2 and Qwen3: with `use_sliding_window`, layers from `max_window_layers` on slide."""
    if not fields.flag("use_sliding_window", False):
        return (None,) * depth
    window = window_size(fields, 4096)
    first = 28 if fields.values.get("max_window_layers") is None else _layer_number(fields, "max_window_layers")
    return by_types(fields, depth, window) or tuple(window if i >= first else None for i in range(depth))


def alternating(default: int, pattern: int, *, full_first: bool = False) -> WindowRule:
    """One layer in `pattern` has full attention: the last of each group, or the first (`full_first`).

    `layer_types` says it layer by layer where it is there, else `sliding_window_pattern` overrides `pattern`.
    """

    def rule(fields: Fields, depth: int) -> Windows:
        window = window_size(fields, default)
        typed = by_types(fields, depth, window)
        if typed:
            return typed
        every = _pattern(fields, pattern)
        full = 0 if full_first else every - 1
        return tuple(None if i % every == full else window for i in range(depth))

    return rule


def by_types(fields: Fields, depth: int, window: int | None) -> Windows | None:
    """The windows that `layer_types` gives, or None where the config has no such field.

    Raises:
        ConfigError: a list of another length than there are layers, or a type that is not known.
    """
    types = fields.strings("layer_types")
    if types is None:
        return None
    if len(types) != depth:
        raise fields.fail(f"layer_types has {len(types):,} entries, num_hidden_layers is {depth:,}; they must agree")
    known = {"full_attention": None, "sliding_attention": window}
    for name in types:
        if name not in known:
            raise fields.fail(f"layer_types names {name!r}; a dense decoder has {' or '.join(known)}")
    return tuple(known[name] for name in types)


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


def _pattern(fields: Fields, default: int) -> int:
    """`sliding_window_pattern`: a number, or a string of L (local) and G (global) such as "LLLG"."""
    value = fields.values.get("sliding_window_pattern")
    if isinstance(value, str) and value and set(value) <= {"L", "G"}:
        return len(value)
    return fields.size("layers", "sliding_window_pattern", default=default)


def _layer_number(fields: Fields, name: str) -> int:
    value = fields.values.get(name)
    return 0 if value == 0 and not isinstance(value, bool) else fields.size("layers", name)


def smollm3(fields: Fields, depth: int) -> Windows:
    """SmolLM3: with `use_sliding_window`, the layers without rotary embedding slide (every fourth by default)."""
    if not fields.flag("use_sliding_window", False) or window_size(fields, None) is None:
        return (None,) * depth
    window = window_size(fields, None)
    interval = fields.size("layers", "no_rope_layer_interval", default=4)
    return by_types(fields, depth, window) or tuple(None if (i + 1) % interval else window for i in range(depth))
