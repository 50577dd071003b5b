"""The processor as the system describes it: name, cores that may be used, caches, memory."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

CPUS = Path("/sys/devices/system/cpu")
CGROUPS = Path("/sys/fs/cgroup")
_SUFFIXES = {"K": 2**10, "M": 2**20, "G": 2**30}


@dataclass(frozen=True, slots=True)
class CacheLevel:
    """A level of cache: `size_bytes` of one cache, which `sharers` usable cores share; `instances` of them in use."""

    name: str
    size_bytes: int
    sharers: int
    instances: int

    @property
    def total_bytes(self) -> int:
        """Bytes that all caches of the level hold together."""
        return self.size_bytes * self.instances

    @property
    def bytes_per_core(self) -> int:
        """The share of one usable core, in bytes."""
        return self.size_bytes // self.sharers


def processor() -> tuple[str, str]:
    """The processor's name and vendor as the system prints them, "" where it does not."""
    if sys.platform == "linux":
        lines = _read(Path("/proc/cpuinfo")).splitlines()
        fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in reversed(lines))}
        vendor = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD"}.get(fields.get("vendor_id", ""), "")
        return fields.get("model name", "") or fields.get("Model", "") or platform.machine(), vendor
    if sys.platform == "darwin":
        return _sysctl("machdep.cpu.brand_string"), "Apple" if platform.machine() == "arm64" else "Intel"
    return platform.processor(), ""


def usable_cores() -> tuple[int, ...]:
    """The numbers of the logical cores that this process may run on, in order.

    Where a quota of its control group is smaller than its affinity, as many of them as the quota pays for.
    """
    everything = range(os.cpu_count() or 1)
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(everything)
    return tuple(cores[: max(1, int(min(len(cores), _quota())))])


def _quota() -> float:
    """Cores' worth of time that the control group grants, infinite without a limit (cgroup v2, then v1)."""
    limit, _, period = _read(CGROUPS / "cpu.max").partition(" ")
    if not limit:
        limit, period = _read(CGROUPS / "cpu/cpu.cfs_quota_us"), _read(CGROUPS / "cpu/cpu.cfs_period_us")
    try:
        cores = int(limit) / int(period)
    except (ValueError, ZeroDivisionError):
        return float("inf")
    return cores if cores > 0 else float("inf")


def memory_bytes() -> int | None:
    """Bytes of memory that this process can have: the system's, or its control group's where that is less."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
    limits = (_read(CGROUPS / "memory.max"), _read(CGROUPS / "memory/memory.limit_in_bytes"))
    return min([total, *(int(limit) for limit in limits if limit.isdigit())])


def available_bytes() -> int | None:
    """Bytes that can be taken now without swapping, None where the system does not say."""
    for line in _read(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    total = memory_bytes()
    return None if total is None else total // 2


def caches(usable: tuple[int, ...]) -> tuple[CacheLevel, ...]:
    """Data caches of the first usable core from the innermost; empty where the system does not describe them."""
    if sys.platform == "darwin":
        return _apple_caches(usable)
    found = {}
    for folder in sorted((CPUS / f"cpu{usable[0]}" / "cache").glob("index*")):
        if _read(folder / "type") == "Instruction":
            continue
        level, size = _read(folder / "level"), _bytes(_read(folder / "size"))
        if level and size:
            found[int(level)] = _shared(folder, f"L{level}", size, usable)
    return tuple(found[level] for level in sorted(found))


def _shared(folder: Path, name: str, size: int, usable: tuple[int, ...]) -> CacheLevel:
    sets = {_read(CPUS / f"cpu{core}" / "cache" / folder.name / "shared_cpu_list") for core in usable}
    groups = [cores & set(usable) for cores in map(_cores, sets) if cores & set(usable)]
    return CacheLevel(name, size, max(map(len, groups), default=1), max(len(groups), 1))


def _apple_caches(usable: tuple[int, ...]) -> tuple[CacheLevel, ...]:
    """Caches of the performance cores: L2 is shared by `cpusperl2` of them."""
    first, second = _sysctl("hw.perflevel0.l1dcachesize"), _sysctl("hw.perflevel0.l2cachesize")
    first, second = first or _sysctl("hw.l1dcachesize"), second or _sysctl("hw.l2cachesize")
    sharers = int(_sysctl("hw.perflevel0.cpusperl2") or 1)
    found = [CacheLevel("L1", int(first), 1, len(usable))] if first else []
    if second:
        found.append(CacheLevel("L2", int(second), sharers, max(1, len(usable) // sharers)))
    return tuple(found)


def _cores(text: str) -> set[int]:
    """The numbers in a list such as "0-3,8"."""
    spans = [part.partition("-") for part in text.split(",") if part]
    return {core for low, _, high in spans for core in range(int(low), int(high or low) + 1)}


def _bytes(text: str) -> int:
    """A size such as "32K" in bytes, 0 where there is none."""
    digits = text.rstrip("KMG")
    return int(digits) * _SUFFIXES.get(text[-1:], 1) if digits.isdigit() else 0


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _sysctl(name: str) -> str:
    try:
        asked = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return asked.stdout.strip() if asked.returncode == 0 else ""
