"""Samples of a GPU's own counters in a recording, where `--gpu-metrics-devices` took them: their mean over a phase."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from rooflens.sources.nsys_file import Export
from rooflens.sources.nsys_phases import Pass
from rooflens.sources.nsys_rows import int_of

_NAMES = {
    "sms active": "SMs active",
    "tensor active": "tensor pipe active",
    "dram read bandwidth": "DRAM read",
    "dram write bandwidth": "DRAM write",
}
"""Metrics by the start of their name; shares of the peak in per cent ("DRAM Read Bandwidth [Throughput %]")."""


def metric_notes(export: Export, gpu: int, phases: Mapping[str, Sequence[Pass]]) -> list[str]:
    """One sentence for each phase with the mean of every counter over its passes; none without samples.

    gpu: number of the GPU in the recording, the low byte of `typeId`; where one GPU alone was sampled, that one.
    """
    kinds = _kinds(export)
    types = {kind for kind, _ in kinds}
    own = {kind for kind in types if kind & 0xFF == gpu} or (types if len(types) == 1 else set())
    windows = {name: _windows(passes) for name, passes in phases.items()}
    sums: dict[tuple[str, str], tuple[int, float]] = {}
    for moment, kind, metric, value in export.rows("GPU_METRICS", ("timestamp", "typeId", "metricId", "value")):
        label = kinds.get((int_of(kind), int_of(metric))) if kind in own else None
        if label is None or not isinstance(moment, int) or not isinstance(value, (int, float)):
            continue
        for name, inside in windows.items():
            if 0 <= value <= 100 and _inside(inside, moment):
                number, total = sums.get((name, label), (0, 0.0))
                sums[name, label] = (number + 1, total + value)
    return [text for name in phases if (text := _sentence(name, sums))]


def _kinds(export: Export) -> dict[tuple[int, int], str]:
    """What each (typeId, metricId) is, of the metrics that are read."""
    found = {}
    for kind, metric, name in export.rows("TARGET_INFO_GPU_METRICS", ("typeId", "metricId", "metricName")):
        start = str(name).partition("[")[0].strip().casefold()
        if start in _NAMES:
            found[int_of(kind), int_of(metric)] = _NAMES[start]
    return found


def _windows(passes: Sequence[Pass]) -> list[tuple[int, int]]:
    return sorted((one.begin, one.finish) for one in passes)


def _inside(windows: Sequence[tuple[int, int]], moment: int) -> bool:
    at = bisect_right(windows, moment, key=lambda window: window[0]) - 1
    return at >= 0 and moment < windows[at][1]


def _sentence(phase: str, sums: Mapping[tuple[str, str], tuple[int, float]]) -> str:
    own = {label: sums[phase, label] for label in _NAMES.values() if (phase, label) in sums}
    if not own:
        return ""
    means = ", ".join(f"{label} {total / number:.1f} %" for label, (number, total) in own.items())
    samples = max(number for number, _ in own.values())
    return f"{phase}: the GPU's counters say {means} (mean of {samples:,} samples, of the peak each)"
