"""Measured figures in accelerator files: what is read, what is refused, and that what is written is read again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from rooflens.core.hardware import Ceiling, Hardware, KernelShape, MemoryLevel
from rooflens.core.op import DType, Provenance
from rooflens.errors import HardwareError
from rooflens.render.hardware_toml import hardware_toml
from rooflens.sources.hardware import hardware_names, load_hardware, read_hardware

MEASURED = """
name = "this-machine"
source = "measured here"
kind = "measured"

[matrix]
fp32 = { value = "150 GFLOP/s", spread = 0.03, note = "best of two" }

[memory]
type = "DDR5"
bandwidth = { value = "28 GB/s", spread = 0.12 }
driver_size = { value = "24 GiB", kind = "driver", source = "the system" }

[memory.patterns]
read = { value = "28 GB/s", spread = 0.12 }
copy_nt = "44 GB/s"

[[caches]]
name = "L1"
size = "32 KiB"
bandwidth = "200 GB/s"
patterns = { read = "200 GB/s", triad = { value = "220 GB/s", spread = 0 } }

[kernels.m1_linear]
fp32 = { value = "26 GB/s", spread = 0.01 }
bf16 = "24 GB/s"

[kernels.decode_attention]
fp16 = "12 GB/s"

[conditions]
processor = "Example 9000"
"throttle reasons" = "none"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "machine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_measured_figures_are_read(tmp_path: Path) -> None:
    part = read_hardware(write(tmp_path, MEASURED))
    assert part.origin == "measured"
    assert part.matrix[DType.FP32] == Ceiling(150e9, Provenance("measured", "measured here", "best of two"), 0.03)
    assert part.memory.patterns["read"].value == 28e9
    assert part.memory.patterns["copy_nt"].spread is None
    assert set(part.memory.patterns) == {"read", "copy_nt"}
    assert part.caches[0].patterns["triad"].spread == 0
    assert {key: figure.value for key, figure in part.kernels.items()} == {
        (KernelShape.M1_LINEAR, DType.FP32): 26e9,
        (KernelShape.M1_LINEAR, DType.BF16): 24e9,
        (KernelShape.DECODE_ATTENTION, DType.FP16): 12e9,
    }
    assert part.conditions == (("processor", "Example 9000"), ("throttle reasons", "none"))


def test_a_figure_is_stable_up_to_a_tenth() -> None:
    origin = Provenance("measured", "here")
    stable = [Ceiling(1.0, origin, spread).stable for spread in (None, 0.0, 0.10, 0.11)]
    assert stable == [True, True, True, False]


def test_what_is_not_in_a_file_is_empty(tmp_path: Path) -> None:
    part = read_hardware(write(tmp_path, 'name = "x"\nmemory.bandwidth = "1 TB/s"\n'))
    assert (part.kernels, part.memory.patterns, part.conditions) == ({}, {}, ())


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("spread = 0.03", 'spread = "3 %"', "matrix.fp32.spread is '3 %'; a plain number"),
        ("spread = 0.03", "spread = true", "matrix.fp32.spread is True; a plain number"),
        ("spread = 0.03", "spread = -0.1", "matrix.fp32.spread is -0.1; 0 to 1000"),
        ("spread = 0.03", "spread = nan", "matrix.fp32.spread is nan; 0 to 1000"),
        ("spread = 0.03", "spraed = 0.03", "unknown key 'spraed'"),
        ("copy_nt", "copy_fast", "unknown key 'copy_fast'"),
        ("triad =", "quad =", "unknown key 'quad'"),
        ("kernels.m1_linear", "kernels.m2_linear", "unknown key 'm2_linear'"),
        ("bf16 =", "bf15 =", "unknown key 'bf15'"),
        ('bf16 = "24 GB/s"', 'bf16 = "24 TFLOP/s"', "a figure in B/s is expected"),
        ('bf16 = "24 GB/s"', 'bf16 = "24 EB/s"', "1e+15 B/s is expected"),
        ('bf16 = "24 GB/s"', "bf16 = 24", "text with a unit is expected"),
        ('processor = "Example 9000"', "processor = 9000", "conditions.processor is 9000; one line of text"),
        ('"throttle reasons"', '" "', "is no name"),
        ('fp16 = "12 GB/s"', 'fp16 = { value = "12 GB/s", source = 3 }', "one line of text is expected"),
    ],
)
def test_wrong_figures_are_refused(tmp_path: Path, old: str, new: str, problem: str) -> None:
    assert old in MEASURED
    with pytest.raises(HardwareError) as refusal:
        read_hardware(write(tmp_path, MEASURED.replace(old, new, 1)))
    assert problem in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("key", ["kernels", "conditions", "memory.patterns"])
def test_a_table_that_is_none_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(HardwareError, match="a table is expected"):
        read_hardware(write(tmp_path, f'name = "x"\n{key} = 3\nmemory.bandwidth = "1 TB/s"\n'))


# What is written is read again


def again(hardware: Hardware, folder: Path) -> Hardware:
    return read_hardware(write(folder, hardware_toml(hardware)))


@pytest.mark.parametrize("name", hardware_names())
def test_every_bundled_part_survives(name: str, tmp_path: Path) -> None:
    part = load_hardware(name)
    assert again(part, tmp_path) == part


def test_a_measured_part_survives(tmp_path: Path) -> None:
    part = read_hardware(write(tmp_path, MEASURED))
    assert again(part, tmp_path) == part


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=20)
ORIGINS = st.builds(Provenance, st.sampled_from(["measured", "driver", "user"]), WORDS, st.just("") | WORDS)


def ceilings(low: float, high: float) -> st.SearchStrategy[Ceiling]:
    return st.builds(Ceiling, st.floats(low, high), ORIGINS, st.none() | st.floats(0, 1000))


PATTERNS = st.dictionaries(st.sampled_from(["read", "copy", "triad", "copy_nt", "triad_nt"]), ceilings(1e8, 1e15))
ARITHMETIC = st.sampled_from([dtype for dtype in DType if dtype.arithmetic is dtype])
PARTS = st.builds(
    Hardware,
    name=WORDS,
    title=WORDS,
    vendor=WORDS,
    architecture=WORDS,
    memory=st.builds(MemoryLevel, WORDS, ceilings(1e8, 1e15), st.none(), PATTERNS),
    matrix=st.dictionaries(ARITHMETIC, ceilings(1e9, 1e19), max_size=3),
    memory_driver=ceilings(1e6, 1e16),
    boost_hz=ceilings(1e6, 1e11),
    caches=st.lists(st.builds(MemoryLevel, WORDS, ceilings(1e8, 1e15), ceilings(1e3, 1e13), PATTERNS), max_size=2).map(
        tuple
    ),
    kernels=st.dictionaries(st.tuples(st.sampled_from(KernelShape), ARITHMETIC), ceilings(1e5, 1e15), max_size=3),
    conditions=st.dictionaries(WORDS, WORDS, max_size=3).map(lambda d: tuple(d.items())),
    origin=st.just("measured"),
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(part=PARTS)
def test_any_part_survives_to_the_last_bit(tmp_path: Path, part: Hardware) -> None:
    whole = replace(part, memory=replace(part.memory, capacity=part.memory_driver))
    back = again(whole, tmp_path)
    if back.boost_hz != whole.boost_hz:  # megahertz x 1e6 does not reach every double
        assert back.boost_hz is not None
        assert back.boost_hz.value == pytest.approx(whole.boost_hz.value, rel=1e-15)
        back = replace(back, boost_hz=whole.boost_hz)
    assert back == whole


def test_text_of_several_lines_is_not_written() -> None:
    part = replace(load_hardware("h100-sxm"), notes=("two\nlines",))
    with pytest.raises(ValueError, match="one line of printable text"):
        hardware_toml(part)


def test_many_notes_are_written_as_lines_that_are_read(tmp_path: Path) -> None:
    part = replace(load_hardware("h100-sxm"), notes=tuple(f"note {index} {'x' * 200}" for index in range(40)))
    assert again(part, tmp_path) == part
