"""Call: one call of a framework op as a trace records it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from rooflens.core.op import DType


@dataclass(frozen=True, slots=True)
class Tensor:
    """An argument of a call: its sizes, its strides where the trace has them, and how its values are stored."""

    shape: tuple[int, ...]
    dtype: DType
    strides: tuple[int, ...] = ()

    @property
    def values(self) -> int:
        """How many values it stands for."""
        return prod(self.shape)

    @property
    def held_bytes(self) -> int:
        """Bytes of its distinct values: a dimension that repeats one value (stride 0) counts once."""
        repeats = self.strides if len(self.strides) == len(self.shape) else (1,) * len(self.shape)
        return self.bytes_of(prod(size for size, stride in zip(self.shape, repeats, strict=True) if stride))

    def bytes_of(self, values: int) -> int:
        """Bytes of `values` values that are stored as its own."""
        return int(self.dtype.bytes_of(values))


Argument = Tensor | tuple[Tensor, ...] | None
"""A tensor, a list of tensors, or something else, whose text is in `Call.texts`."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the op `name`, without its namespace: "mm" for aten::mm.

    arguments: by position. texts: of each argument, what the trace prints of one that is no tensor ("True", "[1]").
    """

    name: str
    arguments: tuple[Argument, ...]
    texts: tuple[str, ...] = ()

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Every tensor among the arguments, those of lists included, in order."""
        found: list[Tensor] = []
        for argument in self.arguments:
            if isinstance(argument, Tensor):
                found.append(argument)
            elif argument is not None:
                found.extend(argument)
        return tuple(found)

    def tensor(self, index: int) -> Tensor | None:
        """The tensor at position `index`, or None where there is none."""
        argument = self.arguments[index] if index < len(self.arguments) else None
        return argument if isinstance(argument, Tensor) else None

    def text(self, index: int) -> str:
        """What the trace prints of the argument at `index`; empty where it prints nothing."""
        return self.texts[index] if index < len(self.texts) else ""
