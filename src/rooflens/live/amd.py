"""One GPU under the amdgpu driver, through the files that the kernel shows of it."""

from __future__ import annotations

from pathlib import Path

from rooflens.live.facts import gpu_torch, is_rocm, read_line

_AMD = "0x1002"


def amd_cards(root: Path) -> tuple[Path, ...]:
    """PCI folders of the AMD GPUs under `root`, in the order of their DRM card numbers."""
    cards = sorted((root / "sys/class/drm").glob("card[0-9]*"))
    folders = [card / "device" for card in cards if "-" not in card.name]
    return tuple(folder for folder in folders if read_line(folder / "vendor") == _AMD)


def hwmon(root: Path, index: int | None) -> tuple[Path | None, str]:
    """The hwmon folder of the GPU that torch calls cuda:`index` on ROCm, or None and the reason.

    It is found by the PCI address that torch tells, or where there is one card alone.

    Source: Linux kernel documentation, "GPU Power/Thermal Controls and Monitoring" of amdgpu.
    """
    folder, reason = _pci_folder(root, index)
    if folder is None:
        return None, reason
    found = sorted((folder / "hwmon").glob("hwmon*"))
    return (found[0], "") if found else (None, f"the driver shows no hwmon folder for the GPU {folder.name}")


def _pci_folder(root: Path, index: int | None) -> tuple[Path | None, str]:
    torch = gpu_torch() if is_rocm() else None
    if torch is not None:
        shown = torch.cuda.current_device() if index is None else index
        if shown >= torch.cuda.device_count():
            return None, f"torch sees {torch.cuda.device_count()} devices, of which cuda:{shown} is none"
        at = torch.cuda.get_device_properties(shown)
        numbers = [getattr(at, f"pci_{part}_id", None) for part in ("domain", "bus", "device")]
        if None not in numbers:
            domain, bus, device = numbers
            return root / f"sys/bus/pci/devices/{domain:04x}:{bus:02x}:{device:02x}.0", ""
    cards = amd_cards(root)
    if len(cards) == 1 and not index:
        return cards[0], ""
    return None, f"{len(cards)} AMD cards are here, and torch did not tell the PCI address of cuda:{index or 0}"
