"""Framework ops that move values and compute none: copies, lookups, writes to rows, fills."""

from __future__ import annotations

from math import prod

from rooflens.core.call import Call, Tensor
from rooflens.core.op import Op, OpKind, PointwiseShape, Traffic
from rooflens.count.framework_call import broadcast, numbers, op_of, without

_ADDS = ("index_add_", "scatter_add_")


def copy(call: Call) -> Op | None:
    """What is read, and as many values written: in the destination's dtype where there is one."""
    into = call.tensors[0]
    source = call.tensor(1) if call.name == "copy_" else into
    if source is None or broadcast((into.shape, source.shape)) != into.values:
        return None
    moved = Traffic(activations=source.held_bytes + into.bytes_of(into.values))
    return op_of(call, OpKind.COPY, PointwiseShape(into.values, 1, 0), moved)


def cat(call: Call) -> Op | None:
    """Each of the list is read and written."""
    parts = call.listed(0)
    if not parts:
        return None
    values = sum(part.values for part in parts)
    moved = sum(part.held_bytes + part.bytes_of(part.values) for part in parts)
    return op_of(call, OpKind.COPY, PointwiseShape(values, 1, 0), Traffic(activations=moved))


def lookup(call: Call) -> Op | None:
    """Rows of a table by their numbers: the rows are read and written, the table is not.

    What `embedding` reads is weights, and what `index_select` reads of the rows of a matrix: that is how the framework
    runs an embedding. Of `index` the text of its list is the shape of the result; a list without it numbers the first
    dimensions.
    """
    table, picked = call.tensor(0), _picked(call)
    if table is None or not table.shape or picked is None:
        return None
    rows, width, indices = picked
    moved = table.bytes_of(rows * width)
    by_row = call.name == "embedding" or (call.name == "index_select" and call.text(1) == "0")
    is_table = by_row and len(table.shape) == 2 and table.is_float
    traffic = Traffic(weights=moved if is_table else 0, activations=indices + moved + (0 if is_table else moved))
    kind = OpKind.EMBEDDING if is_table else OpKind.COPY
    return op_of(call, kind, PointwiseShape(rows, width, 0), traffic)


def _picked(call: Call) -> tuple[int, int, int] | None:
    """How many are picked, values of each, bytes of their numbers."""
    shape = call.arguments[0].shape if isinstance(call.arguments[0], Tensor) else ()
    if call.name == "index":
        listed, result = call.listed(1), numbers(call.text(1))
        if listed and result:
            return prod(result), 1, sum(t.held_bytes for t in listed)
        rows = broadcast([t.shape for t in listed]) if listed and len(listed) <= len(shape) else None
        numbered = sum(t.held_bytes for t in listed)
        return None if rows is None else (rows, prod(shape[len(listed) :]), numbered)
    index = call.tensor(1 if call.name in ("embedding", "take") else 2)
    if index is None:
        return None
    width: int | None = 1
    if call.name == "embedding":
        width = prod(shape[1:])
    elif call.name == "index_select":
        axes = numbers(call.text(1))
        width = without(shape, axes) if len(axes) == 1 else None
    return None if width is None else (index.values, width, index.held_bytes)


def rows(call: Call) -> Op | None:
    """A write to chosen rows: source and positions are read, as much is written as the source has or the text says.

    The rest of the destination is not touched; one that is added to is read where it is written, 1 FLOP a value.
    """
    into, read = call.tensor(0), [a for a in call.arguments[1:] if isinstance(a, Tensor)]
    if into is None or not read:
        return None
    values: int | None = read[-1].values
    if call.listed(1) and call.text(1):
        values = prod(numbers(call.text(1)))
    if call.name == "index_fill_":
        axes = numbers(call.text(1))
        width = without(into.shape, axes) if len(axes) == 1 else None
        values = None if width is None else width * read[0].values
    if values is None:
        return None
    written = min(into.bytes_of(values), into.bytes_of(into.values))
    adds = call.name in _ADDS
    numbered = sum(t.held_bytes for t in call.listed(1))
    moved = Traffic(activations=sum(t.held_bytes for t in read) + numbered + written * (2 if adds else 1))
    shape = PointwiseShape(values, 1, 1 if adds else 0)
    return op_of(call, OpKind.COPY, shape, moved, flops=values if adds else 0)


def fill(call: Call) -> Op | None:
    """What is filled is written; nothing is read."""
    into = call.tensors[0]
    return op_of(call, OpKind.COPY, PointwiseShape(into.values, 1, 0), Traffic(activations=into.held_bytes))
