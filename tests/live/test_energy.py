"""Energy: packages summed once, wrap-arounds put right, and a reason wherever there is no counter."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rooflens.errors import InputError
from rooflens.live.energy import Energy, EnergyMeter
from tests.live.fakes import FakeNvml, NVMLError, fake_torch, tree

POWERCAP = "sys/class/powercap"
RANGE = 262143328850


def zone(at: str, name: str, energy: int, span: int = RANGE) -> dict[str, str]:
    folder = f"{POWERCAP}/{at}"
    return {f"{folder}/name": name, f"{folder}/energy_uj": str(energy), f"{folder}/max_energy_range_uj": str(span)}


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)


def moved(root: Path, before: dict[str, str], after: dict[str, str], device: str = "cpu") -> Energy:
    meter = EnergyMeter(device, root=tree(root, before))
    start = meter.read()
    tree(root, after)
    return meter.joules_since(start)


def test_one_package(tmp_path: Path) -> None:
    energy = moved(tmp_path, zone("intel-rapl:0", "package-0", 1_000_000), zone("intel-rapl:0", "package-0", 3_500_000))
    assert energy == Energy(2.5, "RAPL package-0")


def test_packages_are_summed_and_nothing_is_counted_twice(tmp_path: Path) -> None:
    zones = {
        "intel-rapl:0": "package-0",
        "intel-rapl:0:0": "core",
        "intel-rapl:0:1": "dram",
        "intel-rapl:1": "package-1",
        "intel-rapl:1:1": "dram",
        "intel-rapl:2": "psys",
        "intel-rapl-mmio:0": "package-0",
    }
    before = {key: text for at, name in zones.items() for key, text in zone(at, name, 0).items()}
    after = {key: text for at, name in zones.items() for key, text in zone(at, name, 4_000_000).items()}
    assert moved(tmp_path, before, after) == Energy(8.0, "RAPL package-0 + package-1, without dram")


def test_wrap_around_of_one_package_is_put_right(tmp_path: Path) -> None:
    before = zone("intel-rapl:0", "package-0", RANGE - 1_000_000) | zone("intel-rapl:1", "package-1", 5)
    after = zone("intel-rapl:0", "package-0", 500_000) | zone("intel-rapl:1", "package-1", 250_005)
    assert moved(tmp_path, before, after).joules == pytest.approx(1.5 + 0.25)


def test_counter_that_stands_still_has_no_energy(tmp_path: Path) -> None:
    same = zone("intel-rapl:0", "package-0", 7)
    energy = moved(tmp_path, same, same)
    assert energy.joules is None
    assert "did not move" in energy.reason


def test_unreadable_without_root_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree(tmp_path, zone("intel-rapl:0", "package-0", 1) | zone("intel-rapl:1", "package-1", 1))
    whole = Path.read_text

    def refuse(path: Path) -> str:
        if path.parent.name == "intel-rapl:1" and path.name == "energy_uj":
            raise PermissionError(13, "Permission denied", str(path))
        return whole(path)

    monkeypatch.setattr(Path, "read_text", refuse)
    meter = EnergyMeter("cpu", root=root)
    energy = meter.joules_since(meter.read())
    assert energy.joules is None
    assert "package-1 can be read by root alone" in energy.reason


def test_counter_that_goes_away_or_is_no_number_is_a_reason(tmp_path: Path) -> None:
    meter = EnergyMeter("cpu", root=tree(tmp_path, zone("intel-rapl:0", "package-0", 1)))
    start = meter.read()
    (tmp_path / POWERCAP / "intel-rapl:0/energy_uj").write_text("many\n")
    assert "cannot be read" in meter.joules_since(start).reason
    (tmp_path / POWERCAP / "intel-rapl:0/energy_uj").unlink()
    assert "cannot be read" in meter.joules_since(start).reason


def test_zone_without_range_is_refused(tmp_path: Path) -> None:
    root = tree(tmp_path, zone("intel-rapl:0", "package-0", 1))
    (root / POWERCAP / "intel-rapl:0/max_energy_range_uj").unlink()
    meter = EnergyMeter("cpu", root=root)
    assert "max_energy_range_uj" in meter.joules_since(meter.read()).reason


@pytest.mark.parametrize(("device", "word"), [("cpu", "RAPL"), ("cuda", "nvidia-ml-py"), ("mps", "powermetrics")])
def test_no_counter_is_a_reason(tmp_path: Path, device: str, word: str) -> None:
    meter = EnergyMeter(device, root=tmp_path)
    energy = meter.joules_since(meter.read())
    assert (energy.joules, energy.source) == (None, "none")
    assert word in energy.reason


def test_nvml_counts_millijoules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml({"nvmlDeviceGetTotalEnergyConsumption": [5_000, 12_250]}))
    meter = EnergyMeter("cuda:0", root=tmp_path)
    assert meter.joules_since(meter.read()) == Energy(7.25, "NVML total energy")


def test_gpu_before_volta_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = FakeNvml({"nvmlDeviceGetTotalEnergyConsumption": NVMLError("Not Supported")})
    monkeypatch.setitem(sys.modules, "pynvml", refused)
    meter = EnergyMeter("cuda", root=tmp_path)
    energy = meter.joules_since(meter.read())
    assert energy.joules is None
    assert "Volta" in energy.reason


def test_rocm_has_no_counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card = {"sys/class/drm/card0/device/vendor": "0x1002"}
    meter = EnergyMeter("cuda", root=tree(tmp_path, card))
    assert "amdgpu" in meter.read().reason
    monkeypatch.setitem(sys.modules, "torch", fake_torch(hip="6.2"))
    assert "amdgpu" in EnergyMeter("cuda", root=tmp_path / "none").read().reason


def test_readings_of_two_meters_have_no_difference(tmp_path: Path) -> None:
    one = EnergyMeter("cpu", root=tree(tmp_path / "a", zone("intel-rapl:0", "package-0", 1)))
    other = EnergyMeter("cpu", root=tree(tmp_path / "b", zone("intel-rapl:0", "package-1", 9)))
    assert "different counters" in other.joules_since(one.read()).reason


def test_unknown_device_is_refused() -> None:
    with pytest.raises(InputError, match="device 'tpu' is not known"):
        EnergyMeter("tpu")
