"""A report of Nsight Compute (.ncu-rep) -> launches, by the vendor's own module: the format is not published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rooflens.errors import InputError, MissingExtraError
from rooflens.sources.ncu_counters import DEVICE, Launch, is_read
from rooflens.sources.ncu_values import LARGEST, scale

_EXPORT = "`ncu --import REPORT --csv --page raw --print-units base > counters.csv`"


def read_report(path: Path) -> dict[tuple[str, str, str], Launch]:
    """Return the launches of the report at `path`, in its order.

    Source: NVIDIA, Nsight Compute, Customization Guide, "Python Report Interface": load_report, ranges, actions.

    Raises:
        MissingExtraError: the module `ncu_report` is not there.
        InputError: it does not read the file.
    """
    try:
        import ncu_report
    except ImportError as cause:
        raise MissingExtraError(
            f"{path} needs NVIDIA's module ncu_report: install the extra `ncu`, or export the report with {_EXPORT}"
        ) from cause
    if not path.is_file():
        raise InputError(f"{path} is not a regular file; expected a report of Nsight Compute")
    try:
        report = ncu_report.load_report(str(path))
        ranges = [report.range_by_idx(i) for i in range(report.num_ranges())]
        actions = [part.action_by_idx(i) for part in ranges for i in range(part.num_actions())]
        launches = [
            _launch(action, number, ncu_report.IAction.NameBase_DEMANGLED) for number, action in enumerate(actions)
        ]
    except Exception as cause:  # the module raises what its C++ library does
        raise InputError(f"{path} could not be read by ncu_report ({cause}); export it with {_EXPORT}") from cause
    if not launches:
        raise InputError(f"{path} has no launch that ncu_report can read; expected a report of Nsight Compute")
    return {("", str(launch.id), launch.name): launch for launch in launches}


def _launch(action: Any, number: int, base: Any) -> Launch:
    launch = Launch(str(action.name(base)), number, _sizes(action, "grid"), _sizes(action, "block"))
    for name in action.metric_names():
        if is_read(name):
            metric = action.metric_by_name(name)
            launch.add(name, _value(metric.value(), str(metric.unit())))
    device = action.metric_by_name(DEVICE)
    launch.device = str(device.value())[:200] if device is not None else ""
    return launch


def _value(value: Any, unit: str) -> float | None:
    factor = scale(unit)
    if factor is None or isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    scaled = value * factor
    return scaled if 0 <= scaled < LARGEST else None


def _sizes(action: Any, what: str) -> tuple[int, int, int] | None:
    metrics = [action.metric_by_name(f"launch__{what}_dim_{axis}") for axis in "xyz"]
    if any(metric is None for metric in metrics):
        return None
    x, y, z = (int(metric.value()) for metric in metrics)
    return x, y, z
