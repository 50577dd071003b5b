"""Facts of the machine from files of the system, the key that tells machines apart, and repeats -> one figure."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from rooflens.errors import InputError, MissingExtraError
from rooflens.live import machine as machines, processor
from rooflens.live.machine import Machine, key_of
from rooflens.live.processor import CacheLevel, caches, usable_cores
from rooflens.live.repeats import Repeats, best

MACHINE = Machine(
    "cpu", "Example (R) 9000", "Example", 4, (0, 1), (CacheLevel("L1", 32768, 1, 2),), 1 << 34, "2.9.0", 2
)


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system with four cores: L1 of each, L2 of pairs, L3 of all."""
    monkeypatch.setattr(processor, "CPUS", tmp_path / "cpu")
    monkeypatch.setattr(processor, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(processor.sys, "platform", "linux")
    (tmp_path / "cgroup").mkdir()
    rows = [
        ("index0", "1", "Data", "48K", lambda core: str(core)),
        ("index1", "1", "Instruction", "32K", lambda core: str(core)),
        ("index2", "2", "Unified", "2M", lambda core: "0-1" if core < 2 else "2-3"),
        ("index3", "3", "Unified", "36864K", lambda core: "0-3"),
    ]
    for core in range(4):
        for index, level, kind, size, shared in rows:
            folder = tmp_path / "cpu" / f"cpu{core}" / "cache" / index
            folder.mkdir(parents=True)
            for name, text in (("level", level), ("type", kind), ("size", size), ("shared_cpu_list", shared(core))):
                (folder / name).write_text(f"{text}\n")
    return tmp_path


def test_caches_are_read_with_who_shares_them(system: Path) -> None:
    levels = caches((0, 1, 2, 3))
    assert levels == (
        CacheLevel("L1", 48 * 1024, 1, 4),
        CacheLevel("L2", 2 << 20, 2, 2),
        CacheLevel("L3", 36 << 20, 4, 1),
    )
    assert [level.total_bytes for level in levels] == [4 * 48 * 1024, 4 << 20, 36 << 20]
    assert [level.bytes_per_core for level in levels] == [48 * 1024, 1 << 20, 9 << 20]


def test_cores_that_may_not_be_used_share_nothing(system: Path) -> None:
    assert [(level.sharers, level.instances) for level in caches((0, 2))] == [(1, 2), (1, 2), (2, 1)]


def test_a_system_that_describes_no_cache_has_none(system: Path) -> None:
    assert caches((7,)) == ()


@pytest.mark.parametrize(
    ("name", "text", "cores"),
    [
        ("cpu.max", "200000 100000", 2),
        ("cpu.max", "50000 100000", 1),
        ("cpu.max", "150000 100000", 1),
        ("cpu.max", "max 100000", 4),
        ("cpu.max", "nonsense", 4),
    ],
)
def test_a_quota_counts(system: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, cores: int) -> None:
    monkeypatch.setattr(processor.os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    (system / "cgroup" / name).write_text(text)
    assert usable_cores() == tuple(range(cores))


def test_a_quota_of_the_first_kind_of_groups_counts(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor.os, "sched_getaffinity", lambda _: {4, 5, 6}, raising=False)
    (system / "cgroup" / "cpu").mkdir()
    (system / "cgroup/cpu/cpu.cfs_quota_us").write_text("200000")
    (system / "cgroup/cpu/cpu.cfs_period_us").write_text("100000")
    assert usable_cores() == (4, 5)
    (system / "cgroup/cpu/cpu.cfs_quota_us").write_text("-1")
    assert usable_cores() == (4, 5, 6)


@pytest.mark.skipif(not hasattr(os, "sysconf"), reason="sizes of memory come from sysconf")
def test_memory_is_what_the_control_group_grants(system: Path) -> None:
    total = processor.memory_bytes()
    (system / "cgroup" / "memory.max").write_text("1048576\n")
    assert processor.memory_bytes() == 1048576
    (system / "cgroup" / "memory.max").write_text("max\n")
    assert processor.memory_bytes() == total


# The key


def test_a_key_is_stable_and_names_no_host() -> None:
    assert key_of(MACHINE) == key_of(replace(MACHINE))
    assert key_of(MACHINE).startswith("cpu-example-r-9000-")
    assert socket.gethostname().lower() not in key_of(MACHINE)
    assert len(key_of(replace(MACHINE, name="x" * 500))) <= 80


@pytest.mark.parametrize(
    "change",
    [
        {"name": "Other"},
        {"cores": 8},
        {"usable": (0,)},
        {"caches": (CacheLevel("L1", 65536, 1, 2),)},
        {"memory_bytes": 1 << 35},
        {"torch": "2.9.1"},
        {"torch_threads": 1},
        {"device": "cuda:0"},
    ],
)
def test_another_machine_has_another_key(change: dict[str, object]) -> None:
    assert key_of(replace(MACHINE, **change)) != key_of(MACHINE)


def test_this_machine_is_described() -> None:
    pytest.importorskip("torch", reason="a machine is described with torch (extra measure)")
    facts = machines.machine()
    assert facts.device == "cpu"
    assert facts.usable
    assert facts.cores >= len(facts.usable)
    assert machines.machine_key() == key_of(facts)
    for what, known in (("name", facts.name), ("caches", facts.caches), ("memory", facts.memory_bytes)):
        assert known or any(what in sentence for sentence in facts.unknown)


@pytest.mark.parametrize("device", ["cuda", "cuda:7", "tpu", "", "cpu:3", "x" * 300])
def test_a_device_that_is_not_there_is_refused(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="devices are torch's (extra measure)")
    monkeypatch.setattr(machines, "devices", lambda: ("cpu",))
    with pytest.raises(InputError, match="this machine has cpu") as refusal:
        machines.check_device(device)
    assert len(str(refusal.value)) < 120


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"rooflens\[measure\]"):
        machines.machine()


# Repeats


def test_a_figure_is_the_median_of_the_better_half() -> None:
    """Of 1, 9, 10, 8, 2 the better three are 8, 9, 10; the median of all five is 8: (10 - 1) / 8."""
    repeats = Repeats((1.0, 9.0, 10.0, 8.0, 2.0))
    assert repeats.value == 9.0
    assert repeats.spread == 9 / 8
    assert Repeats((4.0,)).value == 4.0
    assert Repeats((4.0,)).spread == 0.0
    assert Repeats((3.0, 5.0)).value == 5.0


def test_a_ceiling_says_how_it_was_measured() -> None:
    ceiling = Repeats((100.0, 110.0, 105.0), "unroll 4").ceiling("2 pinned threads")
    assert ceiling.provenance.kind == "measured"
    assert ceiling.provenance.source == "measured here"
    assert ceiling.provenance.note == "unroll 4; 2 pinned threads"
    assert ceiling.value == 107.5
    assert ceiling.spread == pytest.approx(10 / 105, abs=1e-4)
    assert ceiling.stable


def test_the_best_is_the_highest_figure() -> None:
    slow, fast = Repeats((1.0, 100.0, 1.0, 1.0)), Repeats((50.0, 60.0))
    assert best([slow, fast]) is fast
    with pytest.raises(ValueError, match="empty"):
        best([])
