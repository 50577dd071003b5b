"""Facts of this machine: processor, usable cores, caches, memory, torch; what cannot be told is said, not guessed."""

from __future__ import annotations

import hashlib
import os
from dataclasses import astuple, dataclass
from typing import Any

from rooflens.errors import InputError, MissingExtraError
from rooflens.live.device import full_name, present
from rooflens.live.processor import CacheLevel, caches, memory_bytes, processor, usable_cores


@dataclass(frozen=True, slots=True)
class Machine:
    """A device of this machine.

    device: as torch names it ("cpu", "cuda:0"). name, vendor: of the processor or accelerator, "" where not known.
    cores: logical cores of the processor. usable: the numbers of those that this process may use, fewer where a quota
    of a container allows fewer. torch_threads: those that torch computes with on the processor.
    caches: from the innermost. memory_bytes: of the device, what its driver or system reports.
    multiprocessors: of an accelerator. unknown: what could not be found out, one sentence each.
    """

    device: str
    name: str
    vendor: str
    cores: int
    usable: tuple[int, ...]
    caches: tuple[CacheLevel, ...]
    memory_bytes: int | None
    torch: str
    torch_threads: int
    multiprocessors: int | None = None
    unknown: tuple[str, ...] = ()

    @property
    def last_cache_bytes(self) -> int:
        """Bytes that all caches of the last level hold together, 0 where no cache is known."""
        return self.caches[-1].total_bytes if self.caches else 0


def load_torch() -> Any:
    """The module torch.

    Raises:
        MissingExtraError: torch is not installed.
    """
    try:
        import torch
    except ImportError as cause:
        raise MissingExtraError(
            f"measuring this machine needs torch, which could not be imported ({cause}); "
            "install the extra: pip install 'rooflens[measure]'"
        ) from cause
    return torch


def check_device(device: str) -> str:
    """The full name of `device` for torch, such as "cuda:0" for "cuda".

    Raises:
        InputError: torch knows no such device, or this machine has none; names those that are there.
        MissingExtraError: torch is not installed.
    """
    here = devices()
    name = full_name(device, here)
    if name is None:
        raise InputError(f"--device is {str(device)[:60]!r}; this machine has {', '.join(here)}")
    return name


def devices() -> tuple[str, ...]:
    """The devices of this machine that torch can compute on: "cpu" and, where there are any, accelerators."""
    return present(load_torch())


def machine(device: str = "cpu") -> Machine:
    """The facts of `device` on this machine.

    Raises:
        InputError: there is no such device. MissingExtraError: torch is not installed.
    """
    name = check_device(device)
    torch = load_torch()
    title, vendor = processor()
    usable = usable_cores()
    host = (os.cpu_count() or 1, usable)
    common = {"torch": str(torch.__version__), "torch_threads": int(torch.get_num_threads())}
    if name != "cpu":
        return _accelerator(torch, name, host, common)
    levels, memory = caches(usable), memory_bytes()
    known = {"processor's name": title, "sizes of its caches": levels, "size of its memory": memory}
    unknown = tuple(f"the {what} could not be found out" for what, value in known.items() if not value)
    return Machine("cpu", title, vendor, *host, levels, memory, **common, unknown=unknown)  # type: ignore[arg-type]


def _accelerator(torch: Any, name: str, host: tuple[int, tuple[int, ...]], common: dict[str, Any]) -> Machine:
    """The facts of a GPU as torch reports them."""
    if name == "mps":
        size = int(torch.mps.recommended_max_memory())
        said = ("the sizes of its caches could not be found out",)
        return Machine(name, processor()[0], "Apple", *host, (), size, **common, unknown=said)
    kind, _, index = name.partition(":")
    facts = getattr(torch, kind).get_device_properties(int(index))
    cache = int(getattr(facts, "L2_cache_size", 0))
    levels = (CacheLevel("L2", cache, 1, 1),) if cache else ()
    vendor = "Intel" if kind == "xpu" else "AMD" if torch.version.hip else "NVIDIA"
    units = int(getattr(facts, "multi_processor_count", 0)) or None
    unknown = tuple("the size of its L2 cache could not be found out" for _ in range(not cache))
    size = int(facts.total_memory)
    return Machine(name, facts.name, vendor, *host, levels, size, **common, multiprocessors=units, unknown=unknown)


def machine_key(device: str = "cpu") -> str:
    """A short name of this machine for files: another one for another processor, core or thread count, caches,
    memory or torch. It names no host.

    Raises:
        InputError: there is no such device. MissingExtraError: torch is not installed.
    """
    return key_of(machine(device))


def key_of(facts: Machine) -> str:
    """`machine_key` of facts that are known: the device, words of its name and a digest of everything."""
    digest = hashlib.sha256(repr(astuple(facts)).encode()).hexdigest()[:12]
    words = "".join(c if c.isascii() and c.isalnum() else "-" for c in f"{facts.device} {facts.name}".lower())
    return "-".join([*filter(None, words.split("-")), digest])[-80:].lstrip("-")
