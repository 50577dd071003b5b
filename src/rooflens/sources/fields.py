"""Fields: typed, bounded access to a model config, with errors that name field, value and remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rooflens.errors import ConfigError

LIMITS: dict[str, int] = {
    "hidden": 2**20,
    "intermediate": 2**24,
    "layers": 2**14,
    "heads": 2**16,
    "head width": 2**16,
    "vocabulary": 2**26,
    "positions": 2**32,
    "window": 2**40,
}
"""Largest value of each kind of size: about a hundred times what is published, so that a slip is seen."""


class Fields:
    """A config's fields by the names that architectures use for them."""

    def __init__(self, values: Mapping[str, Any], origin: str) -> None:
        self.values = values
        self.origin = origin

    def fail(self, text: str) -> ConfigError:
        """An error about this config: `text` says what was wrong and what would be right."""
        return ConfigError(f"{self.origin}: {text}")

    def has(self, *names: str) -> bool:
        """Whether any of `names` is there and not null."""
        return any(self.values.get(name) is not None for name in names)

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
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.fail(f"{name} is {show(value)}; expected a list of strings")
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


_SPELLINGS: dict[object, str] = {None: "null", True: "true", False: "false"}


def _text(value: object) -> str:
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**30 else f"a number of {value.bit_length()} bits"
    return repr(value)
