"""Bandwidth of every level of the processor's memory, with compiled kernels on every usable core.

Bytes count as STREAM and likwid-bench count them: the arrays that the source line names, N for read, 2 N for copy,
3 N for triad; what the processor reads before an ordinary store (write-allocate) does not count.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from rooflens.live.machine import Machine
from rooflens.live.processor import available_bytes
from rooflens.live.repeats import Repeats, best
from rooflens.live.team import Buffer, Team
from rooflens.live.vector_ir import PATTERNS, VECTOR_BYTES, Pattern, compiled

UNROLLS = (4, 8)
"""Vectors in one step of a kernel; both are tried, the better one counts."""

CACHE_PATTERNS = ("read", "copy", "triad")
MEMORY_PATTERNS = (*CACHE_PATTERNS, "copy_nt", "triad_nt")

_PAGE = 4096
_STAGGER = 9 * VECTOR_BYTES
"""Bytes by which each array is moved on: loads and stores at one distance from a page compare equal in some cores."""

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


def array_bytes(pattern: Pattern, bytes_per_core: int, unroll: int) -> int:
    """Bytes of each array of a core whose arrays take `bytes_per_core` together: whole steps, at least one."""
    step = unroll * VECTOR_BYTES
    return max(bytes_per_core // pattern.streams // step, 1) * step


def swept_bytes(pattern: Pattern, array: int, cores: int, repeats: int) -> int:
    """Bytes that count: `repeats` sweeps of every core over its arrays of `array` bytes each."""
    return pattern.streams * array * cores * repeats


@dataclass(frozen=True, slots=True)
class Sweep:
    """A pattern with an unroll over `bytes_per_core`, on a team."""

    team: Team
    pattern: Pattern
    bytes_per_core: int
    unroll: int

    def rate(self, repeats: int) -> float:
        """byte/s of `repeats` sweeps by all cores at once."""
        return swept_bytes(self.pattern, self._array, len(self.team.cores), repeats) / self.seconds(repeats)

    def seconds(self, repeats: int) -> float:
        """Seconds of `repeats` sweeps by all cores at once."""
        kernel, array = compiled(self.pattern.name, self.unroll), self._array
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
        return array_bytes(self.pattern, self.bytes_per_core, self.unroll)


def team_for(machine: Machine) -> Team:
    """Threads whose buffers hold the largest set with its gaps.

    Raises:
        InputError: the memory cannot be had.
    """
    largest = max(one.bytes_per_core for one in working_sets(machine))
    return Team(machine.usable, largest + 4 * (_PAGE + _STAGGER))


def level_rates(
    team: Team, bytes_per_core: int, names: Sequence[str], *, rounds: int = 9, seconds: float = 0.02
) -> dict[str, Repeats]:
    """byte/s of each pattern over `bytes_per_core`, the better unroll of two; all in turn in every round.

    Every reading takes about `seconds`. Raises ImportError where llvmlite is not installed.
    """
    sweeps = [Sweep(team, PATTERNS[name], bytes_per_core, unroll) for name in names for unroll in UNROLLS]
    counts = [sweep.repeats_for(seconds) for sweep in sweeps]
    readings = [[sweep.rate(count) for sweep, count in zip(sweeps, counts, strict=True)] for _ in range(rounds)]
    found = [
        Repeats(tuple(rates), f"unroll {sweep.unroll}")
        for sweep, rates in zip(sweeps, zip(*readings, strict=True), strict=True)
    ]
    return {name: best(found[index * len(UNROLLS) :][: len(UNROLLS)]) for index, name in enumerate(names)}


def read_rate(team: Team, bytes_per_core: int, *, seconds: float) -> float:
    """byte/s of reading `bytes_per_core`: the median of three readings that take `seconds` together."""
    sweep = Sweep(team, PATTERNS["read"], bytes_per_core, UNROLLS[0])
    count = sweep.repeats_for(seconds / 3)
    return statistics.median(sweep.rate(count) for _ in range(3))
