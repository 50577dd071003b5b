"""A thread on each usable core, pinned, with memory of its own that it touched first; all start together."""

from __future__ import annotations

import mmap
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from rooflens.errors import InputError

HUGE_BYTES = 2 << 20
"""Size of a large page of memory, to which each buffer is aligned."""

_PATIENCE_S = 120.0
"""Seconds after which a thread gives up waiting for the others."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory of one thread: its address, its size in bytes, and what keeps it alive."""

    address: int
    size: int
    owner: Any


def filled(size: int) -> Buffer:
    """A buffer of `size` bytes of random single-precision values from 0 to 1, aligned to a large page.

    Large pages are asked for where the system has them, so that address translation does not limit. Zeros would not
    do: systems map them to one page, and some memories compress them.

    Raises:
        InputError: the memory cannot be had.
    """
    import numpy as np

    try:
        region = mmap.mmap(-1, size + HUGE_BYTES)
    except (OSError, ValueError, OverflowError) as cause:
        raise InputError(f"{size:,} bytes of memory could not be had to measure with; close what holds it") from cause
    if hasattr(mmap, "MADV_HUGEPAGE"):
        region.madvise(mmap.MADV_HUGEPAGE)
    start = np.frombuffer(region, np.uint8).ctypes.data
    offset = -start % HUGE_BYTES
    values = np.frombuffer(region, np.float32, count=size // 4, offset=offset)
    block = np.random.default_rng().random(1 << 18, np.float32)
    for begin in range(0, values.size, block.size):
        part = values[begin : begin + block.size]
        part[:] = block[: part.size]
    return Buffer(start + offset, size, region)


class Team:
    """One thread for each of `cores`, pinned to it where the system allows, with a buffer of `size` bytes each.

    Raises:
        InputError: the memory cannot be had.
    """

    def __init__(self, cores: Sequence[int], size: int) -> None:
        self.cores = tuple(cores)
        self._start = threading.Barrier(len(self.cores))
        self._own = threading.local()
        self._waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        for core in self.cores:
            self._waiting.put(core)
        self._pool = ThreadPoolExecutor(len(self.cores))
        try:
            self._each(lambda: self._settle(size))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the threads and give their memory back."""
        self._pool.shutdown()
        self._own = threading.local()

    def seconds(self, work: Callable[[Buffer], object]) -> float:
        """Seconds from the first thread's start of `work` on its buffer to the last one's end."""
        spans = self._each(lambda: self._timed(work))
        return float(max(end for _, end in spans) - min(start for start, _ in spans))

    def _each(self, work: Callable[[], Any]) -> list[Any]:
        """What `work` returns in every thread; each waits for the others, so that none runs it twice."""
        return [future.result() for future in [self._pool.submit(work) for _ in self.cores]]

    def _settle(self, size: int) -> None:
        core = self._waiting.get()
        self._start.wait(_PATIENCE_S)
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {core})
        self._own.buffer = filled(size)

    def _timed(self, work: Callable[[Buffer], object]) -> tuple[float, float]:
        buffer = self._own.buffer
        self._start.wait(_PATIENCE_S)
        start = time.perf_counter()
        work(buffer)
        return start, time.perf_counter()
