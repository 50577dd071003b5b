"""Bandwidth of every level of the processor's memory, with compiled kernels on every usable core.

Bytes count as STREAM and likwid-bench count them: the arrays that the source line names, N for read, 2 N for copy,
3 N for triad; what the processor reads before an ordinary store (write-allocate) does not count.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from rooflens.live.machine import Machine
from rooflens.live.processor import available_bytes
from rooflens.live.repeats import Repeats, best
from rooflens.live.team import Buffer, Team
from rooflens.live.vector_ir import LINE_BYTES, PATTERNS, Pattern, Step, compiled

STEPS = (Step(64, 4), Step(64, 8), Step(32, 4), Step(16, 8), Step(64, 1, runs=4), Step(16, 4, runs=2))
"""Steps that are tried: wide vectors are faster in caches; narrow ones, and several runs, keep prefetchers busier."""

READ_STEPS = (*STEPS, Step(8, 8))
"""Those of reading, where half of the narrowest vector is tried as well."""

CACHE_PATTERNS = ("read", "copy", "triad")
MEMORY_PATTERNS = (*CACHE_PATTERNS, "copy_nt", "triad_nt")

_PAGE = 4096
_STAGGER = 9 * LINE_BYTES
"""Bytes by which each array is moved on: loads and stores at one distance from a page compare equal in some cores."""

_SHORT_S = 3e-3
"""Seconds of a reading by which steps are ranked."""

SMALLEST_MEMORY_SET = 256 << 20


@dataclass(frozen=True, slots=True)
class WorkingSet:
    """The bytes of all arrays of one core that lie in the level `name`."""

    name: str
    bytes_per_core: int


def working_sets(machine: Machine) -> tuple[WorkingSet, ...]:
    """For every level whose set can be told from the level inside it, then for memory.

    A cache takes half of a core's share, at least twice the share of the level inside, and no more than nine tenths
    of its own. Memory takes eight times the last caches, at least 256 MiB, at most a quarter of what is available.
    """
    sets, inside = [], 0
    for cache in machine.caches:
        wanted = max(cache.bytes_per_core // 2, 2 * inside)
        if wanted <= 0.9 * cache.bytes_per_core:
            sets.append(WorkingSet(cache.name, wanted))
        inside = cache.bytes_per_core
    return (*sets, WorkingSet("memory", memory_set(machine) // len(machine.usable)))


def memory_set(machine: Machine) -> int:
    """Bytes that measure memory: eight times the last caches, within 256 MiB and a quarter of what is available."""
    wanted = max(8 * machine.last_cache_bytes, SMALLEST_MEMORY_SET)
    available = available_bytes()
    return wanted if available is None else min(wanted, available // 4)


def array_bytes(pattern: Pattern, bytes_per_core: int, step: Step) -> int:
    """Bytes of each array of a core whose arrays take `bytes_per_core` together: whole steps, at least one."""
    return max(bytes_per_core // pattern.streams // step.size, 1) * step.size


def swept_bytes(pattern: Pattern, array: int, cores: int, repeats: int) -> int:
    """Bytes that count: `repeats` sweeps of every core over its arrays of `array` bytes each."""
    return pattern.streams * array * cores * repeats


@dataclass(frozen=True, slots=True)
class Sweep:
    """A pattern in steps over `bytes_per_core`, on a team."""

    team: Team
    pattern: Pattern
    bytes_per_core: int
    step: Step

    def rate(self, repeats: int) -> float:
        """byte/s of `repeats` sweeps by all cores at once."""
        return swept_bytes(self.pattern, self._array, len(self.team.cores), repeats) / self.seconds(repeats)

    def seconds(self, repeats: int) -> float:
        """Seconds of `repeats` sweeps by all cores at once."""
        kernel, array = compiled(self.pattern.name, self.step), self._array
        stride = -(-array // _PAGE) * _PAGE + _STAGGER

        def work(buffer: Buffer) -> None:
            places = [buffer.address + index * stride for index in range(4)]
            kernel(*places, array, repeats)

        return self.team.seconds(work)

    def repeats_for(self, seconds: float) -> int:
        """How many sweeps take about `seconds`."""
        repeats, taken = 1, self.seconds(1)
        while taken < min(seconds, 2e-3):
            repeats, taken = 4 * repeats, self.seconds(4 * repeats)
        return max(1, round(repeats * seconds / taken))

    @property
    def _array(self) -> int:
        return array_bytes(self.pattern, self.bytes_per_core, self.step)


def team_for(machine: Machine) -> Team:
    """Threads whose buffers hold the largest set with its gaps.

    Raises:
        InputError: the memory cannot be had.
    """
    largest = max(one.bytes_per_core for one in working_sets(machine))
    return Team(machine.usable, largest + 4 * (_PAGE + _STAGGER))


def level_rates(
    team: Team, bytes_per_core: int, names: Sequence[str], *, rounds: int = 9, seconds: float = 0.015
) -> dict[str, Repeats]:
    """byte/s of each pattern over `bytes_per_core`, in its fastest steps; patterns take turns in every round.

    Every reading takes about `seconds`. Raises ImportError where llvmlite is not installed.
    """
    chosen = [(sweep, count) for name in names for sweep, count in fastest(team, name, bytes_per_core, seconds)]
    readings = [[sweep.rate(count) for sweep, count in chosen] for _ in range(rounds)]
    found: dict[str, list[Repeats]] = {name: [] for name in names}
    for (sweep, _), rates in zip(chosen, zip(*readings, strict=True), strict=True):
        found[sweep.pattern.name].append(Repeats(tuple(rates), f"steps of {sweep.step}"))
    return {name: best(repeats) for name, repeats in found.items()}


def fastest(team: Team, name: str, bytes_per_core: int, seconds: float, *, keep: int = 2) -> list[tuple[Sweep, int]]:
    """The `keep` fastest sweeps of a pattern, with how many of them fill `seconds`.

    They are ranked by the best of eight short readings, all steps in turn, so that what else runs hits all alike.
    """
    steps = READ_STEPS if name == "read" else STEPS
    sweeps = [Sweep(team, PATTERNS[name], bytes_per_core, step) for step in steps]
    short = min(seconds, _SHORT_S)
    counts = [sweep.repeats_for(short) for sweep in sweeps]
    readings = [[sweep.rate(count) for sweep, count in zip(sweeps, counts, strict=True)] for _ in range(8)]
    ranked = sorted(range(len(sweeps)), key=lambda index: -max(row[index] for row in readings))
    return [(sweeps[i], max(1, round(counts[i] * seconds / short))) for i in ranked[:keep]]


def read_rate(team: Team, bytes_per_core: int, *, seconds: float) -> float:
    """byte/s of reading `bytes_per_core` once, in the fastest steps: their median over rounds.

    Every round tries all steps; rounds go on until `seconds` are over, two at least.
    """
    sweeps = [Sweep(team, PATTERNS["read"], bytes_per_core, step) for step in READ_STEPS]
    readings: list[list[float]] = []
    end = time.perf_counter() + seconds
    while len(readings) < 2 or time.perf_counter() < end:
        readings.append([sweep.rate(1) for sweep in sweeps])
    return float(max(statistics.median(rates) for rates in zip(*readings, strict=True)))
