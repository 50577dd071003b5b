"""The nouns of an audit: figures of one side, both sides of a figure, the ops that the framework ran."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

PROMPT, LONGER = 512, 1024
"""Tokens of the audited prompt, and of the one that the growth of the cache is taken from."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What one side says of a model: one sequence, a prefill of `PROMPT` tokens, a decode step after it, bf16.

    params: learned values. kv_growth_bytes: cache after `LONGER` tokens less cache after `PROMPT`. *_flops: FLOP of
    matrix products and attention; convolutions apart. None where a side cannot say.
    """

    params: int
    kv_growth_bytes: int | None = None
    prefill_flops: int | None = None
    decode_flops: int | None = None
    prefill_convolution_flops: int | None = None
    decode_convolution_flops: int | None = None


@dataclass(frozen=True, slots=True)
class Claims:
    """Our side, and how far its FLOP may be off: a share of the reference's (0 is exact)."""

    figures: Figures
    tolerance: float


class Verdict(str, Enum):
    """What a comparison comes to."""

    AGREES = "agrees"
    DIFFERS = "differs"
    NOT_COMPARED = "not compared"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure of both sides. tolerance: share of the reference; None where the two are shown and not held.

    why: the reason where it is not compared.
    """

    name: str
    unit: str
    ours: int | None
    reference: int | None
    tolerance: float | None
    why: str = ""

    @property
    def difference(self) -> int | None:
        """Ours less the reference's, in the figure's unit."""
        return None if self.ours is None or self.reference is None else self.ours - self.reference

    @property
    def relative(self) -> float | None:
        """The difference as a share of the reference; None where there is none."""
        if self.difference is None or not self.reference:
            return None
        return self.difference / self.reference

    @property
    def verdict(self) -> Verdict:
        """Whether the two sides agree within the tolerance."""
        if self.difference is None or self.tolerance is None or self.why:
            return Verdict.NOT_COMPARED
        held = abs(self.difference) <= self.tolerance * abs(self.reference or 0)
        return Verdict.AGREES if held else Verdict.DIFFERS


@dataclass(frozen=True, slots=True)
class OpCount:
    """One framework op in both passes. calls, FLOP and bytes are totals; uncounted: calls that it could not count."""

    name: str
    kind: str
    prefill_calls: int
    decode_calls: int
    prefill_flops: int
    decode_flops: int
    read_bytes: int
    written_bytes: int
    uncounted: int

    @property
    def calls(self) -> int:
        """Calls in both passes."""
        return self.prefill_calls + self.decode_calls


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Both sides of a model. class_name: the framework's class that ran; notes: what could not be compared, and why."""

    model: str
    class_name: str
    framework: str
    comparisons: tuple[Comparison, ...]
    ops: tuple[OpCount, ...]
    conventions: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        """Whether no figure differs by more than its tolerance."""
        return all(comparison.verdict is not Verdict.DIFFERS for comparison in self.comparisons)

    @property
    def uncounted(self) -> tuple[OpCount, ...]:
        """Ops that the counter has no formula or word for, or whose shapes did not tell their FLOP."""
        return tuple(op for op in self.ops if op.uncounted)
