"""Times of a GGUF file in llama.cpp on this machine's CPU (extra `llamacpp`).

Source: llama_perf_context in llama.cpp's include/llama.h; llama_context::synchronize, which fills its counters.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from rooflens.core.dtype import DType
from rooflens.errors import InputError
from rooflens.live.llamacpp_callbacks import Stop
from rooflens.live.llamacpp_checks import load_api, physical_cores, printable
from rooflens.live.llamacpp_session import Session, Setting, opened
from rooflens.units import si

_MOST_TOKENS, _MOST_REPEATS, _MOST_THREADS = 2**24, 10**6, 512
_APART = 0.05
"""Share by which wall clock and counter may differ before it is said."""
_POLL_S = 0.5

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LlamaRun:
    """Times of llama.cpp's own counters, one of each repeat.

    prefill_s: seconds of the whole prompt. decode_s: seconds of one decode step, the mean over the `steps` of a repeat;
    empty for an output of one token, which comes out of prefill. wall_prefill_s, wall_decode_s: the same by the wall
    clock; a step by the wall clock also chooses its token. cached: mean number of tokens cached before a step.
    passes: forward passes that the prompt takes; each reads the weights. n_batch, n_ubatch: most tokens of a call and
    of a pass. n_ctx: tokens that the cache has room for. n_ctx_train: length that the model was trained for. kv: dtype
    of keys and values. size: bytes of the file, with its other parts. version: of llama-cpp-python. system: what
    llama.cpp says of the machine. notes: what the reader should know, in sentences.
    """

    prefill_s: tuple[float, ...]
    decode_s: tuple[float, ...]
    wall_prefill_s: tuple[float, ...]
    wall_decode_s: tuple[float, ...]
    prompt: int
    output: int
    threads: int
    n_batch: int
    n_ubatch: int
    n_ctx: int
    n_ctx_train: int
    size: int
    version: str
    system: str
    kv: DType = DType.FP16
    notes: tuple[str, ...] = ()

    @property
    def steps(self) -> int:
        """Decode steps of a repeat: the first token of the output comes out of prefill."""
        return self.output - 1

    @property
    def passes(self) -> int:
        """Forward passes that the prompt takes."""
        return -(-self.prompt // self.n_ubatch)

    @property
    def cached(self) -> float:
        """Mean number of tokens cached before a decode step.

        Derivation: step k of 0 .. steps - 1 finds prompt + k tokens, on average prompt + (steps - 1) / 2.
        """
        return self.prompt + max(self.steps - 1, 0) / 2


@dataclass(frozen=True, slots=True)
class _Times:
    """Seconds by the counters and by the wall clock."""

    counted_s: float
    wall_s: float


def run_gguf(
    path: str | Path,
    *,
    prompt: int = 512,
    output: int = 64,
    repeat: int = 5,
    warmup: int = 1,
    threads: int | None = None,
    progress: Progress | None = None,
) -> LlamaRun:
    """Run the GGUF file at `path` in llama.cpp on the CPU; return the times of `repeat` repeats.

    Each repeat empties the cache, runs `prompt` random tokens of the vocabulary in one call, with logits of the last
    token alone, and takes `output` - 1 greedy steps. `warmup` repeats before them are not kept. `threads` is one per
    core unless given. `progress` is called with a line of text before each part, from another thread: the run has one
    of its own, so that an interrupt stops it at once, in the middle of a pass.

    Raises:
        ConfigError: no such file, a damaged one, an architecture that llama.cpp does not know, no decoder.
        InputError: a count that is out of range, or too little memory for weights and cache.
        MissingExtraError: without the package `llama-cpp-python`.
    """
    _check("prompt", prompt, 1, _MOST_TOKENS)
    _check("output", output, 1, _MOST_TOKENS)
    _check("repeat", repeat, 1, _MOST_REPEATS)
    _check("warmup", warmup, 0, _MOST_REPEATS)
    threads = physical_cores() if threads is None else threads
    _check("threads", threads, 1, _MOST_THREADS)
    api, stop = load_api(), Stop()

    def work() -> LlamaRun:
        with opened(api, Path(path), Setting(prompt, output, threads), stop) as session:
            return _run(session, repeat, warmup, progress or _silent)

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="llama.cpp") as pool:
        try:
            future = pool.submit(work)
            while not wait([future], timeout=_POLL_S).done:
                pass  # an interrupt that comes just before a wait is only seen after it
            return future.result()
        except BaseException:
            stop.set()
            raise


def _check(name: str, value: int, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InputError(f"{name} is {printable(repr(value))}; expected a whole number of {least:,} to {most:,}")


def _silent(line: str) -> None:
    del line


def _run(session: Session, repeat: int, warmup: int, progress: Progress) -> LlamaRun:
    """Warm up, then time `repeat` repeats."""
    tokens, steps = session.prompt(), session.setting.output - 1
    prefills, decodes = [], []
    for number in range(-warmup, repeat):
        progress(f"warm-up {number + warmup + 1} of {warmup}" if number < 0 else f"repeat {number + 1} of {repeat}")
        times = _prefill(session, tokens), _decode(session, steps) if steps else None
        if number >= 0:
            prefills.append(times[0])
            decodes += [times[1]] if times[1] else []
    return _with_notes(_record(session, prefills, decodes))


def _prefill(session: Session, tokens: list[int]) -> _Times:
    """Times of the whole prompt in an empty cache."""
    session.clear()
    start = perf_counter()
    session.push(tokens)
    wall = perf_counter() - start
    return _Times(session.counted_s(len(tokens), single=len(tokens) == 1), wall)


def _decode(session: Session, steps: int) -> _Times:
    """Mean times of a step over `steps` of them, after a pass."""
    session.reset()
    start = perf_counter()
    for _ in range(steps):
        session.push([session.greedy()])
    wall = perf_counter() - start
    return _Times(session.counted_s(steps, single=True) / steps, wall / steps)


def _record(session: Session, prefills: list[_Times], decodes: list[_Times]) -> LlamaRun:
    api, context, setting = session.api, session.context, session.setting
    return LlamaRun(
        prefill_s=tuple(times.counted_s for times in prefills),
        decode_s=tuple(times.counted_s for times in decodes),
        wall_prefill_s=tuple(times.wall_s for times in prefills),
        wall_decode_s=tuple(times.wall_s for times in decodes),
        prompt=setting.prompt,
        output=setting.output,
        threads=int(api.llama_n_threads(context)),
        n_batch=int(api.llama_n_batch(context)),
        n_ubatch=int(api.llama_n_ubatch(context)),
        n_ctx=int(api.llama_n_ctx(context)),
        n_ctx_train=int(api.llama_model_n_ctx_train(session.model)),
        size=session.size,
        version=str(api.__version__),
        system=_text(api.llama_print_system_info()),
    )


def _text(given: Any) -> str:
    return printable(given.decode("utf-8", "replace"))


def _with_notes(run: LlamaRun) -> LlamaRun:
    """`run` with what its reader should know."""
    notes = [
        *_apart("prefill", run.prefill_s, run.wall_prefill_s),
        *_apart("a decode step", run.decode_s, run.wall_decode_s),
    ]
    if run.passes > 1:
        notes.append(
            f"the prompt takes {run.passes:,} passes of at most {run.n_ubatch:,} tokens; each reads the weights"
        )
    if run.n_ctx_train < run.prompt + run.output:
        notes.append(
            f"prompt and output are {run.prompt + run.output:,} tokens; the model was trained for {run.n_ctx_train:,}"
        )
    return replace(run, notes=tuple(notes))


def _apart(what: str, counted: tuple[float, ...], wall: tuple[float, ...]) -> list[str]:
    """A note where the medians of counter and wall clock differ by more than 5 %."""
    if not counted or abs(median(wall) - median(counted)) <= _APART * median(wall):
        return []
    return [
        f"{what} took {si(median(counted), 's')} by llama.cpp's counter and {si(median(wall), 's')} by the wall clock, "
        f"more than {_APART:.0%} apart"
    ]
