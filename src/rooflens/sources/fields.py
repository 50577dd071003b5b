"""Fields: typed, bounded access to a model config, with errors that name field, value and remedy."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rooflens.errors import ConfigError

LIMITS: dict[str, int] = {
    "hidden": 2**20,
    "intermediate": 2**24,
    "layers": 2**14,
    "entries": 2**15,
    "heads": 2**16,
    "head width": 2**16,
    "vocabulary": 2**26,
    "experts": 2**14,
    "positions": 2**32,
    "window": 2**40,
}
"""Largest value of each kind of size: about a hundred times what is published, so that a slip is seen."""


class Fields:
    """A config's fields by the names that architectures use for them."""

    def __init__(self, values: Mapping[str, Any], origin: str) -> None:
        self.values = values
        self.origin = origin
        self._lists: dict[str, Sequence[Any]] = {}
        self._sets: dict[str, frozenset[int]] = {}

    def fail(self, text: str) -> ConfigError:
        """An error about this config: `text` says what was wrong and what would be right."""
        return ConfigError(f"{self.origin}: {text}")

    def has(self, *names: str) -> bool:
        """Whether any of `names` is there and not null."""
        return any(self.values.get(name) is not None for name in names)

    def first(self, *names: str) -> str:
        """The first of `names` that is there and not null; the first of them where none is."""
        return next((name for name in names if self.has(name)), names[0])

    def size(self, kind: str, *names: str, default: int | None = None) -> int:
        """The positive whole number under the first of `names` that is there and not null.

        Raises:
            ConfigError: none is there and there is no `default`; not a whole number; not in 1..limit.
        """
        for name in names:
            value = self.values.get(name)
            if value is not None:
                return self._whole(name, value, LIMITS[kind])
        if default is None:
            raise self.fail(f"the field {' or '.join(names)} is missing; expected a positive whole number")
        return default

    def agreed(self, kind: str, *names: str, default: int | None = None) -> int:
        """`size` of fields that mean the same: where several of `names` are there, they must agree.

        Raises:
            ConfigError: as `size`, and where two of them differ; names both.
        """
        value, first = self.size(kind, *names, default=default), self.first(*names)
        for name in names:
            other = self.size(kind, name) if self.has(name) else value
            if other != value:
                raise self.fail(f"{first} is {value:,}, {name} is {other:,}; they mean the same and must agree")
        return value

    def number(self, name: str, default: int) -> int:
        """The whole number from 0 on under `name`; null counts as absent. Raises ConfigError for anything else."""
        value = self.values.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LIMITS["intermediate"]:
            raise self.fail(f"{name} is {show(value)}; expected a whole number from 0 to {LIMITS['intermediate']:,}")
        return value

    def ratio(self, name: str, default: float | None = None) -> float:
        """The positive finite number under `name`, at most 2**20; null counts as absent.

        Raises:
            ConfigError: absent and no `default`; anything else.
        """
        value = self.values.get(name)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 2**20:
            raise self.fail(f"{name} is {show(value)}; expected a positive number, at most {2**20:,}")
        return float(value)

    def numbers(self, name: str) -> Sequence[int]:
        """The list of whole numbers under `name`, empty if absent or null. Raises ConfigError for anything else."""
        return self._list(name, lambda item: isinstance(item, int), "a list of whole numbers") or ()

    def members(self, name: str) -> frozenset[int]:
        """The whole numbers of the list under `name` as a set, empty if absent. Raises ConfigError as `numbers`."""
        if name not in self._sets:
            self._sets[name] = frozenset(self.numbers(name))
        return self._sets[name]

    def objects(self, name: str) -> Sequence[Fields]:
        """The list of objects under `name`, each as Fields. Raises ConfigError for anything else, or none."""
        if name not in self._lists:
            listed = self._list(name, lambda item: isinstance(item, dict), "a list of objects")
            if listed is None:
                raise self.fail(f"the field {name} is missing; expected a list of objects")
            self._lists[name] = [Fields(item, f"{self.origin}, {name}[{i}]") for i, item in enumerate(listed)]
        return self._lists[name]

    def child(self, name: str) -> Fields:
        """The object under `name` as Fields, empty if absent. Raises ConfigError if it is no object."""
        return Fields(self.nested(name), f"{self.origin}, {name}")

    def for_each_layer(self, name: str, entries: int, depth: int) -> None:
        """Check that the list under `name` has one entry for each layer. Raises ConfigError, naming both."""
        if entries != depth:
            raise self.fail(f"{name} has {entries:,} entries, num_hidden_layers is {depth:,}; they must agree")

    def flag(self, name: str, default: bool) -> bool:
        """The boolean under `name`; null counts as absent. Raises ConfigError for anything else."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.fail(f"{name} is {show(value)}; expected true or false")
        return value

    def text(self, name: str, default: str) -> str:
        """The string under `name`; null counts as absent. Raises ConfigError for anything else."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.fail(f"{name} is {show(value)}; expected a string")
        return value

    def strings(self, name: str) -> Sequence[str] | None:
        """The list of strings under `name`, or None. Raises ConfigError for anything else."""
        return self._list(name, lambda item: isinstance(item, str), "a list of strings")

    def _list(self, name: str, fits: Callable[[Any], bool], expected: str) -> Sequence[Any] | None:
        """A list whose items all fit; checked once, since every layer asks for it again."""
        key = f"{name}: {expected}"
        if key in self._lists:
            return self._lists[key]
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(map(fits, value)):
            raise self.fail(f"{name} is {show(value)}; expected {expected}")
        if len(value) > LIMITS["entries"]:
            raise self.fail(f"{name} has {len(value):,} entries; expected at most {LIMITS['entries']:,}")
        self._lists[key] = value
        return value

    def is_null(self, name: str) -> bool:
        """Whether `name` is absent or null."""
        return self.values.get(name) is None

    def nested(self, name: str) -> Mapping[str, Any]:
        """The object under `name`, empty if absent. Raises ConfigError if it is no object."""
        value = self.values.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.fail(f"{name} is {show(value)}; expected an object")
        return value

    def _whole(self, name: str, value: object, limit: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fail(f"{name} is {show(value)}; expected a positive whole number")
        if not 1 <= value <= limit:
            raise self.fail(f"{name} is {show(value)}; expected a whole number from 1 to {limit:,}")
        return value


def show(value: object) -> str:
    """`value` as an error prints it: short, on one line, as JSON spells it."""
    text = _SPELLINGS.get(value) if value is None or isinstance(value, bool) else _text(value)
    assert text is not None
    return text if len(text) <= 60 else text[:57] + "..."


_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxstring, _REPR.maxother = 3, 60, 60
_SPELLINGS: dict[object, str] = {None: "null", True: "true", False: "false"}


def _text(value: object) -> str:
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**30 else f"a number of {value.bit_length()} bits"
    return _REPR.repr(value)
