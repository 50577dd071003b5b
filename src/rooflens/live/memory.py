"""How much memory is free: what a model must fit into before it is loaded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rooflens.errors import InputError
from rooflens.frameworks import first_line
from rooflens.live.device import Device
from rooflens.units import binary

_CGROUP = Path("/sys/fs/cgroup")


def free_bytes(device: Device) -> int | None:
    """Bytes that `device` has free, or None where the system does not tell."""
    if device.kind in ("cuda", "xpu"):
        return _free_on_gpu(device)
    host = free_host_bytes()
    if device.kind != "mps" or host is None:
        return host
    import torch

    return min(host, int(torch.mps.recommended_max_memory()) - int(torch.mps.driver_allocated_memory()))


def _free_on_gpu(device: Device) -> int | None:
    """What the driver has free, and what torch keeps of it without using it.

    Source: torch.cuda.mem_get_info, memory_reserved and memory_allocated; torch.xpu has the same functions.
    """
    import torch

    backend = getattr(torch, device.kind)
    try:
        free = int(backend.mem_get_info(device.name)[0])
    except (RuntimeError, AttributeError):
        return None
    return free + int(backend.memory_reserved(device.name)) - int(backend.memory_allocated(device.name))


def free_host_bytes(root: Path = Path("/"), cgroup: Path = _CGROUP) -> int | None:
    """Bytes of host memory that can be taken without swapping, within the limit of a control group.

    Source: proc(5), MemAvailable of /proc/meminfo; cgroups v2, memory.max and memory.current.
    """
    found = [value for value in (_available(root / "proc/meminfo"), _left(cgroup)) if value is not None]
    return min(found) if found else _pages()


def _available(path: Path) -> int | None:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    kib = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return int(kib) * 1024 if kib else None


def _left(cgroup: Path) -> int | None:
    try:
        limit, used = ((cgroup / name).read_text().strip() for name in ("memory.max", "memory.current"))
    except OSError:
        return None
    return int(limit) - int(used) if limit.isdigit() and used.isdigit() else None


def _pages() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def check_fits(needed: int, device: Device, what: str) -> None:
    """Refuse what does not fit into the free memory of `device` before anything is taken.

    Raises:
        InputError: with both sizes.
    """
    free = free_bytes(device)
    if free is not None and needed > free:
        raise InputError(
            f"{what} needs about {binary(needed)} and {device.name} has {binary(free)} free; "
            "take a smaller dtype, batch or prompt, or a slice of the model with --layers"
        )


def is_out_of_memory(cause: BaseException) -> bool:
    """Whether `cause` is torch's or Python's word for no more memory."""
    import torch

    kinds: tuple[Any, ...] = (MemoryError, getattr(torch, "OutOfMemoryError", MemoryError))
    said = str(cause).lower()
    return isinstance(cause, kinds) or any(words in said for words in _NO_MEMORY)


_NO_MEMORY = ("out of memory", "can't allocate memory", "cublas_status_alloc_failed", "hipblas_status_alloc_failed")


def why(cause: BaseException) -> str:
    """What an error of a run says, in one line."""
    return "out of memory" if is_out_of_memory(cause) else first_line(cause)
