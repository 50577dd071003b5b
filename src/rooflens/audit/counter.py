"""The dispatch counter: every op that the framework runs, with its FLOP and its bytes, by the module that runs it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rooflens.audit.formulas import CONVOLUTIONS, PRODUCTS
from rooflens.audit.kinds import Work, name_of, work_of
from rooflens.audit.traffic import moved, storage_of

ACTIVATIONS = "activations"


@dataclass(slots=True)
class Row:
    """Calls of one op in one module: FLOP and bytes are totals over `calls`.

    read, written: bytes by whose they are ("weights", "kept", "kv", "state", "activations"). values: how many values
    those of weights and cache are, whatever they are stored in. unread: calls of a product whose shapes do not tell
    its FLOP. widths: (rows, columns) of the first call's result.
    """

    module: str
    op: str
    work: Work
    calls: int = 0
    flops: int = 0
    unread: int = 0
    read: Counter[str] = field(default_factory=Counter)
    written: Counter[str] = field(default_factory=Counter)
    values: Counter[tuple[str, str]] = field(default_factory=Counter)
    widths: tuple[int, int] = (0, 0)
    dtype: str = ""


class Tally:
    """The rows of one pass. `owners` says whose a piece of memory is: storage -> "weights", "kept", "kv" or "state"."""

    def __init__(self, owners: Mapping[int, str] | None = None, where: Callable[[], str] = str) -> None:
        self.owners = dict(owners or {})
        self.where = where
        self.writers: dict[int, tuple[Row, int, int, int]] = {}
        self._rows: dict[tuple[str, Any], Row] = {}

    @property
    def rows(self) -> list[Row]:
        """Rows in order of their first call."""
        return list(self._rows.values())

    @property
    def flops(self) -> int:
        """FLOP of matrix products and attention."""
        return sum(row.flops for row in self._rows.values() if row.work is Work.PRODUCT)

    @property
    def convolution_flops(self) -> int:
        """FLOP of convolutions, padded positions included."""
        return sum(row.flops for row in self._rows.values() if row.work is Work.CONVOLUTION)

    def record(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> None:
        """Add one call."""
        row = self._row(func, result)
        row.calls += 1
        if row.work.has_product:
            name = name_of(func)
            flops = (PRODUCTS.get(name) or CONVOLUTIONS[name])(args, kwargs, result)
            row.flops += flops or 0
            row.unread += flops is None
        reads, writes = moved(func, row.work, args, kwargs, result)
        fresh = 0
        for tensor, size in reads:
            owner = self.owners.get(storage_of(tensor), ACTIVATIONS)
            row.read[owner] += size
            if owner != ACTIVATIONS:
                row.values["read", owner] += size // tensor.element_size()
            fresh += 0 if owner == "kv" else size
        for tensor, size in writes:
            memory = storage_of(tensor)
            row.written[self.owners.get(memory, ACTIVATIONS)] += size
            self.writers[memory] = (row, size, min(fresh, size), tensor.element_size())

    def claim(self, owned: Mapping[int, str]) -> None:
        """Say after a pass whose memory its results became: the new part of a cache, and states, are theirs.

        What a cache that grows by concatenation copies of its old values stays activation traffic.
        """
        for memory, owner in owned.items():
            if memory in self.writers and self.owners.get(memory) is None:
                row, size, fresh, width = self.writers[memory]
                part = fresh if owner == "kv" else size
                row.written[ACTIVATIONS] -= part
                row.written[owner] += part
                row.values["written", owner] += part // width

    def _row(self, func: Any, result: Any) -> Row:
        module = self.where()
        row = self._rows.get((module, func))
        if row is None:
            row = Row(module, f"{func.namespace}.{name_of(func)}", work_of(func))
            self._rows[(module, func)] = row
            first = result[0] if isinstance(result, (list, tuple)) and result else result
            if hasattr(first, "shape") and first.dim():
                row.widths = (int(first.numel() // max(first.shape[-1], 1)), int(first.shape[-1]))
                row.dtype = str(first.dtype).rpartition(".")[2]
        return row


@contextmanager
def counting(tally: Tally) -> Iterator[Tally]:
    """Count into `tally` every op that is run inside; gradients are off, so that composite ops come as their parts."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counting(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
        def __torch_dispatch__(
            self, func: Any, _types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            tally.record(func, args, kwargs or {}, result)
            return result

    with torch.no_grad(), Counting():
        yield tally


@contextmanager
def module_paths(model: Any) -> Iterator[Callable[[], str]]:
    """Give a function that says in which module of `model` the program is: its dotted path, "" outside."""
    from torch.nn.modules import module as hooks

    names = {id(module): name for name, module in model.named_modules()}
    stack = [""]

    def enter(module: Any, _inputs: Any) -> None:
        stack.append(names.get(id(module), stack[-1]))

    def leave(_module: Any, _inputs: Any, _outputs: Any) -> None:
        stack.pop()

    handles = (
        hooks.register_module_forward_pre_hook(enter),
        hooks.register_module_forward_hook(leave, always_call=True),
    )
    try:
        yield lambda: stack[-1]
    finally:
        for handle in handles:
            handle.remove()
