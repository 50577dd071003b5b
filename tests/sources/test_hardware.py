"""Accelerator files and their names: figures that must survive, what every file owes, what is refused."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from rooflens.core.hardware import Ceiling, Hardware
from rooflens.core.op import DType
from rooflens.errors import HardwareError, UnknownHardwareError, UnknownPeakError
from rooflens.render.gpu import hardware_document, hardware_list, hardware_list_document, hardware_table
from rooflens.roofline import ridge_point
from rooflens.sources import hardware as naming
from rooflens.sources.hardware import canonical, from_device_name, hardware_names, load_hardware, read_hardware
from rooflens.sources.toml_table import KINDS, LARGEST_FILE_BYTES, read_toml
from rooflens.units import binary, parse

NAMES = hardware_names()
MINIMAL = 'name = "my-card"\nmatrix.bf16 = "100 TFLOP/s"\nmemory.bandwidth = "1 TB/s"\nmemory.size = "24 GB"\n'

DOCUMENTATION = (Path(__file__).parents[2] / "docs" / "accelerators.md").read_text(encoding="utf-8")
DOCUMENTED = re.findall(r"```toml\n(.*?)```", DOCUMENTATION, flags=re.DOTALL)


def figures(part: Hardware) -> dict[str, Ceiling]:
    """Every figure of a part by its place in the file."""
    found: dict[str, Ceiling | None] = {f"matrix.{d}": c for d, c in part.matrix.items()}
    found |= {f"vector.{d}": c for d, c in part.vector.items()}
    found |= {"bandwidth": part.memory.bandwidth, "size": part.memory_label, "driver_size": part.memory_driver}
    found |= {"power": part.power_w, "multiprocessors": part.multiprocessors, "boost": part.boost_hz}
    for cache in part.caches:
        found |= {f"{cache.name}.size": cache.capacity, f"{cache.name}.bandwidth": cache.bandwidth}
    for link in part.links:
        found |= {f"{link.name}.per_direction": link.per_direction, f"{link.name}.total": link.total}
    return {name: ceiling for name, ceiling in found.items() if ceiling is not None}


def write(folder: Path, text: str, name: str = "card.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


# Figures that must survive


@pytest.mark.parametrize(
    ("name", "peak", "bandwidth", "ridge"),
    [
        ("a100-sxm-80gb", 312e12, 2.039e12, 153.0),
        ("h100-sxm", 989.5e12, 3.35e12, 295.4),
        ("h100-pcie", 756.5e12, 2.0e12, 378.2),
        ("h20", 148e12, 4.0e12, 37.0),
    ],
)
def test_ridge_points(name: str, peak: float, bandwidth: float, ridge: float) -> None:
    roof = load_hardware(name).roof(DType.BF16)
    assert roof.peak == pytest.approx(peak)
    assert roof.bandwidth == pytest.approx(bandwidth)
    assert round(ridge_point(roof), 1) == ridge


def test_from_a100_to_h100_compute_grows_more_than_bandwidth() -> None:
    old, new = load_hardware("a100-sxm-80gb").roof(DType.BF16), load_hardware("h100-sxm").roof(DType.BF16)
    assert round(new.peak / old.peak, 2) == 3.17
    assert round(new.bandwidth / old.bandwidth, 2) == 1.64


@pytest.mark.parametrize(
    ("name", "mib"),
    [
        ("a100-sxm-80gb", 81_920),
        ("h100-sxm", 81_559),
        ("h100-pcie", 81_559),
        ("h200-sxm", 143_771),
        ("b200-sxm", 183_359),
        ("l40s", 46_068),
        ("gb200", 189_471),
        ("b300-sxm", 275_040),
        ("gb300", 284_208),
        ("rtx-pro-6000-server", 97_887),
    ],
)
def test_memory_is_what_the_driver_reports(name: str, mib: int) -> None:
    part = load_hardware(name)
    assert part.memory_bytes is not None
    assert part.memory_bytes.value == mib * 2**20
    assert part.memory_label is not None


def test_memory_is_the_label_where_the_driver_is_not_known() -> None:
    part = load_hardware("h800-sxm")
    assert part.memory_driver is None
    assert part.memory_bytes == part.memory_label == part.memory.capacity
    assert part.memory_bytes is not None
    assert part.memory_bytes.value == 80e9


def test_bandwidth_of_the_b200_keeps_both_figures() -> None:
    part = load_hardware("b200-sxm")
    conflict = next(c for c in part.conflicts if c.field == "memory.bandwidth")
    assert part.memory.bandwidth is not None
    assert part.memory.bandwidth.value == 8e12
    assert conflict.used.startswith("8.0 TB/s")
    assert any("7.67 TB/s" in value for value in conflict.values)


# What every file owes


def test_there_are_75_parts() -> None:
    assert len(NAMES) == 75


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_has_a_source(name: str) -> None:
    part = load_hardware(name)
    assert part.name == name
    assert part.vendor
    assert part.architecture
    assert part.confidence
    for place, ceiling in figures(part).items():
        assert ceiling.provenance.source, place
        assert not ceiling.provenance.source.endswith(".toml"), place
        assert ceiling.provenance.kind in KINDS, place
        assert ceiling.provenance.kind != "user", place


@pytest.mark.parametrize("name", NAMES)
def test_no_dtype_is_both_known_and_absent(name: str) -> None:
    part = load_hardware(name)
    assert not part.absent & set(part.matrix)


FASTER_FP4 = {
    "rtx-5090": "fp8 counts fp32 accumulation, fp4 does not: 1676 and 419",
    "b300-sxm": "14 PFLOP/s of nvfp4 beside 4.5 of fp8",
    "gb300": "15 PFLOP/s of nvfp4 beside 5 of fp8",
}
"""Parts whose fp4 is more than twice fp8, each said in its file."""


@pytest.mark.parametrize("name", NAMES)
def test_no_peak_is_sparse(name: str) -> None:
    """A sparse figure is twice the dense one: with one among the peaks a ratio would be about 4."""
    part = load_hardware(name)
    peaks = {dtype: ceiling.value for dtype, ceiling in part.matrix.items()}
    steps = [(DType.FP8, DType.BF16), (DType.INT4, DType.INT8)]
    if part.vendor in ("NVIDIA", "AMD"):
        steps += [
            (DType.BF16, DType.TF32),
            (DType.FP16, DType.TF32),
            (DType.BF16, DType.FP16),
            (DType.FP16, DType.BF16),
        ]
    if name not in FASTER_FP4:
        steps.append((DType.FP4, DType.FP8))
    for high, low in steps:
        if high in peaks and low in peaks:
            most = 1 if {high, low} == {DType.BF16, DType.FP16} else 2.05
            assert peaks[high] <= most * peaks[low], (high, low)


@pytest.mark.parametrize("name", sorted(FASTER_FP4))
def test_parts_with_faster_fp4_say_so(name: str) -> None:
    part = load_hardware(name)
    assert part.matrix[DType.FP4].value > 2.05 * part.matrix[DType.FP8].value
    remarks = " ".join([*part.notes, *(c.field for c in part.conflicts), part.matrix[DType.FP8].provenance.note])
    assert "fp4" in remarks


@pytest.mark.parametrize(
    ("name", "dtype", "sparse"),
    [
        ("h100-sxm", DType.BF16, 1979e12),
        ("h100-sxm", DType.FP8, 3958e12),
        ("h100-pcie", DType.BF16, 1513e12),
        ("a100-sxm-80gb", DType.BF16, 624e12),
        ("l4", DType.BF16, 242e12),
        ("l4", DType.FP8, 485e12),
        ("rtx-4090", DType.FP8, 1321e12),
        ("rtx-5090", DType.FP4, 3352e12),
        ("b200-sxm", DType.BF16, 4500e12),
        ("mi355x", DType.FP8, 10_066.3e12),
        ("trainium2", DType.FP8, 2563e12),
    ],
)
def test_known_sparse_figures_are_not_used(name: str, dtype: DType, sparse: float) -> None:
    assert load_hardware(name).matrix[dtype].value < 0.8 * sparse


@pytest.mark.parametrize("name", NAMES)
def test_a_link_carries_twice_one_direction(name: str) -> None:
    for link in load_hardware(name).links:
        if link.per_direction and link.total:
            assert link.total.value == pytest.approx(2 * link.per_direction.value)


@pytest.mark.parametrize("name", NAMES)
def test_conflicts_use_one_of_their_values(name: str) -> None:
    part = load_hardware(name)
    for conflict in part.conflicts:
        assert len(conflict.values) > 1
        assert any(value.startswith(conflict.used) for value in conflict.values)


def test_unknown_and_absent_stay_apart() -> None:
    with pytest.raises(UnknownPeakError, match="do not have it"):
        load_hardware("a100-sxm-80gb").roof(DType.FP8)
    with pytest.raises(UnknownPeakError, match="not published"):
        load_hardware("dgx-spark").roof(DType.BF16)


def test_units_of_memory() -> None:
    assert parse("24,576 MiB", "B") / 1e9 == pytest.approx(25.77, abs=0.005)
    assert parse("80 GiB", "B") / 1e9 == pytest.approx(85.899, abs=0.0005)
    assert binary(parse("141 GB", "B"), 6) == "131.316 GiB"
    card = load_hardware("rtx-3090")
    assert card.memory_bytes is not None
    assert card.memory_bytes.value / 1e9 == pytest.approx(25.77, abs=0.005)
    tpu = load_hardware("trainium1").memory_bytes
    assert tpu is not None
    assert tpu.value == 32 * 2**30


# Names


def all_names() -> list[tuple[str, str]]:
    return [(known, name) for name in NAMES for known in (name, *load_hardware(name).aliases)]


def test_names_and_aliases_are_unique() -> None:
    known = [canonical(alias) for alias, _ in all_names()]
    assert len(known) == len(set(known))


def test_device_names_are_unique() -> None:
    devices = [device for name in NAMES for device in load_hardware(name).device_names]
    unclear = [d for n in NAMES for d in read_toml(str(naming.FOLDER / f"{n}.toml")).get("unclear_device_names", {})]
    assert len(devices) == len(set(devices))
    assert not set(devices) & set(unclear)


@pytest.mark.parametrize(("known", "name"), all_names())
def test_every_name_and_alias_finds_its_part(known: str, name: str) -> None:
    assert load_hardware(known).name == name
    assert load_hardware(known.upper().replace("-", " ")).name == name
    assert load_hardware(known.replace("-", "_")).name == name


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("H100 SXM", "h100-sxm"),
        ("h100-sxm5-80gb", "h100-sxm"),
        ("NVIDIA H100 SXM", "h100-sxm"),
        ("a100 80gb sxm4", "a100-sxm-80gb"),
        ("b200", "b200-sxm"),
        ("mi300", "mi300x"),
        ("AMD Instinct MI300X", "mi300x"),
        ("4090", "rtx-4090"),
        ("rtx4090", "rtx-4090"),
        ("GeForce RTX 4090", "rtx-4090"),
        ("Tesla T4", "t4"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA H200", "h200-sxm"),
    ],
)
def test_spellings(spelling: str, name: str) -> None:
    assert load_hardware(spelling).name == name


@pytest.mark.parametrize(
    ("family", "members"),
    [
        ("h100", {"h100-sxm", "h100-pcie", "h100-nvl"}),
        ("a100", {"a100-sxm-80gb", "a100-sxm-40gb", "a100-pcie-80gb", "a100-pcie-40gb"}),
        ("A100 80GB", {"a100-sxm-80gb", "a100-pcie-80gb"}),
        ("h200", {"h200-sxm", "h200-nvl"}),
        ("gh200", {"gh200-96gb", "gh200-144gb"}),
        ("v100", {"v100-sxm-16gb", "v100-sxm-32gb", "v100-pcie-16gb", "v100-pcie-32gb"}),
        ("rtx-pro-6000", {"rtx-pro-6000-ws", "rtx-pro-6000-server"}),
        ("m3-max", {"apple-m3-max-30core", "apple-m3-max-40core"}),
        ("trainium", {"trainium1", "trainium2"}),
    ],
)
def test_families_are_refused_with_their_members(family: str, members: set[str]) -> None:
    with pytest.raises(UnknownHardwareError) as refusal:
        load_hardware(family)
    listed = str(refusal.value).partition("name one: ")[2]
    assert set(listed.split(", ")) == members


@pytest.mark.parametrize(
    ("wrong", "near"), [("h100-sxmm", "h100-sxm"), ("mi355xx", "mi355x"), ("a800", "a800-sxm-80gb")]
)
def test_unknown_names_are_refused_with_the_nearest(wrong: str, near: str) -> None:
    with pytest.raises(UnknownHardwareError, match=re.escape(near)):
        load_hardware(wrong)


@pytest.mark.parametrize("name", ["", "  ", "foo", "..", "\0", "x" * 10_000, "ÿ", "[bold]"])
def test_names_for_nothing_are_refused(name: str) -> None:
    with pytest.raises(UnknownHardwareError, match="--gpu"):
        load_hardware(name)


def test_an_exact_name_reads_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    naming._index.cache_clear()
    monkeypatch.setattr(naming, "read_toml", read.append)
    monkeypatch.setattr(naming, "read_hardware", lambda path: read.append(str(path)))
    load_hardware("H100 SXM")
    assert [Path(path).name for path in read] == ["h100-sxm.toml"]


# What drivers report


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"),
        ("NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA L40", "l40"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA A10", "a10"),
        ("NVIDIA A10G", "a10g"),
        ("NVIDIA H20", "h20"),
        ("NVIDIA H200", "h200-sxm"),
        ("NVIDIA H200 NVL", "h200-nvl"),
        ("NVIDIA GH200 480GB", "gh200-96gb"),
        ("NVIDIA B200", "b200-sxm"),
        ("NVIDIA GB200", "gb200"),
        ("NVIDIA B300 SXM6 AC", "b300-sxm"),
        ("Tesla T4", "t4"),
        ("Tesla V100-SXM2-16GB", "v100-sxm-16gb"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"),
        ("AMD Instinct MI300X", "mi300x"),
        ("AMD Instinct MI300X VF", "mi300x"),
    ],
)
def test_device_names(device: str, name: str) -> None:
    assert from_device_name(device).name == name


def test_the_80_gb_a100_is_not_the_40_gb_one() -> None:
    bandwidth = from_device_name("NVIDIA A100-SXM4-80GB").memory.bandwidth
    assert bandwidth is not None
    assert bandwidth.value == pytest.approx(2039e9)


@pytest.mark.parametrize(
    "device",
    [
        "",
        " ",
        "AMD Radeon Graphics",
        "NVIDIA H100",
        "NVIDIA H100 80GB HBM2e",
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "nvidia h100 pcie",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "h100-sxm",
        "Graphics Device",
    ],
)
def test_devices_that_are_not_known_ask_for_a_name(device: str) -> None:
    with pytest.raises(UnknownHardwareError, match="--gpu"):
        from_device_name(device)


@pytest.mark.parametrize(
    ("device", "reason"),
    [("AMD Instinct MI250X", "GCD"), ("Orin", "every Orin"), ("Apple M3 Max", "30 and with 40"), ("TPU7x", "halves")],
)
def test_devices_that_do_not_tell_the_part_say_why(device: str, reason: str) -> None:
    with pytest.raises(UnknownHardwareError, match=reason):
        from_device_name(device)


# Files of users


def test_a_minimal_file(tmp_path: Path) -> None:
    path = write(tmp_path, MINIMAL)
    part = load_hardware(str(path))
    assert part.origin == "user"
    assert part.title == "my-card"
    assert ridge_point(part.roof(DType.BF16)) == 100.0
    assert part.memory_bytes is not None
    assert part.memory_bytes.value == 24e9
    assert part.memory_bytes.provenance.kind == "user"
    assert part.memory_bytes.provenance.source == str(path)
    assert hardware_document(part)["matrix"]["bf16"]["kind"] == "user"


def test_sources_pass_from_file_to_table_to_figure(tmp_path: Path) -> None:
    text = """
        name = "a"
        source = "sheet"
        [matrix]
        bf16 = "1 PFLOP/s"
        fp8 = { value = "2 PFLOP/s", kind = "derived", note = "twice bf16" }
        fp4 = { value = "4 PFLOP/s", source = "page" }
        [memory]
        source = "other"
        kind = "measured"
        bandwidth = "1 TB/s"
    """
    part = read_hardware(write(tmp_path, text))
    origin = {place: (c.provenance.source, c.provenance.kind, c.provenance.note) for place, c in figures(part).items()}
    assert origin == {
        "matrix.bf16": ("sheet", "data sheet", ""),
        "matrix.fp8": ("sheet", "derived", "twice bf16"),
        "matrix.fp4": ("page", "data sheet", ""),
        "bandwidth": ("other", "measured", ""),
    }


def test_a_path_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, MINIMAL, "my card")
    write(tmp_path, MINIMAL, "h100-sxm")
    monkeypatch.chdir(tmp_path)
    assert load_hardware("my card").name == "my-card"
    assert load_hardware(tmp_path / "my card").name == "my-card"
    assert load_hardware("./h100-sxm").name == "my-card"
    assert load_hardware("h100-sxm").vendor == "NVIDIA"


def test_a_byte_order_mark_is_read_over(tmp_path: Path) -> None:
    path = tmp_path / "card.toml"
    path.write_bytes(b"\xef\xbb\xbf" + MINIMAL.encode())
    assert read_hardware(path).name == "my-card"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('name = "my-card"', ""), "name is missing"),
        (('name = "my-card"', 'name = ""'), "one line of text"),
        (('name = "my-card"', 'name = "a\\nb"'), "one line of text"),
        (('memory.bandwidth = "1 TB/s"\n', ""), "memory.bandwidth is missing"),
        (('memory.bandwidth = "1 TB/s"\nmemory.size = "24 GB"', "memory = 3"), "a table is expected"),
        (("matrix.bf16", "matrix.bf17"), "unknown key 'bf17'"),
        (("matrix.bf16", "matrix.mxfp4"), "unknown key 'mxfp4'"),
        (("matrix.bf16", "matrx.bf16"), "unknown key 'matrx'"),
        (('"100 TFLOP/s"', "100e12"), "text with a unit"),
        (('"100 TFLOP/s"', "true"), "text with a unit"),
        (('"100 TFLOP/s"', '["100 TFLOP/s"]'), "text with a unit"),
        (('"100 TFLOP/s"', "{ note = 'x' }"), "text with a unit"),
        (('"100 TFLOP/s"', "{ value = '1 PFLOP/s', sourc = 'x' }"), "unknown key 'sourc'"),
        (('"100 TFLOP/s"', "{ value = '1 PFLOP/s', kind = 'guess' }"), "'guess'"),
        (('"100 TFLOP/s"', '"100 TB/s"'), "a figure in FLOP/s"),
        (('"100 TFLOP/s"', '"100"'), "1e\\+09 to 1e\\+19"),
        (('"100 TFLOP/s"', '"-100 TFLOP/s"'), "1e\\+09 to 1e\\+19"),
        (('"100 TFLOP/s"', '"0 TFLOP/s"'), "1e\\+09 to 1e\\+19"),
        (('"100 TFLOP/s"', '"nan TFLOP/s"'), "a figure in FLOP/s"),
        (('"100 TFLOP/s"', '"inf"'), "a figure in FLOP/s"),
        (('"100 TFLOP/s"', '"1e400 TFLOP/s"'), "a figure in FLOP/s"),
        (('"100 TFLOP/s"', '"100 EFLOP/s"'), "1e\\+09 to 1e\\+19"),
        (('"1 TB/s"', '"10 MB/s"'), "1e\\+08 to 1e\\+15"),
        (('"1 TB/s"', '"2000 TB/s"'), "1e\\+08 to 1e\\+15"),
        (('"24 GB"', '"24"'), "1e\\+06 to 1e\\+16"),
        (('"24 GB"', '"24 GB"\nchip.power_w = nan'), "0.1 to 100000"),
        (('"24 GB"', '"24 GB"\nchip.power_w = "700 W"'), "a plain number"),
        (('"24 GB"', '"24 GB"\nmatrix.absent = ["bf16"]'), "has a peak as well"),
        (('"24 GB"', '"24 GB"\nmatrix.absent = ["bf17"]'), "bf17"),
        (('"24 GB"', '"24 GB"\nlinks = 3'), r"\[\[links\]\]"),
        (('"24 GB"', '"24 GB"\nlinks = [3]'), "a table is expected"),
        (('"24 GB"', '"24 GB"\nlinks = [{ total = "1 GB/s" }]'), r"links\[0\].name is missing"),
        (('"24 GB"', '"24 GB"\naliases = "x"'), "a list of texts"),
        (('"24 GB"', '"24 GB"\nunclear_device_names = []'), "a table of reasons"),
        (('"24 GB"', '"24 GB'), "not valid TOML"),
    ],
)
def test_refusals(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    text = MINIMAL.replace(*change)
    assert text != MINIMAL
    path = write(tmp_path, text)
    with pytest.raises(HardwareError, match=message) as refusal:
        read_hardware(path)
    sentence = str(refusal.value)
    assert sentence.startswith(str(path))
    assert "\n" not in sentence
    assert len(sentence) < len(str(path)) + 300


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    loop, binary_file, large = tmp_path / "loop.toml", tmp_path / "binary.toml", tmp_path / "large.toml"
    loop.symlink_to(loop)
    binary_file.write_bytes(b'name = "\xff\xfe"')
    large.write_text(MINIMAL + "#" * LARGEST_FILE_BYTES, encoding="utf-8")
    deep = write(tmp_path, "a = " + "[" * 100_000, "deep.toml")
    number = write(tmp_path, "a = " + "9" * 10_000, "number.toml")
    for path in (loop, binary_file, large, deep, number, tmp_path, tmp_path / "none.toml", Path(os.devnull)):
        with pytest.raises(HardwareError) as refusal:
            load_hardware(path)
        assert "\n" not in str(refusal.value)
        assert str(path) in str(refusal.value)


def test_a_path_with_a_null_byte() -> None:
    with pytest.raises(HardwareError):
        load_hardware("a\0b.toml")


def test_a_file_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("rooflens.sources.files.open", denied, raising=False)
    with pytest.raises(HardwareError, match="Permission denied"):
        read_hardware(write(tmp_path, MINIMAL))


@pytest.mark.parametrize("example", DOCUMENTED, ids=lambda text: text.splitlines()[0])
def test_the_documented_files_are_valid(tmp_path: Path, example: str) -> None:
    part = read_hardware(write(tmp_path, example))
    assert part.roof(DType.BF16).bandwidth > 1e12


def test_the_documented_keys_are_those_of_the_schema(tmp_path: Path) -> None:
    """Every key that a file may hold is named in the documentation, as the refusal of an unknown one lists them."""
    for place in ("", "matrix.", "vector.", "memory.", "chip.", "caches = [{", "links = [{", "conflicts = [{"):
        line = f"{place}no_such_key = 1{' }]' if place.endswith('{') else ''}\n"
        with pytest.raises(HardwareError, match="known are ") as refusal:
            read_hardware(write(tmp_path, line + MINIMAL))
        for key in str(refusal.value).partition("known are ")[2].split(", "):
            assert f"`{key}`" in DOCUMENTATION or f".{key}`" in DOCUMENTATION, key


WORDS = st.sampled_from(
    ["name", "matrix", "memory", "bandwidth", "size", "bf16", "absent", "links", "value", "source", "kind", "conflicts"]
)
VALUES = st.one_of(
    st.sampled_from(
        ['"1 TB/s"', '"24 GB"', '"1e999 TB/s"', "nan", "-inf", "1979-05-27", "[]", "{}", '""', "0x1", "true"]
    ),
    st.integers().map(str),
    st.floats().map(str),
    st.text(max_size=12).map(lambda text: repr(text)),
)
LINES = st.one_of(
    st.tuples(st.lists(WORDS, min_size=1, max_size=3), VALUES).map(lambda line: f"{'.'.join(line[0])} = {line[1]}"),
    WORDS.map(lambda word: f"[{word}]"),
    WORDS.map(lambda word: f"[[{word}]]"),
    st.text(max_size=20),
)


def read_or_refuse(path: Path) -> Hardware | None:
    """The part, or None where it is refused in one line; any other exception fails the test."""
    try:
        return read_hardware(path)
    except HardwareError as error:
        refusal = str(error)
    assert "\n" not in refusal
    return None


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(LINES, max_size=12), base=st.sampled_from(["", MINIMAL]))
def test_random_files_are_read_or_refused(tmp_path: Path, lines: list[str], base: str) -> None:
    path = tmp_path / "card.toml"
    path.write_bytes((base + "\n".join(lines)).encode("utf-8", "surrogatepass"))
    part = read_or_refuse(path)
    if part:
        assert part.memory.bandwidth is not None
        assert 1e8 <= part.memory.bandwidth.value <= 1e15


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(NAMES), data=st.data())
def test_mutated_files_are_read_or_refused(tmp_path: Path, name: str, data: st.DataObject) -> None:
    content = bytearray((naming.FOLDER / f"{name}.toml").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        length = data.draw(st.integers(0, 8))
        content[at : at + length] = data.draw(st.binary(max_size=8))
    path = tmp_path / "card.toml"
    path.write_bytes(bytes(content))
    part = read_or_refuse(path)
    if part:
        assert all(ceiling.value > 0 for ceiling in figures(part).values())


# How parts are shown


def printed(part: object) -> str:
    from rich.console import Console

    console = Console(width=240, record=True, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    console.print(part)
    return console.export_text()


def test_the_list_shows_every_part() -> None:
    parts = [load_hardware(name) for name in NAMES]
    text = printed(hardware_list(parts))
    for name in NAMES:
        assert name in text
    row = next(line for line in text.splitlines() if " h100-sxm " in line)
    for cell in ("989.5 TFLOP/s", "1.979 PFLOP/s", "85.52 GB", "3.35 TB/s", "295.4", "high"):
        assert cell in row


def test_a_page_shows_sources_conflicts_and_both_sizes() -> None:
    text = printed(hardware_table(load_hardware("b200-sxm")))
    for part in ("180 GB (167.6 GiB)", "192.3 GB (179.1 GiB)", "nvidia-smi", "281.2 FLOP/byte", "7.67 TB/s", "8 TB/s"):
        assert part in text
    assert "keeps a floor a floor" in text


def test_pages_print_brackets_as_they_are(tmp_path: Path) -> None:
    part = read_hardware(write(tmp_path, MINIMAL.replace("my-card", "[bold]x[/]")))
    assert "[bold]x[/]" in printed(hardware_table(part))
    assert "[bold]x[/]" in printed(hardware_list([part]))


@pytest.mark.parametrize("name", NAMES)
def test_documents_are_plain_and_complete(name: str) -> None:
    import json

    part = load_hardware(name)
    document = hardware_document(part)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["schema"] == "rooflens.hardware/1"
    assert set(document["ridge_points"]) == {str(dtype) for dtype in part.dtypes()}
    assert printed(hardware_table(part))


def test_the_list_document() -> None:
    document = hardware_list_document([load_hardware("h100-sxm"), load_hardware("apple-m2"), load_hardware("t4")])
    h100, apple, t4 = document["parts"]
    assert h100["ridge_point"] == pytest.approx(989.5 / 3.35)
    assert apple["ridge_point"] is None
    assert apple["memory_bytes"] is None
    assert t4["ridge_point_dtype"] == "fp16"
