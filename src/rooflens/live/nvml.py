"""One GPU through NVML, read only: nothing here sets anything."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from rooflens.live.facts import gpu_torch

CLOCK_REASONS: dict[int, str] = {
    0x001: "idle",
    0x002: "application clocks setting",
    0x004: "software power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "software thermal slowdown",
    0x040: "hardware thermal slowdown",
    0x080: "hardware power brake",
    0x100: "display clock setting",
    0x200: "board limit",
    0x400: "reliability",
}
"""Bits of the clocks event reasons. Source: NVML API reference, NvmlClocksEventReasons; pynvml for the last two."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """An open NVML handle, or None and the reason: `library` is the module pynvml."""

    library: Any = None
    handle: Any = None
    reason: str = ""

    def ask(self, *names: str, args: tuple[Any, ...] = ()) -> Any:
        """The answer to the first of the NVML functions `names` that library and driver both know.

        Raises: pynvml.NVMLError where none answers.
        """
        failed: Exception | None = None
        for function in (getattr(self.library, name, None) for name in names):
            try:
                if function is not None:
                    return function(self.handle, *args)
            except self.library.NVMLError as error:
                failed = error
        raise failed or self.library.NVMLError(self.library.NVML_ERROR_FUNCTION_NOT_FOUND)


def decode_reasons(bits: int) -> str:
    """The clocks event reasons in words, "none" for 0; a bit that the table lacks keeps its number."""
    known = [word for bit, word in CLOCK_REASONS.items() if bits & bit]
    rest = bits & ~sum(CLOCK_REASONS)
    return ", ".join([*known, *([f"unknown bits {rest:#x}"] if rest else [])]) or "none"


def open_gpu(index: int | None) -> Gpu:
    """The GPU that torch calls cuda:`index`, or the current one for None.

    NVML stays open until the process ends: opening it takes longer than a read. CUDA and NVML number GPUs each in their
    own way, so the GPU is looked up by its UUID where torch has it, else by what the environment leaves no doubt about.

    Source: CUDA C++ Programming Guide, "CUDA Environment Variables"; NVML API reference, "Device Queries".
    """
    try:
        import pynvml
    except ImportError:
        return Gpu(
            reason="NVML is read through the package nvidia-ml-py, which is not installed: rooflens[nvml] has it"
        )
    try:
        pynvml.nvmlInit()
        handle, reason = _handle(pynvml, index)
    except pynvml.NVMLError as error:
        return Gpu(reason=f"NVML answered {str(error)!r}; an NVIDIA driver and a GPU that it shows would be right")
    return Gpu(pynvml, handle, reason)


def _handle(pynvml: Any, index: int | None) -> tuple[Any, str]:
    torch = gpu_torch()
    if torch is None:
        return _from_environment(pynvml, index or 0)
    shown = torch.cuda.current_device() if index is None else index
    if shown >= torch.cuda.device_count():
        return None, f"torch sees {torch.cuda.device_count()} devices, of which cuda:{shown} is none"
    uuid = getattr(torch.cuda.get_device_properties(shown), "uuid", None)
    if uuid is None:
        return _from_environment(pynvml, shown)
    return _by_uuid(pynvml, str(uuid)), ""


def _by_uuid(pynvml: Any, uuid: str) -> Any:
    """NVML's handle for a UUID as torch prints it, which is that of a GPU or of a MIG slice."""
    if uuid.startswith(("GPU-", "MIG-")):
        return pynvml.nvmlDeviceGetHandleByUUID(uuid.encode())
    try:
        return pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}".encode())
    except pynvml.NVMLError:
        return pynvml.nvmlDeviceGetHandleByUUID(f"MIG-{uuid}".encode())


def _from_environment(pynvml: Any, index: int) -> tuple[Any, str]:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    count = pynvml.nvmlDeviceGetCount()
    entries = [str(at) for at in range(count)] if visible is None else [part.strip() for part in visible.split(",")]
    if index >= len(entries) or not entries[index]:
        return None, f"CUDA_VISIBLE_DEVICES={visible!r} over {count} GPUs shows no cuda:{index}"
    entry = entries[index]
    if entry.startswith(("GPU-", "MIG-")):
        return pynvml.nvmlDeviceGetHandleByUUID(entry.encode()), ""
    if not entry.isdigit() or int(entry) >= count:
        return None, f"CUDA_VISIBLE_DEVICES={visible!r} names {entry!r}, which is none of the {count} GPUs"
    if count > 1 and os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        return (
            None,
            "CUDA and NVML may number these GPUs differently; CUDA_DEVICE_ORDER=PCI_BUS_ID or a UUID would tell",
        )
    return pynvml.nvmlDeviceGetHandleByIndex(int(entry)), ""
