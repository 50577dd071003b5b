"""Files of rocprof: dispatches, counters and measured roofs, and everything that can be wrong with one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from rooflens.core.op import DType, OpKind
from rooflens.core.recording import Format
from rooflens.errors import HardwareError, InputError, RooflensError
from rooflens.sources.rocprof import read_rocprof, read_rocprof_counters, read_rocprof_roofline

SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "data" / "traces" / "rocprof"
sample = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the samples are not beside this checkout")

HEADER = "Dispatch_ID,Kernel_Name,GPU_ID,wave_size,{},wave_size_1,SQ_WAVES,SQ_WAVES_1,Start_Timestamp,End_Timestamp"
COUNTERS = {
    **{f"SQ_INSTS_VALU_{op}_{dtype}": 0 for op in ("ADD", "MUL", "TRANS", "FMA") for dtype in ("F16", "F32", "F64")},
    **{f"SQ_INSTS_VALU_MFMA_MOPS_{dtype}": 0 for dtype in ("F16", "BF16", "F32", "F64")},
    "TCC_EA_RDREQ_sum": 100,
    "TCC_EA_RDREQ_32B_sum": 40,
    "TCC_EA_WRREQ_sum": 50,
    "TCC_EA_WRREQ_64B_sum": 20,
    "TCP_TCC_READ_REQ_sum": 300,
    "TCP_TCC_WRITE_REQ_sum": 7,
    "TCP_TOTAL_CACHE_ACCESSES_sum": 1000,
}
START = 1_413_525_768_600_826
"""Nanoseconds of a machine that is up for 16 days: no float of 32 bit holds them."""


def table(
    counters: dict[str, Any] = COUNTERS, times: Any = ((0, 1000), (1500, 2500)), name: str = "copy(int, int)"
) -> str:
    lines = [HEADER.format(",".join(counters))]
    values = ",".join(str(value) for value in counters.values())
    for number, (start, end) in enumerate(times):
        lines.append(f'{number},"{name}",2,64,{values},64,5,6,{START + start},{START + end}')
    return "\n".join(lines) + "\n"


def write(tmp_path: Path, text: str | bytes, name: str = "pmc_perf.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def tool(**more: Any) -> dict[str, Any]:
    records = [
        {
            "start_timestamp": START,
            "end_timestamp": START + 42_000,
            "dispatch_info": {"dispatch_id": 1, "kernel_id": 7, "agent_id": {"handle": 3}},
        },
        {
            "start_timestamp": START + 20_000,
            "end_timestamp": START + 50_000,
            "dispatch_info": {"dispatch_id": 2, "kernel_id": 8, "agent_id": {"handle": 3}},
        },
    ]
    symbols = [{"kernel_id": 7, "formatted_kernel_name": "gemm(float*)"}, {"kernel_id": 8, "kernel_name": "norm.kd"}]
    agents = [{"id": {"handle": 3}, "name": "gfx942", "product_name": "AMD Instinct MI300X"}]
    buffers = {"kernel_dispatch": records, "memory_copy": []}
    metadata = {"pid": 1, "command": ["/home/user/secret"], "node": {"hostname": "host-of-the-user"}}
    return {"metadata": metadata, "agents": agents, "buffer_records": buffers, "kernel_symbols": symbols, **more}


def document(*tools: dict[str, Any]) -> bytes:
    return json.dumps({"rocprofiler-sdk-tool": list(tools)}).encode()


def test_dispatches_become_one_phase(tmp_path: Path) -> None:
    recording = read_rocprof(write(tmp_path, table()))
    assert (recording.format, recording.sources, recording.notes) == (Format.ROCPROF, ("pmc_perf.csv",), ())
    (phase,) = recording.phases
    assert (phase.timed.name, phase.timed.gpu, phase.step) == ("all", True, None)
    assert phase.timed.wall_s == pytest.approx(2.5e-6)
    assert phase.timed.busy_s == pytest.approx(2.0e-6)
    (timed,) = phase.timed.ops
    assert (timed.op.name, timed.op.kind, timed.op.count, timed.known) == ("copy", OpKind.COPY, 2, False)
    assert timed.seconds == pytest.approx(2.0e-6)


def test_bytes_and_flops_of_a_dispatch(tmp_path: Path) -> None:
    """Reads 40 x 32 + 60 x 64, writes 20 x 64 + 30 x 32; L2 (300 + 7) x 64; L1 1,000 x 64."""
    (launch, _) = read_rocprof_counters(write(tmp_path, table()))
    assert launch.bytes_by_level == {"dram": 5_120 + 2_240, "l2": 19_648, "l1": 64_000}
    assert (launch.flops, launch.dtype) == (0, None)
    assert launch.seconds == pytest.approx(1e-6)
    assert launch.missing == ()


def test_flops_of_waves_and_matrix_operations(tmp_path: Path) -> None:
    """64 x (2 + 3 + 5 + 2 x 7) in fp32, 64 x 2 x 1 in fp64, 512 x 11 in bf16 on the matrix units."""
    counters = {
        **COUNTERS,
        "SQ_INSTS_VALU_ADD_F32": 2,
        "SQ_INSTS_VALU_MUL_F32": 3,
        "SQ_INSTS_VALU_TRANS_F32": 5,
        "SQ_INSTS_VALU_FMA_F32": 7,
        "SQ_INSTS_VALU_FMA_F64": 1,
        "SQ_INSTS_VALU_MFMA_MOPS_BF16": 11,
    }
    (launch, _) = read_rocprof_counters(write(tmp_path, table(counters)))
    assert launch.flops_by_pipe == {"tensor": 5_632, "ffma": 1_536, "hfma": 0, "dfma": 128}
    assert launch.dtype is DType.BF16


def test_mi300_reads_need_the_counter_of_128_byte_requests(tmp_path: Path) -> None:
    """10 of 128, 40 of 32 and the other 50 of 64 bytes."""
    renamed = {name.replace("TCC_EA_", "TCC_EA0_"): value for name, value in COUNTERS.items()}
    (launch, _) = read_rocprof_counters(write(tmp_path, table(renamed)))
    assert "dram" not in launch.bytes_by_level
    assert "TCC_EA*_RDREQ*, TCC_EA*_WRREQ*" in launch.missing
    (launch, _) = read_rocprof_counters(write(tmp_path, table({**renamed, "TCC_BUBBLE_sum": 10})))
    assert launch.bytes_by_level["dram"] == 1_280 + 1_280 + 3_200 + 2_240


def test_sizes_in_kibibytes_and_instances_that_add_up(tmp_path: Path) -> None:
    sizes = {"FETCH_SIZE": 3, "WRITE_SIZE": 0.5}
    (launch, _) = read_rocprof_counters(write(tmp_path, table(sizes)))
    assert launch.bytes_by_level == {"dram": 3_584}
    assert launch.flops is None
    parts = {"TCC_EA_WRREQ[0]": 1, "TCC_EA_WRREQ[1]": 2, "TCC_EA_WRREQ_64B_sum": 3, "FETCH_SIZE": 0}
    (launch, _) = read_rocprof_counters(write(tmp_path, table(parts)))
    assert launch.bytes_by_level == {"dram": 192}


def test_passes_with_suffixes_count_once(tmp_path: Path) -> None:
    suffixed = {f"{name}_3": value for name, value in COUNTERS.items()}
    (launch, _) = read_rocprof_counters(write(tmp_path, table(suffixed)))
    assert launch.bytes_by_level["dram"] == 7_360


def test_long_table_of_rocprofv3(tmp_path: Path) -> None:
    lines = [
        "Correlation_Id,Dispatch_Id,Process_Id,Kernel_Name,Counter_Name,Counter_Value,Start_Timestamp,End_Timestamp"
    ]
    for number in (1, 2):
        lines += [
            f"1,{number},9,k,{name},{value},{1000 * number},{1000 * number + 500}" for name, value in COUNTERS.items()
        ]
    path = write(tmp_path, "\n".join(lines) + "\n")
    assert [launch.bytes_by_level["dram"] for launch in read_rocprof_counters(path)] == [7_360, 7_360]
    assert read_rocprof(path).phases[0].timed.ops[0].op.count == 2


def test_first_version_names(tmp_path: Path) -> None:
    text = 'Index,KernelName,gpu-id,DurationNs,BeginNs,EndNs\n0,"k",0,10,100,110\n'
    assert read_rocprof(write(tmp_path, text)).phases[0].timed.wall_s == pytest.approx(1e-8)


@pytest.mark.parametrize("name", ["out_results.json", "out_results.json.gz"])
def test_json_of_rocprofv3(tmp_path: Path, name: str) -> None:
    data = document(tool())
    recording = read_rocprof(write(tmp_path, gzip.compress(data) if name.endswith("gz") else data, name))
    phase = recording.phases[0].timed
    assert recording.device == "AMD Instinct MI300X"
    assert [timed.op.name for timed in phase.ops] == ["gemm", "norm.kd"]
    assert [timed.seconds for timed in phase.ops] == pytest.approx([42e-6, 30e-6])
    assert [phase.wall_s, phase.busy_s] == pytest.approx([50e-6, 50e-6])
    assert "secret" not in repr(recording)
    assert "host-of" not in repr(recording)


def test_rows_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    bad = ((0, 10), (10, 5), (20, 2**63), (30, 40))
    recording = read_rocprof(write(tmp_path, table(times=bad) + '9,"k",2\n4,"k,2,64'))
    assert recording.phases[0].timed.ops[0].op.count == 2
    assert recording.notes == ("3 rows could not be read",)
    nan = table({**COUNTERS, "TCC_EA_RDREQ_sum": "nan"})
    assert "dram" not in read_rocprof_counters(write(tmp_path, nan))[0].bytes_by_level
    huge = table({**COUNTERS, "TCC_EA_RDREQ_sum": 2**64 - 1, "TCC_EA_WRREQ_sum": "1e400"})
    assert "dram" not in read_rocprof_counters(write(tmp_path, huge))[0].bytes_by_level


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.csv", b""),
        ("a.csv", b"hello\n"),
        ("a.csv", b"Kernel_Name,Start_Timestamp\nk,1\n"),
        ("a.csv", table(times=()).encode()),
        ("a.csv", table(times=((5, 1),)).encode()),
        ("a.csv", table().encode("utf-16")[:1] + b"\x00\xff" * 500),
        ("a.csv", b"Kernel_Name,Start_Timestamp,End_Timestamp\n" + b"x" * 200_000 + b",1,2\n"),
        ("a.json", b""),
        ("a.json", document(tool())[:-20]),
        ("a.json", b'{"rocprofiler-sdk-tool": 3}'),
        ("a.json", b'{"rocprofiler-sdk-tool": []}'),
        ("a.json", b'{"traceEvents": []}'),
        ("a.json", b"[" * 100_000),
        ("a.json", document(tool(kernel_symbols=[]))),
        ("a.json", document(tool()).replace(b"gemm", b"\xff\xfe")),
        ("a.json.gz", gzip.compress(document(tool()))[:-30]),
        ("a.json.gz", b"\x1f\x8bnothing"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(tmp_path: Path, name: str, data: bytes) -> None:
    with pytest.raises(InputError, match="expected") as caught:
        read_rocprof(write(tmp_path, data, name))
    assert len(str(caught.value)) < 600


def test_a_table_without_counters(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no counters of a roofline"):
        read_rocprof_counters(write(tmp_path, table({})))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_mutated_file_never_gives_a_traceback(tmp_path: Path, data: st.DataObject) -> None:
    json_file = data.draw(st.booleans())
    text = bytearray(document(tool()) if json_file else table().encode())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text) - 1))
        match data.draw(st.sampled_from(["cut", "byte", "insert"])):
            case "cut":
                del text[at : at + data.draw(st.integers(1, 100))]
            case "byte":
                text[at] = data.draw(st.integers(0, 255))
            case _:
                text[at:at] = data.draw(
                    st.sampled_from([b'"', b"\n", b",", b"9" * 30, b"\x00", b"null", b"-", b"{}", b"[1]"])
                )
        text = text or bytearray(b"x")
    path = write(tmp_path, bytes(text), "a.json" if json_file else "a.csv")
    try:
        phase = read_rocprof(path).phases[0].timed
        assert 0 <= phase.busy_s <= phase.wall_s * (1 + 1e-9)
        if not json_file:
            read_rocprof_counters(path)
    except RooflensError:
        return


ROOFS = """device,HBMBw,HBMBwLow,hbmBwHigh,L2Bw,L2BwLow,L2BwHigh,FP32Flops,FP64Flops,MFMABF16Flops,MFMAI8Ops,MFMAF8Flops
0,1000,990,1010,5000,5000,5000,20000,10000,170000,160000,0
1,1001,nan,1010,5000,5000,5000,20000,inf,170000,160000,0
2,,1,1,1,1,1,1,1,1,1,1
"""


def test_measured_roofs(tmp_path: Path) -> None:
    hardware = read_rocprof_roofline(write(tmp_path, ROOFS, "roofline.csv"))
    assert hardware.memory.bandwidth.value == 1e12
    assert hardware.memory.bandwidth.spread == pytest.approx(0.02)
    assert hardware.memory.bandwidth.provenance.kind == hardware.origin == "measured"
    assert {dtype: peak.value for dtype, peak in hardware.matrix.items()} == {DType.BF16: 1.7e14, DType.INT8: 1.6e14}
    assert {dtype: peak.value for dtype, peak in hardware.vector.items()} == {DType.FP32: 2e13, DType.FP64: 1e13}
    assert [(cache.name, cache.bandwidth.value) for cache in hardware.caches] == [("L2", 5e12)]
    second = read_rocprof_roofline(tmp_path / "roofline.csv", device=1)
    assert second.memory.bandwidth.spread is None
    assert DType.FP64 not in second.vector


@pytest.mark.parametrize(
    ("text", "device", "what"),
    [
        ("", 0, "no columns"),
        ("a,b\n1,2\n", 0, "no columns"),
        (ROOFS, 7, "it has 0, 1, 2"),
        (ROOFS, 2, "no bandwidth"),
        (ROOFS[: ROOFS.index("1,1001") + 3], 1, "no row of device 1"),
    ],
)
def test_roofs_that_cannot_be_read(tmp_path: Path, text: str, device: int, what: str) -> None:
    with pytest.raises(HardwareError, match=what):
        read_rocprof_roofline(write(tmp_path, text), device=device)
    with pytest.raises(HardwareError, match="could not be read"):
        read_rocprof_roofline(tmp_path / "none.csv")


@sample
def test_sample_of_a_copy() -> None:
    """1,048,576 doubles are 8,388,608 bytes each way; the first dispatch writes all of them back."""
    launches = read_rocprof_counters(SAMPLES / "mi200_vcopy_pmc_perf.csv")
    assert [launch.bytes_by_level["dram"] for launch in launches] == [16_777_728, 14_217_024, 14_225_728]
    assert launches[0].bytes_by_level["dram"] == pytest.approx(2 * 8 * 1_048_576, rel=1e-4)
    assert all(launch.flops == 0 for launch in launches)
    timed = read_rocprof(SAMPLES / "mi200_vcopy_pmc_perf.csv").phases[0].timed
    assert timed.wall_s == pytest.approx(132.8e-6)
    assert timed.op_s == pytest.approx((20_160 + 15_840 + 16_800) * 1e-9)


@sample
def test_sample_of_measured_roofs() -> None:
    hardware = read_rocprof_roofline(SAMPLES / "mi200_empirical_roofline.csv", device=2)
    assert hardware.memory.bandwidth.value == pytest.approx(1388.4871e9)
    assert hardware.matrix[DType.BF16].value == pytest.approx(171.13372e12)
    assert hardware.matrix[DType.INT8].spread == pytest.approx((167589.8 - 166403.67) / 166996.73)
    assert [cache.name for cache in hardware.caches] == ["L2", "L1", "LDS"]
