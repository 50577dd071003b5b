"""Bytes that one framework op reads and writes, from its tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

from rooflens.audit.kinds import Work, name_of

Move = tuple[Any, int]
Moves = tuple[list[Move], list[Move]]
_OVERWRITES = frozenset({"copy_", "fill_", "zero_", "set_", "resize_"})
_PARTIAL = frozenset(
    {"index_put_", "index_copy_", "index_fill_", "index_add_", "scatter_", "scatter_add_", "masked_scatter_"}
)


def tensors(value: Any) -> Iterator[Any]:
    """Every tensor in the arguments or the result of a call, in order."""
    if hasattr(value, "untyped_storage"):
        yield value
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from tensors(entry)
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from tensors(entry)


def storage_of(tensor: Any) -> int:
    """What tells one piece of memory from another, on the meta device too, while the tensor lives."""
    return int(tensor.untyped_storage()._cdata)


def held_bytes(tensor: Any) -> int:
    """Bytes of the distinct values of `tensor`: a dimension that repeats one value (stride 0) counts once."""
    shape = (size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride or size == 0)
    return int(prod(shape) * tensor.element_size())


def moved(func: Any, work: Work, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Moves:
    """What a call reads and writes: ([(tensor, bytes), ...], [(tensor, bytes), ...]).

    Every operand is read once and every result written once. A view moves nothing, a new constant is only written, a
    lookup reads the rows that it returns and not the table, and a write in place to chosen rows moves those rows.
    """
    if work is Work.VIEW:
        return [], []
    given, made = list(tensors([*args, *kwargs.values()])), list(tensors(result))
    writes = [(tensor, held_bytes(tensor)) for tensor in made]
    if work is Work.CREATION:
        return [], writes
    reads = [(tensor, held_bytes(tensor)) for tensor in given]
    name = name_of(func)
    if work is Work.LOOKUP and made and reads:
        table, size = reads[0]
        reads[0] = table, min(size, int(made[0].numel() * table.element_size()))
    if name in _OVERWRITES:
        return reads[1:], writes
    if name in _PARTIAL:
        source = reads[-1][1] if len(reads) > 1 else 0
        return reads[1:], [(given[0], min(source, held_bytes(given[0])))]
    return reads, writes
