"""A measured run: phases timed without an instrument, then once more under the profiler for the breakdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from rooflens.core.scenario import PhaseKind
from rooflens.live.device import Device
from rooflens.live.energy import EnergyMeter
from rooflens.live.nvtx import range as nvtx_range
from rooflens.live.passes import Runner, State, inference, module_ranges, timed
from rooflens.live.trace import phase_range, traced

TRACED_STEPS = 16
"""Decode steps of an instrumented run at most: a step of a small model is thousands of events."""

PREFILL, DECODE = PhaseKind.PREFILL.value, PhaseKind.DECODE.value
Progress = Callable[[str, float], None]
"""Told what is done now and how much of the whole is done, 0..1."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How often what runs. output: tokens of each sequence, the first of which comes out of prefill.

    between: called before the first repeat and after each; what it returns is kept, if anything (a probe of the
    machine). meter: the machine's energy counter, if it has one.
    """

    output: int
    warmup: int = 1
    repeat: int = 5
    between: Callable[[], Any] | None = None
    meter: EnergyMeter | None = None
    progress: Progress | None = None

    @property
    def steps(self) -> int:
        """Decode steps of one repeat."""
        return self.output - 1

    @property
    def traced_steps(self) -> range:
        """Numbers of the steps that are traced: the middle ones, whose mean context is that of all."""
        many = self.steps if self.steps <= TRACED_STEPS else TRACED_STEPS - (self.steps - TRACED_STEPS) % 2
        first = (self.steps - many) // 2
        return range(first, first + many)


@dataclass(slots=True)
class Times:
    """Seconds of each repeat: of the prefill pass, and of a decode step (the mean of a repeat's steps).

    probes: what `between` returned. joules: of one pass of each phase, where the machine counts them. partial:
    whether the run was stopped before its last repeat; failure: by what, where it was no interrupt. energy: why a phase
    has no joules, in one sentence.
    """

    prefill_s: list[float] = field(default_factory=list)
    decode_s: list[float] = field(default_factory=list)
    probes: list[Any] = field(default_factory=list)
    joules: dict[str, float] = field(default_factory=dict)
    partial: bool = False
    failure: BaseException | None = None
    energy: str = ""


def time_phases(runner: Runner, schedule: Schedule) -> Times:
    """Time `schedule.repeat` runs of both phases after its warm-up, nothing recorded inside them.

    A run that is interrupted, or whose memory or device is gone, returns the repeats that were complete, if there is
    one.

    Raises:
        KeyboardInterrupt, MemoryError, RuntimeError: before the first repeat was complete.
    """
    times, spent = Times(), _Spent(schedule.meter)
    whole = schedule.warmup + schedule.repeat
    try:
        with inference():
            tokens = runner.tokens()
            for index in range(whole):
                done = index - schedule.warmup
                what = "warm-up" if done < 0 else f"timing, run {done + 1} of {schedule.repeat}"
                _tell(schedule, what, index / whole)
                if index == schedule.warmup:
                    _probe(schedule, times)
                prefill_s, decode_s = _repeat(runner, tokens, schedule.steps, spent)
                if index == schedule.warmup - 1:
                    spent.forget()
                if index >= schedule.warmup:
                    times.prefill_s.append(prefill_s)
                    times.decode_s += [decode_s] if schedule.steps else []
                    _probe(schedule, times)
    except (KeyboardInterrupt, MemoryError, RuntimeError) as cause:
        if not times.prefill_s:
            raise
        times.partial = True
        times.failure = None if isinstance(cause, KeyboardInterrupt) else cause
    times.joules, times.energy = spent.each({PREFILL: 1, DECODE: schedule.steps})
    return times


@dataclass(slots=True)
class _Spent:
    """Joules of both phases, added up over the repeats; nothing where the machine has no counter.

    times, seconds: how often each was metered, and for how long in all. reason: why a stretch had no energy.
    """

    meter: EnergyMeter | None
    joules: dict[str, float] = field(default_factory=dict)
    times: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    reason: str = ""

    def forget(self) -> None:
        """Start anew, after the warm-up."""
        for kept in (self.joules, self.times, self.seconds):
            kept.clear()

    @contextmanager
    def on(self, phase: str) -> Iterator[None]:
        """Add what is spent inside to `phase`."""
        if self.meter is None:
            yield
            return
        start, began = self.meter.read(), perf_counter()
        yield
        spent = self.meter.joules_since(start)
        self.reason = spent.reason or self.reason
        self.joules[phase] = self.joules.get(phase, 0.0) + (spent.joules or 0.0)
        self.times[phase] = self.times.get(phase, 0) + 1
        self.seconds[phase] = self.seconds.get(phase, 0.0) + perf_counter() - began

    def each(self, passes: Mapping[str, int]) -> tuple[dict[str, float], str]:
        """Joules of one pass of each phase, and why one has none; passes: in one stretch.

        A phase that was metered for less than the counter can tell has none.
        """
        found, reasons = {}, []
        for phase, joules in self.joules.items():
            seconds, least = self.seconds[phase], self.meter.least_s if self.meter is not None else 0.0
            if joules and seconds >= least:
                found[phase] = joules / (self.times[phase] * passes[phase])
            elif joules or not self.reason:
                reasons.append(f"{phase} ran for {seconds:.2g} s in all, and the counter needs {least:g} s to tell")
        return found, "; ".join(reasons) or ("" if len(found) == len(self.joules) else self.reason)


def _repeat(runner: Runner, tokens: Any, steps: int, spent: _Spent) -> tuple[float, float]:
    """Seconds of a prefill, and of the mean of `steps` decode steps after it."""

    def decode() -> None:
        state = first
        for _ in range(steps):
            state = runner.step(*state)

    with spent.on(PREFILL), nvtx_range(PREFILL):
        prefill_s, first = timed(runner.device, lambda: runner.prefill(tokens))
    if not steps:
        return prefill_s, 0.0
    with spent.on(DECODE), nvtx_range(DECODE):
        return prefill_s, timed(runner.device, decode)[0] / steps


def trace_phases(runner: Runner, schedule: Schedule, folder: Path, *, shapes: bool = False) -> dict[str, Path]:
    """Run both phases once more under the profiler; returns the trace of each by the name of its phase.

    Prefill is traced once, decode in its middle steps in a session of their own. Without `shapes` the instrument costs
    a few per cent less; `trace_references` then has them.
    """
    steps = schedule.traced_steps
    with inference():
        _tell(schedule, "tracing prefill", 0.0)
        state, files = _trace_prefill(runner, folder / "prefill.json", shapes=shapes)
        if schedule.steps:
            for _ in range(steps.start):
                state = runner.step(*state)
            _tell(schedule, "tracing decode", 0.4)
            files[DECODE] = folder / "decode.json"
            with traced(runner.device, files[DECODE], shapes=shapes):
                for _ in steps:
                    state = _step(runner, state)
    return files


def trace_references(runner: Runner, schedule: Schedule, folder: Path) -> dict[str, Path]:
    """One pass of each phase with shapes and a range for every module, for names and counts; the middle decode step."""
    steps = schedule.traced_steps
    with inference():
        _tell(schedule, "naming kernels", 0.7)
        with module_ranges(runner.model):
            state, files = _trace_prefill(runner, folder / "prefill_modules.json", shapes=True)
        if schedule.steps:
            for _ in range(steps.start + (len(steps) - 1) // 2):
                state = runner.step(*state)
            files[DECODE] = folder / "decode_modules.json"
            with traced(runner.device, files[DECODE]), module_ranges(runner.model):
                _step(runner, state)
    return files


def _trace_prefill(runner: Runner, file: Path, *, shapes: bool) -> tuple[State, dict[str, Path]]:
    tokens = runner.tokens()
    with traced(runner.device, file, shapes=shapes):
        state = _in_range(runner.device, PREFILL, lambda: runner.prefill(tokens))
    return state, {PREFILL: file}


def _step(runner: Runner, state: State) -> State:
    found: State = _in_range(runner.device, DECODE, lambda: runner.step(*state))
    return found


def _in_range(device: Device, name: str, function: Callable[[], Any]) -> Any:
    device.synchronize()
    with phase_range(name):
        result = function()
        device.synchronize()
    return result


def _probe(schedule: Schedule, times: Times) -> None:
    found = schedule.between() if schedule.between is not None else None
    if found is not None:
        times.probes.append(found)


def _tell(schedule: Schedule, what: str, done: float) -> None:
    if schedule.progress is not None:
        schedule.progress(what, done)
