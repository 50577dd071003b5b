"""Patterns of quantisation configs: exact names, globs and regular expressions, held against the names of modules.

A config is anybody's file: regular expressions that could take exponential time are refused, not run.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rooflens.sources.fields import Fields, show
from rooflens.sources.quantization_names import canonical

_REGEX = "re:"
_MAX_REGEX = 300
_MAX_QUANTIFIERS = 4
_META = re.compile(r"[*?\[]")
_REPEATED_GROUP = re.compile(r"\)\s*[*+{]")
_QUANTIFIER = re.compile(r"(?<!\\)[*+{]")
_SPELLINGS = ("model.", "model.language_model.", "language_model.model.", "backbone.", "")


@dataclass(frozen=True, slots=True)
class Matcher:
    """Holds a module's names against patterns.

    exact: names of modules, which hold for what is inside them too; globs: both by the layer that they name ("" for
    none). ends: names, with a dot on either side, that hold wherever they stand in a module's name.
    """

    exact: Mapping[str, frozenset[str]] = field(default_factory=dict)
    globs: Mapping[str, Sequence[re.Pattern[str]]] = field(default_factory=dict)
    regexes: tuple[re.Pattern[str], ...] = ()
    ends: frozenset[str] = frozenset()
    everything: bool = False

    def matches(self, names: Sequence[str]) -> bool:
        """Whether one of the `names` of a module is meant."""
        return self.everything or (not self._empty and any(self._one(name) for name in names))

    @property
    def _empty(self) -> bool:
        return not (self.exact or self.globs or self.regexes or self.ends)

    def _one(self, name: str) -> bool:
        starts = ("", _start(name))
        return (
            any(not self.exact[start].isdisjoint(_ancestors(name)) for start in starts if start in self.exact)
            or any(end in f".{name}." for end in self.ends)
            or any(glob.match(name) for start in starts for glob in self.globs.get(start, ()))
            or any(regex.match(prefix + name) for regex in self.regexes for prefix in _SPELLINGS)
        )


EVERYTHING = Matcher(everything=True)


def matcher(fields: Fields, patterns: Iterable[str], *, suffixes: bool = False) -> Matcher:
    """A Matcher of `patterns`: "re:..." is a regular expression, what holds * ? or [ a glob, the rest a name.

    suffixes: a name may be the end of a module's name ("mlp.gate"), and a glob holds for what is inside a module.

    Raises:
        ConfigError: a regular expression that is none, too long, or repeats a group.
    """
    exact: dict[str, set[str]] = {}
    globs: dict[str, list[re.Pattern[str]]] = {}
    regexes, ends = [], set()
    for pattern in patterns:
        name = canonical(pattern.strip("."))
        if pattern.startswith(_REGEX):
            regexes.append(_regex(fields, pattern.removeprefix(_REGEX)))
        elif _META.search(pattern):
            _add_glob(globs, name, suffixes)
        elif name.startswith("layers.") or not suffixes:
            exact.setdefault(_layer(name), set()).add(name)
        elif name:
            ends.add(f".{name}.")
    frozen = {layer: frozenset(names) for layer, names in exact.items()}
    return Matcher(frozen, globs, tuple(regexes), frozenset(ends))


def _regex(fields: Fields, text: str) -> re.Pattern[str]:
    risky = _REPEATED_GROUP.search(text) or len(_QUANTIFIER.findall(text)) > _MAX_QUANTIFIERS
    if risky or len(text) > _MAX_REGEX:
        raise fields.fail(
            f"the pattern {show(text)} is not tried; expected at most {_MAX_REGEX} characters, "
            f"{_MAX_QUANTIFIERS} repeats and no repeated group"
        )
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as cause:
        first = str(cause).splitlines()[0]
        raise fields.fail(f"the pattern {show(text)} is no regular expression ({first})") from cause


def _add_glob(globs: dict[str, list[re.Pattern[str]]], pattern: str, inside: bool) -> None:
    """Keep `pattern` by the layer that it names, if it names one; `inside`: it holds for what a module contains too."""
    spellings = [pattern, *([pattern.removeprefix("*.")] if pattern.startswith("*.layers") else [])]
    spellings += [f"{spelling}.*" for spelling in spellings] if inside else []
    compiled = (re.compile(fnmatch.translate(spelling)) for spelling in spellings)
    globs.setdefault(_layer(_META.split(pattern, maxsplit=1)[0]), []).extend(compiled)


def _layer(name: str) -> str:
    """The layer that `name` is in ("layers.3"), or "" where it is in none or not yet in one: "layers.3"."""
    return _start(name) if name.count(".") >= 2 else ""


def _start(name: str) -> str:
    """The first two parts of a name: "layers.3"."""
    return ".".join(name.split(".", 2)[:2])


def _ancestors(name: str) -> Iterator[str]:
    """The name, and the modules that it is in: a.b.c, a.b, a."""
    while name:
        yield name
        name = name.rpartition(".")[0]
