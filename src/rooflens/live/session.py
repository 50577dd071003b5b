"""Phases of anybody's own loop: timed, and recorded under the profiler, with ranges that a GPU trace shows too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import get_ident
from time import perf_counter
from typing import Any

from rooflens.core.scenario import PhaseKind
from rooflens.errors import InputError
from rooflens.live.device import Device
from rooflens.live.nvtx import range as nvtx_range
from rooflens.live.trace import phase_range, traced

LARGEST = 2**40
"""Largest number of passes, sequences or tokens that is taken for one."""

PHASES = tuple(str(kind) for kind in PhaseKind)


@dataclass(frozen=True, slots=True)
class Entry:
    """One pass of a phase: its seconds, whether the instrument was on, and its sizes where they are known (tokens).

    steps: forward passes in it; seconds are of all of them.
    """

    seconds: float
    instrumented: bool
    steps: int = 1
    batch: int | None = None
    tokens: int | None = None
    cached: int | None = None


@dataclass(slots=True)
class Recorder:
    """Times phases and traces them into `file`.

    Without `passes` everything is traced, times included. With it the first passes run without the instrument and
    give the times, the last one is traced.
    """

    device: Device
    file: Path
    entries: dict[str, list[Entry]] = field(default_factory=dict)
    current: str | None = None
    steps: int = 0
    _stack: ExitStack = field(default_factory=ExitStack)
    _tracing: bool = False
    _plain: bool = False
    _done: bool = False
    _thread: int = field(default_factory=get_ident)

    def passes(self, plain: int = 3) -> Iterator[int]:
        """Numbers of the passes to run: `plain` ones that give the times, then one that is traced.

        Raises:
            InputError: fewer than one plain pass, or phases that ran before.
        """
        check_size("plain", plain, 1)
        if self.entries:
            raise InputError("passes comes before the first phase, and a phase has run; begin the loop with it")
        self._plain = True
        yield from range(plain)
        self._plain = False
        self.start()
        yield plain
        self.stop()

    def start(self) -> None:
        """Turn the instrument on, once.

        Raises:
            InputError: it is on already for something else, or this is another thread than that of the block, of which
                the profiler would record nothing and end the process.
        """
        self.check_thread()
        if not self._tracing and not self._done:
            self._stack.enter_context(traced(self.device, self.file))
            self._tracing = True

    def stop(self) -> None:
        """Turn it off and write the trace."""
        if self._tracing:
            self._tracing, self._done = False, True
            self._stack.close()

    def check_thread(self) -> None:
        """Raises InputError in another thread than the one that opened the block."""
        if get_ident() != self._thread:
            raise InputError("a phase ran in another thread than its block; open the block in the thread that runs it")

    @contextmanager
    def phase(
        self,
        name: str,
        *,
        batch: int | None = None,
        tokens: int | None = None,
        cached: int | None = None,
        steps: int = 0,
    ) -> Iterator[None]:
        """Time what runs inside as one pass of the phase `name`, "prefill" or "decode".

        batch, tokens, cached: sequences, new tokens of each and those before them, where the caller knows them; else
        they are read from the trace. steps: forward passes inside; those of the model that is watched unless given.

        Raises:
            InputError: another name, a size that is no whole number in its range, another thread, or a phase inside a
                phase.
        """
        self.check_thread()
        for size, value, least in (("batch", batch, 1), ("tokens", tokens, 1), ("cached", cached, 0)):
            if value is not None:
                check_size(size, value, least)
        check_size("steps", steps, 0)
        if name not in PHASES or self.current is not None:
            inside = f"inside {self.current}" if self.current else f"expected {' or '.join(PHASES)}"
            raise InputError(f"phase {name!r} cannot start: {inside}")
        if not self._plain:
            self.start()
        self.current, self.steps = name, 0
        try:
            self.device.synchronize()
            start = perf_counter()
            with nvtx_range(name), phase_range(name):
                yield
                self.device.synchronize()
            seconds = perf_counter() - start
        finally:
            self.current = None
        ran = steps or self.steps or 1
        self.add(name, Entry(seconds, self._tracing, ran, batch, tokens, cached))

    def add(self, name: str, entry: Entry) -> None:
        """Keep one pass of a phase."""
        self.entries.setdefault(name, []).append(entry)

    @property
    def tracing(self) -> bool:
        """Whether the instrument is on."""
        return self._tracing

    @property
    def was_traced(self) -> bool:
        """Whether the trace is written."""
        return self._done


class Watch:
    """Finds the phases of a model that is called inside: a Hugging Face `generate`, or any loop around its forward.

    A pass over several tokens, or without a cache, is prefill; over one token of each sequence after a cache it is a
    decode step, which lasts from the end of the pass before it (what chooses the next token is in it). Inside a phase
    that the caller named, passes are counted and nothing else.
    """

    def __init__(self, model: Any, recorder: Recorder) -> None:
        self.recorder = recorder
        self._handles = (
            model.register_forward_pre_hook(self._enter, with_kwargs=True),
            model.register_forward_hook(self._leave, always_call=True),
        )
        self._open: tuple[ExitStack, str, dict[str, int], float] | None = None
        self._ended: float | None = None

    def close(self) -> None:
        """Stop watching."""
        for handle in self._handles:
            handle.remove()

    def _enter(self, _model: Any, args: Any, kwargs: dict[str, Any]) -> None:
        recorder = self.recorder
        recorder.check_thread()
        if recorder.current is not None:
            recorder.steps += 1
            return
        sizes = sizes_of(args, kwargs)
        name = "decode" if sizes["tokens"] == 1 and sizes["cached"] else "prefill"
        if not recorder._plain:
            recorder.start()
        recorder.device.synchronize()
        now = perf_counter()
        begun = self._ended if name == "decode" and self._ended is not None else now
        stack = ExitStack()
        stack.enter_context(nvtx_range(name))
        stack.enter_context(phase_range(name))
        self._open = stack, name, sizes, begun

    def _leave(self, _model: Any, _args: Any, _output: Any) -> None:
        if self._open is None:
            return
        stack, name, sizes, begun = self._open
        self._open = None
        self.recorder.device.synchronize()
        stack.close()
        self._ended = perf_counter()
        self.recorder.add(name, Entry(self._ended - begun, self.recorder.tracing, 1, **sizes))


def check_size(name: str, value: object, least: int) -> None:
    """Raises InputError for a size that is no whole number from `least` to `LARGEST`."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= LARGEST:
        raise InputError(f"{name} is {repr(value)[:40]}; expected a whole number from {least} to {LARGEST:,}")


def sizes_of(args: Any, kwargs: dict[str, Any]) -> dict[str, int]:
    """Sequences, new tokens of each, and cached tokens, of a call of a model's forward."""
    ids = next((kwargs[n] for n in ("input_ids", "inputs_embeds") if kwargs.get(n) is not None), None)
    ids = ids if ids is not None else next((a for a in args if hasattr(a, "shape")), None)
    shape = tuple(getattr(ids, "shape", ())) or (1, 1)
    cache = next((kwargs[n] for n in ("cache", "past_key_values", "cache_params") if kwargs.get(n) is not None), None)
    return {"batch": int(shape[0]), "tokens": int(shape[1]) if len(shape) > 1 else 1, "cached": _held(cache)}


def _held(cache: Any) -> int:
    """Tokens that a cache holds, 0 where it cannot tell."""
    if cache is None:
        return 0
    length = getattr(cache, "get_seq_length", None)
    if length is not None:
        return int(length())
    first = cache[0][0] if isinstance(cache, (tuple, list)) and cache else None
    shape = tuple(getattr(first, "shape", ()))
    return int(shape[-2:][0]) if shape else 0
