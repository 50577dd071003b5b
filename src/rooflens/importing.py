"""A recording of another profiler -> Profile: what ran, placed under a part's roofs, beside what a model must run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rooflens.core.hardware import Hardware
from rooflens.core.model import ModelSpec
from rooflens.core.op import AttentionShape, DType, OpKind
from rooflens.core.profile import Finding, Measurement, PhaseProfile, Profile
from rooflens.core.recording import Format, RecordedPhase, Recording, Step
from rooflens.core.scenario import Batch, Conventions, Fusion, Phase, PhaseKind, Precision, Scenario
from rooflens.core.timed import TimedOp, TimedPhase
from rooflens.count import forward
from rooflens.count.sequence import sequence
from rooflens.count.shard import shard
from rooflens.errors import InputError, UnknownHardwareError
from rooflens.findings import findings
from rooflens.matching import Matched, match, with_groups
from rooflens.measured import place_measured
from rooflens.precision import Dtypes, settle
from rooflens.roofline import place_phase
from rooflens.sources.hardware import from_device_name
from rooflens.sources.kineto_record import record_kineto
from rooflens.sources.nsys import read_nsys
from rooflens.sources.packed import LONGEST
from rooflens.sources.rocprof import read_rocprof
from rooflens.sources.sniffing import format_of

_KNOWN = (Format.KINETO, Format.NSYS, Format.ROCPROF)
_MATCH_BELOW = 0.95
"""Coverage below which kernels are matched with what a model must run."""


def read_recording(path: Path, limit: int = LONGEST) -> Recording:
    """Return what the file at `path` holds, whatever it is called: its format is found by its content.

    Raises:
        InputError: a format that is not read as a recording of kernels, or a file that is damaged.
    """
    kind = format_of(path)
    if kind is Format.KINETO:
        return record_kineto(path, limit=limit)
    if kind is Format.NSYS:
        return read_nsys(path, limit=limit)
    if kind is Format.ROCPROF:
        return read_rocprof(path, limit)
    known = ", ".join(str(one) for one in _KNOWN)
    raise InputError(f"{path} is a file of {kind}, which holds no kernels over time; expected one of {known}")


def part_of(recording: Recording, gpu: Hardware | None) -> Hardware:
    """The part that `recording` ran on: the one that is given, else the one whose driver reports its device name.

    Raises:
        UnknownHardwareError: no device in the file, or one that stands for no bundled part: `--gpu` must say it.
    """
    if gpu is not None:
        return gpu
    try:
        return from_device_name(recording.device)
    except UnknownHardwareError as cause:
        raise UnknownHardwareError(f"{', '.join(recording.sources)}: {cause}") from cause


@dataclass(frozen=True, slots=True)
class Ran:
    """What ran, if it is known: the model, or one of `tp` tensor-parallel ranks of it."""

    model: ModelSpec | None = None
    tp: int = 1

    @classmethod
    def of(cls, model: ModelSpec | None, tp: int) -> Ran:
        """`model` as one rank sees it.

        Raises:
            InputError: the model cannot be split into `tp` parts, or none is given to be split.
        """
        if model is None and tp != 1:
            raise InputError(f"--tp {tp} splits a model, and none is given; pass --model too")
        return cls(None if model is None else shard(model, tp), tp)


def import_recording(recording: Recording, hardware: Hardware, ran: Ran) -> Profile:
    """Place what `recording` holds under the roofs of `hardware`.

    ran: the model, if it is known. Kernels without shapes are then matched, in order and by class, with those that
    its pass must run, and each phase stands beside its prediction, which has no collectives.

    Raises:
        UnknownPeakError: `hardware` has no peak for what ran.
    """
    conventions, model = Conventions(fusion=Fusion.ENGINE), ran.model
    precision = _precision(recording, hardware, model)
    phases, said = [], [Finding("info", "recording", note) for note in recording.notes]
    for recorded in recording.phases:
        phase = Phase(recorded.kind, _batch(recorded))
        timed, note = _matched(recorded, phase, ran, precision)
        said += [*note, *_unsaid(recorded)]
        predicted = _predicted(recorded, phase, model, (hardware, precision, conventions))
        measured = Measurement((timed.wall_s,), timed, instrumented=True)
        phases.append(place_measured(phase, measured, hardware, precision.compute, predicted=predicted))
    spec = model or _unknown(recording, precision)
    profile = Profile(spec, hardware, _scenario(phases, precision, conventions), tuple(phases))
    device = recording.device or "not said in the file"
    conditions = (("recorded by", str(recording.format)), ("device", device), ("files", ", ".join(recording.sources)))
    return replace(profile, conditions=conditions, findings=(*said, *findings(profile)))


def _matched(recorded: RecordedPhase, phase: Phase, ran: Ran, precision: Precision) -> tuple[TimedPhase, list[Finding]]:
    """The phase with its kernels matched, where too little of it is known, a model is given and its sizes are known.

    What has shapes keeps them. Projections run together as in engines, or apart as in the framework: whichever fits.
    """
    timed, model = recorded.timed, ran.model
    if model is None or timed.coverage >= _MATCH_BELOW or not recorded.runs or not _sized(recorded):
        return timed, []
    best: Matched | None = None
    for fusion in Fusion:
        expected = sequence(model, phase, precision, Conventions(fusion=fusion), tp=ran.tp)
        found = match(recorded.runs, expected)
        if found is None:
            many = f"{len(recorded.runs):,} kernels of the pass are too many to match with {len(expected):,}"
            return timed, [Finding("warning", "matched", f"{recorded.kind}: {many}; record fewer of them")]
        best = found if best is None or found.score > best.score else best
    assert best is not None
    whole = with_groups(recorded, best.ops)
    return whole, [_said(recorded.kind, model, best, whole.coverage)]


def _said(kind: PhaseKind, model: ModelSpec, found: Matched, coverage: float) -> Finding:
    text = (
        f"{kind}: {found.found:,} of {found.heavy:,} products and attentions that a pass of {model.name} runs "
        f"were matched, in order and by class; {100 * coverage:.1f} % of the time of its kernels is modelled"
    )
    if found.left:
        text += f"; {found.left:,} kernels of those classes fit none in their order and are left out"
    return Finding("info" if found.found == found.heavy and not found.left else "warning", "matched", text)


def _sized(recorded: RecordedPhase) -> bool:
    """Whether the tokens of a pass are known, and it does one thing."""
    return recorded.kind in (PhaseKind.PREFILL, PhaseKind.DECODE) and _sizes(recorded) is not None


def _predicted(
    recorded: RecordedPhase,
    phase: Phase,
    model: ModelSpec | None,
    setting: tuple[Hardware, Precision, Conventions],
) -> PhaseProfile | None:
    if model is None or not _sized(recorded):
        return None
    hardware, precision, conventions = setting
    return place_phase(phase, forward(model, phase, precision, conventions), hardware, precision.compute)


def _batch(recorded: RecordedPhase) -> Batch:
    return _sizes(recorded) or Batch(1, 1, 0)


def _sizes(recorded: RecordedPhase) -> Batch | None:
    """Sequences, new and cached tokens: of the annotation, else of the attention whose shapes the file has."""
    if recorded.step is not None:
        return _of_step(recorded.step)
    shapes = (timed.op.shape for timed in recorded.timed.ops)
    shape = next((shape for shape in shapes if isinstance(shape, AttentionShape)), None)
    return None if shape is None else Batch(int(shape.sequences), int(shape.q_tokens), int(shape.kv_tokens))


def _unsaid(recorded: RecordedPhase) -> list[Finding]:
    """That attention is counted without cached tokens, where the annotation does not say which it reads."""
    step = recorded.step
    if step is None or (step.kv_tokens is not None and not (step.context and step.generation)):
        return []
    return [
        Finding(
            "warning",
            str(recorded.kind),
            "the annotation does not give the cached tokens of each sequence; where kernels have no shapes, attention "
            "and KV cache are counted as if none were cached, which is too few",
        )
    ]


def _of_step(step: Step) -> Batch | None:
    """The mean sequence of an annotation: of a mixed pass all of its tokens in one."""
    which = 1 if step.generation else 0
    many = (step.context, step.generation)[which]
    if step.context and step.generation:
        return Batch(1, max(1, sum(step.q_tokens)), 0)
    if not many or not step.q_tokens[which]:
        return None
    new = max(1, round(step.q_tokens[which] / many))
    held = 0 if step.kv_tokens is None else max(0, round(step.kv_tokens[which] / many) - new)
    return Batch(many, new, held)


def _precision(recording: Recording, hardware: Hardware, model: ModelSpec | None) -> Precision:
    if model is not None:
        return settle(model, hardware, Dtypes())[0]
    dtype = _dtype([timed for phase in recording.phases for timed in phase.timed.ops], hardware)
    return Precision(dtype, dtype, dtype, dtype, dtype, dtype)


def _dtype(ops: Sequence[TimedOp], hardware: Hardware) -> DType:
    """The dtype of most of the time of products that has a peak, else 16 bit."""
    times: dict[DType, float] = {}
    for timed in ops:
        if timed.known and timed.op.kind in (OpKind.GEMM, OpKind.ATTENTION) and hardware.peak(timed.op.dtype):
            times[timed.op.dtype] = times.get(timed.op.dtype, 0.0) + timed.seconds
    return max(times, key=lambda dtype: times[dtype]) if times else DType.BF16


def _unknown(recording: Recording, precision: Precision) -> ModelSpec:
    return ModelSpec(
        name=recording.sources[0],
        architecture="not known",
        hidden=0,
        vocab=0,
        layers=(),
        tied=True,
        weights_dtype=precision.weights,
        kept_dtype=precision.kept,
        dtype_stated=True,
        final_norm=None,
        source="what ran",
    )


def _scenario(phases: Sequence[PhaseProfile], precision: Precision, conventions: Conventions) -> Scenario:
    first = next((p.phase.batch for p in phases if p.phase.kind is not PhaseKind.DECODE), phases[0].phase.batch)
    step = next((p.phase.batch for p in phases if p.phase.kind is PhaseKind.DECODE), None)
    prompt = first.cached_tokens if step is first else first.new_tokens
    context = None if step is None else step.cached_tokens
    output = 1 if step is None else 2
    return Scenario(first.sequences, max(1, int(prompt)), output, precision, context, conventions, ran=True)
