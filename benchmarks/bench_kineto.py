"""Reading a Kineto trace of 100 MB: speed and peak memory, as ratios in one run on one core.

The trace is made here: the ops, ranges, launches and kernels of decode steps as PyTorch's profiler writes them, shapes
included. Each reader runs in a process of its own, in turns; the best of its times counts, its peak memory is that of
the process. `orjson` and HolisticTraceAnalysis take part where they are installed.

Goal: `read_trace` at 150 MB/s or more, with a peak of at most three times the file.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

MEGABYTES, ROUNDS = 100, 3
SPEED, PEAK = 150.0, 3.0
READERS = {
    "rooflens": "from rooflens.sources.kineto_file import read_trace\ndef read(path): return read_trace(path)",
    "json": "import json\ndef read(path): return json.loads(path.read_bytes())",
    "orjson": "import orjson\ndef read(path): return orjson.loads(path.read_bytes())",
    "hta": "from hta.common.trace_parser import parse_trace_dataframe\n"
    "def read(path): return parse_trace_dataframe(str(path))",
}
NEEDS = {"orjson": "orjson", "hta": "hta"}
CHILD = """
import resource, sys
from pathlib import Path
from time import perf_counter
{reader}
path, base = Path(sys.argv[1]), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began = perf_counter()
found = read(path)
print(perf_counter() - began, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) * 1024)
sys.stdout.flush()
import os
os._exit(0)
"""
OPS = ("aten::linear", "aten::addmm", "aten::mm", "aten::view", "aten::silu", "aten::mul", "aten::empty", "aten::copy_")
KERNELS = (
    "nvjet_tst_64x8_64x16_4x1_v_bz_TNT",
    "void at::native::vectorized_elementwise_kernel<4, at::native::silu_kernel(at::TensorIteratorBase&)::"
    "{lambda()#1}::operator()() const::{lambda()#4}::operator()() const::{lambda(c10::BFloat16)#1}, "
    "std::array<char*, 2ul>>(int, std::array<char*, 2ul>)",
    "void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, false, false, cutlass::bfloat16_t>>"
    "(Flash_fwd_params)",
)


def events(chance: random.Random) -> list[dict[str, object]]:
    """One op with its shapes, the launch inside it, and its kernel: five events of real ones' sizes."""
    start, number = chance.uniform(1e9, 9e9), chance.randrange(10**6)
    dims = [[chance.choice((1, 32, 512)), 4096], [4096, 14336], []]
    shapes = {
        "External id": number,
        "Record function id": 0,
        "Concrete Inputs": ["", "", "1"],
        "Input type": ["c10::BFloat16", "c10::BFloat16", "Scalar"],
        "Input Strides": [[4096, 1], [1, 4096], []],
        "Input Dims": dims,
        "Ev Idx": number,
    }
    launch = {"External id": number, "cbid": 211, "correlation": number}
    kernel = {
        "External id": number,
        "queued": 0,
        "device": 0,
        "context": 1,
        "stream": 7,
        "correlation": number,
        "registers per thread": 168,
        "shared memory": 213_248,
        "blocks per SM": 1.0,
        "warps per SM": 12.0,
        "grid": [132, 1, 1],
        "block": [384, 1, 1],
        "est. achieved occupancy %": 18,
    }

    def event(category: str, name: str, args: Mapping[str, object], thread: int) -> dict[str, object]:
        times = {"ts": round(start, 3), "dur": round(chance.uniform(1, 90), 3)}
        return {"ph": "X", "cat": category, "name": name, "pid": 4711, "tid": thread, **times, "args": args}

    op, inner = chance.sample(OPS, 2)
    return [
        event("cpu_op", op, shapes, 4711),
        event("cpu_op", inner, shapes, 4711),
        event("cuda_runtime", "cudaLaunchKernel", launch, 4711),
        event("kernel", chance.choice(KERNELS), kernel, 7),
        {"ph": "s", "id": number, "pid": 4711, "tid": 4711, "ts": round(start, 3), "cat": "ac2g", "name": "ac2g"},
    ]


def made(path: Path) -> int:
    """Write the trace, and return its bytes."""
    chance, size = random.Random(0), 0
    devices = [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132, "totalGlobalMem": 85_520_809_984}]
    with path.open("w", encoding="utf-8") as file:
        file.write(f'{{\n  "schemaVersion": 1,\n  "deviceProperties": {json.dumps(devices)},\n  "traceEvents": [\n')
        first = True
        while size < MEGABYTES * 10**6:
            for event in events(chance):
                text = json.dumps(event, indent=1).replace("\n ", "\n    ")
                size += file.write(text if first else ",\n" + text)
                first = False
        file.write("\n  ]\n}\n")
    return path.stat().st_size


def read(name: str, path: Path) -> tuple[float, float]:
    """Seconds, and bytes of memory at the peak over those of the process before, of one reading."""
    command = [sys.executable, "-c", CHILD.format(reader=READERS[name]), str(path)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    seconds, peak = map(float, done.stdout.split()[-2:])
    return seconds, peak


def main() -> int:
    """Measure and print; 1 where a goal is missed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        size = made(path)
        names = [name for name in READERS if name not in NEEDS or find_spec(NEEDS[name])]
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
        for _ in range(ROUNDS):
            for name in names:
                found[name].append(read(name, path))
    best = {name: min(seconds for seconds, _ in rows) for name, rows in found.items()}
    peaks = {name: min(peak for _, peak in rows) / size for name, rows in found.items()}
    print(f"a trace of {size / 1e6:.0f} MB, best of {ROUNDS}")
    for name in names:
        print(
            f"{name:>9}: {size / 1e6 / best[name]:6.0f} MB/s, {peaks[name]:.2f} times the file in memory; "
            f"rooflens takes {best['rooflens'] / best[name]:.2f} of its time and {peaks['rooflens'] / peaks[name]:.2f} "
            "of its memory"
        )
    speed = size / 1e6 / best["rooflens"]
    reached = speed >= SPEED and peaks["rooflens"] <= PEAK
    print(f"goal {SPEED:.0f} MB/s and {PEAK:.1f} times the file: {'reached' if reached else 'missed'}")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
