"""A TOML file, read table by table: every refusal says the file, the key, what is wrong and what would be right."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from rooflens import units
from rooflens.core.hardware import Ceiling
from rooflens.core.op import Provenance
from rooflens.errors import HardwareError, UnitError
from rooflens.sources.files import read_bounded

LARGEST_FILE_BYTES = 65_536
LONGEST_LINE = 2_000
"""A file above this is not an accelerator file; the bundled ones take about 2 kB."""

KINDS = ("data sheet", "driver", "measured", "calibrated", "derived", "third party", "user")
"""What a source is. "user" is taken where a file names no source."""

LARGEST_SPREAD = 1e3
"""Repeats that differ more say nothing about the figure."""

ORIGIN = ("source", "kind")
"""The keys that every table with figures may have."""


class Scale(NamedTuple):
    """The unit of a figure (a key of `units.UNITS`, or None for a plain number) and the range that is believed."""

    unit: str | None
    low: float
    high: float
    example: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the file at `path`, its place in it, and the source and kind that its figures take over."""

    path: str
    place: str
    data: Mapping[str, Any]
    source: str
    kind: str

    def error(self, key: str, problem: str) -> HardwareError:
        """The refusal of `key`."""
        return HardwareError(f"{self.path}: {f'{self.place}.{key}'.lstrip('.')} {problem}")

    def text(self, key: str, default: str | None = None) -> str:
        """The line of text under `key`; without a default it must be there."""
        if key not in self.data and default is not None:
            return default
        if key not in self.data:
            raise self.error(key, f'is missing; write it as text, such as {key} = "..."')
        value = self.data[key]
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise self.error(key, f"is {shown(value)}; one line of text is expected")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """The list of texts under `key`, empty where the table has no such key."""
        value = self.data.get(key, [])
        if not isinstance(value, list) or not all(isinstance(v, str) and v.strip() and v.isprintable() for v in value):
            raise self.error(key, f'is {shown(value)}; a list of texts is expected, such as ["a", "b"]')
        return tuple(value)

    def child(self, key: str, known: tuple[str, ...]) -> Table:
        """The table under `key` (empty where there is none), whose keys must be among `known`."""
        return self._checked(key, self.data.get(key, {}), known)

    def free(self, key: str) -> Table:
        """The table under `key` (empty where there is none), whose keys are anything."""
        value = self.data.get(key, {})
        if not isinstance(value, dict):
            raise self.error(key, f"is {shown(value)}; a table is expected")
        return replace(self, place=f"{self.place}.{key}".lstrip("."), data=value)

    def children(self, key: str, known: tuple[str, ...]) -> list[Table]:
        """The tables under [[key]], whose keys must be among `known`."""
        value = self.data.get(key, [])
        if not isinstance(value, list):
            raise self.error(key, f"is {shown(value)}; write each one under [[{key}]]")
        return [self._checked(f"{key}[{index}]", entry, known) for index, entry in enumerate(value)]

    def figure(self, key: str, scale: Scale) -> Ceiling | None:
        """The figure under `key` in the base unit of `scale`, or None where the table has no such key."""
        if key not in self.data:
            return None
        value, origin = self.data[key], self
        if isinstance(value, dict):
            origin = self._checked(key, value, ("value", "note", "spread", *ORIGIN))
            value = value.get("value")
        number = self._number(key, value, scale)
        if not scale.low <= number <= scale.high:
            unit = f" {scale.unit}" if scale.unit else ""
            raise self.error(key, f"is {shown(value)}; {scale.low:g} to {scale.high:g}{unit} is expected")
        note = "" if origin is self else origin.text("note", "")
        return Ceiling(
            number, Provenance(origin.kind, origin.source, note), None if origin is self else origin._spread()
        )

    def _spread(self) -> float | None:
        """(largest - smallest) / median of the repeats of the figure that this table is, or None."""
        if "spread" not in self.data:
            return None
        spread = self._number("spread", self.data["spread"], Scale(None, 0, LARGEST_SPREAD, "0.05"))
        if not 0 <= spread <= LARGEST_SPREAD:
            raise self.error("spread", f"is {shown(spread)}; 0 to {LARGEST_SPREAD:g} is expected, such as 0.05")
        return spread

    def lines(self) -> tuple[tuple[str, str], ...]:
        """Every key of the table with its line of text, in the order of the file."""
        for name in self.data:
            if not name.strip() or not name.isprintable():
                raise self.error(shown(name), "is no name; a word or a line of text is expected")
        return tuple((name, self.text(name)) for name in self.data)

    def _number(self, key: str, value: Any, scale: Scale) -> float:
        if scale.unit is None:
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return value
            raise self.error(key, f"is {shown(value)}; a plain number is expected, such as {scale.example}")
        if not isinstance(value, str):
            raise self.error(key, f'is {shown(value)}; text with a unit is expected, such as "{scale.example}"')
        try:
            return units.parse(value, scale.unit)
        except UnitError:
            problem = f'is {shown(value)}; a figure in {scale.unit} is expected, such as "{scale.example}"'
            raise self.error(key, problem) from None

    def _checked(self, key: str, data: Any, known: tuple[str, ...]) -> Table:
        if not isinstance(data, dict):
            raise self.error(key, f"is {shown(data)}; a table is expected")
        for name in data:
            if name not in known:
                raise self.error(key, f"has the unknown key {shown(name)}; known are {', '.join(known)}")
        table = replace(self, place=f"{self.place}.{key}".lstrip("."), data=data)
        source = table.text("source", self.source)
        kind = table.text("kind", "data sheet" if "source" in data else self.kind)
        if kind not in KINDS:
            raise table.error("kind", f"is {shown(kind)}; one of {', '.join(KINDS)} is expected")
        return replace(table, source=source, kind=kind)


def read_toml(path: str) -> dict[str, Any]:
    """The content of the TOML file at `path`, not checked any further.

    Raises:
        HardwareError: `path` is no regular file of UTF-8 TOML up to `LARGEST_FILE_BYTES`, or cannot be read.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]
    content = read_bounded(Path(path), LARGEST_FILE_BYTES, HardwareError, "an accelerator file (TOML)")
    longest = max(map(len, content.splitlines()), default=0)
    if longest > LONGEST_LINE:
        raise HardwareError(f"{path} has a line of {longest:,} bytes; expected lines of at most {LONGEST_LINE:,}")
    try:
        table: dict[str, Any] = tomllib.loads(content.decode("utf-8-sig"))
        return table
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8 text (byte {error.start}); expected TOML"
    except RecursionError:
        problem = "is nested too deeply; an accelerator file has tables of two levels"
    except ValueError as error:
        problem = f"is not valid TOML ({shown(str(error), 160)[1:-1]}); expected key = value lines under [tables]"
    raise HardwareError(f"{path} {problem}")


def shown(value: Any, longest: int = 60) -> str:
    """`value` as one short printable line, quoted if it is text."""
    text = repr(value)
    return text if len(text) <= longest else f"{text[: longest - 4]}...{text[-1]}"
