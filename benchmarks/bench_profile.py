"""What a profile's times are worth, as ratios in one run on one machine.

1. Phase times against those of a plain script, in interleaved pairs, with an A/A run beside it: the bootstrap interval
   of the median ratio includes 1 or lies within 2 %.
2. The instrumented decode against the one without: at most 1.05.
3. Prefill of 512 tokens against the framework's own GEMM before and after it, in fp32 and bf16, and for comparison
   against the best of all libraries, which is the ceiling; decode against the read probe.

The model is a Llama of hidden size 1024 with 8 layers and 123 M parameters, with random weights.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch

from rooflens.asked import Asked, loading_of, read_subject
from rooflens.core.hardware import Ceiling, Hardware, MemoryLevel
from rooflens.core.op import DType, Provenance
from rooflens.core.scenario import AttentionFlops
from rooflens.live.load import TORCH_DTYPES
from rooflens.live.passes import Runner
from rooflens.live.probe import probe
from rooflens.live.run import Schedule, time_phases, trace_phases
from rooflens.profiler import Subject, load_subject
from rooflens.sources.kineto import read_kineto

PROMPT, OUTPUT, PAIRS, ROUNDS = 512, 17, 20, 5
CONFIG = {
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "vocab_size": 32000,
    "tie_word_embeddings": False,
}
PREFILL_FLOPS = 2 * 512 * 122_945_536 + 4 * 1024 * 8 * (512 * 513 // 2)
"""Logits of every token, causal attention."""
DECODE_BYTES_PER_VALUE = 122_945_536
"""Weights that a step reads."""


def anywhere() -> Hardware:
    """A machine with any roofs: none of them is looked at here."""
    any_figure = Ceiling(1e12, Provenance("user", "none"))
    peaks = {DType.FP32: any_figure, DType.BF16: any_figure}
    return Hardware("any", "any", "", "", MemoryLevel("memory", any_figure), peaks)


def loaded(folder: Path, dtype: DType) -> Subject:
    import json

    path = folder / "config.json"
    path.write_text(json.dumps(CONFIG))
    asked = Asked(device="cpu", dtype=dtype, random=True)
    spec, source = read_subject(path, asked)
    return load_subject(spec, source, loading_of(asked, anywhere()), longest=PROMPT + OUTPUT)


def script(model: Any) -> tuple[float, float]:
    """What anybody would write: seconds of a prefill, and of a decode step."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, CONFIG["vocab_size"], (1, PROMPT), generator=generator)
    with torch.inference_mode():
        start = perf_counter()
        output = model(input_ids=ids, use_cache=True)
        token = output.logits[:, -1:].argmax(-1)
        prefill_s = perf_counter() - start
        cache = output.past_key_values
        start = perf_counter()
        for _ in range(OUTPUT - 1):
            output = model(input_ids=token, cache=cache, use_cache=True)
            token = output.logits[:, -1:].argmax(-1)
        return prefill_s, (perf_counter() - start) / (OUTPUT - 1)


def ours(runner: Runner) -> tuple[float, float]:
    times = time_phases(runner, Schedule(OUTPUT, warmup=0, repeat=1))
    return times.prefill_s[0], times.decode_s[0]


def interval(ratios: Sequence[float], draws: int = 4000) -> tuple[float, float]:
    """Bootstrap interval (95 %) of the median of `ratios`."""
    source = random.Random(0)
    medians = sorted(median(source.choices(ratios, k=len(ratios))) for _ in range(draws))
    return medians[int(0.025 * draws)], medians[int(0.975 * draws)]


def pairs(first: Callable[[], tuple[float, float]], second: Callable[[], tuple[float, float]]) -> list[list[float]]:
    """Ratios of prefill and decode times in interleaved pairs, the order of a pair by turns."""
    found: list[list[float]] = [[], []]
    for index in range(PAIRS):
        if index % 2:
            b, a = second(), first()
        else:
            a, b = first(), second()
        for phase in range(2):
            found[phase].append(a[phase] / b[phase])
    return found


def report_pairs(name: str, ratios: list[list[float]]) -> bool:
    good = True
    for phase, values in zip(("prefill", "decode"), ratios, strict=True):
        low, high = interval(values)
        holds = low <= 1 <= high or (low >= 0.98 and high <= 1.02)
        good &= holds
        print(f"{name:28} {phase:8} median ratio {median(values):.4f}, 95 % interval {low:.4f} to {high:.4f}")
    return good


def instrument(runner: Runner, folder: Path) -> float:
    """Median ratio of instrumented to plain decode steps, in interleaved rounds."""
    ratios = []
    for _ in range(ROUNDS):
        schedule = Schedule(OUTPUT, warmup=0, repeat=1)
        plain = time_phases(runner, schedule).decode_s[0]
        files = trace_phases(runner, schedule, folder)
        (phase,) = read_kineto(files["decode"], ["decode"], convention=AttentionFlops.CAUSAL)
        ratios.append(phase.wall_s / plain)
    return median(ratios)


def framework_gemm(dtype: DType, size: int = 2048) -> float:
    """FLOP/s of torch's product of square matrices: the median of three."""
    left, right = (torch.randn(size, size).to(getattr(torch, TORCH_DTYPES[dtype])) for _ in range(2))
    torch.mm(left, right)
    seconds = []
    for _ in range(3):
        start = perf_counter()
        torch.mm(left, right)
        seconds.append(perf_counter() - start)
    return 2 * size**3 / median(seconds)


def against_probes(runner: Runner, dtype: DType) -> tuple[float, float, float]:
    """Median shares: of torch's GEMM and of the best GEMM in prefill, of the read probe in decode, interleaved."""
    shares: list[tuple[float, float, float]] = []
    before, gemm_before = probe("cpu", dtype), framework_gemm(dtype)
    for _ in range(ROUNDS):
        prefill_s, decode_s = ours(runner)
        after, gemm_after = probe("cpu", dtype), framework_gemm(dtype)
        best = ((before.gemm_flops_per_s or 0.0) + (after.gemm_flops_per_s or 0.0)) / 2
        read = (before.read_bytes_per_s + after.read_bytes_per_s) / 2
        reached = PREFILL_FLOPS / prefill_s
        moved = float(dtype.bytes_of(DECODE_BYTES_PER_VALUE)) / decode_s
        shares.append((reached / ((gemm_before + gemm_after) / 2), reached / best, moved / read))
        before, gemm_before = after, gemm_after
    own, best, read = (median(values) for values in zip(*shares, strict=True))
    return own, best, read


def measured(folder: Path, dtype: DType, least: float) -> list[str]:
    """What does not hold in `dtype`."""
    subject = loaded(folder, dtype)
    runner = Runner(subject.model, subject.loading.device, 1, PROMPT, last=False)
    ours(runner)
    prefill, best, decode = against_probes(runner, dtype)
    print(f"{dtype}: prefill at {prefill:.3f} of torch's GEMM (at least {least}), {best:.3f} of the best GEMM")
    print(f"{dtype}: decode at {decode:.3f} of the read bandwidth (at most 1.1)")
    ratio = instrument(runner, folder)
    print(f"{dtype}: instrumented decode takes {ratio:.3f} x the plain one (at most 1.05)")
    same = report_pairs("rooflens / plain script", pairs(lambda: ours(runner), lambda: script(subject.model)))
    report_pairs("plain script / plain script", pairs(*[lambda: script(subject.model)] * 2))
    checks = {"prefill": prefill >= least, "decode": decode <= 1.1, "instrument": ratio <= 1.05, "times": same}
    return [f"{dtype} {name}" for name, holds in checks.items() if not holds]


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        failed = [*measured(Path(name), DType.FP32, 0.85), *measured(Path(name), DType.BF16, 0.75)]
    print("failed: " + ", ".join(failed) if failed else "all hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
