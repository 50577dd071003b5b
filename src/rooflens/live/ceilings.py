"""This machine's own ceilings: matrix products, every level of memory, and the kernels that decode is made of.

Each figure is the median of the better half of its repeats (`Repeats` says why), beside the spread of all of them.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rooflens.core.hardware import Ceiling, Hardware, KernelShape, MemoryLevel
from rooflens.core.op import DType, Provenance
from rooflens.errors import InputError
from rooflens.frameworks import first_line
from rooflens.live import matmul, shaped
from rooflens.live.device import Device
from rooflens.live.levels import Levels, measured_levels
from rooflens.live.machine import Machine, load_torch, machine
from rooflens.live.memory import is_out_of_memory
from rooflens.live.repeats import Repeats

Progress = Callable[[str, float], None]
Conditions = tuple[tuple[str, str], ...]

_LOWEST_PEAK = 1e9
"""FLOP/s below which a product is no peak of any machine: torch emulates the dtype."""

_BEYOND_CACHES = 4
"""Times the last cache that operands of kernels exceed."""

_GPU_OPERANDS = 512 << 20


@dataclass
class _Steps:
    """Says which of `total` steps runs."""

    progress: Progress | None
    total: int
    done: int = 0

    def say(self, step: str) -> None:
        if self.progress is not None:
            self.progress(step, min(1.0, self.done / self.total))
        self.done += 1


def measure(
    device: str = "cpu",
    *,
    dtypes: Sequence[DType] | None = None,
    progress: Progress | None = None,
    conditions: Conditions = (),
) -> Hardware:
    """Measure `device` of this machine: about half a minute on two cores.

    Peaks come back in FLOP/s (OP/s for int8), rates in byte/s, sizes in bytes, each with its spread. dtypes: those to
    measure, all that torch runs unless given. progress: told each step and the share in 0..1 that is done.
    conditions: (name, value) of what held, beside processor, threads, torch and date. What could not be measured
    is a note.

    Raises:
        InputError: no such device, a dtype that cannot be measured, or memory that ran out.
        MissingExtraError: torch is not installed.
    """
    facts = machine(device)
    wanted = measurable(dtypes)
    if not facts.device.startswith("cuda"):
        wanted = tuple(dtype for dtype in wanted if dtype is not DType.TF32)
        if not wanted:
            raise InputError(f"the dtype tf32 cannot be measured on {facts.device}; GPUs alone multiply it")
    kernels = [dtype for dtype in wanted if dtype in shaped.DTYPES]
    steps = _Steps(progress, 1 + len(facts.caches) + len(wanted) + len(kernels) * len(KernelShape))
    with _memory_lasts(facts.device):
        levels = measured_levels(facts, steps.say)
        peaks, refused = _peaks(facts, wanted, steps)
        rates, unrun = _kernels(facts, kernels, steps)
    if dtypes is not None and not peaks:
        raise InputError(f"no peak could be measured on {facts.device}: {'; '.join(refused)}")
    if progress is not None:
        progress("done", 1.0)
    notes = (*facts.unknown, *levels.notes, *refused, *unrun)
    return _hardware(
        facts, levels, peaks, rates, notes=notes, conditions=(*_conditions(facts, levels), *_clean(conditions))
    )


def measurable(dtypes: Sequence[DType] | None) -> tuple[DType, ...]:
    """`dtypes` in the order in which they are measured; all of them for None.

    Raises:
        InputError: one that has no product in torch.
    """
    for dtype in dtypes or ():
        if dtype not in matmul.DTYPES:
            known = ", ".join(map(str, matmul.DTYPES))
            raise InputError(f"the dtype {dtype} cannot be measured; {known} can, where torch multiplies them")
    return tuple(dtype for dtype in matmul.DTYPES if dtypes is None or dtype in dtypes)


def _peaks(facts: Machine, dtypes: Sequence[DType], steps: _Steps) -> tuple[dict[DType, Ceiling], list[str]]:
    """Peaks by dtype, and why others have none."""
    found, refused = {}, []
    threads = f"{facts.torch_threads} threads" if facts.device == "cpu" else ""
    for dtype in dtypes:
        steps.say(f"{dtype} products")
        repeats = _tried(facts.device, lambda dtype=dtype: matmul.gemm_peak(facts.device, dtype))  # type: ignore[misc]
        if isinstance(repeats, str):
            refused.append(f"{dtype} has no peak: torch does not multiply it here ({repeats})")
        elif repeats.value < _LOWEST_PEAK:
            refused.append(f"{dtype} has no peak: torch emulates it here, at {repeats.value:.3g} FLOP/s")
        else:
            found[dtype] = repeats.ceiling(threads)
    return found, refused


def _kernels(
    facts: Machine, dtypes: Sequence[DType], steps: _Steps
) -> tuple[dict[tuple[KernelShape, DType], Ceiling], list[str]]:
    """Rates of kernels by shape and dtype, and why others have none."""
    found, refused = {}, []
    threads = f"{facts.torch_threads} threads" if facts.device == "cpu" else ""
    beyond = max(_BEYOND_CACHES * facts.last_cache_bytes, 0 if facts.device == "cpu" else _GPU_OPERANDS, 64 << 20)
    for dtype in dtypes:
        for shape in KernelShape:
            steps.say(f"{dtype} {shape}")
            work = lambda s=shape, d=dtype: shaped.shaped_rate(facts.device, s, d, beyond=beyond)  # noqa: E731
            repeats = _tried(facts.device, work)
            if isinstance(repeats, str):
                refused.append(f"{shape} in {dtype} has no rate: torch does not run it here ({repeats})")
            else:
                found[shape, dtype] = repeats.ceiling(threads)
    return found, refused


def _tried(device: str, work: Callable[[], Repeats]) -> Repeats | str:
    """What `work` measures, or in a few words why torch refuses it.

    Memory that ran out and a `device` that is gone are raised.
    """
    try:
        return work()
    except (RuntimeError, NotImplementedError, AttributeError, TypeError, ValueError) as error:
        if is_out_of_memory(error) or not Device(device).answers():
            raise
        words = " ".join((str(error).splitlines() or [""])[0].split())
        return "".join(c for c in words if c.isprintable())[:160] or type(error).__name__


@contextmanager
def _memory_lasts(device: str) -> Iterator[None]:
    """Turn memory that ran out, and a device that is gone, into one sentence."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise InputError(f"{device} failed while it was measured ({first_line(error)})") from error
        raise InputError(
            f"the memory of {device} ran out while it was measured; close what holds it, or measure fewer dtypes"
        ) from error


def _conditions(facts: Machine, levels: Levels) -> Conditions:
    affinity = ", ".join(map(str, facts.usable))
    values = {
        "processor" if facts.device == "cpu" else "device": facts.name,
        "cores": f"{len(facts.usable)} of {facts.cores} usable" if facts.device == "cpu" else "",
        "affinity": affinity if len(affinity) <= 200 else f"{affinity[:197]}...",
        "threads": f"{facts.torch_threads} of torch",
        "bandwidth threads": levels.how,
        "torch": facts.torch,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    }
    return tuple((name, value) for name, value in values.items() if value)


def _clean(conditions: Conditions) -> Conditions:
    """`conditions` as lines of printable text, without those that say nothing."""
    lines = [[" ".join(w for w in t.split() if w.isprintable()) for t in pair] for pair in conditions]
    return tuple((name, value) for name, value in lines if name and value)


def _hardware(
    facts: Machine,
    levels: Levels,
    peaks: Mapping[DType, Ceiling],
    rates: Mapping[tuple[KernelShape, DType], Ceiling],
    *,
    notes: Sequence[str],
    conditions: Conditions,
) -> Hardware:
    system = Provenance("driver", "the operating system" if facts.device == "cpu" else f"torch {facts.torch}")
    size = None if facts.memory_bytes is None else Ceiling(float(facts.memory_bytes), system)
    patterns = _ceilings(levels.memory, levels.how)
    caches = []
    for cache in facts.caches:
        own = _ceilings(levels.caches.get(cache.name, {}), levels.how)
        shared = f"each of {cache.instances} caches; {cache.sharers} usable cores share it" if cache.sharers > 1 else ""
        origin = Provenance("driver", system.source, shared)
        caches.append(MemoryLevel(cache.name, own.get("read"), Ceiling(float(cache.size_bytes), origin), own))
    units = None if facts.multiprocessors is None else Ceiling(float(facts.multiprocessors), system)
    return Hardware(
        name=_slug(facts),
        title=f"{facts.name or facts.device}, measured here",
        vendor=facts.vendor,
        architecture=architecture(facts),
        memory=MemoryLevel("memory" if facts.device == "cpu" else "device memory", patterns["read"], size, patterns),
        matrix=peaks,
        memory_driver=size,
        caches=tuple(caches),
        multiprocessors=units,
        device_names=(facts.name,) if facts.device != "cpu" and facts.name else (),
        notes=tuple(notes),
        origin="measured",
        kernels=rates,
        conditions=conditions,
    )


def _ceilings(rates: Mapping[str, Repeats], how: str) -> dict[str, Ceiling]:
    return {name: repeats.ceiling(how) for name, repeats in rates.items()}


def _slug(facts: Machine) -> str:
    """A name such as "amd-epyc-measured"."""
    words = "".join(c if c.isascii() and c.isalnum() else " " for c in (facts.name or facts.device).lower()).split()
    return "-".join([*words, "measured"])


def architecture(facts: Machine) -> str:
    """What torch calls the processor's instruction set, or the compute capability of an accelerator."""
    torch = load_torch()
    if facts.device == "cpu":
        return str(torch.backends.cpu.get_cpu_capability())
    if facts.device.startswith("cuda") and not torch.version.hip:
        major, minor = torch.cuda.get_device_capability(facts.device)
        return f"sm_{major}{minor}"
    return ""
