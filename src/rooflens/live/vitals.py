"""What a machine tells of its state now: clocks, power, temperature, what holds the clocks down."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rooflens.live.amd import amd_cards, hwmon
from rooflens.live.facts import SLASH, Fact, is_rocm, parse_device, read_line, read_number
from rooflens.live.nvml import Gpu, decode_reasons, open_gpu

_MHZ = re.compile(r"^cpu MHz\s*:\s*([\d.]+)", re.MULTILINE)


def vitals(device: str, *, root: Path = SLASH) -> tuple[tuple[str, str], ...]:
    """Facts of the state of `device` now, as pairs of a name and a text with its unit (MHz, W, °C).

    `device` is a name of torch's. A fact that the machine does not tell is left out, and `missing` says why. Nothing is
    set.

    Raises: InputError for a device that has no such name.
    """
    return tuple((fact.name, fact.value) for fact in facts(device, root) if fact.value is not None)


def missing(device: str, *, root: Path = SLASH) -> tuple[tuple[str, str], ...]:
    """Facts that `vitals` leaves out, as pairs of a name and the reason, one sentence each.

    Raises: InputError for a device that has no such name.
    """
    return tuple((fact.name, fact.reason) for fact in facts(device, root) if fact.value is None)


def facts(device: str, root: Path = SLASH) -> tuple[Fact, ...]:
    """Every fact that is asked of `device`, told or not.

    Raises: InputError for a device that has no such name.
    """
    asked = parse_device(device)
    if asked.kind == "mps":
        return (
            Fact("state", None, "macOS shows clocks and power of an Apple GPU to root alone, through powermetrics"),
        )
    if asked.kind == "xpu":
        return (Fact("state", None, "the state of an Intel GPU is not read here"),)
    if asked.kind == "cpu":
        return (*_clock(root), _governor(root), *_throttled(root), _load())
    if is_rocm():
        return _amd_facts(root, asked.index)
    gpu = open_gpu(asked.index)
    if gpu.handle is None and gpu.library is None and amd_cards(root):
        return _amd_facts(root, asked.index)
    return _nvml_facts(gpu)


def _cores(root: Path) -> list[Path]:
    return sorted((root / "sys/devices/system/cpu").glob("cpu[0-9]*"))


def _span(values: list[float]) -> str:
    low, high = round(min(values)), round(max(values))
    one = f"{low} MHz" if low == high else f"{low} to {high} MHz"
    return f"{one} over {len(values)} logical CPUs"


def _clock(root: Path) -> tuple[Fact, ...]:
    """Clocks from cpufreq in kHz, or from /proc/cpuinfo, which says where it comes from."""
    cores = _cores(root)
    now = [khz / 1e3 for core in cores if (khz := read_number(core / "cpufreq/scaling_cur_freq"))]
    most = [khz / 1e3 for core in cores if (khz := read_number(core / "cpufreq/cpuinfo_max_freq"))]
    told = [float(mhz) for mhz in _MHZ.findall(read_line(root / "proc/cpuinfo") or "")]
    no_max = "the kernel has no cpufreq driver for this CPU, as in most virtual machines"
    ceiling = Fact("CPU clock max", _span(most)) if most else Fact("CPU clock max", None, no_max)
    if now:
        return Fact("CPU clock now", _span(now)), ceiling
    if told:
        return Fact("CPU clock now", f"{_span(told)} (/proc/cpuinfo)"), ceiling
    return Fact("CPU clock now", None, "neither cpufreq nor /proc/cpuinfo tells a clock"), ceiling


def _governor(root: Path) -> Fact:
    found = {read_line(core / "cpufreq/scaling_governor") for core in _cores(root)} - {None}
    if not found:
        return Fact("CPU governor", None, "the kernel has no cpufreq driver for this CPU, as in most virtual machines")
    return Fact("CPU governor", ", ".join(sorted(str(name) for name in found)))


def _throttled(root: Path) -> tuple[Fact, ...]:
    """Thermal throttle events since boot: cores summed; a package tells each of its cores the same count.

    Source: Linux kernel, Documentation/ABI/testing/sysfs-devices-system-cpu, thermal_throttle (Intel alone).
    """
    packages: dict[int, int] = {}
    cores, told = 0, False
    for core in _cores(root):
        count = read_number(core / "thermal_throttle/core_throttle_count")
        if count is None:
            continue
        told, cores = True, cores + count
        package = read_number(core / "topology/physical_package_id") or 0
        shared = read_number(core / "thermal_throttle/package_throttle_count") or 0
        packages[package] = max(packages.get(package, 0), shared)
    if not told:
        return (Fact("CPU thermal throttles", None, "the kernel counts none for this CPU, as it does on Intel alone"),)
    text = f"{cores} core and {sum(packages.values())} package events since boot"
    return (Fact("CPU thermal throttles", text),)


def _load() -> Fact:
    average: Callable[[], tuple[float, float, float]] | None = getattr(os, "getloadavg", None)
    try:
        if average is not None:
            return Fact("load average", "{:.2f} over 1 min, {:.2f} over 5 min, {:.2f} over 15 min".format(*average()))
    except OSError:
        pass
    return Fact("load average", None, "the operating system keeps none")


def _nvml_facts(gpu: Gpu) -> tuple[Fact, ...]:
    """Source: NVML API reference, "Device Queries": clocks in MHz, power in mW, temperature in °C."""
    if gpu.handle is None:
        return (Fact("GPU state", None, gpu.reason),)
    lib = gpu.library
    sm, memory, chip = (getattr(lib, f"NVML_{name}") for name in ("CLOCK_SM", "CLOCK_MEM", "TEMPERATURE_GPU"))
    clock, ceiling = ("nvmlDeviceGetClockInfo",), ("nvmlDeviceGetMaxClockInfo",)
    reasons = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
    rows: tuple[tuple[str, Callable[[Any], str], tuple[str, ...], tuple[Any, ...]], ...] = (
        ("SM clock now", _mhz, clock, (sm,)),
        ("SM clock max", _mhz, ceiling, (sm,)),
        ("memory clock now", _mhz, clock, (memory,)),
        ("memory clock max", _mhz, ceiling, (memory,)),
        ("power draw", _watts, ("nvmlDeviceGetPowerUsage",), ()),
        ("power limit", _watts, ("nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit"), ()),
        ("temperature", _celsius, ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature"), (chip,)),
        ("clocks held down by", decode_reasons, reasons, ()),
        ("ECC", _switch, ("nvmlDeviceGetEccMode",), ()),
        ("MIG", _switch, ("nvmlDeviceGetMigMode",), ()),
    )
    return tuple(_asked(gpu, name, show, functions=functions, args=args) for name, show, functions, args in rows)


def _asked(
    gpu: Gpu, name: str, show: Callable[[Any], str], *, functions: tuple[str, ...], args: tuple[Any, ...]
) -> Fact:
    try:
        return Fact(name, show(gpu.ask(*functions, args=args)))
    except gpu.library.NVMLError as error:
        return Fact(name, None, f"NVML answered {str(error)!r} to {functions[0]}")


def _mhz(value: int) -> str:
    return f"{value} MHz"


def _watts(milliwatts: int) -> str:
    return f"{milliwatts / 1e3:.1f} W"


def _celsius(value: int) -> str:
    return f"{value} °C"


def _switch(modes: tuple[int, int]) -> str:
    """The current of the current and the pending mode."""
    return "on" if modes[0] else "off"


def _amd_facts(root: Path, index: int | None) -> tuple[Fact, ...]:
    """Source: amdgpu hwmon interfaces: freq in Hz, power in microwatts, temperature in millidegrees Celsius."""
    folder, reason = hwmon(root, index)
    if folder is None:
        return (Fact("GPU state", None, reason),)
    rows: tuple[tuple[str, tuple[str, ...], float, str], ...] = (
        ("shader clock now", ("freq1_input",), 1e6, "MHz"),
        ("memory clock now", ("freq2_input",), 1e6, "MHz"),
        ("power draw", ("power1_average", "power1_input"), 1e6, "W"),
        ("power limit", ("power1_cap",), 1e6, "W"),
        ("temperature", ("temp1_input",), 1e3, "°C"),
    )
    return tuple(_hwmon_fact(folder, name, files, divisor=divisor, unit=unit) for name, files, divisor, unit in rows)


def _hwmon_fact(folder: Path, name: str, files: tuple[str, ...], *, divisor: float, unit: str) -> Fact:
    found = next((value for file in files if (value := read_number(folder / file)) is not None), None)
    if found is None:
        return Fact(name, None, f"the driver shows no readable {' or '.join(files)}")
    digits = 1 if unit == "W" else 0
    return Fact(name, f"{found / divisor:.{digits}f} {unit}")
