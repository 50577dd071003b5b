"""A sysfs tree, an NVML and a torch that are not there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def tree(root: Path, files: Mapping[str, str]) -> Path:
    """Write `files` by their path under `root`."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


class NVMLError(Exception):
    pass


class FakeNvml:
    """The functions of pynvml that are asked, over `answers`: a list gives one answer after the other."""

    NVMLError = NVMLError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU, NVML_ERROR_FUNCTION_NOT_FOUND = 1, 2, 0, 13

    def __init__(self, answers: Mapping[str, Any], *, gpus: tuple[str, ...] = ("GPU-aa",), broken: str = "") -> None:
        self.answers, self.gpus, self.broken = dict(answers), gpus, broken

    def nvmlInit(self) -> None:  # noqa: N802
        if self.broken:
            raise NVMLError(self.broken)

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        return self.gpus[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: bytes) -> str:  # noqa: N802
        if uuid.decode() not in self.gpus:
            raise NVMLError("Not Found")
        return uuid.decode()

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvmlDevice") or name not in self.__dict__.get("answers", {}):
            raise AttributeError(name)

        def answer(handle: str, *args: Any) -> Any:
            held = self.answers[name]
            value = held.pop(0) if isinstance(held, list) else held
            value = value[args] if isinstance(value, dict) else value
            if isinstance(value, Exception):
                raise value
            return value

        return answer


def fake_torch(*devices: SimpleNamespace, current: int = 0, hip: str | None = None) -> SimpleNamespace:
    """A torch that sees `devices`, each with the properties that it is given."""
    cuda = SimpleNamespace(
        is_available=lambda: bool(devices),
        current_device=lambda: current,
        device_count=lambda: len(devices),
        get_device_properties=lambda index: devices[index],
    )
    return SimpleNamespace(cuda=cuda, version=SimpleNamespace(hip=hip))
