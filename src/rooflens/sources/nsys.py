"""A SQLite export of Nsight Systems -> a Recording: kernels and copies of one GPU in the phases that NVTX ranges name.

A kernel belongs to the range that its launch ran in: correlation -> call of the runtime -> thread -> range. Nsight
Systems records neither FLOP nor shapes, so that a kernel is known by its name alone, unless the ranges of
`torch.autograd.profiler.emit_nvtx(record_shapes=True)` carry the sizes of the op around it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from pathlib import Path

from rooflens.core.recording import Format, RecordedPhase, Recording
from rooflens.errors import InputError
from rooflens.sources.annotations import kind_of
from rooflens.sources.nsys_file import Export, clean, opened
from rooflens.sources.nsys_metrics import metric_notes
from rooflens.sources.nsys_nvtx import enclosing, plain_text
from rooflens.sources.nsys_ops import Sized, timed_phase
from rooflens.sources.nsys_phases import NAMES, Placed, placed, whole
from rooflens.sources.nsys_rows import Activity, Range, activities_of, described, gpus, launches_of, pid_of, ranges_of
from rooflens.sources.packed import LONGEST

_KERNELS = ("KERNEL", "GRAPH_TRACE")


def read_nsys(path: Path, phases: Iterable[str] | None = None, *, limit: int = LONGEST) -> Recording:
    """Return the phases of the export at `path`: one pass each, the mean over the NVTX ranges of that name.

    phases: names of ranges, whatever their case; "prefill" and "decode" unless given, and where neither is there the
    whole recording as one phase "all", from the first kernel's start to the last one's end. A pass lasts from its
    range's start, or from when the GPU was done with what had been launched before, to the end of its range or that of
    its last kernel, whichever is later. Of several GPUs the one with most kernel time is read, and a note tells of the
    others.

    limit: bytes that a gzipped export may have, unpacked.

    Raises:
        InputError: no export of Nsight Systems, damaged, without a kernel, or without the ranges that were named.
    """
    with opened(path, limit) as export:
        everything = activities_of(export)
        if not any(activity.table in _KERNELS for activity in everything):
            raise InputError(f"{path} has no GPU kernel; record with `nsys profile --trace=cuda,nvtx`")
        gpu, activities, notes = _of_one_gpu(export, everything)
        activities = _without_graphs_of_nodes(activities)
        launches = launches_of(export, {a.launch for a in activities if a.correlation is not None})
        ranges = ranges_of(export)
        if phases is None:
            found = placed(activities, launches, ranges, NAMES)
            found = found if found.phases else whole(activities)
        else:
            found = placed(activities, launches, ranges, list(dict.fromkeys(phases)))
            if not found.phases:
                raise InputError(f"{path} has no range named {' or '.join(found.absent)} with a kernel; {_has(ranges)}")
        met = Sized()
        nodes = enclosing(ranges, launches)
        timed = [timed_phase(name, passes, nodes, met) for name, passes in found.phases.items()]
        notes += [*_notes(found, activities, met, named=phases is not None), *metric_notes(export, gpu, found.phases)]
        notes += _unread(export)
        part = described(export, gpu)
    return Recording(
        format=Format.NSYS,
        sources=(path.name,),
        phases=tuple(RecordedPhase(kind_of(phase.name), phase) for phase in timed),
        device=part.name if part is not None else "",
        multiprocessors=part.multiprocessors if part is not None else None,
        memory_bytes=part.memory_bytes if part is not None else None,
        notes=tuple(notes),
    )


def _of_one_gpu(export: Export, activities: Sequence[Activity]) -> tuple[int, list[Activity], list[str]]:
    """The number of the GPU with most kernel time, what ran on it, and a note on the others.

    A process numbers the devices that it sees: without a table of what they are, each process has its own.
    """
    numbers = gpus(export)
    groups: dict[Hashable, list[Activity]] = {}
    for activity in activities:
        gpu = numbers.get((pid_of(activity.process), activity.device))
        groups.setdefault(("gpu", gpu) if gpu is not None else (activity.process, activity.device), []).append(activity)
    times = {key: sum(a.end - a.start for a in group if a.table in _KERNELS) for key, group in groups.items()}
    key = max(times, key=lambda one: times[one])
    first = groups[key][0]
    gpu = numbers.get((pid_of(first.process), first.device), first.device)
    busy = sum(times.values())
    others = [
        f"GPU {numbers.get((pid_of(groups[other][0].process), groups[other][0].device), groups[other][0].device)} "
        f"{time / 1e6:,.2f} ms, {time / busy:.1%}"
        for other, time in times.items()
        if other != key and time
    ]
    if not others:
        return gpu, groups[key], []
    share = f"{times[key] / 1e6:,.2f} ms of kernels, {times[key] / busy:.1%} of all"
    return gpu, groups[key], [f"GPU {gpu} is read, with {share}; left out: {'; '.join(others)}"]


def _without_graphs_of_nodes(activities: Sequence[Activity]) -> list[Activity]:
    """Graphs whose kernels are recorded themselves are left out, so that no time counts twice."""
    seen = {a.launch for a in activities if a.table == "KERNEL"}
    return [a for a in activities if a.table != "GRAPH_TRACE" or a.launch not in seen]


def _notes(found: Placed, activities: Sequence[Activity], met: Sized, *, named: bool) -> Iterator[str]:
    """What a reader should know of how the phases came about, one sentence each."""
    if found.outside:
        yield f"{_some(found.outside, 'copy', 'copies')} before the first kernel or after the last: left out"
    if "all" in found.phases and not named:
        yield "no NVTX range is named prefill or decode: the whole recording is one phase"
    elif found.absent:
        yield f"no range named {' or '.join(found.absent)} launched a kernel on this GPU"
    if found.by_time:
        without = _some(found.by_time, "kernel or copy", "kernels and copies")
        yield f"{without} without a record of the launch: placed by time"
    for name, passes in found.phases.items():
        late = sum(one.finish - one.end for one in passes)
        if late:
            mean = f"{late / 1e6 / len(passes):,.3f} ms"
            yield f"the GPU was done {mean} after a range of {clean(name)} had ended (mean): a pass lasts until then"
    graphs = [a for a in activities if a.table == "GRAPH_TRACE"]
    if graphs:
        spent = sum(a.end - a.start for a in graphs) / 1e6
        yield (
            f"{_some(len(graphs), 'CUDA graph was', 'CUDA graphs were')} recorded whole ({spent:,.2f} ms); "
            "record with --cuda-graph-trace=node to see their kernels"
        )
    if met.counted:
        ops = _some(met.counted, "op was", "ops were")
        yield f"{ops} counted by the sizes of the NVTX range around, each tensor in the dtype of the kernel's name"
    else:
        yield "Nsight Systems records no shapes: FLOP and bytes of kernels are not known, their kind is by their names"
    if met.without_dtype:
        yield f"{_some(met.without_dtype, 'op', 'ops')} with sizes but a kernel whose name tells no dtype: not counted"


def _unread(export: Export) -> Iterator[str]:
    if export.unread:
        yield f"{_some(export.unread, 'event', 'events')} could not be read"
    if export.odd:
        names = ", ".join(map(clean, dict.fromkeys(export.odd)))
        yield f"tables without a column that is needed were left out: {names}"


def _some(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _has(ranges: Sequence[Range]) -> str:
    """The five names that most time is spent under."""
    times: dict[str, int] = {}
    for range_ in ranges:
        name = clean(plain_text(range_.text))
        times[name] = times.get(name, 0) + range_.end - range_.start
    longest = sorted(times, key=lambda name: -times[name])[:5]
    return f"its ranges are {', '.join(longest)}" if longest else "it has no NVTX ranges"
