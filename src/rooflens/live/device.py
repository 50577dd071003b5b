"""The device that a model runs on, through torch: one code path for CPU, CUDA, ROCm, XPU and Apple GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from rooflens.errors import InputError
from rooflens.frameworks import frameworks

_NUMBERED = ("cuda", "xpu")
_ACTIVITIES = {"cpu": "CPU", "cuda": "CUDA", "xpu": "XPU"}
"""What the profiler calls the work of each kind; on ROCm it is CUDA as well. Apple's GPU has none."""


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
            import torch

            backend = getattr(torch, self.kind)
            backend.synchronize(self.name) if self.kind in _NUMBERED else backend.synchronize()

    def answers(self) -> bool:
        """Whether it still works: a GPU whose kernel faulted, or that is gone, refuses everything from then on.

        Source: CUDA Runtime API, cudaErrorLaunchFailure and the like: the process must end before CUDA is used again.
        """
        try:
            self.synchronize()
        except RuntimeError:
            return False
        return True

    def chosen(self) -> AbstractContextManager[Any]:
        """While open, what names no device runs on this one: kernels of Triton and of extensions go to torch's own."""
        import torch

        chosen: AbstractContextManager[Any] = nullcontext()
        return getattr(torch, self.kind).device(self.name) if self.kind in _NUMBERED else chosen

    def activities(self) -> list[Any]:
        """What the profiler records: CPU ops, and the kernels of the device."""
        from torch.profiler import ProfilerActivity

        names = dict.fromkeys(("CPU", _ACTIVITIES.get(self.kind, "CPU")))
        return [getattr(ProfilerActivity, name) for name in names]

    def untraced(self) -> str:
        """Why the profiler records no kernel of it, in one sentence; nothing where it does."""
        from torch.profiler import ProfilerActivity, supported_activities

        activity = getattr(ProfilerActivity, _ACTIVITIES.get(self.kind, ""), None)
        if self.is_cpu or (activity is not None and activity in supported_activities()):
            return ""
        return f"PyTorch's profiler records no kernels of {self.name} here"


def device_of(name: str | None) -> Device:
    """The device that `name` stands for; without one the first GPU, else the CPU.

    Raises:
        InputError: a name that torch does not know, or a device that is not there: names those that are.
        MissingExtraError: torch is not installed.
    """
    cpu, *others = present(_torch())
    kinds = [*dict.fromkeys(other.partition(":")[0] for other in others), cpu]
    if name is None:
        return Device(kinds[0])
    plain = str(name).strip().lower()
    if full_name(plain, (cpu, *others)) is None:
        raise InputError(f"device {str(name)[:40]!r} is not there; torch sees {', '.join(kinds)} on this machine")
    return Device(plain)


def present(torch: Any) -> tuple[str, ...]:
    """The full names of what `torch` computes on here: "cpu", then GPUs such as "cuda:0", "xpu:0" and "mps"."""
    found = ["cpu"]
    for kind in _NUMBERED:
        backend = getattr(torch, kind, None)
        if backend is not None and backend.is_available():
            found += [f"{kind}:{index}" for index in range(backend.device_count())]
    return (*found, "mps") if torch.backends.mps.is_available() else tuple(found)


def full_name(name: str, among: Sequence[str]) -> str | None:
    """The one of `among` that `name` stands for: itself, or the first of its kind for "cuda"; None without one."""
    return name if name in among else next((other for other in among if other == f"{name}:0"), None)


def _torch() -> Any:
    return frameworks("runs on this machine", "measure")[0]


def running(device: Device, attention: str, *, compiled: bool) -> tuple[tuple[str, str], ...]:
    """How models run on `device`: framework, threads, attention, and whether they are compiled."""
    torch, transformers = frameworks("runs on this machine", "measure")
    threads = [("threads", f"{torch.get_num_threads()} of torch")] if device.is_cpu else []
    how = f"{attention} attention, {'compiled' if compiled else 'eager'}"
    return (
        ("device", device.name),
        ("framework", f"torch {torch.__version__}, transformers {transformers.__version__}, {how}"),
        *threads,
    )
