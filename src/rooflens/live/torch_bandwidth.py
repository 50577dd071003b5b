"""Bandwidth through torch: of an accelerator's memory, and of the processor's where nothing can be compiled.

Bytes count as in `bandwidth`: read N, copy 2 N, triad 3 N.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rooflens.live.clock import Clock
from rooflens.live.machine import load_torch
from rooflens.live.repeats import Repeats

STREAMS: Mapping[str, int] = {"read": 1, "copy": 2, "triad": 3}
"""Arrays that count, by pattern."""


def torch_rates(
    device: str, total: int, *, rounds: int = 9, seconds: float = 0.02, names: Sequence[str] = tuple(STREAMS)
) -> dict[str, Repeats]:
    """byte/s of sum, copy_ and add (a = b + 0.5 c) over arrays of single precision that take `total` bytes together.

    They are filled with random values, allocated before, and written in place. Every reading takes about `seconds`.

    Raises:
        MissingExtraError: torch is not installed.
    """
    torch, clock = load_torch(), Clock(device)
    found = {}
    with torch.inference_mode():
        for name in names:
            work, moved = sweep(torch, device, name, total // STREAMS[name] // 4)
            calls = max(1, round(seconds / min(clock.seconds(work, 3))))
            taken = clock.seconds(work, rounds, calls=calls)
            found[name] = Repeats(tuple(moved / one for one in taken), _WORDS[name])
    return found


_WORDS = {"read": "torch.sum", "copy": "torch.Tensor.copy_", "triad": "torch.add"}


def sweep(torch: Any, device: str, name: str, values: int) -> tuple[Callable[[], object], int]:
    """The call of a pattern over arrays of `values` floats, and the bytes that it counts."""
    arrays = [torch.rand(values, device=device) for _ in range(STREAMS[name])]
    moved = 4 * values * STREAMS[name]
    if name == "read":
        return lambda: arrays[0].sum(), moved
    if name == "copy":
        return lambda: arrays[0].copy_(arrays[1]), moved
    return lambda: torch.add(arrays[1], arrays[2], alpha=0.5, out=arrays[0]), moved
