"""Scheme: which format a quantised checkpoint stores each of its modules in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rooflens.core.op import DType
from rooflens.sources.quantization_match import Matcher


@dataclass(frozen=True, slots=True)
class Format:
    """How weights are stored, and what they are multiplied in; `compute` None is 16 bit (weight-only)."""

    dtype: DType
    compute: DType | None

    @classmethod
    def native(cls, name: str) -> Format:
        """The dtype called `name`, multiplied in its own arithmetic."""
        dtype = DType(name)
        return cls(dtype, dtype.arithmetic)

    @classmethod
    def widened(cls, name: str) -> Format:
        """The dtype called `name`, widened to 16 bit before it is multiplied."""
        return cls(DType(name), None)


@dataclass(frozen=True, slots=True)
class Scheme:
    """The formats of a checkpoint's modules.

    rules: tried in turn; the first whose matcher holds gives the format, None for what is left alone. default: of
    modules for which none holds. head: whether they hold for the output head too, which is else left alone.
    kv: dtype of the cache, where the checkpoint says it.
    """

    rules: tuple[tuple[Matcher, Format | None], ...]
    default: Format | None
    head: bool = False
    kv: DType | None = None
    notes: tuple[str, ...] = ()

    def format_of(self, names: Sequence[str]) -> Format | None:
        """The format of the module that has these names, or None where it is left alone."""
        return next((form for rule, form in self.rules if rule.matches(names)), self.default)

    @property
    def main(self) -> Format | None:
        """The format that stands for the checkpoint: the narrowest that is no weight-only one, else the narrowest."""
        formats = [form for _, form in self.rules if form] + ([self.default] if self.default else [])
        return min(formats, key=lambda form: (form.compute is None, form.dtype.bits), default=None)

    @property
    def arithmetic(self) -> tuple[tuple[DType, DType | None], ...]:
        """(stored, multiplied in) of every format; None is 16 bit."""
        formats = [form for _, form in self.rules if form] + ([self.default] if self.default else [])
        return tuple({form.dtype: form.compute for form in formats}.items())
