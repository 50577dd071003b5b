"""Facts that a machine tells or withholds, and the device that they are asked of."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rooflens.errors import InputError

SLASH = Path("/")
"""Where `sys/` and `proc/` lie; tests put a tree of their own in its place."""

_DEVICE = re.compile(r"(cpu|mps|cuda|xpu)(?::(\d+))?")


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact by name: its text with a unit, or None and the one sentence that says why there is none."""

    name: str
    value: str | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Device:
    """A device as torch names it: `kind` is cpu, cuda, xpu or mps; `index` is None where the name has none."""

    kind: str
    index: int | None = None


def parse_device(name: str) -> Device:
    """The device that torch calls `name`: "cpu", "cuda", "cuda:1", "xpu", "mps".

    Raises: InputError for any other name.
    Source: torch.device, PyTorch documentation, "Tensor Attributes"; ROCm devices are called cuda there too.
    """
    match = _DEVICE.fullmatch(name)
    if match is None:
        raise InputError(f"device {name!r} is not known here; cpu, cuda, cuda:1 or mps would be")
    return Device(match[1], None if match[2] is None else int(match[2]))


def loaded_torch() -> Any:
    """The torch that this process has imported, or None: a device is not used before its framework is."""
    return sys.modules.get("torch")


def gpu_torch() -> Any:
    """The loaded torch if it sees a CUDA or ROCm device, or None."""
    torch = loaded_torch()
    return torch if torch is not None and torch.cuda.is_available() else None


def is_rocm() -> bool:
    """Whether the loaded torch calls ROCm devices "cuda". Source: torch.version.hip, PyTorch notes on HIP."""
    torch = loaded_torch()
    return torch is not None and getattr(torch.version, "hip", None) is not None


def read_line(path: Path) -> str | None:
    """The stripped text of a sysfs or procfs file, or None where it is not there or not readable."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None


def read_number(path: Path) -> int | None:
    """The integer in a sysfs file, or None where there is none."""
    text = read_line(path)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
