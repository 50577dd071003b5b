"""Seconds of a call on a torch device: the processor's clock, or the device's own events."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rooflens.live.machine import load_torch

_AHEAD = 2_000_000
"""Clock cycles, about a millisecond, that a GPU is kept busy while calls are queued."""


class Clock:
    """Times calls on one device; work that was queued before has ended before a reading begins.

    Raises:
        MissingExtraError: torch is not installed.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self._torch = load_torch()
        self._kind = device.partition(":")[0]

    def seconds(self, function: Callable[[], object], repeats: int, *, calls: int = 1) -> tuple[float, ...]:
        """Seconds of one call of `function`, `repeats` times, each the mean of `calls` calls one after another."""
        read = self._events if self._kind in ("cuda", "xpu") else self._wall
        return tuple(read(function, calls) / calls for _ in range(repeats))

    def _wall(self, function: Callable[[], object], calls: int) -> float:
        self.wait()
        start = time.perf_counter()
        for _ in range(calls):
            function()
        self.wait()
        return time.perf_counter() - start

    def _events(self, function: Callable[[], object], calls: int) -> float:
        """Between two events of the device's queue, so that the way to it and back does not count.

        The queue is kept busy first where torch can (CUDA and ROCm): a short kernel would else wait for its launch, and
        the launch be measured.
        """
        backend: Any = getattr(self._torch, self._kind)
        with backend.device(self.device):
            start, end = backend.Event(enable_timing=True), backend.Event(enable_timing=True)
            self.wait()
            getattr(backend, "_sleep", lambda _cycles: None)(_AHEAD)
            start.record()
            for _ in range(calls):
                function()
            end.record()
            end.synchronize()
            return float(start.elapsed_time(end)) / 1e3

    def wait(self) -> None:
        """Return when the device has done what was queued; at once on the processor."""
        if self._kind != "cpu":
            backend = getattr(self._torch, self._kind)
            backend.synchronize() if self._kind == "mps" else backend.synchronize(self.device)
