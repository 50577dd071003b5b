"""Names of accelerators -> Hardware: bundled names and aliases, paths, and what drivers report.

A name stands for one part or is refused: "h100" is three parts, whose ridge points are 295, 378 and 212.
"""

from __future__ import annotations

import difflib
import os
import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, NoReturn

from rooflens.core.hardware import Hardware
from rooflens.errors import HardwareError, UnknownHardwareError
from rooflens.sources.hardware_file import read_hardware
from rooflens.sources.toml_table import read_toml

__all__ = ["from_device_name", "hardware_names", "load_hardware", "read_hardware"]

FOLDER = Path(__file__).parent.parent / "data" / "hardware"
"""One NAME.toml for each bundled part."""

_VENDOR = re.compile(r"^(?:(?:nvidia|amd|intel|google|aws|instinct|geforce|tesla)-)+(?=.)")
_OWN_FILE = "or a TOML file with its figures"


class _Entry(NamedTuple):
    """The names of one bundled part; `unclear` holds driver names that do not tell it, each with the reason."""

    name: str
    aliases: tuple[str, ...]
    device_names: tuple[str, ...]
    unclear: dict[str, str]


def hardware_names() -> tuple[str, ...]:
    """Names of the bundled parts, sorted; no file is opened."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


def load_hardware(name_or_path: str | os.PathLike[str]) -> Hardware:
    """The accelerator that a path or a name stands for.

    Text that ends in ".toml" or holds a separator is a path. Anything else is a bundled name, a file of that
    name, the exact name that a driver reports, or an alias, in this order. Upper case, spaces, underscores and a
    vendor in front do not matter in names and aliases.

    Raises:
        HardwareError: the file is unreadable or incomplete.
        UnknownHardwareError: the name is not known (the nearest are named) or stands for several parts (all are).
    """
    if not isinstance(name_or_path, (str, os.PathLike)):
        raise HardwareError(f"an accelerator is {name_or_path!r}; expected a name, a TOML file, or Hardware")
    text = os.fspath(name_or_path)
    if text.endswith(".toml") or "/" in text or os.sep in text:
        return read_hardware(text)
    name = canonical(text)
    if re.fullmatch(r"[a-z0-9-]{1,64}", name) and os.path.isfile(FOLDER / f"{name}.toml"):
        return _bundled(name)
    if os.path.isfile(text):
        return read_hardware(text)
    entry = _by_device_name(text) or next((entry for entry in _index() if name in entry.aliases), None)
    return _bundled(entry.name) if entry else _refuse(text, name)


def from_device_name(driver_string: str) -> Hardware:
    """The accelerator whose driver reports exactly `driver_string`, such as "NVIDIA H100 80GB HBM3".

    Nothing is guessed from a part of the string: "NVIDIA L40S" is neither an L40 nor an L4.

    Raises:
        UnknownHardwareError: no bundled part reports that name, or it does not tell which of several runs.
    """
    entry = _by_device_name(driver_string)
    if entry:
        return _bundled(entry.name)
    if not driver_string.strip():
        raise UnknownHardwareError(f"the driver reports no device name; give --gpu a bundled name, {_OWN_FILE}")
    raise UnknownHardwareError(
        f"the driver reports the device {_quoted(driver_string)}, which is none of the bundled parts; "
        f"give --gpu a bundled name, {_OWN_FILE}"
    )


def canonical(text: str) -> str:
    """`text` as names are compared: lower case, words joined by hyphens, no vendor in front."""
    return _VENDOR.sub("", re.sub(r"[\s_-]+", "-", text.strip().lower()).strip("-"))


def _bundled(name: str) -> Hardware:
    return read_hardware(FOLDER / f"{name}.toml")


@lru_cache(maxsize=1)
def _index() -> tuple[_Entry, ...]:
    """Every bundled name with its aliases and driver names; reads all files, so exact names do without it."""
    return tuple(_entry(name) for name in hardware_names())


def _entry(name: str) -> _Entry:
    table = read_toml(str(FOLDER / f"{name}.toml"))
    aliases = tuple(canonical(alias) for alias in table.get("aliases", ()))
    return _Entry(name, aliases, tuple(table.get("device_names", ())), table.get("unclear_device_names", {}))


def _by_device_name(text: str) -> _Entry | None:
    """The part whose driver reports `text`. Raises UnknownHardwareError for one that several parts report."""
    for entry in _index():
        if text.strip() in entry.device_names:
            return entry
        if text.strip() in entry.unclear:
            raise UnknownHardwareError(
                f"the device name {_quoted(text)} does not tell the part: {entry.unclear[text.strip()]}; "
                f"give --gpu a bundled name, {_OWN_FILE}"
            )
    return None


def _refuse(text: str, name: str) -> NoReturn:
    if not name:
        raise UnknownHardwareError(f"no accelerator is named; give --gpu a bundled name, such as h100-sxm, {_OWN_FILE}")
    family = _family(name)
    if len(family) > 1:
        raise UnknownHardwareError(
            f"{_quoted(text)} stands for {len(family)} accelerators; name one: {', '.join(family)}"
        )
    near = ", ".join(family or _nearest(name))
    hint = f"near it: {near}" if near else "`rooflens gpu` lists the bundled ones"
    raise UnknownHardwareError(
        f"no accelerator is named {_quoted(text)} ({hint}); give --gpu a bundled name, {_OWN_FILE}"
    )


def _family(name: str) -> list[str]:
    """Parts with a name or alias that begins with the first word of `name` and holds all of its words."""
    words = name.split("-")
    return [entry.name for entry in _index() if any(_holds(known, words) for known in (entry.name, *entry.aliases))]


def _holds(known: str, words: list[str]) -> bool:
    have = known.split("-")
    return have[0] == words[0] and set(words) <= set(have)


def _nearest(name: str) -> list[str]:
    owner = {known: entry.name for entry in _index() for known in (*entry.aliases, entry.name)}
    close = difflib.get_close_matches(name[:64], owner, n=6, cutoff=0.6)
    return list(dict.fromkeys(owner[known] for known in close))[:3]


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
