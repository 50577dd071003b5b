"""A trace of a graph's capture beside the trace of its replays: shapes from the first, times from the second.

Both are sequences of one engine: the launches that the capture recorded become the kernels of each replay, in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rooflens.core.op import Op, OpKind
from rooflens.core.recording import Capture, KernelRun, Launch, RecordedPhase, Recording
from rooflens.core.timed import TimedOp
from rooflens.matching import timed_group, with_groups

_FEWEST_FITTING = 0.9
"""Share of the products and attentions of a replay, at least, that a capture of it must agree with."""

_SURE = (OpKind.GEMM, OpKind.ATTENTION, OpKind.EXPERTS, OpKind.SCAN)


def merged(recordings: Sequence[Recording]) -> list[Recording]:
    """Return `recordings` without those of captures alone, whose shapes their replays have now.

    A capture that fits no replay stays, with a note that says so.
    """
    captures = [capture for recording in recordings for capture in recording.captures]
    if not captures or len(recordings) == 1:
        return list(recordings)
    replays = [one for one in recordings if not one.captures]
    filled = [_filled(recording, captures) for recording in replays]
    used = {name for _, names in filled for name in names}
    alone = [one for one in recordings if one.captures and not used & {capture.name for capture in one.captures}]
    return [*(recording for recording, _ in filled), *(_said(recording) for recording in alone)]


def _said(recording: Recording) -> Recording:
    note = "the captures in it have as many kernels as no replay in the other files, or other ones: nothing was merged"
    return replace(recording, notes=(*recording.notes, note))


def _filled(recording: Recording, captures: Sequence[Capture]) -> tuple[Recording, set[str]]:
    """The recording with the shapes of the captures that fit its replays, and the names of those."""
    phases, used, notes = [], set[str](), []
    for phase in recording.phases:
        taken = _phase(phase, captures)
        phases.append(taken.phase)
        used |= taken.used
        if taken.used:
            held = ", ".join(sorted(taken.used))
            notes.append(
                f"{phase.kind}: {taken.shaped:,} of {taken.kernels:,} kernels of its graph have shapes from {held}"
            )
    return replace(recording, phases=tuple(phases), notes=(*recording.notes, *notes)), used


@dataclass(frozen=True, slots=True)
class _Taken:
    """A phase with shapes; how many kernels its graphs ran, and how many of them have shapes now."""

    phase: RecordedPhase
    used: set[str]
    kernels: int
    shaped: int


def _phase(phase: RecordedPhase, captures: Sequence[Capture]) -> _Taken:
    launches: dict[int, Launch] = {}
    replays: dict[int, list[int]] = {}
    for index, run in enumerate(phase.runs):
        if run.graph is not None:
            replays.setdefault(run.graph, []).append(index)
    used = set[str]()
    for replay in replays.values():
        capture = _fitting([phase.runs[index] for index in replay], captures)
        if capture is not None:
            used.add(capture.name)
            launches |= dict(zip(replay, capture.launches, strict=True))
    if not used:
        return _Taken(phase, used, 0, 0)
    shaped = {index: launch for index, launch in launches.items() if launch.op is not None}
    runs = tuple(replace(run, op=shaped[i].op) if i in shaped else run for i, run in enumerate(phase.runs))
    timed = with_groups(phase, _groups(phase, shaped))
    return _Taken(replace(phase, timed=timed, runs=runs), used, len(launches), len(shaped))


def _fitting(runs: Sequence[KernelRun], captures: Iterable[Capture]) -> Capture | None:
    """The capture of a replay: as many kernels, and products where the replay has them."""
    same = (capture for capture in captures if len(capture.launches) == len(runs))
    return next((capture for capture in same if _agreement(runs, capture) >= _FEWEST_FITTING), None)


def _agreement(runs: Sequence[KernelRun], capture: Capture) -> float:
    """Of the products and attentions that either side has and the other tells the class of, the share that agree.

    A call agrees if one of its kernels has its class: others of it may be a fill before a product.
    """
    calls: dict[int, bool] = {}
    others = 0
    for run, launch in zip(runs, capture.launches, strict=True):
        if launch.op is None:
            continue
        if launch.op.kind in _SURE:
            calls[launch.call] = calls.get(launch.call, False) or launch.op.kind is run.kind
        elif run.kind in _SURE:
            others += 1
    total = len(calls) + others
    return sum(calls.values()) / total if total else 0.0


def _groups(phase: RecordedPhase, shaped: dict[int, Launch]) -> list[TimedOp]:
    """What has no formula in the file itself, by what the capture says of it, else by name."""
    groups: dict[tuple[str, bool], list[tuple[KernelRun, Op | None]]] = {}
    seen = set[tuple[int | None, int]]()
    for index, run in enumerate(phase.runs):
        if run.op is not None:
            continue
        launch = shaped.get(index)
        if launch is None:
            groups.setdefault((run.name, False), []).append((run, None))
            continue
        first = (run.graph, launch.call) not in seen
        seen.add((run.graph, launch.call))
        groups.setdefault((launch.name, True), []).append((run, launch.op if first else None))
    return [timed_group(name, rows, known=known) for (name, known), rows in groups.items()]
