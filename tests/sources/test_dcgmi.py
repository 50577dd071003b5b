"""Logs of `dcgmi dmon`."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.core.activity import Field
from rooflens.errors import InputError
from rooflens.live.dcgmi_command import dcgmi_command
from rooflens.sources.dcgm_fields import field_of, sampled
from rooflens.sources.dcgmi import DcgmiReader, dcgmi_log, read_dcgmi

SAMPLES = Path(__file__).parents[3] / "shared" / "data" / "traces" / "dcgmi"
SHARED = pytest.mark.skipif(not SAMPLES.is_dir(), reason="needs the shared samples")
LOG = """\
> dcgmi dmon -e 1002,1004,1005 -d 100
#Entity   SMACT      TENSO      DRAMA
ID
GPU 0     N/A        N/A        N/A
GPU 1     N/A        N/W        N/A
GPU 0     0.957      0.121      0.903
GPU 1     0.000      0          0.000
#Entity   SMACT      TENSO      DRAMA
ID
GPU 0     0.980      0.845      0.310
GPU 1     9223372036854775794  140737488355328.000  2147483632
"""


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_rows_of_each_gpu(tmp_path: Path) -> None:
    samples = read_dcgmi(write(tmp_path / "log", LOG), interval_s=0.1)
    assert [(s.device, s.seconds) for s in samples] == [
        ("GPU 0", 0.0), ("GPU 1", 0.0), ("GPU 0", 0.1), ("GPU 1", 0.1), ("GPU 0", 0.2), ("GPU 1", 0.2),
    ]  # fmt: skip
    assert samples[0].fields == {1002: None, 1004: None, 1005: None}
    assert samples[2].fields == {1002: 0.957, 1004: 0.121, 1005: 0.903}
    assert samples[3].fields == {1002: 0, 1004: 0, 1005: 0}
    assert samples[5].fields == {1002: None, 1004: None, 1005: None}


def test_without_an_interval_there_is_no_time(tmp_path: Path) -> None:
    log = dcgmi_log(write(tmp_path / "log", LOG))
    assert {sample.seconds for sample in log.samples} == {None}
    assert any("seconds are not known" in note for note in log.notes)
    assert any("9 values were not sampled" in note for note in log.notes)


def test_columns_that_are_not_known_are_named(tmp_path: Path) -> None:
    text = "#Entity  SMACT  WHATX\x1b[31m  DRAMA\nID\nGPU 0  0.5  7  0.25\nGPU 0  0.5\nGPU x  1 2 3\nError: lost\n"
    log = dcgmi_log(write(tmp_path / "log", text), interval_s=1)
    assert log.samples[0].fields == {1002: 0.5, 1005: 0.25}
    assert log.notes[0] == "columns that are not known were left out: WHATX\N{REPLACEMENT CHARACTER}[31m"
    assert any("3 lines were no row" in note for note in log.notes)


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("TENSO", Field.TENSOR),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", Field.TENSOR),
        ("DCGM_FI_PROF_TENSOR_UTIL_RATIO", Field.TENSOR),
        ("DCGM_FI_PROF_SM_ACTIVE", Field.SM),
        ("DCGM_FI_PROF_SM_UTIL_RATIO", Field.SM),
        ("DCGM_FI_PROF_DRAM_ACTIVE", Field.DRAM),
        ("DCGM_FI_PROF_DRAM_UTIL_RATIO", Field.DRAM),
        ("GRACT", Field.GRAPHICS),
        ("SMOCC", Field.OCCUPANCY),
        ("FP64A", Field.FP64),
        ("PCITX", Field.PCIE_TX),
        ("NVLRX", Field.NVLINK_RX),
        ("1005", Field.DRAM),
        ("203", None),
        ("SMACTIVE", None),
    ],
)
def test_every_name_of_a_field(name: str, field: Field | None) -> None:
    assert field_of(name) == field


@pytest.mark.parametrize("value", [9223372036854775792.0, 2.0**47, 2.0**47 + 3, 2147483633.0,
                                   float("nan"), float("inf"), -1.0])  # fmt: skip
def test_blanks_are_not_sampled(value: float) -> None:
    assert sampled(value) is None


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0, 19694075554.0])
def test_what_was_sampled(value: float) -> None:
    assert sampled(value) == value


@pytest.mark.parametrize("data", [b"", b"\xff\xfe\x00\x01", b"GPU 0  0.5\n", b"<html></html>\n"])
def test_no_log_is_one_sentence(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(InputError, match="expected a log of `dcgmi dmon`"):
        read_dcgmi(write(tmp_path / "log", data))


@pytest.mark.parametrize("interval", [0, -1, float("nan"), float("inf")])
def test_no_interval_is_one_sentence(interval: float) -> None:
    with pytest.raises(InputError, match="above 0"):
        DcgmiReader(interval)


def test_a_log_that_is_cut_and_not_utf8(tmp_path: Path) -> None:
    log = dcgmi_log(write(tmp_path / "log", LOG.encode()[:-20] + b"\xff\xfe"), interval_s=1)
    assert len(log.samples) == 5
    assert any("1 lines were no row" in note for note in log.notes)


def test_the_command() -> None:
    assert dcgmi_command() == ["dcgmi", "dmon", "-e", "1001,1002,1003,1004,1005", "-d", "100"]
    with pytest.raises(InputError, match="from 1"):
        dcgmi_command(0)


@SHARED
def test_real_logs() -> None:
    """8 x H800: rates over PCIe and NVLink in byte/s, the first ticks not sampled."""
    first = read_dcgmi(SAMPLES / "h800_dmon_0.txt", interval_s=1)
    assert len(first) == 5
    assert [s.get(Field.PCIE_TX) for s in first] == [None, None, 498948, 449138, 548740]
    assert first[2].get(Field.NVLINK_TX) == 0
    second = read_dcgmi(SAMPLES / "h800_dmon_1.txt", interval_s=1)
    assert len(second) == 40, "16 rows of a second command come without a header"
    assert second[0].fields == {1011: 19694075554, 1012: 19687914629}
    assert dcgmi_log(SAMPLES / "h800_dmon_2.txt").samples[0].fields == {1011: None, 1012: None, 1009: None, 1010: None}
