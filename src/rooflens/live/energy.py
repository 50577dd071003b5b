"""Energy counters of a device: RAPL of a CPU's packages, the total energy that NVML counts of a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rooflens.live.amd import amd_cards
from rooflens.live.facts import SLASH, is_rocm, parse_device, read_line
from rooflens.live.nvml import Gpu, open_gpu


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy of a stretch in joules, with the counter it comes from, or None and the reason in one sentence."""

    joules: float | None
    source: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """Counters of one moment, each as (name, count) in units of its own; `reason` where there are none."""

    counts: tuple[tuple[str, int], ...]
    reason: str = ""


class _Counter(Protocol):
    @property
    def source(self) -> str: ...
    @property
    def least_s(self) -> float: ...
    def read(self) -> Reading: ...
    def joules(self, start: Reading, end: Reading) -> float: ...


class EnergyMeter:
    """The energy counters of a device: `start = meter.read()`, the stretch, then `meter.joules_since(start)`.

    A counter knows no process: it counts everything that the packages or the GPU did, idle power included. RAPL is
    updated about every millisecond, NVML's counter at an interval that NVIDIA does not publish: a stretch in which it
    did not move has no energy. A counter that wraps around more than once in a stretch cannot tell: RAPL's does after
    max_energy_range_uj, often 66 kJ or 262 kJ, which are 4 and 17 minutes at 250 W.
    """

    def __init__(self, device: str, *, root: Path = SLASH) -> None:
        """Find the counters of `device`, a name of torch's; a device without any still has a meter, which says why.

        Raises: InputError for a device that has no such name.
        """
        self._counter = _counter(device, root)

    @property
    def source(self) -> str:
        """The counter that is read, in words; "none" where there is none."""
        return self._counter.source

    @property
    def least_s(self) -> float:
        """Seconds that stretches must take together for their energy to mean something: many updates of the counter.

        NVML's is updated some ten times a second where it was looked at, RAPL's a thousand times.
        """
        return self._counter.least_s

    def read(self) -> Reading:
        """The counters now."""
        return self._counter.read()

    def joules_since(self, start: Reading) -> Energy:
        """Joules since `start`, which this meter read; one wrap-around between the two is put right."""
        end = self.read()
        reason = start.reason or end.reason
        if not reason and [name for name, _ in start.counts] != [name for name, _ in end.counts]:
            reason = "the two readings hold different counters, so that they have no difference"
        if reason:
            return Energy(None, self.source, reason)
        joules = self._counter.joules(start, end)
        if joules > 0:
            return Energy(joules, self.source)
        return Energy(None, self.source, "the counter did not move; a longer stretch would show its energy")


@dataclass(frozen=True, slots=True)
class _Absent:
    reason: str
    source: str = "none"
    least_s: float = 0.0

    def read(self) -> Reading:
        return Reading((), self.reason)

    def joules(self, start: Reading, end: Reading) -> float:
        """Never asked: its readings have a reason."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class _Rapl:
    """RAPL zones of packages: `zones` are (name, folder, microjoules at which the counter wraps)."""

    zones: tuple[tuple[str, Path, int], ...]
    left_out: tuple[str, ...]
    least_s: float = 0.02

    @property
    def source(self) -> str:
        names = " + ".join(name for name, _, _ in self.zones)
        return f"RAPL {names}" + (f", without {', '.join(self.left_out)}" if self.left_out else "")

    def read(self) -> Reading:
        counts = []
        for name, folder, _ in self.zones:
            try:
                counts.append((name, int((folder / "energy_uj").read_text())))
            except PermissionError:
                return Reading((), f"energy_uj of {name} can be read by root alone, as Linux has it since 5.10")
            except (OSError, ValueError) as error:
                return Reading((), f"energy_uj of {name} cannot be read: {error}")
        return Reading(tuple(counts))

    def joules(self, start: Reading, end: Reading) -> float:
        """Sum over the packages of (end - start), plus the range of the counter where it wrapped."""
        before, after = dict(start.counts), dict(end.counts)
        spent = 0
        for name, _, span in self.zones:
            difference = after[name] - before[name]
            spent += difference if difference >= 0 else difference + span
        return spent / 1e6


@dataclass(frozen=True, slots=True)
class _Nvml:
    gpu: Gpu
    source: str = "NVML total energy"
    least_s: float = 1.0

    def read(self) -> Reading:
        try:
            return Reading((("total", self.gpu.ask("nvmlDeviceGetTotalEnergyConsumption")),))
        except self.gpu.library.NVMLError as error:
            return Reading((), f"NVML answered {str(error)!r} for total energy, which GPUs since Volta count")

    def joules(self, start: Reading, end: Reading) -> float:
        """Millijoules since the driver was loaded, subtracted."""
        return (end.counts[0][1] - start.counts[0][1]) / 1e3


def _counter(device: str, root: Path) -> _Counter:
    """Source: NVML API reference, nvmlDeviceGetTotalEnergyConsumption: mJ since the driver was loaded."""
    asked = parse_device(device)
    if asked.kind == "cpu":
        return _rapl(root)
    if asked.kind == "mps":
        return _Absent("macOS shows the energy of an Apple GPU to root alone, through powermetrics")
    if asked.kind == "xpu":
        return _Absent("the energy of an Intel GPU is not read here")
    amd = "the amdgpu driver shows power, but no energy counter"
    if is_rocm():
        return _Absent(amd)
    gpu = open_gpu(asked.index)
    if gpu.handle is not None:
        return _Nvml(gpu)
    return _Absent(amd if gpu.library is None and amd_cards(root) else gpu.reason)


def _rapl(root: Path) -> _Counter:
    """The package zones under `root`, each die once.

    psys counts the packages again with the rest of the board, the MMIO interface (intel-rapl-mmio) the same package
    again, core and uncore are parts of a package: none is summed. dram lies outside of a package; the source names it
    as left out.

    Source: Linux kernel, Documentation/power/powercap/powercap.rst; Intel SDM volume 3B, "RAPL Domains". AMD's
    packages have the same zone names since Linux 5.8.
    """
    folder = root / "sys/class/powercap"
    zones, outside = [], []
    for zone in sorted(folder.glob("intel-rapl:*")):
        name = _text(zone / "name")
        nested = zone.name.count(":") > 1
        if name.startswith("package") and not nested:
            zones.append((name, zone, _text(zone / "max_energy_range_uj")))
        elif name == "dram":
            outside.append(name)
    if not zones:
        return _Absent("the kernel shows no RAPL package under /sys/class/powercap, as in most virtual machines")
    if any(not span.isdigit() for _, _, span in zones):
        return _Absent("a RAPL package does not tell max_energy_range_uj, by which a wrap-around is put right")
    return _Rapl(tuple((name, zone, int(span)) for name, zone, span in zones), tuple(dict.fromkeys(outside)))


def _text(path: Path) -> str:
    return read_line(path) or ""
