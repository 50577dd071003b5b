"""One call with 1,000,000 (batch, context) pairs against single calls, in one run on one core.

Claim: within 2 s, and what single calls give to 1e-12.
"""

from __future__ import annotations

import time

import numpy as np

from rooflens import load_hardware, load_model, predict

PAIRS = 1_000_000
SINGLES = 200


def main() -> None:
    random = np.random.default_rng(0)
    batches, contexts = random.integers(1, 513, PAIRS), random.integers(0, 131_072, PAIRS)
    part = load_hardware("h100-sxm")
    print(f"{'model':16}{'one call':>10}{'a pair':>12}{'a single call':>16}{'ratio':>9}{'largest difference':>22}")
    for name in ("llama-3.1-8b", "gemma-2-9b"):
        model = load_model(name)
        start = time.perf_counter()
        step = predict(model, part, batch=batches, context=contexts).phases[1]
        swept = time.perf_counter() - start
        chosen = random.integers(0, PAIRS, SINGLES)
        start = time.perf_counter()
        single = [predict(model, part, batch=int(batches[i]), context=int(contexts[i])).phases[1] for i in chosen]
        each = (time.perf_counter() - start) / SINGLES
        floors = np.asarray(step.floor_s)
        worst = max(abs(floors[i] / one.floor_s - 1) for i, one in zip(chosen, single, strict=True))
        ratio = each / (swept / PAIRS)
        print(f"{name:16}{swept:8.2f} s{1e6 * swept / PAIRS:9.2f} µs{1e6 * each:13.0f} µs{ratio:9.0f}{worst:22.1e}")


if __name__ == "__main__":
    main()
