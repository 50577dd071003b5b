"""Named ranges that a GPU trace shows: NVTX on CUDA, roctx on ROCm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rooflens.live.facts import gpu_torch


@contextmanager
def range(name: str) -> Iterator[None]:  # noqa: A001 (the name that NVTX gives it)
    """Mark what runs inside as `name`, such as "prefill" or "decode", where the loaded torch sees a GPU.

    On a CPU it does nothing, and it never imports torch. A torch that is built without NVTX leaves the mark to the
    package nvtx; where that is not installed either, nothing is marked.

    Source: torch.cuda.nvtx, PyTorch documentation; a ROCm build maps the same calls to roctx.
    """
    torch = gpu_torch()
    if torch is None:
        yield
        return
    pop = _push(torch, name)
    try:
        yield
    finally:
        pop()


def _push(torch: Any, name: str) -> Callable[[], Any]:
    """Open the range; what comes back closes it."""
    try:
        torch.cuda.nvtx.range_push(name)
    except RuntimeError:
        return _push_package(name)
    else:
        pop: Callable[[], Any] = torch.cuda.nvtx.range_pop
        return pop


def _push_package(name: str) -> Callable[[], Any]:
    try:
        import nvtx
    except ImportError:
        return lambda: None
    nvtx.push_range(name)
    pop: Callable[[], Any] = nvtx.pop_range
    return pop
