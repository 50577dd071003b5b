"""Small sound files of each format, and changes to them that no profiler would make."""

from __future__ import annotations

import json
import random
from copy import deepcopy
from pathlib import Path

from tests.sources.kineto_traces import linear, mm, span
from tests.sources.nsys_files import two_phases
from tests.sources.replays import replayed, trace

WORDS = (
    *(b"-1", b"0", b"1e308", b"1.5", b"NaN", b"99999999999999999999", b"18446744073709551615", b"-9223372036854775808"),
    *(b"null", b"[]", b"{}", b"()", b'"', b",", b"\n", b"\xff", b"\0", b"[[[[[[", b'"ph"', b'"X"', b"\x1f\x8b", b"sq"),
)
NCU = (
    '==PROF== Connected to process 1\n"ID","Process ID","Kernel Name","Block Size","Grid Size","Device","CC",'
    '"Section Name","Metric Name","Metric Unit","Metric Value"\n'
    '"0","7","gemv","(128, 1, 1)","(64, 1, 1)","0","9.0","Command","gpu__time_duration.sum","us","18.34"\n'
    '"0","7","gemv","(128, 1, 1)","(64, 1, 1)","0","9.0","Command","dram__bytes_read.sum","Mbyte","1,757.2"\n'
    '"0","7","gemv","(128, 1, 1)","(64, 1, 1)","0","9.0","Command",'
    '"smsp__sass_thread_inst_executed_op_ffma_pred_on.sum","inst","n/a"\n'
)
WIDE = (
    '"ID","Process ID","Kernel Name","Block Size","Grid Size","CC","gpu__time_duration.sum","dram__bytes_read.sum"\n'
    '"","","","","","","ns","byte"\n"0","7","gemv","(128, 1, 1)","(64, 1, 1)","9.0","18340","17572000"\n'
)
ROCPROF = (
    "Dispatch_ID,GPU_ID,Kernel_Name,Start_Timestamp,End_Timestamp,TCC_EA_RDREQ_sum,SQ_INSTS_VALU_FMA_F32\n"
    '0,4,"gemm(int, float*)",1000,2500,123,456.5\n1,4,copy,2500,2600,7,0\n'
)
TOOL = {
    "rocprofiler-sdk-tool": [
        {
            "agents": [{"id": {"handle": 1}, "product_name": "AMD Instinct MI300X"}],
            "kernel_symbols": [{"kernel_id": 3, "formatted_kernel_name": "gemm"}],
            "buffer_records": {
                "kernel_dispatch": [
                    {
                        "start_timestamp": 10,
                        "end_timestamp": 30,
                        "dispatch_info": {"dispatch_id": 1, "kernel_id": 3, "agent_id": {"handle": 1}},
                    }
                ]
            },
        }
    ]
}


def seeds(folder: Path) -> dict[str, list[bytes]]:
    """Small sound files of each format."""
    path = folder / "seed"
    eager = [span("decode", 0, 200), *linear(10), mm(130, 20)]
    kineto = [trace(path, events).read_bytes() for events in (replayed(), eager)]
    database = two_phases().write(folder / "seed.sqlite").read_bytes()
    rocprof = [ROCPROF.encode(), json.dumps(TOOL).encode()]
    return {"kineto": kineto, "nsys": [database], "ncu": [NCU.encode(), WIDE.encode()], "rocprof": rocprof}


ODD: tuple[object, ...] = (
    *(None, True, -1, 0, 10**17, 2**63, 1e300, -1e300, 0.5, [], [[]], {}, [-1], [[0, 3], [3, 0]]),
    *("", "x" * 300, "a\x1b[0m", "Scalar", "c10::BFloat16", "decode", "step[DECODE bs=0]", "cpu_op"),
)


def mutated(data: bytes, chance: random.Random) -> bytes:
    """`data` with a few changes: of JSON half of the time other values, else bytes, words, numbers, cuts, copies."""
    if data[:1] == b"{" and chance.random() < 0.5:
        value = json.loads(data)
        for _ in range(chance.choice((1, 1, 2, 5))):
            _replaced(value, chance)
        return json.dumps(value).encode()
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        at, many = chance.randrange(len(made) + 1), chance.choice((1, 1, 2, 8, 64))
        match chance.randrange(6):
            case 0:
                made[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                made[at : at + chance.choice((0, 1, 3))] = chance.choice(WORDS)
            case 2:
                del made[at : at + many]
            case 3:
                other = chance.randrange(len(made) + 1)
                made[at:at] = made[other : other + many]
            case 4:
                _number(made, at, chance)
            case _:
                if chance.random() < 0.1:
                    del made[at:]
    return bytes(made)


def _replaced(value: object, chance: random.Random) -> None:
    """Put something odd in place of a value somewhere inside `value`, or leave it out, or repeat it."""
    while isinstance(value, (dict, list)) and value:
        key = chance.choice(list(value)) if isinstance(value, dict) else chance.randrange(len(value))
        inner = value[key]
        if not (isinstance(inner, (dict, list)) and inner and chance.random() < 0.85):
            if chance.random() < 0.15:
                del value[key]
            elif chance.random() < 0.1 and isinstance(value, list):
                value.append(deepcopy(inner))
            else:
                value[key] = deepcopy(chance.choice(ODD))
            return
        value = inner


def _number(made: bytearray, at: int, chance: random.Random) -> None:
    """Another number in place of the one at or after `at`."""
    start = next((i for i in range(at, min(len(made), at + 200)) if 48 <= made[i] <= 57), None)
    if start is None:
        return
    end = start
    while end < len(made) and 48 <= made[end] <= 57:
        end += 1
    made[start:end] = chance.choice((b"0", b"-1", b"1e300", b"9" * chance.choice((3, 16, 19, 25)), b"true", b'"x"'))
