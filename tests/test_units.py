"""Prefixes and dtypes: the only tables, so that each entry is held here."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from rooflens.core.op import DType
from rooflens.errors import UnitError
from rooflens.units import DTYPES, binary, dtype_name, parse, parse_amount, si


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("120 TFLOP/s", "FLOP/s", 120e12),
        ("120TFLOPS", "FLOP/s", 120e12),
        ("1.5TB/s", "B/s", 1.5e12),
        ("80GB", "B", 80e9),
        ("80GiB", "B", 80 * 2**30),
        ("24576 MiB", "B", 24576 * 2**20),
        ("12ms", "s", 0.012),
        ("3.5 µs", "s", 3.5e-6),
        ("100", "FLOP", 100.0),
        ("1,275,068,416", "B", 1275068416.0),
        ("2e3kB", "B", 2e6),
        (".5 GB", "B", 5e8),
    ],
)
def test_parse(text: str, unit: str, value: float) -> None:
    assert parse(text, unit) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize("text", ["", "GB", "1 GB/s", "1 Gb", "1 xB", "nan", "inf", "1e999", "--3", "1.2.3", "five"])
def test_parse_refuses(text: str) -> None:
    with pytest.raises(UnitError):
        parse(text, "B")


@pytest.mark.parametrize("text", ["-1", "0", "-3GB"])
def test_amounts_are_positive(text: str) -> None:
    with pytest.raises(UnitError, match="--peak"):
        parse_amount(text, "B", name="--peak")


def test_case_40_gb_and_gib() -> None:
    """80 GiB is 85.899 GB, 141 GB is 131.316 GiB, a 24,576 MiB card has 25.77 GB."""
    assert si(80 * 2**30, "B", 5) == "85.899 GB"
    assert binary(141e9, 6) == "131.316 GiB"
    assert si(24576 * 2**20, "B") == "25.77 GB"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (999.96e9, "1 TB"),
        (3.35e12, "3.35 TB"),
        (1.6e22, "16,000 EB"),
        (2e-6, "2 µB"),
        (-5e9, "-5 GB"),
    ],
)
def test_si(value: float, text: str) -> None:
    assert si(value, "B") == text


@given(st.floats(min_value=1e-11, max_value=1e20))
def test_si_is_read_back(value: float) -> None:
    """What is printed with 15 digits reads back as what it was: no prefix is off by one."""
    assert parse(si(value, "B", 15), "B") == pytest.approx(value, rel=1e-13)


def test_every_dtype_has_one_row() -> None:
    assert {member.value for member in DType} == set(DTYPES)
    spellings = [word for name, row in DTYPES.items() for word in (name, *row.aliases)]
    assert len(spellings) == len(set(spellings))


def test_case_39_bits_per_weight() -> None:
    """mxfp4 4 + 8/32, nvfp4 4 + 8/16, int4 in groups of 128 with one 16-bit scale 4 + 16/128."""
    assert (DType.MXFP4.bits, DType.NVFP4.bits, DType.INT4.bits) == (4.25, 4.5, 4.125)
    assert DType.INT4.bytes_of(128 * 1000) == 66_000


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("nf4", 4 + 32 / 64),
        ("nf4_dq", 4 + 8 / 64 + 32 / (64 * 256)),
        ("int4_g128_zp", 4 + (16 + 4) / 128),
        ("int4_g32", 4 + 16 / 32),
        ("int8_g128_zp", 8 + (16 + 8) / 128),
        ("int3_g64_zp", 3 + (16 + 3) / 64),
        ("mxfp8", 8 + 8 / 32),
        ("fp8_block", 8 + 32 / 128**2),
        ("q4_k", 4 + (2 * 16 + 12 * 8) / 256),
        ("q6_k", 6 + (16 + 16 * 8) / 256),
        ("iq4_nl", 4 + 16 / 32),
    ],
)
def test_scales_and_zero_points_are_bits(name: str, bits: float) -> None:
    assert DType(name).bits == bits


def test_what_a_matrix_has_besides_its_blocks() -> None:
    """A scale of each output channel, of the matrix, or of each square of 128 x 128, at the edges too."""
    assert DType("fp8_channel").matrix_bytes(100, 7) == 700 + 7 * 2
    assert DType("fp8_tensor").matrix_bytes(100, 7) == 700 + 4
    assert DType("int4_channel_zp").matrix_bytes(100, 7) == 350 + 18, "17.5 bytes of scales and zero points"
    assert DType("fp8_block").matrix_bytes(7168, 576) == 7168 * 576 + 56 * 5 * 4
    assert DType.INT4.matrix_bytes(256, 3) == DType.INT4.bytes_of(768) == 396
    assert DType.BF16.matrix_bytes(3, 5) == 30


def test_dtype_spellings() -> None:
    assert dtype_name("torch.bfloat16") == "bf16"
    assert dtype_name("Float8_e4m3fn") == "fp8"
    with pytest.raises(UnitError, match="known are fp64"):
        dtype_name("bf17")
