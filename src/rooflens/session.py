"""`rooflens.profiling()`: the phases of a loop that somebody else wrote, measured, as a Profile."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from rooflens.core.hardware import Hardware
from rooflens.core.model import ModelSpec
from rooflens.core.op import AttentionShape, DType
from rooflens.core.profile import Finding, Measurement, PhaseProfile, Profile
from rooflens.core.scenario import Batch, Conventions, Fusion, Phase, PhaseKind, Precision, Scenario
from rooflens.core.timed import TimedPhase
from rooflens.count import forward
from rooflens.errors import InputError, RooflensError
from rooflens.findings import findings
from rooflens.live.device import device_of, running
from rooflens.live.load import TORCH_DTYPES
from rooflens.live.session import PHASES, Entry, Recorder, Watch
from rooflens.measured import place_measured
from rooflens.precision import Dtypes, settle
from rooflens.roofline import place_phase
from rooflens.sources.config import spec_from_config
from rooflens.sources.kineto import read_kineto


class Session:
    """What `profiling` gives: name phases with `phase`, repeat them with `passes`, read `profile` after the block."""

    def __init__(self, recorder: Recorder, model: Any, hardware: Hardware, conventions: Conventions) -> None:
        self.phase, self.passes = recorder.phase, recorder.passes
        self._recorder, self._model, self._hardware, self._conventions = recorder, model, hardware, conventions
        self._profile: Profile | None = None

    @property
    def profile(self) -> Profile:
        """What was measured. Raises InputError inside the block, and where no phase ran."""
        if self._profile is None:
            raise InputError("the profile is there after the block, and where a phase ran inside it")
        return self._profile

    def __str__(self) -> str:
        """The verdicts, a sentence each."""
        from rooflens.render.words import verdict

        return "\n".join(verdict(phase) for phase in self.profile.phases)

    def finish(self) -> None:
        """Write the trace, read it, and make the profile of what ran."""
        self._recorder.stop()
        if self._recorder.entries:
            self._profile = _profile(self._recorder, self._model, self._hardware, self._conventions)


@contextmanager
def session(
    model: Any, hardware: Hardware, *, device: str | None = None, conventions: Conventions | None = None
) -> Iterator[Session]:
    """Measure the phases that run inside; see `rooflens.profiling`."""
    with tempfile.TemporaryDirectory(prefix="rooflens-") as folder:
        recorder = Recorder(device_of(device), Path(folder) / "session.json")
        watch = Watch(model, recorder) if hasattr(model, "register_forward_pre_hook") else None
        run = Session(recorder, model, hardware, conventions or Conventions(fusion=Fusion.FRAMEWORK))
        try:
            yield run
        finally:
            if watch is not None:
                watch.close()
            run.finish()


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is known of a model that ran: a spec of its shapes, or of nothing but its parameters."""

    spec: ModelSpec
    known: bool
    dtype: DType


def _profile(recorder: Recorder, model: Any, hardware: Hardware, conventions: Conventions) -> Profile:
    traced = _traced(recorder, conventions)
    facts = _facts(model, traced)
    precision = _precision(facts, hardware)
    phases = [
        _phase(name, recorder.entries[name], traced.get(name), (facts, precision, hardware, conventions))
        for name in PHASES
        if name in recorder.entries
    ]
    work = _scenario([phase.phase for phase in phases], precision, conventions)
    conditions = running(recorder.device, "the caller's", compiled=False)
    profile = Profile(facts.spec, hardware, work, tuple(phases), conditions=conditions)
    own = () if facts.known else (Finding("info", "model", "the model's shapes are not known: nothing is predicted"),)
    found = (*own, *_instrumented(phases), *_whole_loop(recorder, model), *findings(profile))
    return replace(profile, findings=found)


def _traced(recorder: Recorder, conventions: Conventions) -> dict[str, TimedPhase]:
    """The phases of the trace; none where nothing was traced."""
    if not recorder.was_traced:
        return {}
    names = [name for name, entries in recorder.entries.items() if any(entry.instrumented for entry in entries)]
    found = read_kineto(recorder.file, names, convention=conventions.attention_flops)
    return {phase.name: _each(phase, [e for e in recorder.entries[phase.name] if e.instrumented]) for phase in found}


def _each(phase: TimedPhase, entries: Sequence[Entry]) -> TimedPhase:
    """A traced phase as one forward pass that lasts as long as was timed: what is between passes is in it."""
    steps = fmean(entry.steps for entry in entries)
    wall_s = sum(entry.seconds for entry in entries) / sum(entry.steps for entry in entries)
    return replace(phase.shared(steps), wall_s=wall_s)


def _phase(
    name: str,
    entries: Sequence[Entry],
    traced: TimedPhase | None,
    setting: tuple[_Facts, Precision, Hardware, Conventions],
) -> PhaseProfile:
    facts, precision, hardware, conventions = setting
    plain = [entry for entry in entries if not entry.instrumented]
    times = tuple(entry.seconds / entry.steps for entry in plain or entries)
    measured = Measurement(times, traced, instrumented=not plain)
    phase = Phase(PhaseKind(name), _batch(entries, traced))
    predicted = None
    if facts.known:
        ops = forward(facts.spec, phase, precision, conventions)
        predicted = place_phase(phase, ops, hardware, precision.compute)
    if traced is None and predicted is None:
        raise InputError(f"{name} has no breakdown and the model's shapes are not known; leave one pass to be traced")
    return place_measured(phase, measured, hardware, precision.compute, predicted=predicted)


def _batch(entries: Sequence[Entry], traced: TimedPhase | None) -> Batch:
    """Sizes of a pass: what was said or seen of the calls, else those of the attention in the trace, else one token."""
    seen = _attended(traced)
    batch = next((entry.batch for entry in entries if entry.batch is not None), seen[0])
    tokens = next((entry.tokens for entry in entries if entry.tokens is not None), seen[1])
    cached = [entry.cached for entry in entries if entry.cached is not None]
    return Batch(batch, tokens, round(fmean(cached)) if cached else seen[2])


def _attended(traced: TimedPhase | None) -> tuple[int, int, int]:
    shapes = [timed.op.shape for timed in (traced.ops if traced else ())]
    shape = next((shape for shape in shapes if isinstance(shape, AttentionShape)), None)
    return (1, 1, 0) if shape is None else (int(shape.sequences), int(shape.q_tokens), int(shape.kv_tokens))


def _facts(model: Any, traced: dict[str, TimedPhase]) -> _Facts:
    """The spec of a model with a config that is known, else one of nothing but its number of parameters."""
    parameters = list(model.parameters()) if hasattr(model, "parameters") else []
    dtype = _dtype(parameters, traced)
    name = type(model).__name__ if model is not None else "a loop"
    if isinstance(model, ModelSpec):
        return _Facts(model, True, dtype)
    fields = getattr(getattr(model, "config", None), "to_dict", None)
    if fields is not None:
        try:
            spec = spec_from_config(fields(), name=name, origin=name)
            return _Facts(replace(spec, notes=tuple(n for n in spec.notes if "names no dtype" not in n)), True, dtype)
        except RooflensError:
            pass  # said by the caller: nothing is predicted
    many = sum(int(p.numel()) for p in {id(p): p for p in parameters}.values())
    return _Facts(_unknown(name, many, dtype), False, dtype)


def _unknown(name: str, parameters: int, dtype: DType) -> ModelSpec:
    return ModelSpec(
        name=name,
        architecture="not known",
        hidden=0,
        vocab=0,
        layers=(),
        tied=True,
        weights_dtype=dtype,
        kept_dtype=dtype,
        dtype_stated=True,
        final_norm=None,
        extra_params=parameters,
        source="what ran",
    )


def _dtype(parameters: Sequence[Any], traced: dict[str, TimedPhase]) -> DType:
    """The dtype of most parameters, else of most of the time that was traced; fp32 where neither tells."""
    names = {name: dtype for dtype, name in TORCH_DTYPES.items()}
    sizes: dict[DType, float] = {}
    for parameter in parameters:
        dtype = names.get(str(parameter.dtype).removeprefix("torch."))
        if dtype is not None:
            sizes[dtype] = sizes.get(dtype, 0.0) + parameter.numel()
    for timed in () if sizes else (timed for phase in traced.values() for timed in phase.ops):
        if timed.op.dtype in TORCH_DTYPES:
            sizes[timed.op.dtype] = sizes.get(timed.op.dtype, 0.0) + timed.seconds
    return max(sizes, key=lambda dtype: sizes[dtype]) if sizes else DType.FP32


def _precision(facts: _Facts, hardware: Hardware) -> Precision:
    dtype = facts.dtype
    if not facts.known:
        hardware.roof(dtype)
        return Precision(dtype, dtype, dtype, dtype, dtype, dtype)
    return settle(facts.spec, hardware, Dtypes(dtype, dtype, dtype))[0]


def _scenario(phases: Sequence[Phase], precision: Precision, conventions: Conventions) -> Scenario:
    first = next((phase.batch for phase in phases if phase.kind is PhaseKind.PREFILL), phases[0].batch)
    step = next((phase.batch for phase in phases if phase.kind is PhaseKind.DECODE), None)
    prompt = first.new_tokens if phases[0].kind is PhaseKind.PREFILL else first.cached_tokens
    context = None if step is None else step.cached_tokens
    output = 1 if step is None else max(2, 2 * (int(step.cached_tokens) - int(prompt)) + 2)
    return Scenario(first.sequences, prompt, output, precision, context, conventions, ran=True)


def _whole_loop(recorder: Recorder, model: Any) -> tuple[Finding, ...]:
    """What is said where a decode phase may hold many steps and nothing tells how many."""
    said = any(entry.steps > 1 for entry in recorder.entries.get("decode", ()))
    if "decode" not in recorder.entries or said or hasattr(model, "register_forward_pre_hook"):
        return ()
    text = "decode counts as one pass each time it is entered; for a loop inside it pass steps=, or the model"
    return (Finding("info", "steps", text),)


def _instrumented(phases: Sequence[PhaseProfile]) -> tuple[Finding, ...]:
    names = [str(phase.phase.kind) for phase in phases if phase.measured and phase.measured.instrumented]
    if not names:
        return ()
    text = (
        f"{' and '.join(names)}: timed with the instrument on; `for _ in run.passes():` around the loop times it first"
    )
    return (Finding("warning", "instrumented", text),)
