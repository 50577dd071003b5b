"""Bytes of recordings: plain, gzipped, cut, too many, and what is no file."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from rooflens.errors import InputError
from rooflens.sources.packed import head_of, plain_file, unpacked

WHAT = "a recording"


def write(folder: Path, data: bytes) -> Path:
    path = folder / "file"
    path.write_bytes(data)
    return path


def bomb(size: int) -> bytes:
    """`size` zeros in a thousandth of their bytes."""
    return gzip.compress(bytes(size), compresslevel=1)


@pytest.mark.parametrize("data", [b"", b"x", b"abc" * 10_000, os.urandom(3_000_000), bytes(5_000_000)])
def test_both_ways_give_the_same_bytes(tmp_path: Path, data: bytes) -> None:
    assert unpacked(write(tmp_path, data), WHAT) == data
    half = len(data) // 2
    for packed in (gzip.compress(data), gzip.compress(data[:half]) + gzip.compress(data[half:]) + bytes(5)):
        path = write(tmp_path, packed)
        assert unpacked(path, WHAT, max(1, len(data))) == data
        assert data.startswith(head_of(path, WHAT, 1000))
        with plain_file(path, WHAT) as plain:
            assert plain.read_bytes() == data
        assert not plain.exists()


def test_a_limit(tmp_path: Path) -> None:
    for data in (bytes(1000), gzip.compress(bytes(1000))):
        path = write(tmp_path, data)
        assert len(unpacked(path, WHAT, 1000)) == 1000
        with pytest.raises(InputError, match="more than 999 bytes unpacked"):
            unpacked(path, WHAT, 999)


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    """50 MB of zeros in 0.2 MB: what is made of them stops at the limit, with a file of a bomb too."""
    path = write(tmp_path, bomb(50_000_000))
    assert path.stat().st_size < 500_000
    with pytest.raises(InputError, match="--max-bytes"):
        unpacked(path, WHAT, 1_000_000)
    with pytest.raises(InputError, match="--max-bytes"), plain_file(path, WHAT, 1_000_000):
        pass


@pytest.mark.parametrize(
    "data",
    [bomb(9999)[:-9], gzip.compress(os.urandom(5000))[:2500], b"\x1f\x8b", b"\x1f\x8b" + bytes(99),
     gzip.compress(b"a") + b"rest", gzip.compress(b"a" * 99)[:-4] + b"size"],
)  # fmt: skip
def test_what_is_cut_or_damaged(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(InputError, match="could not be read"):
        unpacked(write(tmp_path, data), WHAT)


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "none", tmp_path / "pipe", Path("/dev/null"), Path("/dev/zero"), Path("a\0b")):
        with pytest.raises(InputError, match="could not be read"):
            unpacked(path, WHAT)
        with pytest.raises(InputError, match="could not be read"):
            head_of(path, WHAT, 9)
