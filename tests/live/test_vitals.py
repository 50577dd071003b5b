"""Vitals: what sysfs, NVML and amdgpu tell, and a reason for everything that they do not."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rooflens.errors import InputError
from rooflens.live import vitals as module
from rooflens.live.nvml import decode_reasons, open_gpu
from rooflens.live.vitals import missing, vitals
from tests.live.fakes import FakeNvml, NVMLError, fake_torch, tree

CPU = "sys/devices/system/cpu"
H100: dict[str, Any] = {
    "nvmlDeviceGetClockInfo": {(1,): 1755, (2,): 2619},
    "nvmlDeviceGetMaxClockInfo": {(1,): 1980, (2,): 2619},
    "nvmlDeviceGetPowerUsage": 120_345,
    "nvmlDeviceGetEnforcedPowerLimit": 700_000,
    "nvmlDeviceGetTemperature": {(0,): 34},
    "nvmlDeviceGetCurrentClocksEventReasons": 0x4 | 0x40,
    "nvmlDeviceGetEccMode": [1, 1],
    "nvmlDeviceGetMigMode": (0, 1),
}


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)


def answers(**changed: Any) -> dict[str, Any]:
    return {**H100, "nvmlDeviceGetEccMode": (1, 1), **changed}


def test_cpu_with_cpufreq_and_throttle_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"proc/cpuinfo": "cpu MHz : 1.0"}
    for core, khz, throttles in ((0, 800_000, 2), (1, 3_600_000, 3)):
        at = f"{CPU}/cpu{core}"
        files |= {
            f"{at}/cpufreq/scaling_cur_freq": str(khz),
            f"{at}/cpufreq/cpuinfo_max_freq": "4200000",
            f"{at}/cpufreq/scaling_governor": "powersave",
            f"{at}/thermal_throttle/core_throttle_count": str(throttles),
            f"{at}/thermal_throttle/package_throttle_count": "7",
            f"{at}/topology/physical_package_id": "0",
        }
    monkeypatch.setattr(module.os, "getloadavg", lambda: (1.5, 0.25, 0.1), raising=False)
    root = tree(tmp_path, files)
    assert vitals("cpu", root=root) == (
        ("CPU clock now", "800 to 3600 MHz over 2 logical CPUs"),
        ("CPU clock max", "4200 MHz over 2 logical CPUs"),
        ("CPU governor", "powersave"),
        ("CPU thermal throttles", "5 core and 7 package events since boot"),
        ("load average", "1.50 over 1 min, 0.25 over 5 min, 0.10 over 15 min"),
    )
    assert missing("cpu", root=root) == ()


def test_cpu_of_a_virtual_machine(tmp_path: Path) -> None:
    cpuinfo = "processor : 0\ncpu MHz\t\t: 2596.138\nprocessor : 1\ncpu MHz\t\t: 2596.138\n"
    root = tree(tmp_path, {"proc/cpuinfo": cpuinfo, f"{CPU}/cpu0/uevent": "", f"{CPU}/cpu1/uevent": ""})
    assert dict(vitals("cpu", root=root))["CPU clock now"] == "2596 MHz over 2 logical CPUs (/proc/cpuinfo)"
    assert [name for name, _ in missing("cpu", root=root)] == ["CPU clock max", "CPU governor", "CPU thermal throttles"]


def test_cpu_that_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.os, "getloadavg", None, raising=False)
    assert vitals("cpu", root=tmp_path) == ()
    reasons = dict(missing("cpu", root=tmp_path))
    assert len(reasons) == 5
    assert all(reasons.values())


def test_gpu_through_nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(answers()))
    assert vitals("cuda", root=tmp_path) == (
        ("SM clock now", "1755 MHz"),
        ("SM clock max", "1980 MHz"),
        ("memory clock now", "2619 MHz"),
        ("memory clock max", "2619 MHz"),
        ("power draw", "120.3 W"),
        ("power limit", "700.0 W"),
        ("temperature", "34 °C"),
        ("clocks held down by", "software power cap, hardware thermal slowdown"),
        ("ECC", "on"),
        ("MIG", "off"),
    )
    assert missing("cuda", root=tmp_path) == ()


def test_gpu_that_lacks_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = answers(nvmlDeviceGetMigMode=NVMLError("Not Supported"), nvmlDeviceGetCurrentClocksThrottleReasons=1)
    held["nvmlDeviceGetCurrentClocksEventReasons"] = NVMLError("Function Not Found")
    held["nvmlDeviceGetTemperatureV"] = {(0,): 41}
    del held["nvmlDeviceGetEccMode"]
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(held))
    told = dict(vitals("cuda:0", root=tmp_path))
    assert told["clocks held down by"] == "idle"
    assert told["temperature"] == "41 °C"
    reasons = dict(missing("cuda:0", root=tmp_path))
    assert set(reasons) == {"ECC", "MIG"}
    assert reasons["MIG"] == "NVML answered 'Not Supported' to nvmlDeviceGetMigMode"


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0, "none"),
        (1, "idle"),
        (0x80 | 0x8, "hardware slowdown, hardware power brake"),
        (0x8004, "software power cap, unknown bits 0x8000"),
    ],
)
def test_clock_reasons_in_words(bits: int, words: str) -> None:
    assert decode_reasons(bits) == words


def test_gpu_without_driver_or_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "nvidia-ml-py" in dict(missing("cuda", root=tmp_path))["GPU state"]
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml({}, broken="NVML Shared Library Not Found"))
    assert vitals("cuda", root=tmp_path) == ()
    assert "Library Not Found" in dict(missing("cuda", root=tmp_path))["GPU state"]


def test_gpu_is_found_by_the_uuid_that_torch_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml({}, gpus=("GPU-aa", "GPU-bb", "MIG-cc")))
    devices = [SimpleNamespace(uuid=uuid) for uuid in ("bb", "aa", "cc", "GPU-aa")]
    monkeypatch.setitem(sys.modules, "torch", fake_torch(*devices, current=1))
    assert [open_gpu(index).handle for index in (None, 0, 2, 3)] == ["GPU-aa", "GPU-bb", "MIG-cc", "GPU-aa"]
    assert "torch sees 4 devices" in open_gpu(4).reason


@pytest.mark.parametrize(
    ("visible", "order", "index", "handle"),
    [
        (None, "PCI_BUS_ID", 1, "GPU-bb"),
        ("1,0", "PCI_BUS_ID", 0, "GPU-bb"),
        ("GPU-bb", None, 0, "GPU-bb"),
        ("1,0", None, 0, None),
        ("", "PCI_BUS_ID", 0, None),
        ("7", "PCI_BUS_ID", 0, None),
        ("0", "PCI_BUS_ID", 1, None),
    ],
)
def test_gpu_is_found_by_the_environment(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, order: str | None, index: int, handle: str | None
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml({}, gpus=("GPU-aa", "GPU-bb")))
    for name, value in (("CUDA_VISIBLE_DEVICES", visible), ("CUDA_DEVICE_ORDER", order)):
        if value is not None:
            monkeypatch.setenv(name, value)
    gpu = open_gpu(index)
    assert gpu.handle == handle
    assert bool(gpu.reason) == (handle is None)


def test_torch_that_tells_no_uuid_leaves_it_to_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml({}))
    monkeypatch.setitem(sys.modules, "torch", fake_torch(SimpleNamespace()))
    assert open_gpu(0).handle == "GPU-aa"


HWMON = {"freq1_input": "1700000000", "power1_input": "250500000", "power1_cap": "750000000", "temp1_input": "61000"}


def test_rocm_gpu_at_its_pci_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = "sys/bus/pci/devices/0000:c1:00.0/hwmon/hwmon3"
    root = tree(tmp_path, {f"{at}/{name}": text for name, text in HWMON.items()})
    device = SimpleNamespace(pci_domain_id=0, pci_bus_id=0xC1, pci_device_id=0)
    monkeypatch.setitem(sys.modules, "torch", fake_torch(device, hip="6.2"))
    assert vitals("cuda", root=root) == (
        ("shader clock now", "1700 MHz"),
        ("power draw", "250.5 W"),
        ("power limit", "750.0 W"),
        ("temperature", "61 °C"),
    )
    assert dict(missing("cuda", root=root)) == {"memory clock now": "the driver shows no readable freq2_input"}
    assert "torch sees 1 devices" in dict(missing("cuda:1", root=root))["GPU state"]


def test_amd_card_without_torch(tmp_path: Path) -> None:
    card = "sys/class/drm/card{}/device"
    files = {f"{card.format(1)}/hwmon/hwmon0/{name}": text for name, text in HWMON.items()}
    root = tree(tmp_path, {f"{card.format(1)}/vendor": "0x1002", f"{card.format(0)}/vendor": "0x1a03", **files})
    assert dict(vitals("cuda", root=root))["power draw"] == "250.5 W"
    tree(root, {f"{card.format(2)}/vendor": "0x1002"})
    assert "2 AMD cards" in dict(missing("cuda", root=root))["GPU state"]


def test_mps_has_a_reason(tmp_path: Path) -> None:
    assert vitals("mps", root=tmp_path) == ()
    assert len(missing("mps", root=tmp_path)) == 1


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "cpu,", ""])
def test_unknown_device_is_refused(device: str) -> None:
    with pytest.raises(InputError):
        vitals(device)


def test_this_machine_answers_without_raising() -> None:
    for device in ("cpu", "mps"):
        assert vitals(device) or missing(device)
