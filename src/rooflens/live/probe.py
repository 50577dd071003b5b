"""A short look at the machine before and after a run: does it still reach its stored ceilings?"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from rooflens.core.hardware import Ceiling, Hardware
from rooflens.core.op import DType, Provenance
from rooflens.core.profile import Finding
from rooflens.live import matmul
from rooflens.live.bandwidth import memory_set, read_rate, team_for
from rooflens.live.clock import Clock
from rooflens.live.device import Device
from rooflens.live.levels import compiles
from rooflens.live.machine import Machine, load_torch, machine
from rooflens.live.memory import is_out_of_memory
from rooflens.live.repeats import Repeats, best
from rooflens.live.torch_bandwidth import torch_rates
from rooflens.units import si

MOVED = 0.10
"""Share of a stored ceiling by which probes may miss it."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What the machine reached at one moment: FLOP/s of a matrix product, byte/s of reading memory.

    gemm_flops_per_s is None for a dtype that torch does not multiply on the device.
    """

    gemm_flops_per_s: float | None
    read_bytes_per_s: float


def probe(device: str, dtype: DType, *, seconds: float = 0.15) -> Probe:
    """Measure the product in `dtype` and the read of memory with the kernels of the ceilings, `seconds` for each.

    Operands are made first, which takes about as long again; the memory of the read is as large as for the ceilings.

    Raises:
        InputError: no such device, or too little memory. MissingExtraError: torch is not installed.
    """
    facts = machine(device)
    return Probe(_gemm(facts.device, dtype, seconds), _read(facts, seconds))


def _gemm(device: str, dtype: DType, seconds: float) -> float | None:
    """FLOP/s of the largest square product that fits into `seconds`; on a GPU the best of `GPU_SIZES`."""
    if dtype not in matmul.DTYPES:
        return None
    torch, clock = load_torch(), Clock(device)
    try:
        with matmul.arithmetic(torch, dtype):
            return max(_product(clock, dtype, size, seconds) for size in _sizes(device, dtype, seconds))
    except (RuntimeError, NotImplementedError, AttributeError) as error:
        if is_out_of_memory(error) or not Device(device).answers():
            raise
        return None


@lru_cache(maxsize=32)
def _sizes(device: str, dtype: DType, longest_s: float) -> tuple[int, ...]:
    """Sizes of the product, found once in a process, so that probes before and after a run are of the same ones."""
    if device != "cpu":
        return matmul.GPU_SIZES
    return tuple(matmul.fitting_sizes(load_torch(), Clock(device), dtype, longest_s)[-1:])


def _product(clock: Clock, dtype: DType, size: int, seconds: float) -> float:
    """FLOP/s of the product at one size, in about `seconds`: of its repeats as of those of a ceiling."""
    calls = matmul.ways(load_torch(), clock.device, dtype, size)
    once = [min(clock.seconds(call, 2)) for call in calls.values()]
    repeats = max(2, round(seconds / sum(once)))
    again = (Repeats(tuple(2 * size**3 / s for s in clock.seconds(call, repeats))) for call in calls.values())
    return best(tuple(again)).value


def _read(facts: Machine, seconds: float) -> float:
    """byte/s of reading memory."""
    if facts.device != "cpu" or not compiles():
        total = max(8 * facts.last_cache_bytes, 1 << 30) if facts.device != "cpu" else memory_set(facts)
        return max(torch_rates(facts.device, total, rounds=3, seconds=seconds / 3, names=("read",))["read"].rates)
    with team_for(facts) as team:
        return read_rate(team, memory_set(facts) // len(facts.usable), seconds=seconds)


def agreed(stored: Hardware, probes: Sequence[Probe], dtype: DType) -> tuple[Hardware, tuple[Finding, ...]]:
    """`stored` with what `probes` reached in place of the peak of `dtype` and of the memory's rate, where they miss it.

    A figure is missed where the median of the probes lies more than a tenth of it above or below; a finding then says
    both. Without probes, and for a figure that `stored` does not have, nothing changes.
    """
    part, findings = stored, []
    products = [one.gemm_flops_per_s for one in probes if one.gemm_flops_per_s is not None]
    peak = stored.matrix.get(dtype)
    moved = peak and _moved(peak, products, "FLOP/s")
    if peak and moved:
        part = replace(part, matrix={**part.matrix, dtype: moved})
        findings.append(_finding(f"peak in {dtype}", peak, moved, "FLOP/s"))
    rate = stored.memory.bandwidth
    moved = rate and _moved(rate, [one.read_bytes_per_s for one in probes], "B/s")
    if rate and moved:
        part = replace(part, memory=replace(part.memory, bandwidth=moved))
        findings.append(_finding("bandwidth of memory", rate, moved, "B/s"))
    return part, tuple(findings)


def _moved(stored: Ceiling, seen: Sequence[float], unit: str) -> Ceiling | None:
    """What the probes saw, or None where that is the stored figure to within a tenth."""
    if not seen or abs(statistics.median(seen) / stored.value - 1) <= MOVED:
        return None
    value = statistics.median(seen)
    note = f"median of {len(seen)} probes beside the run, in place of the kept {si(stored.value, unit)}"
    spread = (max(seen) - min(seen)) / value if len(seen) > 1 else None
    return Ceiling(value, Provenance("measured", "measured here", note), spread)


def _finding(figure: str, stored: Ceiling, moved: Ceiling, unit: str) -> Finding:
    text = (
        f"The {figure} is {si(moved.value, unit)} beside this run and {si(stored.value, unit)} in the stored ceilings: "
        "the machine is in another state, and the figure beside the run counts; `rooflens ceilings --fresh` measures "
        "again."
    )
    return Finding("warning", "ceiling_moved", text)
