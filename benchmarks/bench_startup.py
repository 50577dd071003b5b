"""Whole processes against `python -c pass`, interleaved in one run on this machine.

Claims: `rooflens --help` at most 150 ms more, `predict ... --json` of a bundled model at most 400 ms more.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

ROUNDS = 15
COMMANDS = {
    "python -c pass": ("-c", "pass"),
    "rooflens --help": ("-m", "rooflens", "--help"),
    "rooflens predict --json": ("-m", "rooflens", "predict", "llama-3.1-8b", "--gpu", "h100-sxm", "--json"),
    "rooflens predict": ("-m", "rooflens", "predict", "llama-3.1-8b", "--gpu", "h100-sxm"),
}


def seconds(args: tuple[str, ...]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *args], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def main() -> None:
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):
        for name, args in COMMANDS.items():
            times[name].append(seconds(args))
    base = statistics.median(times["python -c pass"])
    print(f"{'process':28}{'median':>10}{'more than pass':>18}{'ratio':>8}")
    for name, taken in times.items():
        median = statistics.median(taken)
        print(f"{name:28}{1e3 * median:7.1f} ms{1e3 * (median - base):15.1f} ms{median / base:8.1f}")


if __name__ == "__main__":
    main()
