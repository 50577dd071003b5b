"""Tables of Nsight Compute in both layouts, and everything that can be wrong with one. Counts are written out here."""

from __future__ import annotations

import csv
import io
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from rooflens.core.counters import KernelCounters
from rooflens.core.op import DType
from rooflens.errors import InputError, MissingExtraError, RooflensError
from rooflens.sources import csv_file
from rooflens.sources.ncu import read_ncu
from rooflens.sources.ncu_values import decimal_comma, number, scale

SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "data" / "traces" / "ncu"
sample = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the samples are not beside this checkout")

SASS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
TENSOR = "sm__ops_path_tensor_src_{}.sum"
HOST, PROCESS = "host-of-the-user", "secret-program"
FIXED = ["0", "77", PROCESS, HOST, "gemv(int, float)", "1", "7", "(32, 4, 1)", "(224, 1, 1)", "0", "9.0"]
COLUMNS = [
    *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size"),
    *("Device", "CC"),
]
VECTOR: dict[str, tuple[str, str]] = {
    SASS.format(op): ("inst", "0") for op in ["fadd", "fmul", "ffma", "hadd", "hmul", "hfma", "dadd", "dmul", "dfma"]
}
GEMV: dict[str, tuple[str, str]] = {
    "gpu__time_duration.sum": ("us", "6.75"),
    "dram__bytes_read.sum": ("Mbyte", "2.30"),
    "dram__bytes_write.sum": ("byte", "0"),
    "lts__t_bytes.sum": ("Kbyte", "2,400.5"),
    "l1tex__t_bytes.sum": ("byte", "4,800,000"),
    **VECTOR,
    SASS.format("ffma"): ("inst", "1,146,880"),
    SASS.format("fadd"): ("inst", "1,000"),
    TENSOR.format("bf16_dst_fp32"): ("", "0"),
    TENSOR.format("bf16_dst_bf16"): ("", "n/a"),
}
"""A bf16 matrix-vector product of 896 x 1,280 weights that runs on the fp32 pipe."""


def text_of(rows: list[list[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows(rows)
    return out.getvalue()


def details(metrics: dict[str, tuple[str, str]], section: str = "Command line profiler metrics", **more: str) -> str:
    labels = ["Body Item Label"] if "label" in more else []
    header = [*COLUMNS, "Section Name", *labels, "Metric Name", "Metric Unit", "Metric Value", "Rule Name"]
    rows = [[*FIXED, section, *(more["label"] for _ in labels), name, *both] for name, both in metrics.items()]
    rule = [*FIXED, "SpeedOfLight", *("" for _ in labels), "", "", "", "SOLBottleneck"]
    return text_of([header, *rows, rule])


def raw(metrics: dict[str, tuple[str, str]], launches: int = 1) -> str:
    header = [*COLUMNS, *metrics]
    units = [""] * len(COLUMNS) + [unit for unit, _ in metrics.values()]
    rows = [[str(i), *FIXED[1:], *(value for _, value in metrics.values())] for i in range(launches)]
    return text_of([header, units, *rows])


def read(tmp_path: Path, text: str | bytes, name: str = "counters.csv") -> tuple[KernelCounters, ...]:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_ncu(path)


@pytest.mark.parametrize("layout", [details, lambda m: details(m, label=""), raw])
def test_both_layouts_say_the_same(tmp_path: Path, layout: Any) -> None:
    (launch,) = read(tmp_path, "==PROF== Connected to process 77\nhello from the program\n" + layout(GEMV))
    assert (launch.name, launch.id, launch.device) == ("gemv(int, float)", 0, "CC 9.0")
    assert (launch.grid, launch.block) == ((224, 1, 1), (32, 4, 1))
    assert launch.seconds == pytest.approx(6.75e-6)
    assert launch.bytes_by_level == {"dram": pytest.approx(2_300_000), "l2": 2_400_500, "l1": 4_800_000}
    assert launch.flops_by_pipe == {"tensor": 0, "ffma": 2 * 1_146_880 + 1_000, "hfma": 0, "dfma": 0}
    assert launch.missing == ()


def test_a_product_on_the_fp32_pipe_is_not_at_intensity_0(tmp_path: Path) -> None:
    (launch,) = read(tmp_path, raw(GEMV))
    assert launch.flops == 2_294_760
    assert launch.dtype is DType.FP32
    assert launch.flops / launch.bytes_by_level["dram"] == pytest.approx(0.99772, abs=1e-5)


def test_without_the_fp32_counters_its_flops_are_unknown_and_not_0(tmp_path: Path) -> None:
    without = {name: both for name, both in GEMV.items() if "ffma" not in name}
    (launch,) = read(tmp_path, raw(without))
    assert "ffma" not in launch.flops_by_pipe
    assert launch.flops is None
    assert launch.missing == (SASS.format("ffma"),)


def test_an_epilogue_does_not_stand_for_a_product_whose_matrix_units_were_not_counted(tmp_path: Path) -> None:
    without = {name: both for name, both in GEMV.items() if "tensor" not in name}
    (launch,) = read(tmp_path, raw(without))
    assert launch.flops is None
    assert launch.flops_by_pipe["ffma"] == 2_294_760
    assert launch.dtype is None


def test_a_copy_has_zero_flops_and_that_is_known(tmp_path: Path) -> None:
    (launch,) = read(tmp_path, raw({**GEMV, **VECTOR}))
    assert launch.flops == 0


def test_flops_of_each_instruction(tmp_path: Path) -> None:
    """One of each: fp32 1 + 1 + 2, fp64 the same, half2 2 + 2 + 4, two packed fp32 values 2 + 2 + 4."""
    packed = {SASS.format(op): ("inst", "1") for op in ("fadd2", "fmul2", "ffma2")}
    ones = dict.fromkeys(VECTOR, ("inst", "1"))
    (launch,) = read(tmp_path, raw({**GEMV, **ones, TENSOR.format("bf16_dst_fp32"): ("", "100")}))
    assert launch.flops_by_pipe == {"tensor": 100, "ffma": 4, "hfma": 8, "dfma": 4}
    (launch,) = read(tmp_path, raw({**GEMV, **ones, **packed}))
    assert launch.flops_by_pipe["ffma"] == 4 + 8


def test_paths_of_the_matrix_units_are_counted_once(tmp_path: Path) -> None:
    """src_fp16 is the sum of its two destinations, each of them of what was sparse and what was not."""
    paths = {
        "fp16": "30",
        "fp16_dst_fp16": "10",
        "fp16_dst_fp32": "20",
        "fp16_dst_fp32_sparsity_off": "20",
        "int8": "7",
    }
    (launch,) = read(tmp_path, raw({**GEMV, **{TENSOR.format(k): ("", v) for k, v in paths.items()}}))
    assert launch.flops_by_pipe["tensor"] == 37
    split = {"fp8_sparsity_off": "5,000,000", "fp8_sparsity_on": "1"}
    (launch,) = read(tmp_path, raw({**GEMV, **{TENSOR.format(k): ("", v) for k, v in split.items()}}))
    assert launch.flops_by_pipe["tensor"] == 5_000_001
    assert launch.dtype is DType.FP8


def test_instructions_of_the_matrix_units_are_not_guessed_into_flops(tmp_path: Path) -> None:
    old = {name: both for name, both in GEMV.items() if "tensor" not in name}
    (launch,) = read(tmp_path, raw({**old, "sm__inst_executed_pipe_tensor.sum": ("inst", "4,096")}))
    assert launch.flops is None
    assert any("differ by shape" in note for note in launch.notes)
    (launch,) = read(tmp_path, raw({**old, "sm__inst_executed_pipe_tensor.sum": ("inst", "0")}))
    assert launch.flops == 2_294_760


def test_a_part_before_the_matrix_units_has_none(tmp_path: Path) -> None:
    old = {name: both for name, both in GEMV.items() if "tensor" not in name}
    (launch,) = read(tmp_path, raw(old).replace('"9.0"', '"6.1"'))
    assert launch.flops == 2_294_760


@pytest.mark.parametrize(
    ("metrics", "moved", "derived"),
    [
        ({"dram__bytes.sum": ("Mbyte", "3")}, 3e6, False),
        ({"dram__bytes_op_read.sum": ("Mbyte", "3"), "dram__bytes_op_write.sum": ("Mbyte", "1")}, 4e6, False),
        ({"dram__bytes.sum.per_second": ("Gbyte/s", "100")}, 675e3, True),
        ({"dram__bytes.sum.per_second": ("Tbyte/s", "1")}, 6.75e6, True),
        ({"dram__bytes_read.sum": ("Mbyte", "3"), "dram__bytes_write.sum": ("", "n/a")}, None, False),
    ],
)
def test_bytes_of_device_memory(tmp_path: Path, metrics: Any, moved: float | None, derived: bool) -> None:
    (launch,) = read(tmp_path, raw({"gpu__time_duration.sum": ("us", "6.75"), **metrics}))
    got = launch.bytes_by_level.get("dram")
    assert got == (moved if moved is None else pytest.approx(moved))
    assert any("throughput times time" in note for note in launch.notes) is derived
    assert ("dram__bytes_write.sum" in launch.missing) is (moved is None)


def test_rates_of_the_roofline_section_stand_in_for_counts(tmp_path: Path) -> None:
    """100 FFMA, 2 FADD and 0 FMUL a cycle at 2 GHz over 10 us: (200 + 2) x 20,000 FLOP; 128 B/cycle at 10 GHz."""
    labels = {
        "Predicated-On FFMA Thread Instructions Executed Per Cycle": ("inst/cycle", "100"),
        "Predicated-On FADD Thread Instructions Executed Per Cycle": ("inst/cycle", "2"),
        "Predicated-On FMUL Thread Instructions Executed Per Cycle": ("inst/cycle", "0"),
        "SM Frequency": ("Ghz", "2"),
        "DRAM Frequency": ("Ghz", "10"),
        "Theoretical DRAM Bytes Accessible": ("byte/cycle", "128"),
    }
    chart = tmp_path / "chart.csv"
    chart.write_text(details(labels, "GPU Speed Of Light Roofline Chart", label="Single Precision Roofline"))
    speed = tmp_path / "speed.csv"
    speed.write_text(
        details({"Duration": ("us", "10"), "SM Frequency": ("Ghz", "1"), TENSOR.format("fp64"): ("", "0")}, "GPU Speed")
    )
    (launch,) = read_ncu(speed, chart)
    assert launch.flops == pytest.approx(4_040_000)
    assert launch.peaks == {"dram": 1.28e12}
    assert any("derived" in note for note in launch.notes)


def test_raw_page_of_the_roofline_set(tmp_path: Path) -> None:
    """ncu's own derived rates are per cycle and already times 2 or 4: 8 = 4 x 2 instructions, at 1 GHz over 1 us."""
    derived = "derived__smsp__sass_thread_inst_executed_op_{}"
    metrics = {
        "gpu__time_duration.sum": ("nsecond", "1,000"),
        "smsp__cycles_elapsed.avg.per_second": ("cycle/nsecond", "1"),
        derived.format("hadd_pred_on_x2"): ("inst", "2"),
        derived.format("hmul_pred_on_x2"): ("inst", "0"),
        derived.format("hfma_pred_on_x4"): ("inst", "8"),
        TENSOR.format("fp64"): ("", "0"),
    }
    (launch,) = read(tmp_path, raw(metrics))
    assert launch.flops_by_pipe["hfma"] == pytest.approx((2 * 1 + 4 * 2) * 1_000)


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("1,275,068,416", "", 1_275_068_416),
        ("3.35", "Mbyte", 3_350_000),
        ("6.75", "usecond", 6.75e-6),
        ("6.75", "us", 6.75e-6),
        ("12", "ms", 0.012),
        ("5", "nsecond", 5e-9),
        ("13.77", "Ghz", 13.77e9),
        ("2", "Tbyte/s", 2e12),
        ("2", "cycle/nsecond", 2e9),
        ("39,578.42", "cycle", 39_578.42),
        ("41.49", "%", 41.49),
        ("0", "byte", 0),
        ("1e3", "inst", 1000),
        ("18446744073709551615", "byte", None),
        ("n/a", "byte", None),
        ("nan", "byte", None),
        ("inf", "byte", None),
        ("-1", "byte", None),
        ("", "byte", None),
        ("1", "furlong", None),
        ("9" * 4000, "", None),
    ],
)
def test_values(text: str, unit: str, value: float | None) -> None:
    got = number(text, unit)
    assert got == (None if value is None else pytest.approx(value, rel=1e-9))


def test_decimal_commas() -> None:
    assert all(decimal_comma(text) for text in ("3,35", "1234,5", "1.275.068.416", "39.578,42", "0,123456"))
    assert not any(decimal_comma(text) for text in ("3.35", "1,275", "1,275,068,416", "39,578.42", "n/a", ""))
    assert scale("Kbyte") == 1000


@pytest.mark.parametrize("layout", [details, raw])
def test_a_decimal_comma_is_refused_in_a_sentence(tmp_path: Path, layout: Any) -> None:
    with pytest.raises(
        InputError, match=r"prints dram__bytes_read.sum as '3,35', with a decimal comma; run .* LC_ALL=C"
    ):
        read(tmp_path, layout({**GEMV, "dram__bytes_read.sum": ("Mbyte", "3,35")}))


def test_nothing_private_comes_back(tmp_path: Path) -> None:
    command = "==PROF== ncu --clock-control none --cache-control all /home/user/secret-program --token hunter2\n"
    (launch,) = read(tmp_path, command + raw(GEMV))
    assert (launch.clock_control, launch.cache_control) == ("none", "all")
    assert not [word for word in (HOST, PROCESS, "hunter2", "/home/user", "77") if word in repr(launch)]


def test_launches_stay_apart_and_in_order(tmp_path: Path) -> None:
    launches = read(tmp_path, raw(GEMV, 3))
    assert [launch.id for launch in launches] == [0, 1, 2]


def test_rows_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    (launch,) = read(tmp_path, raw(GEMV) + "step 3 done\n" + "==WARNING== no more\n")
    assert "1 rows could not be read" in launch.notes


@pytest.mark.parametrize("end", ["", "\r\n", "\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings_and_line_ends(tmp_path: Path, end: str, encoding: str) -> None:
    text = raw(GEMV).replace("\r\n", end or "\n")
    (launch,) = read(tmp_path, text.encode(encoding))
    assert launch.flops == 2_294_760


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (launch,) = read(tmp_path, raw(GEMV).encode().replace(b"gemv", b"\xff\xfe\x80"))
    assert launch.flops == 2_294_760


def test_a_file_cut_inside_a_value_does_not_give_half_of_it(tmp_path: Path) -> None:
    whole = details({"gpu__time_duration.sum": ("us", "6.75"), "lts__t_bytes.sum": ("byte", "4,800,000")})
    cut = whole[: whole.index("4,800,000") + len("4,800")]
    (launch,) = read(tmp_path, cut)
    assert "l2" not in launch.bytes_by_level
    assert "lts__t_bytes.sum" in launch.missing


WRONG: dict[str, bytes] = {
    "empty": b"",
    "prose": b"hello\nworld\n",
    "no kernels": b"==PROF== Connected\n==WARNING== No kernels were profiled.\n",
    "forbidden": b"==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n",
    "header alone": raw(GEMV).encode().split(b"\r\n")[0] + b"\r\n",
    "no units": raw(GEMV).replace(text_of([[""] * 11 + [u for u, _ in GEMV.values()]]), "").encode(),
    "no metrics": details({"Waves Per SM": ("", "1")}).encode(),
    "other table": b'"ID","Kernel Name","Colour"\r\n"0","k","red"\r\n',
    "nul": raw(GEMV).encode().replace(b'"(224', b'"\x00(224') + b"\x00",
    "long cell": b'"ID","Kernel Name","gpu__time_duration.sum"\n"","","us"\n"0","' + b"x" * 200_000 + b'","1"\n',
    "binary": bytes(range(256)) * 50,
}


@pytest.mark.parametrize("name", [name for name in WRONG if name != "nul"])
def test_what_is_wrong_is_said_in_a_sentence(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, WRONG[name])
    assert "expected" in str(caught.value)
    assert len(str(caught.value)) < 600
    if name == "forbidden":
        assert "ERR_NVGPUCTRPERM" in str(caught.value)


def test_a_nul_is_read_or_refused(tmp_path: Path) -> None:
    try:
        read(tmp_path, WRONG["nul"])
    except InputError as caught:
        assert "NUL" in str(caught)  # Python 3.10


def test_a_million_columns(tmp_path: Path) -> None:
    names = [f"a__{i}" for i in range(1_000_000)]
    (launch,) = read(
        tmp_path,
        text_of([[*COLUMNS, *names, *GEMV], [""] * 11 + [""] * 10**6 + [u for u, _ in GEMV.values()]])
        + text_of([[*FIXED, *[""] * 10**6, *(v for _, v in GEMV.values())]]),
    )
    assert launch.flops == 2_294_760


def test_sizes_and_folders(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text(raw(GEMV))
    with pytest.raises(InputError, match="more than 100 bytes"):
        list(csv_file.read_lines(path, "a table", 100))
    with pytest.raises(InputError, match="not a regular file"):
        read_ncu(tmp_path)
    with pytest.raises(InputError, match="could not be read"):
        read_ncu(tmp_path / "none.csv")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_mutated_table_never_gives_a_traceback(tmp_path: Path, data: st.DataObject) -> None:
    text = bytearray(data.draw(st.sampled_from([raw(GEMV, 2), details(GEMV)])).encode())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text) - 1))
        match data.draw(st.sampled_from(["cut", "byte", "insert", "repeat"])):
            case "cut":
                del text[at : at + data.draw(st.integers(1, 200))]
            case "byte":
                text[at] = data.draw(st.integers(0, 255))
            case "insert":
                text[at:at] = data.draw(
                    st.sampled_from([b'"', b"\n", b",", b"9" * 30, b"\x00", b"n/a", b"-", b"==", b"1,5"])
                )
            case _:
                text[at:at] = text[:at]
        text = text or bytearray(b"x")
    try:
        launches = read(tmp_path, bytes(text))
    except RooflensError:
        return
    for launch in launches:
        assert launch.seconds is None or launch.seconds > 0
        assert all(value >= 0 for value in (*launch.flops_by_pipe.values(), *launch.bytes_by_level.values()))


class _Metric(SimpleNamespace):
    def value(self) -> Any:
        return self.held

    def unit(self) -> str:
        return str(self.of)


def _module(metrics: dict[str, tuple[str, Any]], error: Exception | None = None, actions: int = 1) -> ModuleType:
    """A stand-in for the vendor's module, with the part of its interface that is used."""
    held = {name: _Metric(held=value, of=unit) for name, (unit, value) in metrics.items()}
    action = SimpleNamespace(name=lambda base: f"gemv{base}", metric_names=lambda: tuple(held), metric_by_name=held.get)
    part = SimpleNamespace(num_actions=lambda: actions, action_by_idx=lambda i: action)

    def load_report(path: str) -> Any:
        if error is not None:
            raise error
        return SimpleNamespace(num_ranges=lambda: 1, range_by_idx=lambda i: part)

    module = ModuleType("ncu_report")
    module.load_report = load_report
    module.IAction = SimpleNamespace(NameBase_DEMANGLED="(int, float)")
    return module


def test_a_report_needs_the_vendors_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ncu_report", None)
    with pytest.raises(MissingExtraError, match=r"extra `ncu`.*ncu --import REPORT --csv --page raw"):
        read_ncu(tmp_path / "a.ncu-rep")


def test_a_report_is_read_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics: dict[str, tuple[str, Any]] = {
        "gpu__time_duration.sum": ("nsecond", 6750),
        "dram__bytes.sum": ("byte", 2_300_000),
        **dict.fromkeys(VECTOR, ("inst", 0)),
        SASS.format("ffma"): ("inst", 1_146_880),
        TENSOR.format("fp64"): ("", 0),
        "device__attribute_display_name": ("", "NVIDIA H100 80GB HBM3"),
        **{f"launch__grid_dim_{axis}": ("", size) for axis, size in zip("xyz", (224, 1, 1), strict=True)},
    }
    monkeypatch.setitem(sys.modules, "ncu_report", _module(metrics))
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(b"NVR")
    (launch,) = read_ncu(path)
    assert (launch.name, launch.device) == ("gemv(int, float)", "NVIDIA H100 80GB HBM3")
    assert launch.flops == 2_293_760
    assert launch.seconds == pytest.approx(6.75e-6)
    assert (launch.grid, launch.block) == ((224, 1, 1), None)
    monkeypatch.setitem(sys.modules, "ncu_report", _module({}, RuntimeError("bad magic")))
    with pytest.raises(InputError, match="bad magic"):
        read_ncu(path)
    monkeypatch.setitem(sys.modules, "ncu_report", _module({}, actions=0))
    with pytest.raises(InputError, match="no launch that ncu_report can read"):
        read_ncu(path)


@sample
def test_sample_of_a_decode_product() -> None:
    """grid 224 x block 4 rows are 896 outputs; 2.33 MB are 896 x 1,280 weights of 2 bytes and a little: 2.29 MFLOP."""
    metrics = SAMPLES / "dsocr_cc120_k0001_ncu.metrics.csv"
    (alone,) = read_ncu(metrics)
    assert alone.flops_by_pipe == {"tensor": 0}
    assert alone.flops is None
    (launch,) = read_ncu(metrics, SAMPLES / "dsocr_cc120_k0001_ncu.section_SpeedOfLight_RooflineChart.csv")
    assert launch.flops is not None
    assert launch.flops == pytest.approx((158.12 + 1.97) * 2.15e9 * 6.75e-6)
    assert launch.flops == pytest.approx(2 * 896 * 1280, rel=0.02)
    assert launch.seconds == pytest.approx(6.75e-6)
    assert launch.flops / launch.bytes_by_level["dram"] == pytest.approx(1.0, rel=0.01)
    assert launch.peaks["dram"] == pytest.approx(128 * 13.72e9)
    assert launch.bytes_by_level["dram"] / 6.75e-6 / launch.peaks["dram"] == pytest.approx(0.1966, abs=0.0005)
    assert launch.dtype is DType.FP32
    assert "127.0.0.1" not in repr(launch)


@sample
def test_sample_of_a_prefill_product() -> None:
    """152 x 4 blocks, 1,275,068,416 operations: 54.4 TFLOP/s in 23.42 us; 143.20 GB/s, as ncu prints beside it."""
    paths = [SAMPLES / f"dsocr_cc120_k0003_ncu.{part}.csv" for part in ("metrics", "details")]
    first, second = (read_ncu(path)[0] for path in paths)
    assert first == replace(second, missing=first.missing)
    assert first.flops == 1_275_068_416
    assert first.dtype is DType.BF16
    assert first.bytes_by_level == {"dram": 3_350_000}
    assert first.bytes_by_level["dram"] / 23.42e-6 == pytest.approx(143.20e9, rel=0.002)
