"""Whatever a file holds, it is read or refused in a sentence. `scripts/fuzz_readers.py` does the same for longer."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from rooflens import load
from rooflens.errors import RooflensError
from rooflens.sources.ncu import read_ncu
from tests.sources.mutations import mutated, seeds

LIGHT = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[bytes]]:
    return seeds(tmp_path_factory.mktemp("seeds"))


@pytest.mark.parametrize("kind", ["kineto", "nsys", "ncu", "rocprof"])
def test_sound_files_are_read(tmp_path: Path, files: dict[str, list[bytes]], kind: str) -> None:
    path = tmp_path / "file"
    for data in files[kind]:
        path.write_bytes(data)
        assert read_ncu(path) if kind == "ncu" else load([path], gpu="h100-sxm")


@pytest.mark.parametrize("kind", ["kineto", "nsys", "ncu", "rocprof"])
@given(seed=st.integers(0, 2**32))
@LIGHT
def test_a_changed_file(tmp_path: Path, files: dict[str, list[bytes]], kind: str, seed: int) -> None:
    chance, path = random.Random(seed), tmp_path / "file"
    path.write_bytes(mutated(chance.choice(files[kind]), chance))
    try:
        read_ncu(path) if kind == "ncu" else load([path], gpu="h100-sxm")
    except RooflensError as refusal:
        assert len(str(refusal).splitlines()) <= 1 or str(path) in str(refusal)


@given(
    st.binary(max_size=300),
    st.sampled_from([b"", b"{", b"SQLite format 3\0", b"\x1f\x8b", b"==PROF==", b"Kernel_Name,"]),
)
@LIGHT
def test_any_bytes(tmp_path: Path, data: bytes, head: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(head + data)
    with pytest.raises(RooflensError):
        load([path], gpu="h100-sxm")
