"""Compiled kernels: what they compute, what counts as moved, what lies in their buffers."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="kernels are compiled with llvmlite (extra measure)")

from rooflens.errors import InputError
from rooflens.live import bandwidth, team as teams
from rooflens.live.bandwidth import Sweep, WorkingSet, array_bytes, level_rates, swept_bytes, working_sets
from rooflens.live.machine import Machine
from rooflens.live.processor import CacheLevel
from rooflens.live.team import HUGE_BYTES, Buffer, Team, filled
from rooflens.live.vector_ir import PATTERNS, Step, compiled, ir

KIB = 1024


def aligned(values: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Random floats whose place is a multiple of 64."""
    raw = np.random.default_rng(values).random(values + 16, np.float32)
    start = (-raw.ctypes.data % 64) // 4
    return raw[start : start + values]


def call(name: str, step: Step, arrays: list[Any], repeats: int = 1) -> int:
    places = [array.ctypes.data for array in arrays]
    return int(compiled(name, step)(*(places + [0] * (4 - len(places))), arrays[0].nbytes, repeats))


# What the kernels compute


@pytest.mark.parametrize("step", bandwidth.READ_STEPS, ids=str)
@pytest.mark.parametrize("name", ["copy", "copy_nt"])
def test_a_copy_copies(name: str, step: Step) -> None:
    a, b = aligned(256), aligned(256)
    b[:] = np.arange(256)
    call(name, step, [a, b], repeats=3)
    assert (a == np.arange(256)).all()


@pytest.mark.parametrize("step", bandwidth.READ_STEPS, ids=str)
@pytest.mark.parametrize("name", ["triad", "triad_nt"])
def test_a_triad_is_b_plus_half_of_c(name: str, step: Step) -> None:
    a, b, c = aligned(256), aligned(256), aligned(256)
    b[:], c[:] = np.arange(256), 8
    call(name, step, [a, b, c], repeats=2)
    assert (a == np.arange(256) + 4).all()


def test_a_vector_triad_is_b_times_c_plus_d() -> None:
    a, b, c, d = (aligned(128) for _ in range(4))
    b[:], c[:], d[:] = np.arange(128), 3, 2
    call("vector_triad", Step(64, 2), [a, b, c, d])
    assert (a == 3 * np.arange(128) + 2).all()


@pytest.mark.parametrize("step", bandwidth.READ_STEPS, ids=str)
def test_a_read_reads_every_word(step: Step) -> None:
    """Words of one bit each: the OR of them all has every bit, and without one of them that bit is missing."""
    words = aligned(256).view(np.uint32)
    words[:] = 0
    for bit in range(32):
        words[8 * bit + bit % 8] = 1 << bit
    assert call("read", step, [words], repeats=2) == 0xFFFFFFFF
    for bit in range(32):
        words[8 * bit + bit % 8] = 0
        assert call("read", step, [words]) == 0xFFFFFFFF ^ (1 << bit)
        words[8 * bit + bit % 8] = 1 << bit


def test_a_kernel_stays_within_its_bytes() -> None:
    a, b = aligned(512), aligned(512)
    a[:], b[:] = -1, 5
    compiled("copy", Step(64, 4))(a.ctypes.data, b.ctypes.data, 0, 0, 1024, 1)
    assert (a[:256] == 5).all()
    assert (a[256:] == -1).all()


@pytest.mark.parametrize("name", PATTERNS)
def test_stores_bypass_the_caches_where_the_name_says_so(name: str) -> None:
    text = ir(PATTERNS[name], Step(64, 4))
    assert ("!nontemporal" in text) == name.endswith("_nt")
    assert text.count("load <16 x") == 4 * PATTERNS[name].reads
    assert text.count("store <16 x") == (4 if PATTERNS[name].writes else 0)


# What counts


def test_bytes_count_as_stream_counts_them() -> None:
    """Two cores, five sweeps over arrays of 1,024 bytes: 10,240 bytes for each array that the source line names."""
    counted = {name: swept_bytes(pattern, 1024, 2, 5) for name, pattern in PATTERNS.items()}
    assert counted == {
        "read": 10_240, "copy": 20_480, "copy_nt": 20_480, "triad": 30_720, "triad_nt": 30_720, "vector_triad": 40_960,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "total", "step", "each"),
    [
        ("read", 16 * KIB, Step(64, 4), 16 * KIB),  # 64 steps of 256 bytes
        ("copy", 16 * KIB, Step(64, 4), 8 * KIB),
        ("triad", 16 * KIB, Step(64, 4), 5376),  # 16,384 / 3 is 5,461: 21 steps of 256 bytes
        ("triad", 16 * KIB, Step(64, 8), 5120),  # 10 steps of 512 bytes
        ("triad", 100, Step(64, 8), 512),  # one step at least
    ],
)
def test_arrays_are_whole_steps(name: str, total: int, step: Step, each: int) -> None:
    assert array_bytes(PATTERNS[name], total, step) == each


def test_a_rate_is_bytes_over_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy of 8 KiB by two cores, ten times, in a second: 2 x 8,192 x 2 x 10 bytes a second."""

    class Still:
        cores = (0, 1)

        def seconds(self, _work: object) -> float:
            return 1.0

    assert Sweep(Still(), PATTERNS["copy"], 16 * KIB, Step(64, 4)).rate(10) == 327_680


# Where the sets lie


def machine(*caches: CacheLevel, cores: int = 2) -> Machine:
    return Machine("cpu", "Example", "", cores, tuple(range(cores)), caches, 1 << 34, "2.0", cores)


def test_sets_are_half_of_a_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cores share 32 MiB: 16 MiB each, half of it 8 MiB; memory takes eight times the last cache."""
    monkeypatch.setattr(bandwidth, "available_bytes", lambda: 1 << 40)
    levels = (
        CacheLevel("L1", 32 * KIB, 1, 2),
        CacheLevel("L2", 1024 * KIB, 1, 2),
        CacheLevel("L3", 32768 * KIB, 2, 1),
    )
    sets = working_sets(machine(*levels))
    assert sets == (
        WorkingSet("L1", 16 * KIB),
        WorkingSet("L2", 512 * KIB),
        WorkingSet("L3", 8192 * KIB),
        WorkingSet("memory", 8 * 32768 * KIB // 2),
    )


def test_a_level_that_the_one_inside_would_answer_for_is_left_out() -> None:
    """1.375 MiB beside 1 MiB: twice the inner one does not fit into it."""
    levels = (CacheLevel("L1", 32 * KIB, 1, 2), CacheLevel("L2", 1024 * KIB, 1, 2), CacheLevel("L3", 2816 * KIB, 2, 1))
    assert [one.name for one in working_sets(machine(*levels))] == ["L1", "L2", "memory"]


def test_memory_takes_a_quarter_of_what_is_free_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandwidth, "available_bytes", lambda: 400 << 20)
    assert bandwidth.memory_set(machine()) == 100 << 20
    monkeypatch.setattr(bandwidth, "available_bytes", lambda: None)
    assert bandwidth.memory_set(machine()) == 256 << 20


# Buffers and threads


def contents(buffer: Buffer) -> np.ndarray[Any, np.dtype[np.float32]]:
    offset = buffer.address - np.frombuffer(buffer.owner, np.uint8).ctypes.data
    return np.frombuffer(buffer.owner, np.float32, count=buffer.size // 4, offset=offset).copy()


def test_buffers_hold_random_values_to_their_end() -> None:
    buffer = filled(3 << 20)
    values = contents(buffer)
    assert buffer.address % HUGE_BYTES == 0
    assert values.size == (3 << 20) // 4
    assert ((values >= 0) & (values < 1)).all()
    assert len(np.unique(values[-4096:])) > 4000
    assert np.count_nonzero(values) > 0.999 * values.size


def test_memory_that_cannot_be_had_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(teams.mmap, "mmap", refuse)
    with pytest.raises(InputError, match="1,048,576 bytes of memory could not be had"):
        filled(1 << 20)
    with pytest.raises(InputError, match="could not be had"):
        Team((0,), 1 << 20)


def test_every_core_has_a_thread_and_memory_of_its_own() -> None:
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    seen: list[tuple[int, int, object]] = []
    with Team(usable, 4096) as team:
        for _ in range(3):
            team.seconds(lambda b: seen.append((threading.get_ident(), b.address, pinned())))
    assert len(seen) == 3 * len(usable)
    assert len({thread for thread, _, _ in seen}) == len({place for _, place, _ in seen}) == len(usable)
    if hasattr(os, "sched_getaffinity"):
        assert {cores for _, _, cores in seen} == {(core,) for core in usable}
        assert sorted(os.sched_getaffinity(0)) == usable, "the caller's own affinity is as it was"


def pinned() -> object:
    return tuple(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def test_what_fails_in_a_thread_is_raised() -> None:
    def fail(_buffer: Buffer) -> None:
        raise KeyError("inside")

    with Team((0,), 4096) as team, pytest.raises(KeyError, match="inside"):
        team.seconds(fail)


def test_a_level_is_measured_in_every_pattern() -> None:
    with Team((0,), 1 << 20) as team:
        rates = level_rates(team, 16 * KIB, bandwidth.MEMORY_PATTERNS, rounds=3, seconds=1e-4)
    assert list(rates) == ["read", "copy", "triad", "copy_nt", "triad_nt"]
    for repeats in rates.values():
        assert len(repeats.rates) == 3
        assert min(repeats.rates) > 0
        assert repeats.variant in {f"steps of {step}" for step in bandwidth.READ_STEPS}
