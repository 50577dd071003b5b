"""Every level of a device's memory: rates by pattern, and what was left out, said."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec

from rooflens.live.bandwidth import (
    CACHE_PATTERNS,
    MEMORY_PATTERNS,
    level_rates,
    memory_set,
    team_for,
    working_sets,
)
from rooflens.live.machine import Machine
from rooflens.live.repeats import Repeats
from rooflens.live.torch_bandwidth import torch_rates

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Levels:
    """Rates in byte/s by pattern, of memory and of caches by name; `how` they were read, and notes."""

    memory: Mapping[str, Repeats]
    how: str
    caches: Mapping[str, Mapping[str, Repeats]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def compiles() -> bool:
    """Whether kernels can be compiled here."""
    return find_spec("llvmlite") is not None


def measured_levels(facts: Machine, say: Say) -> Levels:
    """Rates of every level of `facts`; `say` is told each step.

    Raises:
        InputError: the memory to measure with cannot be had.
    """
    if facts.device != "cpu":
        return _accelerator(facts, say)
    if not compiles():
        say("memory")
        note = (
            "caches were not measured: llvmlite is missing, with which their kernels are compiled; memory was read "
            "through torch; install the extra: pip install 'rooflens[measure]'"
        )
        return Levels(torch_rates("cpu", memory_set(facts)), f"{facts.torch_threads} torch threads", {}, (note,))
    return _compiled(facts, say)


def _compiled(facts: Machine, say: Say) -> Levels:
    import os

    sets, rates = working_sets(facts), {}
    with team_for(facts) as team:
        for one in sets:
            say(one.name)
            names = MEMORY_PATTERNS if one.name == "memory" else CACHE_PATTERNS
            rates[one.name] = level_rates(team, one.bytes_per_core, names)
    threads = len(facts.usable)
    pinned = "pinned " if hasattr(os, "sched_setaffinity") else ""
    left = [cache.name for cache in facts.caches if cache.name not in rates]
    notes = [f"{name} was not measured: it is too small beside the level inside to be told from it" for name in left]
    if memory_set(facts) < 2 * facts.last_cache_bytes:
        notes.append("the memory that is free holds less than twice the last cache: its rates are partly the cache's")
    how = f"{threads} {pinned}thread{'s' if threads > 1 else ''}"
    return Levels(rates.pop("memory"), how, rates, tuple(notes))


def _accelerator(facts: Machine, say: Say) -> Levels:
    """Device memory over eight times its cache, at least 1 GiB, and the cache over half of it."""
    say("memory")
    total = max(8 * facts.last_cache_bytes, 1 << 30)
    memory = torch_rates(facts.device, min(total, (facts.memory_bytes or total) // 8))
    caches = {}
    for cache in facts.caches:
        say(cache.name)
        caches[cache.name] = torch_rates(facts.device, cache.size_bytes // 2)
    notes = ("rates of the cache include the launch of each kernel",) if caches else ()
    return Levels(memory, "torch", caches, notes)
