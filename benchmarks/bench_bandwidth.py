"""Our bandwidth kernels against likwid-bench, and our matrix-multiply peaks against torch and NumPy, as ratios.

Both sides run in turn on this machine with as many threads, and each counts with the best of its variants: a ratio
of medians, round against round, since the machine's speed drifts. likwid-bench's `load`, `copy`, `stream` (the
triad of STREAM) and `triad` (a = b x c + d) have ordinary stores; those of `_mem` bypass the caches.

Levels to compare may be named (L1, memory); all unless given. A full run takes about five minutes.

Claims: load, copy and both triads reach at least 0.95 of likwid-bench in every level; so do matrix products.
"""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable

from rooflens.core.op import DType
from rooflens.live import matmul
from rooflens.live.bandwidth import fastest, team_for, working_sets
from rooflens.live.clock import Clock
from rooflens.live.machine import load_torch, machine
from rooflens.live.team import Team

ROUNDS = 5
SECONDS = 0.1
"""Of each reading, on both sides."""

NEEDED = 0.95
KERNELS = {
    "read": ("load_avx512", "load_avx", "load_sse", "load"),
    "copy": ("copy_avx512", "copy_avx", "copy_sse", "copy"),
    "triad": ("stream_avx512_fma", "stream_avx_fma", "stream_sp_avx512_fma", "stream_sp_avx_fma", "stream_sse"),
    "vector_triad": ("triad_avx512_fma", "triad_avx_fma", "triad_sp_avx512_fma", "triad_sp_avx_fma", "triad_sse"),
    "copy_nt": ("copy_mem_avx512", "copy_mem_avx", "copy_mem_sse"),
    "triad_nt": ("stream_mem_avx512", "stream_mem_avx_fma", "stream_sp_mem_avx512_fma", "stream_sp_mem_avx_fma"),
}


def likwid(kernel: str, total: int, threads: int, sweeps: int) -> float:
    """byte/s that likwid-bench reports over `total` bytes of all threads, 0 where it lacks the kernel."""
    size = f"N:{max(total // 1000, 1)}kB:{threads}"
    command = ["likwid-bench", "-t", kernel, "-i", str(max(sweeps, 1)), "-W", size]
    printed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = re.search(r"MByte/s:\s+([\d.]+)", printed)
    return 1e6 * float(found[1]) if found else 0.0


def bandwidth_pair(team: Team, pattern: str, per_core: int) -> tuple[Callable[[], float], Callable[[], float], str]:
    """One reading of ours and one of likwid-bench's, each in its best variant here, and what they are."""
    ((ours, count),) = fastest(team, pattern, per_core, SECONDS, keep=1)
    threads = len(team.cores)
    total = per_core * threads
    theirs = max(KERNELS[pattern], key=lambda name: max(likwid(name, total, threads, count) for _ in range(2)))
    return (
        lambda: ours.rate(count),
        lambda: likwid(theirs, total, threads, count),
        f"{ours.step} / {theirs}",
    )


def compare(name: str, ours: Callable[[], float], theirs: Callable[[], float], words: str) -> float:
    """Print both sides of `ROUNDS` rounds; return the ratio: of the best readings, and the median of the rounds'."""
    pairs = []
    for index in range(ROUNDS):
        first, second = (ours, theirs) if index % 2 == 0 else (theirs, ours)
        readings = (first(), second())
        pairs.append(readings if index % 2 == 0 else readings[::-1])
    ratio = statistics.median(a / b for a, b in pairs)
    best = [max(side) / 1e9 for side in zip(*pairs, strict=True)]
    print(f"{name:24}{best[0]:10.1f}{best[1]:10.1f}{best[0] / best[1]:8.2f}{ratio:8.2f}  {words}", flush=True)
    return ratio


def gemm_pair(dtype: DType) -> tuple[Callable[[], float], Callable[[], float], str]:
    """Our peak, and the best of torch's and NumPy's product at the same size, written out anew."""
    torch, clock = load_torch(), Clock("cpu")
    size = matmul.fitting_sizes(torch, clock, dtype)[-1]
    kinds = {DType.FP32: "float32", DType.FP64: "float64", DType.BF16: "bfloat16", DType.FP16: "float16"}
    a, b = (torch.randn(size, size).to(getattr(torch, kinds[dtype])) for _ in range(2))
    ways: list[Callable[[], object]] = [lambda: a @ b]
    if dtype in (DType.FP32, DType.FP64):
        x, y = a.numpy(), b.numpy()
        ways.append(lambda: x @ y)

    def theirs() -> float:
        return 2 * size**3 / min(min(clock.seconds(way, 3)) for way in ways)

    def ours() -> float:
        return 2 * size**3 / min(min(clock.seconds(way, 3)) for way in mine.values())

    mine = matmul.ways(torch, "cpu", dtype, size)
    return ours, theirs, f"n = {size}, {' and '.join(mine)}"


def main() -> None:
    worst = []
    facts = machine()
    print(f"{'':24}{'ours':>10}{'theirs':>10}{'best':>8}{'median':>8}  (G/s; ratio of the best, median of rounds)")
    if shutil.which("likwid-bench") is None:
        print("likwid-bench is not installed: bandwidth is not compared")
    else:
        with team_for(facts) as team:
            for level in (one for one in working_sets(facts) if not sys.argv[1:] or one.name in sys.argv[1:]):
                for pattern in KERNELS:
                    if pattern.endswith("_nt") and level.name != "memory":
                        continue
                    pair = bandwidth_pair(team, pattern, level.bytes_per_core)
                    ratio = compare(f"{level.name} {pattern}", *pair)
                    worst.append(ratio)
    for dtype in (DType.FP32, DType.BF16, DType.FP64):
        worst.append(compare(f"{dtype} product", *gemm_pair(dtype)))
    print(f"lowest median {min(worst):.2f}, needed {NEEDED}")
    sys.exit(0 if min(worst) >= NEEDED else "a ratio is below what is claimed")


if __name__ == "__main__":
    main()
