"""Exports of Nsight Systems: what belongs to a phase, seconds and bytes counted by hand, files that lie."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from rooflens.core.op import DType, OpKind
from rooflens.core.recording import Format, Recording
from rooflens.core.timed import TimedOp, TimedPhase
from rooflens.errors import InputError
from rooflens.sources.nsys import read_nsys
from tests.sources.nsys_files import FLASH, GEMM, PROCESS, SILU, THREAD, Writer, two_phases
from tests.sources.shared import traces


def phases(recording: Recording) -> dict[str, TimedPhase]:
    return {phase.timed.name: phase.timed for phase in recording.phases}


def op(phase: TimedPhase, name: str) -> TimedOp:
    found = [timed for timed in phase.ops if timed.op.name == name]
    assert len(found) == 1, [timed.op.name for timed in phase.ops]
    return found[0]


def read(made: Writer, tmp_path: Path, *names: str) -> Recording:
    return read_nsys(made.write(tmp_path / "a.sqlite"), names or None)


def noted(recording: Recording, words: str) -> bool:
    return any(words in note for note in recording.notes)


def ns(seconds: float) -> Any:
    return pytest.approx(seconds * 1e-9, rel=1e-12)


def test_ranges_are_phases_and_alike_ones_are_averaged(tmp_path: Path) -> None:
    recording = read(two_phases(), tmp_path)
    found = phases(recording)
    assert (recording.format, recording.sources, list(found)) == (Format.NSYS, ("a.sqlite",), ["prefill", "decode"])
    prefill, decode = found["prefill"], found["decode"]
    assert (prefill.passes, prefill.wall_s, prefill.busy_s, prefill.gpu) == (1, ns(1_000), ns(700), True)
    assert (decode.passes, decode.wall_s, decode.busy_s) == (2, ns(1_000), ns(400))
    assert [(timed.op.kind, timed.op.count) for timed in prefill.ops] == [(OpKind.GEMM, 1), (OpKind.ACTIVATION, 1)]
    (gemm,) = decode.ops
    assert (gemm.seconds, gemm.op.count, gemm.known, gemm.op.dtype) == (ns(400), 1, False, DType.BF16)
    assert gemm.op.flops == gemm.op.traffic.total == 0


def test_a_kernel_belongs_to_the_range_that_launched_it(tmp_path: Path) -> None:
    """Prefill's kernel runs until 2,600: it lasts 1,600, and decode begins when that is done and lasts until 4,000."""
    made = Writer()
    made.range("prefill", 1_000, 2_000)
    made.range("decode", 2_000, 4_000)
    made.kernel(GEMM, 1_500, 2_600, at=1_900)
    made.kernel(GEMM, 2_700, 3_000, at=2_100)
    recording = read(made, tmp_path)
    found = phases(recording)
    assert (found["prefill"].wall_s, found["prefill"].busy_s) == (ns(1_600), ns(1_100))
    assert (found["decode"].wall_s, found["decode"].busy_s, found["decode"].gap_s) == (ns(1_400), ns(300), ns(1_100))
    assert noted(recording, "after a range of prefill")


def test_nested_ranges_marks_and_numbered_texts(tmp_path: Path) -> None:
    made = Writer()
    made.add("NVTX_EVENTS", start=100, end=900, eventType=59, globalTid=THREAD, textId=made.string("DECODE, op_id = 4"))
    made.range("layer 0", 200, 400)
    made.range("decode", 210, 390)
    made.range("prefill", 250, None, kind=34)
    made.kernel(GEMM, 300, 350, at=220)
    found = phases(read(made, tmp_path))
    assert list(found) == ["decode"]
    assert (found["decode"].passes, found["decode"].wall_s) == (1, ns(800))


def test_a_thread_that_helps_counts_and_another_process_does_not(tmp_path: Path) -> None:
    made = Writer()
    made.range("decode", 100, 900)
    made.range("decode", 100, 500, thread=(9 << 24) + 1)
    made.kernel(GEMM, 300, 350, at=220, thread=THREAD + 1)
    made.kernel(SILU, 360, 380, at=230)
    recording = read(made, tmp_path)
    assert phases(recording)["decode"].busy_s == ns(70)
    assert phases(recording)["decode"].passes == 1


def test_without_a_launch_time_decides_and_a_note_says_so(tmp_path: Path) -> None:
    made = two_phases()
    made.kernel(SILU, 2_600, 2_650)
    made.kernel(SILU, 9_000, 9_500)
    recording = read(made, tmp_path)
    assert op(phases(recording)["decode"], "vectorized_elementwise_kernel").seconds == ns(25)
    assert noted(recording, "1 kernel or copy without a record of the launch")


def test_no_range_of_a_phase_makes_one_phase_of_everything(tmp_path: Path) -> None:
    """From 1,200 to 3,700; the copies before and after are left out."""
    made = two_phases()
    made.rows.pop("NVTX_EVENTS")
    made.copy(1, 10, 900, 1_000, at=800)
    made.copy(8, 10, 3_600, 3_800, at=3_500)
    recording = read(made, tmp_path)
    (phase,) = phases(recording).values()
    assert (phase.name, phase.wall_s, phase.busy_s) == ("all", ns(2_500), ns(1_500))
    assert noted(recording, "1 copy before the first kernel")
    assert noted(recording, "no NVTX range is named prefill or decode")


def test_named_ranges(tmp_path: Path) -> None:
    path = two_phases().write(tmp_path / "a.sqlite")
    recording = read_nsys(path, ["DECODE", "verify"])
    assert list(phases(recording)) == ["DECODE"]
    assert noted(recording, "no range named verify")
    with pytest.raises(InputError, match=r"no range named verify with a kernel; its ranges are decode, Prefill"):
        read_nsys(path, ["verify"])


def test_bytes_of_copies(tmp_path: Path) -> None:
    """Inside a GPU a copy reads and writes its bytes; from the host they go over the link; a set writes them."""
    made = two_phases()
    made.copy(8, 1_000, 2_510, 2_520, at=2_110)
    made.copy(1, 400, 2_520, 2_540, at=2_111)
    made.copy(0, 64, 2_540, 2_550, at=2_112)
    made.copy(9, 77, 2_550, 2_560, at=2_113)
    decode = phases(read(made, tmp_path))["decode"]
    moved = {timed.op.name: (timed.op.traffic.activations, timed.op.traffic.link, timed.known) for timed in decode.ops}
    assert moved["Memcpy DtoD"] == (1_000, 0, True)
    assert moved["Memcpy HtoD"] == (0, 200, True)
    assert moved["Memset"] == (32, 0, True)
    assert moved["Memcpy HtoH"] == (0, 0, False)
    assert {timed.op.kind for timed in decode.ops} == {OpKind.GEMM, OpKind.COPY}


def test_graphs_by_node_and_as_a_whole(tmp_path: Path) -> None:
    """Kernels of a graph share the correlation of its launch; a whole graph is one op without a known kind."""
    made = Writer()
    made.range("decode", 1_000, 2_000)
    made.range("decode", 2_000, 3_000)
    graph = made.launch(1_100)
    made.kernel(GEMM, 1_200, 1_300, correlationId=graph, graphNodeId=5)
    made.kernel(SILU, 1_300, 1_350, correlationId=graph, graphNodeId=6)
    row = {"deviceId": 0, "graphId": 3, "globalPid": PROCESS}
    made.add("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", start=1_200, end=1_350, correlationId=graph, **row)
    made.add("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", start=2_200, end=2_450, correlationId=made.launch(2_100), **row)
    recording = read(made, tmp_path)
    decode = phases(recording)["decode"]
    assert decode.busy_s == ns((150 + 250) / 2)
    assert (op(decode, "CUDA graph 3").seconds, op(decode, "CUDA graph 3").op.kind) == (ns(125), OpKind.OTHER)
    assert noted(recording, "1 CUDA graph was recorded whole")


def test_of_several_gpus_the_busiest_is_read(tmp_path: Path) -> None:
    """GPU 0 1,500 ns, GPU 1 500 ns: 75 % and 25 %."""
    made = two_phases()
    made.kernel(SILU, 1_000, 1_500, at=1_100, deviceId=1)
    recording = read(made, tmp_path)
    assert phases(recording)["prefill"].busy_s == ns(700)
    assert noted(recording, "GPU 0 is read, with 0.00 ms of kernels, 75.0% of all; left out: GPU 1 0.00 ms, 25.0%")


def test_the_gpu_of_a_process_by_its_table(tmp_path: Path) -> None:
    made = two_phases()
    made.kernel(GEMM, 1_200, 9_200, at=1_100, thread=(9 << 24) + 4)
    made.range("decode", 1_050, 1_300, thread=(9 << 24) + 4)
    made.add("TARGET_INFO_CUDA_DEVICE", gpuId=4, cudaId=0, pid=7)
    made.add("TARGET_INFO_CUDA_DEVICE", gpuId=5, cudaId=0, pid=9)
    made.add("TARGET_INFO_GPU", id=4, name="NVIDIA A", smCount=10, totalMemory=1_000)
    made.add("TARGET_INFO_GPU", id=5, name="NVIDIA B", smCount=20, totalMemory=2_000)
    recording = read(made, tmp_path)
    assert (recording.device, recording.multiprocessors, recording.memory_bytes) == ("NVIDIA B", 20, 2_000)
    assert phases(recording)["decode"].busy_s == ns(8_000)
    assert noted(recording, "GPU 5 is read")


def emitted(
    kernels: list[str], text: str, above: str = "aten::linear, op_id = 2, sizes = [[8, 16], [4, 16]]"
) -> Writer:
    made = Writer()
    made.range("decode", 1_000, 2_000)
    made.range(above, 1_010, 1_900)
    made.range(text, 1_020, 1_800)
    for number, kernel in enumerate(kernels):
        made.kernel(kernel, 1_100 + 100 * number, 1_150 + 100 * number, at=1_050 + number)
    return made


def test_sizes_of_emit_nvtx_count_a_product_once(tmp_path: Path) -> None:
    """x[8, 16] W[16, 4]: 2 x 8 x 16 x 4 FLOP, W 64, x and y 128 + 32 values of 2 bytes; 2 kernels of 50 ns."""
    made = emitted([GEMM, "void splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>(float*)"],
                   "aten::mm, op_id = 3, sizes = [[8, 16], [16, 4]]")  # fmt: skip
    recording = read(made, tmp_path)
    (timed,) = phases(recording)["decode"].ops
    assert (timed.op.name, timed.op.kind, timed.op.dtype, timed.op.count) == ("mm 4 x 16", OpKind.GEMM, DType.BF16, 1)
    assert (timed.op.flops, timed.op.traffic.weights, timed.op.traffic.activations) == (1_024, 128, 320)
    assert (timed.seconds, timed.known) == (ns(100), True)
    assert noted(recording, "1 op was counted by the sizes")


def test_a_copy_inside_a_product_is_not_the_product(tmp_path: Path) -> None:
    made = emitted([SILU], "aten::copy_, op_id = 3, sizes = [[8, 16], [8, 16], []]")
    (timed,) = phases(read(made, tmp_path))["decode"].ops
    assert (timed.known, timed.op.kind) == (False, OpKind.ACTIVATION)


def test_attention_counts_where_its_mask_makes_no_difference(tmp_path: Path) -> None:
    """One query on 32 keys of width 64, 2 heads: 2 x 2 x 32 x (64 + 64) FLOP; a prompt's mask is not told."""
    sizes = "[[1, 2, {0}, 64], [1, 2, 32, 64], [1, 2, 32, 64]]"
    name = f"aten::_scaled_dot_product_flash_attention, op_id = 9, sizes = {sizes}"
    one = phases(read(emitted([FLASH], name.format(1)), tmp_path))["decode"]
    assert (one.ops[0].op.model_flops, one.ops[0].op.dtype) == (16_384, DType.FP16)
    many = read_nsys(emitted([FLASH], name.format(32), "outer").write(tmp_path / "b.sqlite"))
    assert phases(many)["decode"].ops[0].known is False


def test_a_kernel_without_a_dtype_is_not_counted(tmp_path: Path) -> None:
    recording = read(emitted(["some_gemm_kernel"], "aten::mm, op_id = 3, sizes = [[8, 16], [16, 4]]"), tmp_path)
    (timed,) = phases(recording)["decode"].ops
    assert (timed.known, timed.op.kind) == (False, OpKind.GEMM)
    assert noted(recording, "1 op with sizes but a kernel whose name tells no dtype")


def test_counters_of_the_gpu_are_averaged_over_a_phase(tmp_path: Path) -> None:
    """Prefill 80 and 90 %, decode 30 and 50 % of SMs; a sample of another GPU and one outside do not count."""
    made = two_phases()
    for metric, name in ((1, "SMs Active [Throughput %]"), (2, "DRAM Read Bandwidth [Throughput %]"), (3, "GPC Clock")):
        made.add("TARGET_INFO_GPU_METRICS", typeId=256, metricId=metric, metricName=name)
        made.add("TARGET_INFO_GPU_METRICS", typeId=257, metricId=metric, metricName=name)
    samples = [(1_100, 1, 80), (1_500, 1, 90), (2_500, 1, 30), (3_500, 1, 50), (9_000, 1, 7), (2_600, 2, 61)]
    for moment, metric, value in samples:
        made.add("GPU_METRICS", timestamp=moment, typeId=256, metricId=metric, value=value)
    made.add("GPU_METRICS", timestamp=1_100, typeId=257, metricId=1, value=3)
    recording = read(made, tmp_path)
    assert noted(recording, "prefill: the GPU's counters say SMs active 85.0 % (mean of 2 samples")
    assert noted(recording, "decode: the GPU's counters say SMs active 40.0 %, DRAM read 61.0 %")


def test_events_that_cannot_be_are_skipped_and_counted(tmp_path: Path) -> None:
    made = two_phases()
    made.kernel(GEMM, 2_600, 2_500, at=2_110)
    made.kernel(GEMM, None, 2_700, at=2_111)
    made.kernel(GEMM, -(2**63), 2**63 - 1, at=2_112)
    made.kernel(GEMM, "soon", 2_800, at=2_113)
    made.copy(8, -5, 2_600, 2_700, at=2_114)
    recording = read(made, tmp_path)
    assert phases(recording)["decode"].busy_s == ns(400)
    assert noted(recording, "5 events could not be read")


def test_names_that_are_no_text(tmp_path: Path) -> None:
    made = two_phases()
    made.kernel("x", 2_600, 2_700, at=2_110, demangledName=99, shortName=98)
    made.kernel("y", 2_700, 2_800, at=2_110, demangledName=None, shortName=None)
    path = made.write(
        tmp_path / "a.sqlite", ["INSERT INTO StringIds VALUES (98, CAST(x'ff1b5b41' AS TEXT)), (99, NULL)"]
    )
    names = {timed.op.name for timed in phases(read_nsys(path))["decode"].ops}
    assert len(names) == 3
    assert all(name.isprintable() for name in names)


def test_older_schemas_lack_columns_and_tables(tmp_path: Path) -> None:
    made = two_phases()
    path = tmp_path / "a.sqlite"
    drops = [
        "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN globalPid",
        "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN deviceId",
        "ALTER TABLE NVTX_EVENTS DROP COLUMN textId",
        "ALTER TABLE NVTX_EVENTS DROP COLUMN eventType",
    ]
    if sqlite3.sqlite_version_info < (3, 35):
        pytest.skip("this SQLite drops no columns")
    found = phases(read_nsys(made.write(path, drops)))
    assert (found["prefill"].busy_s, found["decode"].busy_s) == (ns(700), ns(400))
    bare = two_phases().write(tmp_path / "b.sqlite", leave_out=["CUPTI_ACTIVITY_KIND_RUNTIME", "StringIds"])
    assert phases(read_nsys(bare))["decode"].busy_s == ns(400)
    neither = two_phases().write(tmp_path / "d.sqlite", drops, leave_out=["CUPTI_ACTIVITY_KIND_RUNTIME"])
    assert phases(read_nsys(neither))["decode"].busy_s == ns(400)
    odd = two_phases().write(tmp_path / "c.sqlite", ["ALTER TABLE NVTX_EVENTS RENAME COLUMN start TO begin"])
    assert noted(read_nsys(odd), "left out: NVTX_EVENTS")


def test_nothing_private_is_kept(tmp_path: Path) -> None:
    made = two_phases()
    made.add(
        "TARGET_INFO_GPU", id=0, name="NVIDIA A", busLocation="SECRET", smCount=10, totalMemory=1_000, uuid="SECRET"
    )
    path = made.write(
        tmp_path / "a.sqlite",
        [
            "CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT)",
            "INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('Hostname', 'SECRET')",
            "CREATE TABLE PROCESSES (globalPid INTEGER, name TEXT)",
            "INSERT INTO PROCESSES VALUES (7, 'SECRET')",
            "INSERT INTO StringIds VALUES (500, 'SECRET')",
        ],
    )
    assert "SECRET" not in repr(read_nsys(path))
    assert str(tmp_path) not in repr(read_nsys(path))


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_nsys(path)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_what_is_no_export_is_refused_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    assert "could not be read (No such file" in refusal(path)
    assert "not a regular file" in refusal(tmp_path)
    path.write_bytes(b"")
    assert "is empty" in refusal(path)
    path.write_bytes(b"\x1f\x8b" + bytes(200))
    assert "could not be read (Error -3" in refusal(path)
    report = tmp_path / "run.nsys-rep"
    report.write_bytes(b"NVIDIA")
    assert "nsys export --type sqlite" in refusal(report)
    other = tmp_path / "b.sqlite"
    with closing(sqlite3.connect(other)) as connection, connection:
        connection.execute("CREATE TABLE customers (name TEXT)")
    assert "without tables of Nsight Systems" in refusal(other)
    idle = Writer()
    idle.range("decode", 1, 2)
    assert "no GPU kernel" in refusal(idle.write(tmp_path / "c.sqlite"))


def test_a_file_that_is_cut_is_refused(tmp_path: Path) -> None:
    whole = two_phases().write(tmp_path / "a.sqlite").read_bytes()
    for size in (50, 100, 4_096, len(whole) // 2, len(whole) - 1):
        path = tmp_path / "b.sqlite"
        path.write_bytes(whole[:size])
        assert refusal(path)


def test_a_locked_file_is_read(tmp_path: Path) -> None:
    path = two_phases().write(tmp_path / "a.sqlite")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        assert list(phases(read_nsys(path))) == ["prefill", "decode"]
        connection.rollback()


def test_the_file_is_not_changed(tmp_path: Path) -> None:
    path = two_phases().write(tmp_path / "a b?#%41.sqlite")
    before = path.read_bytes()
    read_nsys(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS 'start', i AS 'end' FROM n"


def test_nothing_of_the_file_runs(tmp_path: Path) -> None:
    """A view that never ends, a virtual table and a column that is computed are none of the tables that are read."""
    view = two_phases().write(
        tmp_path / "a.sqlite",
        [f"CREATE VIEW NVTX_EVENTS AS {ENDLESS}"],
        leave_out=["NVTX_EVENTS"],
    )
    assert list(phases(read_nsys(view))) == ["all"]
    computed = two_phases().write(
        tmp_path / "b.sqlite",
        ["ALTER TABLE StringIds ADD COLUMN spent TEXT AS (hex(zeroblob(1000000000)))"],
    )
    assert list(phases(read_nsys(computed))) == ["prefill", "decode"]


def patched(data: bytes, patches: list[tuple[int, bytes]]) -> bytes:
    changed = bytearray(data)
    for place, piece in patches:
        at = place % len(changed)
        changed[at : at + len(piece)] = piece
    return bytes(changed[: len(data)])


@settings(max_examples=150)
@given(st.lists(st.tuples(st.integers(0, 2**20), st.binary(min_size=1, max_size=8)), min_size=1, max_size=12))
def test_random_bytes_end_in_a_recording_or_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, patches: list[tuple[int, bytes]]
) -> None:
    folder = tmp_path_factory.mktemp("nsys")
    whole = two_phases().write(folder / "a.sqlite")
    path = folder / "b.sqlite"
    path.write_bytes(patched(whole.read_bytes(), patches))
    try:
        recording = read_nsys(path)
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert recording.phases
        assert all(phase.timed.wall_s >= 0 and phase.timed.busy_s >= 0 for phase in recording.phases)


def kinds(phase: TimedPhase) -> dict[OpKind, float]:
    found: dict[OpKind, float] = {}
    for timed in phase.ops:
        found[timed.op.kind] = found.get(timed.op.kind, 0.0) + timed.seconds
    return found


def test_the_sample_of_two_h100(tmp_path: Path) -> None:
    """Sums of the kernel table by sqlite3: 1,721 kernels and 22,444,359 ns on device 1, from 155,360,368,270 on."""
    path = traces("nsys/h100_2gpu_1s.sqlite")
    recording = read_nsys(path)
    (phase,) = phases(recording).values()
    copies = [timed for timed in phase.ops if timed.op.name.startswith("Mem")]
    kernels = [timed for timed in phase.ops if timed not in copies]
    assert (phase.name, phase.wall_s) == ("all", ns(156_320_675_933 - 155_360_368_270))
    assert sum(timed.seconds for timed in kernels) == ns(22_444_359)
    assert sum(timed.op.count for timed in kernels) == 1_721
    assert kinds(phase)[OpKind.GEMM] > 0.019
    assert OpKind.OTHER not in kinds(phase)
    assert recording.device == ""
    assert noted(recording, "GPU 1 is read")
    bmm = phases(read_nsys(path, ["aten::bmm"]))["aten::bmm"]
    assert set(kinds(bmm)) == {OpKind.GEMM}


def test_the_sample_of_an_rtx_3080() -> None:
    """Two kernels of 1,440 and 2,689 ns between 1,517,727,052 and 1,535,981,719; their copy comes after them."""
    recording = read_nsys(traces("nsys/mock.sqlite"))
    (phase,) = phases(recording).values()
    assert (phase.wall_s, phase.busy_s) == (ns(1_535_981_719 - 1_517_727_052), ns(4_129))
    assert replace(recording, phases=(), notes=()) == Recording(
        Format.NSYS, ("mock.sqlite",), (), "NVIDIA GeForce RTX 3080", 68, 10_736_893_952
    )
