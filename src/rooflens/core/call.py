"""Call: one call of a framework op as a trace records it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from rooflens.core.op import DType

_FLOATS = frozenset({DType.FP64, DType.FP32, DType.BF16, DType.FP16, DType.FP8})


@dataclass(frozen=True, slots=True)
class Tensor:
    """An argument of a call: its sizes, its strides where the trace has them, and how its values are stored."""

    shape: tuple[int, ...]
    dtype: DType
    strides: tuple[int, ...] = ()

    @property
    def is_float(self) -> bool:
        """Whether its values are floating-point numbers."""
        return self.dtype in _FLOATS

    @property
    def values(self) -> int:
        """How many values it stands for."""
        return prod(self.shape)

    @property
    def held_bytes(self) -> int:
        """Bytes of its distinct values: a dimension that repeats one value (stride 0) counts once."""
        if not self.values or len(self.strides) != len(self.shape):
            return self.bytes_of(self.values)
        return self.bytes_of(prod(size for size, stride in zip(self.shape, self.strides, strict=True) if stride))

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

    def listed(self, index: int) -> tuple[Tensor, ...]:
        """The tensors of the list at position `index`; none where there is no list."""
        argument = self.arguments[index] if index < len(self.arguments) else None
        return argument if isinstance(argument, tuple) else ()

    def text(self, index: int) -> str:
        """What the trace prints of the argument at `index`; empty where it prints nothing."""
        return self.texts[index] if index < len(self.texts) else ""
