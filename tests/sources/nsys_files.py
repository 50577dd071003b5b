"""Small exports of Nsight Systems, made as their tables were seen in real ones; times in nanoseconds."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

PROCESS = 7 << 24
THREAD = PROCESS + 1

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_execute_kernel__5x_cublas"
SILU = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::silu_kernel(at::TensorIteratorBase&)::{lambda()#1}>"
)
FLASH = "void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, cutlass::half_t>>(Flash_fwd_params)"

_TABLES = {
    "META_DATA_EXPORT": "name TEXT, value TEXT",
    "StringIds": "id INTEGER PRIMARY KEY, value TEXT",
    "CUPTI_ACTIVITY_KIND_KERNEL": '"start" INTEGER, "end" INTEGER, deviceId INTEGER, streamId INTEGER, '
    "correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER, graphNodeId INTEGER",
    "CUPTI_ACTIVITY_KIND_RUNTIME": '"start" INTEGER, "end" INTEGER, eventClass INTEGER, globalTid INTEGER, '
    "correlationId INTEGER, nameId INTEGER",
    "CUPTI_ACTIVITY_KIND_MEMCPY": '"start" INTEGER, "end" INTEGER, deviceId INTEGER, correlationId INTEGER, '
    "globalPid INTEGER, bytes INTEGER, copyKind INTEGER",
    "CUPTI_ACTIVITY_KIND_MEMSET": '"start" INTEGER, "end" INTEGER, deviceId INTEGER, correlationId INTEGER, '
    "globalPid INTEGER, bytes INTEGER",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": '"start" INTEGER, "end" INTEGER, deviceId INTEGER, graphId INTEGER, '
    "correlationId INTEGER, globalPid INTEGER",
    "NVTX_EVENTS": '"start" INTEGER, "end" INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER, textId INTEGER',
    "TARGET_INFO_GPU": "id INTEGER, name TEXT, busLocation TEXT, totalMemory INTEGER, smCount INTEGER, uuid TEXT",
    "TARGET_INFO_CUDA_DEVICE": "gpuId INTEGER, cudaId INTEGER, pid INTEGER, uuid TEXT",
    "GPU_METRICS": "timestamp INTEGER, typeId INTEGER, metricId INTEGER, value INTEGER",
    "TARGET_INFO_GPU_METRICS": "typeId INTEGER, sourceId INTEGER, typeName TEXT, metricId INTEGER, metricName TEXT",
}


class Writer:
    """Rows of an export; `write` makes the file of the tables that have any."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {
            "META_DATA_EXPORT": [{"name": "EXPORT_SCHEMA_VERSION", "value": "3.25.0"}]
        }
        self.strings: dict[Any, int] = {}
        self.correlation = 0

    def add(self, table: str, **row: Any) -> None:
        self.rows.setdefault(table, []).append(row)

    def string(self, text: Any) -> int:
        return self.strings.setdefault(text, len(self.strings) + 1)

    def launch(self, at: int | None, thread: int = THREAD) -> int:
        """A call of the runtime at `at`; without one, a correlation alone."""
        self.correlation += 1
        if at is not None:
            self.add(
                "CUPTI_ACTIVITY_KIND_RUNTIME", start=at, end=at + 5, globalTid=thread, correlationId=self.correlation
            )
        return self.correlation

    def kernel(
        self, name: Any, start: Any, end: Any, *, at: int | None = None, thread: int = THREAD, **more: Any
    ) -> None:
        row = {
            "start": start,
            "end": end,
            "deviceId": 0,
            "globalPid": thread & ~0xFFFFFF,
            "demangledName": self.string(name),
            "shortName": self.string(name),
        }
        more.setdefault("correlationId", self.launch(at, thread) if "correlationId" not in more else 0)
        self.add("CUPTI_ACTIVITY_KIND_KERNEL", **{**row, **more})

    def copy(self, kind: int, moved: Any, start: int, end: int, at: int | None = None) -> None:
        row = {"start": start, "end": end, "deviceId": 0, "globalPid": PROCESS, "correlationId": self.launch(at)}
        table = "MEMSET" if kind == 0 else "MEMCPY"
        self.add(f"CUPTI_ACTIVITY_KIND_{table}", **row, bytes=moved, **({"copyKind": kind} if kind else {}))

    def range(self, text: Any, start: int, end: int | None, thread: int = THREAD, kind: int = 59) -> None:
        self.add("NVTX_EVENTS", start=start, end=end, eventType=kind, text=text, globalTid=thread)

    def write(self, path: Path, extra: Iterable[str] = (), leave_out: Iterable[str] = ()) -> Path:
        """The file; `extra` are statements that run at its end, `leave_out` tables that it has not."""
        for text, number in self.strings.items():
            self.add("StringIds", id=number, value=text)
        with closing(sqlite3.connect(path)) as connection, connection:
            for table, rows in self.rows.items():
                if table in leave_out:
                    continue
                connection.execute(f"CREATE TABLE {table} ({_TABLES[table]})")
                for row in rows:
                    names = ", ".join(f'"{name}"' for name in row)
                    marks = ", ".join("?" * len(row))
                    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values()))
            for statement in extra:
                connection.execute(statement)
        return path


def two_phases() -> Writer:
    """A prefill of 1,000 ns with kernels of 600 and 100, two decode steps of 1,000 ns with one of 300 and of 500."""
    made = Writer()
    made.range("Prefill", 1_000, 2_000)
    made.range("decode", 2_000, 3_000)
    made.range("decode", 3_000, 4_000)
    made.kernel(GEMM, 1_200, 1_800, at=1_100)
    made.kernel(SILU, 1_800, 1_900, at=1_150)
    made.kernel(GEMM, 2_200, 2_500, at=2_100)
    made.kernel(GEMM, 3_200, 3_700, at=3_100)
    return made
