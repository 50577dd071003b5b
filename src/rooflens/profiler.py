"""A real run of a model -> Profile: what was measured, beside what is counted from the same shapes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rooflens.core.hardware import Hardware
from rooflens.core.model import ModelSpec
from rooflens.core.profile import Finding, Measurement, PhaseProfile, Profile
from rooflens.core.scenario import AttentionFlops, Conventions, Fusion, Logits, Phase, Scenario
from rooflens.core.timed import TimedPhase
from rooflens.count import forward, kv_cache_bytes, weight_bytes
from rooflens.errors import InputError
from rooflens.findings import findings
from rooflens.live.conditions import conditions, counters, state
from rooflens.live.device import Device
from rooflens.live.energy import EnergyMeter
from rooflens.live.load import Loading, load_weights, random_weights
from rooflens.live.memory import check_fits, is_out_of_memory, why
from rooflens.live.passes import Runner
from rooflens.live.run import Progress, Schedule, Times, time_phases, trace_phases, trace_references
from rooflens.measured import place_measured, scale_to_depth
from rooflens.precision import Dtypes, settle
from rooflens.roofline import place_phase
from rooflens.sources.config import spec_from_config
from rooflens.sources.kineto import read_kineto, read_references
from rooflens.workload import scenario


@dataclass(frozen=True, slots=True)
class Subject:
    """What is run: a loaded model with the spec that it is counted by.

    depth: layers of the whole model, where only its first were loaded.
    """

    spec: ModelSpec
    model: Any
    loading: Loading
    depth: int | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """How it is run: sequences, prompt and output tokens, repeats; conventions of what is counted of it.

    keep: a folder that the traces are kept in.
    """

    batch: int = 1
    prompt: int = 512
    output: int = 64
    warmup: int = 1
    repeat: int = 5
    conventions: Conventions = field(default_factory=lambda: Conventions(fusion=Fusion.FRAMEWORK))
    keep: Path | None = None
    progress: Progress | None = None
    probe: Callable[[], Any] | None = None


Settle = Callable[[list[Any]], tuple[Hardware, tuple[Finding, ...]]]
"""Given the probes of a run: the ceilings that held while it ran, and what is to be said of them."""


def load_subject(
    spec: ModelSpec, source: Path | Mapping[str, Any], loading: Loading, *, longest: int = 0, batch: int = 1
) -> Subject:
    """Load the model of `spec`: the weights of the folder or GGUF file `source`, or random ones for a config.

    longest, batch: tokens of the longest sequence and sequences, whose cache must fit too.

    Raises:
        InputError: it does not fit into memory (known before anything is loaded), or it cannot be loaded.
    """
    depth = loading.layers or spec.depth
    size = weight_bytes(spec, loading.dtype, loading.dtype) * min(depth, spec.depth) // max(1, spec.depth)
    cache = batch * int(kv_cache_bytes(spec, longest, loading.dtype))
    what = f"{spec.name} in {loading.dtype}"
    if loading.layers is not None and (reason := loading.device.untraced()):
        raise InputError(f"{reason}, and --layers scales by its breakdown; run all layers, or on another device")
    check_fits(int(1.15 * size) + cache, loading.device, what)
    if isinstance(source, Path) and not loading.device.is_cpu:
        check_fits(size, Device("cpu"), f"{what}, read through the processor's memory,")
    model = load_weights(source, loading) if isinstance(source, Path) else random_weights(source, spec.name, loading)
    if loading.layers is not None:
        _check_slice(spec, model, loading.layers)
    return Subject(spec, model, loading, spec.depth if loading.layers else None)


def _check_slice(spec: ModelSpec, model: Any, layers: int) -> None:
    """Refuse a slice that lacks a kind of layer that the whole model has: what is scaled would be another model."""
    values = model.config.to_dict()
    part = spec_from_config(values, name=spec.name, origin=f"{spec.name}, {layers} layers")
    kinds = {replace(layer, count=1, storage=()) for layer in spec.layers}
    missing = kinds - {replace(layer, count=1, storage=()) for layer in part.layers}
    if missing:
        raise InputError(
            f"the first {layers:,} layers of {spec.name} have {len(kinds) - len(missing)} of its {len(kinds)} kinds of "
            "layers, and what is measured is scaled to all; pass more --layers"
        )


def profile_subject(subject: Subject, work: Work, settle_hardware: Settle) -> Profile:
    """Run `subject` and return what was measured and what was predicted of it.

    Phase times come from repeats with nothing recorded; the breakdown from a second, instrumented run, scaled to the
    first. A run that is stopped half-way (Ctrl-C, no memory left, a device that is gone) gives what it had and says so.

    Raises:
        KeyboardInterrupt, InputError: before a repeat was complete.
    """
    runner = Runner(
        subject.model, subject.loading.device, work.batch, work.prompt, last=work.conventions.logits is Logits.LAST
    )
    device = subject.loading.device
    meter, before = EnergyMeter(device.name), state(device)
    schedule = Schedule(work.output, work.warmup, work.repeat, work.probe, meter, work.progress)
    with device.chosen():
        with _said(device):
            times = time_phases(runner, schedule)
        traced, stopped = ((), _stopped(times)) if times.partial else _traced(runner, schedule, work)
        counts = () if stopped else counters(runner, schedule.steps)
    hardware, moved = settle_hardware(times.probes)
    profile = _profile(subject, work, (times, traced), (hardware, (*stopped, *moved)))
    energy = meter.read().reason or times.energy
    ran = replace(subject.loading, attention=_attention(subject))
    told = (*([("energy", energy)] if energy else []), *counts)
    return replace(profile, conditions=conditions(ran, subject.depth, before, told))


def _attention(subject: Subject) -> str:
    """How attention ran, as the framework chose it."""
    return str(getattr(subject.model.config, "_attn_implementation", subject.loading.attention))


def _traced(runner: Runner, schedule: Schedule, work: Work) -> tuple[tuple[TimedPhase, ...], tuple[Finding, ...]]:
    """The phases of the instrumented run; none, and why, where it was stopped or shows no kernel of the device."""
    device = runner.device
    if reason := device.untraced():
        return (), (_without_breakdown(reason),)
    try:
        with _folder(work.keep) as folder:
            phases = _read(runner, schedule, folder, work.conventions.attention_flops)
        if device.is_cpu or all(phase.gpu for phase in phases):
            return phases, ()
        return (), (_without_breakdown(f"the trace of PyTorch's profiler holds no kernels of {device.name}"),)
    except KeyboardInterrupt:
        text = "the run was interrupted before its breakdown; the phase times are complete"
    except (MemoryError, RuntimeError) as cause:
        text = f"the instrumented run failed ({why(cause)}); the phase times are complete, the breakdown is missing"
    return (), (Finding("warning", "interrupted", text),)


def _without_breakdown(reason: str) -> Finding:
    """What times of CPU ops would say of a GPU is how long they were dispatched, and not how long they ran."""
    return Finding("warning", "no_breakdown", f"{reason}: the phases are timed, and the breakdown is left out")


def _read(runner: Runner, schedule: Schedule, folder: Path, convention: AttentionFlops) -> tuple[TimedPhase, ...]:
    """The phases of an instrumented run without shapes, counted by those of a pass of its own.

    Where that pass ran other ops (a model that chooses as it runs), the instrumented run is done again with shapes.
    """
    references = {
        name: read_references(file, name, convention=convention)
        for name, file in trace_references(runner, schedule, folder).items()
    }
    phases: tuple[TimedPhase, ...] = ()
    for shapes in (False, True):
        files = trace_phases(runner, schedule, folder, shapes=shapes)
        read = (read_kineto(f, [n], convention=convention, references=references) for n, f in files.items())
        phases = tuple(phase for found in read for phase in found)
        if all(phase.coverage > _COUNTED for phase in phases):
            break
    return phases


_COUNTED = 0.5
"""Coverage up to which an instrumented run without shapes counts as one of other ops than its reference."""


def _stopped(times: Times) -> tuple[Finding, ...]:
    done = len(times.prefill_s)
    how = "was stopped" if times.failure is None else f"failed ({why(times.failure)})"
    text = f"the run {how} after {done} complete repeat{'s' if done > 1 else ''}; the breakdown is missing"
    return (Finding("warning", "interrupted", text),)


def _profile(
    subject: Subject,
    work: Work,
    ran: tuple[Times, tuple[TimedPhase, ...]],
    settled: tuple[Hardware, tuple[Finding, ...]],
) -> Profile:
    times, traced = ran
    hardware, said = settled
    said = (*_extrapolated(subject), *said)
    dtype, spec = subject.loading.dtype, ran_spec(subject.spec, _name(subject))
    precision, notes = settle(spec, hardware, Dtypes(dtype, dtype, dtype))
    counted = scenario(
        batch=work.batch,
        prompt=work.prompt,
        output=work.output,
        context=work.prompt + max(0, work.output - 2) // 2,
        precision=precision,
        conventions=work.conventions,
    )
    counted = replace(counted, ran=True)
    measured = _measurements(subject, times, traced)
    phases = tuple(_phase(spec, phase, counted, hardware, measured[str(phase.kind)]) for phase in counted.phases)
    profile = Profile(spec, hardware, counted, phases)
    return replace(profile, findings=(*said, *notes, *findings(profile)))


def _name(subject: Subject) -> str:
    """The name of the model, and how much of it ran."""
    if subject.depth is None:
        return subject.spec.name
    return f"{subject.spec.name} ({subject.loading.layers} of {subject.depth} layers, scaled)"


def _extrapolated(subject: Subject) -> tuple[Finding, ...]:
    if subject.depth is None:
        return ()
    ran = f"{subject.loading.layers} of {subject.depth} layers ran"
    text = f"{ran}: every time, count and rate is scaled from them to the whole model"
    return (Finding("warning", "slice", text),)


def ran_spec(spec: ModelSpec, name: str) -> ModelSpec:
    """`spec` of a model that ran in a dtype that is known: what its config does not say of it does not matter."""
    return replace(spec, name=name, notes=tuple(note for note in spec.notes if "names no dtype" not in note))


def _measurements(subject: Subject, times: Times, traced: tuple[TimedPhase, ...]) -> dict[str, Measurement]:
    """What was measured of each phase; of a slice scaled to the whole depth."""
    phases = {phase.name: phase for phase in traced}
    found = {}
    for name, seconds in (("prefill", times.prefill_s), ("decode", times.decode_s)):
        if seconds:
            found[name] = Measurement(tuple(seconds), phases.get(name), times.joules.get(name))
    if subject.depth is None:
        return found
    return {name: _scaled(one, subject.depth, subject.loading.layers or subject.depth) for name, one in found.items()}


def _phase(spec: ModelSpec, phase: Phase, counted: Scenario, hardware: Hardware, measured: Measurement) -> PhaseProfile:
    precision = counted.precision
    ops = forward(spec, phase, precision, counted.conventions)
    predicted = place_phase(phase, ops, hardware, precision.compute)
    return place_measured(phase, measured, hardware, precision.compute, predicted=predicted)


def _scaled(measured: Measurement, depth: int, layers: int) -> Measurement:
    scaled = scale_to_depth(measured, depth, layers)
    if scaled is None:
        raise InputError(
            f"the run of a slice has no breakdown that scales it ({measured.time_s:.4g} s for {layers:,} "
            f"of {depth:,} layers); run it again"
        )
    return scaled


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """A folder for traces: the one that is kept, or one that is gone afterwards."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="rooflens-") as name:
            yield Path(name)
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as cause:
        raise InputError(f"{keep} cannot hold traces ({cause.strerror}); expected a folder to write to") from cause
    yield keep


@contextmanager
def _said(device: Device) -> Iterator[None]:
    """What can go wrong in a run, in one sentence."""
    try:
        yield
    except (MemoryError, RuntimeError, NotImplementedError) as cause:
        if is_out_of_memory(cause):
            raise InputError(
                f"{device.name} ran out of memory; take a smaller --batch, --prompt or --dtype, or --layers"
            ) from cause
        raise InputError(f"the model did not run on {device.name} ({why(cause)})") from cause
