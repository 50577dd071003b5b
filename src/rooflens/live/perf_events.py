"""Events of Linux perf that a roofline asks for, and what one count of each stands for."""

from __future__ import annotations

from dataclasses import dataclass

GENERIC, INTEL, INTEL_512, AMD = "generic", "Intel core", "Intel AVX-512", "AMD core"
MEMORY = "Intel memory controller"
_KERNEL = "man perf_event_open, PERF_TYPE_HARDWARE and PERF_TYPE_HW_CACHE"
_INTEL = "Intel perfmon event files, FP_ARITH_INST_RETIRED: a fused multiply-add counts twice"
_AMD = "AMD Processor Programming Reference, PMCx003 FpRetSseAvxOps: FLOP, a fused multiply-add counts twice"
_IMC = "Linux kernel, Intel uncore driver: 64 bytes for each CAS command, which perf prints as MiB"


@dataclass(frozen=True, slots=True)
class Event:
    """An event by the name that perf takes.

    family: events that a machine has together or not at all. flop: FLOP of one count, 0 for an event that counts none.
    machine_wide: the counter belongs to the machine and not to a process.
    """

    name: str
    family: str
    meaning: str
    source: str
    flop: int = 0
    machine_wide: bool = False


def _arith(width: str, bits: int, flop: int) -> Event:
    family = INTEL_512 if bits == 512 else INTEL
    return Event(f"fp_arith_inst_retired.{width}", family, f"arithmetic on {bits} bits at once", _INTEL, flop)


EVENTS: tuple[Event, ...] = (
    Event("instructions", GENERIC, "retired instructions", _KERNEL),
    Event("cycles", GENERIC, "core cycles while not halted", _KERNEL),
    Event("cache-misses", GENERIC, "misses of the last-level cache, on most CPUs", _KERNEL),
    Event("LLC-load-misses", GENERIC, "loads that miss the last-level cache, without prefetches", _KERNEL),
    _arith("scalar_single", 32, 1),
    _arith("scalar_double", 64, 1),
    _arith("128b_packed_single", 128, 4),
    _arith("128b_packed_double", 128, 2),
    _arith("256b_packed_single", 256, 8),
    _arith("256b_packed_double", 256, 4),
    _arith("512b_packed_single", 512, 16),
    _arith("512b_packed_double", 512, 8),
    Event("fp_ret_sse_avx_ops.all", AMD, "FLOP of SSE and AVX", _AMD, flop=1),
    Event("uncore_imc/cas_count_read/", MEMORY, "bytes read from DRAM", _IMC, machine_wide=True),
    Event("uncore_imc/cas_count_write/", MEMORY, "bytes written to DRAM", _IMC, machine_wide=True),
)
"""The table. Tile (AMX) and integer dot-product instructions are in none of the FLOP events."""

FAMILIES: tuple[str, ...] = (GENERIC, INTEL, INTEL_512, AMD, MEMORY)


def of_family(family: str) -> tuple[Event, ...]:
    """Events of one family."""
    return tuple(event for event in EVENTS if event.family == family)
