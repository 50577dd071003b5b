"""The device that a model runs on, through torch: one code path for CPU, CUDA, ROCm, XPU and Apple GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rooflens.errors import InputError
from rooflens.frameworks import frameworks

_KINDS = ("cuda", "xpu", "mps")


@dataclass(frozen=True, slots=True)
class Device:
    """A device by torch's name ("cpu", "cuda", "cuda:1", "mps"); on ROCm torch says cuda as well."""

    name: str

    @property
    def kind(self) -> str:
        """The name without a number."""
        return self.name.partition(":")[0]

    @property
    def is_cpu(self) -> bool:
        """Whether its work is done when a call returns."""
        return self.kind == "cpu"

    def synchronize(self) -> None:
        """Wait until everything that was given to it is done."""
        if not self.is_cpu:
            torch = _torch()
            getattr(torch, self.kind).synchronize()

    def activities(self) -> list[Any]:
        """What the profiler records: CPU ops, and the kernels of the device."""
        from torch.profiler import ProfilerActivity

        other = {"cuda": "CUDA", "xpu": "XPU"}.get(self.kind)
        return [ProfilerActivity.CPU, *([getattr(ProfilerActivity, other)] if other else [])]


def device_of(name: str | None) -> Device:
    """The device that `name` stands for; without one the first GPU, else the CPU.

    Raises:
        InputError: a name that torch does not know, or a device that is not there: names those that are.
        MissingExtraError: torch is not installed.
    """
    torch = _torch()
    present = [kind for kind in _KINDS if _present(torch, kind)] + ["cpu"]
    if name is None:
        return Device(present[0])
    kind, _, number = name.strip().lower().partition(":")
    many = _number_of(torch, kind) if kind in present else 0
    if kind not in present or (number and (not number.isdigit() or int(number) >= many)):
        raise InputError(f"device {name[:40]!r} is not there; torch sees {', '.join(present)} on this machine")
    return Device(f"{kind}:{number}" if number else kind)


def _number_of(torch: Any, kind: str) -> int:
    return int(getattr(torch, kind).device_count()) if kind in ("cuda", "xpu") else 1


def _present(torch: Any, kind: str) -> bool:
    home = torch.backends.mps if kind == "mps" else getattr(torch, kind, None)
    return home is not None and bool(home.is_available())


def _torch() -> Any:
    return frameworks("runs on this machine")[0]


def running(device: Device, attention: str, *, compiled: bool) -> tuple[tuple[str, str], ...]:
    """How models run on `device`: framework, threads, attention, and whether they are compiled."""
    torch, transformers = frameworks("runs on this machine")
    threads = [("threads", f"{torch.get_num_threads()} of torch")] if device.is_cpu else []
    how = f"{attention} attention, {'compiled' if compiled else 'eager'}"
    return (
        ("device", device.name),
        ("framework", f"torch {torch.__version__}, transformers {transformers.__version__}, {how}"),
        *threads,
    )
