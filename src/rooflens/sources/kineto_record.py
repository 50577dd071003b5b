"""A Kineto trace of anybody's -> a Recording: its phases by the ranges that are in it, its kernels in order.

Phases are ranges named prefill and decode, else the step annotations of an engine, else steps of the profiler, else the
whole trace. Kernels inside a CUDA or HIP graph have no ops: they are known by their names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from rooflens.core.recording import Format, KernelRun, RecordedPhase, Recording, Step
from rooflens.core.scenario import AttentionFlops, PhaseKind
from rooflens.errors import InputError
from rooflens.sources.annotations import phase_of, step_of
from rooflens.sources.kernel_names import kernel_class, kernel_dtype, short_name
from rooflens.sources.kineto import timed_phase
from rooflens.sources.kineto_capture import captures_of
from rooflens.sources.kineto_file import Event, Trace, read_trace
from rooflens.sources.kineto_gpu import KERNELS, Gpu, Piece
from rooflens.sources.kineto_tree import RANGES, Node, forest
from rooflens.sources.packed import LONGEST

_PLAIN = frozenset(str(kind) for kind in PhaseKind)
_CHOICES: tuple[Callable[[str], bool], ...] = (
    lambda name: name.lower() in _PLAIN,
    lambda name: name.startswith("execute_") and phase_of(name) is not None,
    lambda name: name.startswith("step[") and phase_of(name) is not None,
    lambda name: phase_of(name) is not None,
)
"""Which ranges are passes: the first of these that any range of the trace satisfies."""


def record_kineto(path: Path, *, convention: AttentionFlops = AttentionFlops.CAUSAL, limit: int = LONGEST) -> Recording:
    """Return the phases of the trace at `path`, one for each kind of pass, the mean over its ranges.

    convention: which pairs of causal attention count. limit: bytes that it may have, unpacked.

    Raises:
        InputError: no trace of PyTorch's profiler, or nothing ran in it.
    """
    trace = read_trace(path, limit)
    roots = forest(trace.events, convention)
    kernels = [event for event in trace.events if event.category in KERNELS]
    gpu = Gpu.of(roots, kernels)
    groups = _passes(roots)
    phases = [_recorded(kind, ranges, gpu) for kind, ranges in groups.items()]
    found = tuple(phase for phase in phases if phase is not None)
    if not found:
        found = _whole(path, roots, kernels)
    return Recording(
        format=Format.KINETO,
        sources=(path.name,),
        phases=found,
        device=trace.devices[0].name.strip() if trace.devices else "",
        multiprocessors=trace.devices[0].multiprocessors if trace.devices else None,
        memory_bytes=trace.devices[0].memory_bytes if trace.devices else None,
        notes=tuple(_notes(trace, kernels, found)),
        captures=captures_of(roots),
    )


def _passes(roots: Sequence[Node]) -> dict[PhaseKind, list[Node]]:
    """The ranges that are passes by what they do; one inside another is part of it."""
    ranges = [node for root in roots for node in root.inside() if node.event.category in RANGES]
    for chosen in _CHOICES:
        taken = [node for node in ranges if chosen(node.event.name)]
        if taken:
            inside = {id(node) for node in taken}
            outer = [node for node in taken if not any(id(above) in inside for above in node.above())]
            return _by_kind(outer)
    return {}


def _by_kind(ranges: Sequence[Node]) -> dict[PhaseKind, list[Node]]:
    groups: dict[PhaseKind, list[Node]] = {}
    for node in sorted(ranges, key=lambda node: node.event.start):
        groups.setdefault(phase_of(node.event.name) or PhaseKind.STEP, []).append(node)
    return {kind: groups[kind] for kind in PhaseKind if kind in groups}


def _recorded(kind: PhaseKind, ranges: Sequence[Node], gpu: Gpu) -> RecordedPhase | None:
    timed = timed_phase(ranges, gpu)
    if timed is None or not timed.ops:
        return None
    pieces = gpu.launched(ranges[:1]).pieces
    runs = tuple(_run(piece) for piece in pieces)
    steps = [step for node in ranges if (step := step_of(node.event.name)) is not None]
    return RecordedPhase(kind, replace(timed, name=str(kind)), _mean(steps), runs)


def _run(piece: Piece) -> KernelRun:
    name, op = piece.name, piece.node.op if piece.node else None
    return KernelRun(name, kernel_class(name), piece.seconds, op, kernel_dtype(name), piece.graph, short_name(name))


def _mean(steps: Sequence[Step]) -> Step | None:
    """The mean tokens of passes of one kind; None where no annotation states them."""
    if not steps:
        return None
    many = len(steps)

    def mean(values: Sequence[tuple[int, int] | None]) -> tuple[int, int] | None:
        known = [value for value in values if value is not None]
        return (
            None
            if len(known) < many
            else (round(sum(a for a, _ in known) / many), round(sum(b for _, b in known) / many))
        )

    return Step(
        context=round(sum(step.context for step in steps) / many),
        generation=round(sum(step.generation for step in steps) / many),
        q_tokens=mean([step.q_tokens for step in steps]) or (0, 0),
        kv_tokens=mean([step.kv_tokens for step in steps]),
        pairs=mean([step.pairs for step in steps]),
        squares=mean([step.squares for step in steps]),
    )


def _whole(path: Path, roots: Sequence[Node], kernels: Sequence[Event]) -> tuple[RecordedPhase, ...]:
    """All that ran as one pass, where no range tells passes apart."""
    events = kernels or [root.event for root in roots]
    nothing = InputError(f"{path} has neither a kernel nor an op; expected a trace of a run")
    if not events:
        raise nothing
    start, end = min(event.start for event in events), max(event.end for event in events)
    frame = Node(Event(name=str(PhaseKind.STEP), phase="X", category=RANGES[0], start=start, duration=end - start))
    if not kernels:
        frame.children = list(roots)
    phase = _recorded(PhaseKind.STEP, [frame], Gpu.of(roots, kernels))
    if phase is None:
        raise nothing
    return (phase,)


def _notes(trace: Trace, kernels: Sequence[Event], phases: Sequence[RecordedPhase]) -> list[str]:
    notes = []
    if trace.dropped:
        notes.append(f"{trace.dropped:,} events could not be read: their duration is negative")
    total = sum(event.duration for event in kernels) / 1e6
    inside = sum(phase.timed.op_s * phase.timed.passes for phase in phases)
    if total and inside < 0.99 * total:
        notes.append(f"{100 * (1 - inside / total):.1f} % of the GPU time of the trace lies outside its phases")
    if any(run.graph is not None for phase in phases for run in phase.runs):
        notes.append("kernels of a graph have no ops; with --model they are matched with what the pass must run")
    return notes
