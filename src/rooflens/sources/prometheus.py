"""Answers of /metrics endpoints in the Prometheus text format: vLLM, SGLang, dcgm-exporter."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rooflens.core.activity import Activity
from rooflens.core.server import Gauge, Histogram, Observed, Snapshot, Total
from rooflens.errors import InputError, MissingExtraError
from rooflens.sources import prometheus_names as names
from rooflens.sources.config import printable
from rooflens.sources.dcgm_fields import field_of, sampled
from rooflens.sources.prometheus_names import Name

LIMIT = 16 * 2**20
"""Bytes of an answer at most."""
_LONGEST_LINE = 4096
_MOST_LINES = 100_000
_ENGINES = ("vllm", "sglang")
_PREFIXES = tuple(f"{engine}{mark}" for engine in _ENGINES for mark in (":", "_"))
_MOST_POSITIONS = 64


class Sample(NamedTuple):
    """One series: its name as it is written, labels, value."""

    name: str
    labels: Mapping[str, str]
    value: float


def read_snapshot(data: bytes, origin: str, *, seconds: float) -> Snapshot:
    """The snapshot in `data`, the answer of `origin`, which was read at `seconds`.

    Series of other programs are passed over. A line that cannot be read, a value that is no number and a last line
    that is cut are left out and counted in a note.

    Raises:
        InputError: more than `LIMIT` bytes, or no metric of vLLM, SGLang or dcgm-exporter.
        MissingExtraError: prometheus-client is not installed.

    Source: Prometheus, "Exposition formats", text-based format 0.0.4: a line each, the last one ends as well.
    """
    if len(data) > LIMIT:
        raise InputError(f"{origin} answered with more than {LIMIT:,} bytes; expected the metrics of one server")
    lines, skipped = _known_lines(data.decode("utf-8", errors="replace"))
    samples, more = _parse(lines)
    if not samples:
        raise InputError(
            f"{origin} holds no metric that is known; expected lines of vLLM (vllm:...), SGLang (sglang:..., with "
            f"--enable-metrics) or dcgm-exporter ({names.EXPORTER}...)"
        )
    return _snapshot(samples, seconds, skipped + more)


def _known_lines(text: str) -> tuple[list[str], int]:
    """The lines of engines and of the exporter, and how many of them cannot be whole."""
    known = [line for line in text.split("\n") if line.startswith((*_PREFIXES, names.EXPORTER))]
    cut = bool(known) and not text.endswith("\n") and text.rsplit("\n", 1)[-1] == known[-1]
    whole = [line for line in (known[:-1] if cut else known) if len(line) <= _LONGEST_LINE and "\ufffd" not in line]
    kept = whole[:_MOST_LINES]
    return kept, len(known) - len(kept)


def _parse(lines: Iterable[str]) -> tuple[list[Sample], int]:
    """The samples in `lines`, and how many lines hold none."""
    try:
        from prometheus_client.parser import text_string_to_metric_families as families
    except ImportError as cause:
        raise MissingExtraError(
            "reading /metrics needs the extra 'watch' (pip install 'rooflens[watch]'), which could not be imported "
            f"({cause})"
        ) from cause
    found, skipped = [], 0
    for line in lines:
        try:
            (sample,) = (one for family in families(line) for one in family.samples)
            value = float(sample.value)
        except (ValueError, OverflowError, IndexError):
            skipped += 1
            continue
        if math.isfinite(value):
            found.append(Sample(sample.name, sample.labels, value))
        else:
            skipped += 1
    return found, skipped


def _snapshot(samples: Sequence[Sample], seconds: float, skipped: int) -> Snapshot:
    present = [engine for engine in _ENGINES if any(s.name.startswith((f"{engine}:", f"{engine}_")) for s in samples)]
    engine = present[0] if present else ""
    notes = [f"{skipped:,} lines could not be read, or held no number, and were left out"] if skipped else []
    if len(present) > 1:
        notes.append(f"metrics of {' and '.join(present)} came together: those of {engine} are read")
    activities = _activities(samples)
    if not engine:
        return Snapshot("", seconds, activities=activities, notes=tuple(notes))
    series = _Series(engine, samples)
    models = tuple(
        sorted({printable(s.labels[k][:80]) for s in series.all() for k in ("model_name", "name") if s.labels.get(k)})
    )
    if len(models) > 1:
        notes.append(f"{len(models)} models are served and added up: {', '.join(models)}")
    return Snapshot(
        engine=engine,
        seconds=seconds,
        models=models,
        engines=series.replicas(),
        totals=_totals(engine, series),
        gauges=_gauges(engine, series),
        histograms=_histograms(engine, series),
        accepted=_accepted(series),
        series=series.counters(),
        activities=activities,
        notes=tuple(notes),
    )


class _Series:
    """The series of one engine by their bare name: without prefix and without `_total`."""

    def __init__(self, engine: str, samples: Iterable[Sample]) -> None:
        self._by_name: dict[str, list[Sample]] = defaultdict(list)
        for sample in samples:
            if sample.name.startswith((f"{engine}:", f"{engine}_")):
                bare = sample.name[len(engine) + 1 :].removesuffix("_total")
                self._by_name[bare].append(sample)

    def all(self) -> Iterator[Sample]:
        return (sample for group in self._by_name.values() for sample in group)

    def each(self, wanted: Name) -> list[float]:
        """A value for each replica and part: ranks that tell the same again count once, by the largest."""
        groups: dict[tuple[tuple[str, str], ...], float] = {}
        for sample in self._of(wanted):
            key = tuple(sorted((k, v) for k, v in sample.labels.items() if k not in names.COPIES))
            groups[key] = max(sample.value, groups.get(key, sample.value))
        return list(groups.values())

    def first(self, wanted: Iterable[Name]) -> list[float]:
        """The values of the first name that is exported; none where no name is."""
        return next((values for name in wanted if (values := self.each(name))), [])

    def labels(self, metric: str) -> list[Mapping[str, str]]:
        return [sample.labels for sample in self._by_name.get(metric, ())]

    def replicas(self) -> int:
        """How many replicas tell of themselves: the most values that a label of replicas has on one metric."""
        found = [
            len({sample.labels[label] for sample in group if sample.labels.get(label)})
            for group in self._by_name.values()
            for label in names.REPLICAS
        ]
        return max([1, *found])

    def counters(self) -> dict[str, float]:
        """Each total and each number of observations by itself."""
        return {
            f"{sample.name}{sorted(sample.labels.items())}": sample.value
            for sample in self.all()
            if sample.name.endswith(("_total", "_count"))
        }

    def _of(self, wanted: Name) -> Iterator[Sample]:
        group = self._by_name.get(wanted.metric, ())
        whole = any(sample.labels.get("priority") == "" for sample in group)
        for sample in group:
            if whole and sample.labels.get("priority"):
                continue
            if not wanted.label or sample.labels.get(wanted.label) in wanted.values:
                yield sample


def _totals(engine: str, series: _Series) -> dict[Total, float]:
    added = {total: series.first(wanted) for total, wanted in names.TOTALS[engine].items()}
    found = {total: sum(values) for total, values in added.items() if values}
    each = {total: series.first(wanted) for total, wanted in names.ESTIMATES.items()}
    return found | {total: sum(values) / len(values) for total, values in each.items() if values}


def _gauges(engine: str, series: _Series) -> dict[Gauge, float]:
    added = {gauge: series.first(wanted) for gauge, wanted in names.GAUGES[engine].items()}
    found = {gauge: sum(values) for gauge, values in added.items() if values}
    usage = series.first(names.USAGE[engine])
    if usage:
        found[Gauge.KV_USAGE] = sum(usage) / len(usage)
    capacity = [_capacity(labels) for labels in series.labels(names.CACHE_CONFIG)]
    known = [tokens for tokens in capacity if tokens is not None]
    if known and len(known) == len(capacity):
        found[Gauge.KV_TOKENS] = sum(known)
    return found


def _capacity(labels: Mapping[str, str]) -> float | None:
    """Tokens of a replica's KV cache: as vLLM tells them, else its blocks times their size; None for neither."""
    stated = _whole(labels, "kv_cache_size_tokens")
    blocks, size = _whole(labels, "num_gpu_blocks"), _whole(labels, "block_size")
    return stated or (blocks * size if blocks and size else None)


def _whole(labels: Mapping[str, str], name: str) -> int | None:
    text = labels.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else None


def _histograms(engine: str, series: _Series) -> dict[Histogram, Observed]:
    found: dict[Histogram, Observed] = {}
    for histogram, wanted in names.HISTOGRAMS[engine].items():
        for metric in (one.metric for one in wanted):
            stem = metric if series.each(Name(f"{metric}_sum")) else f"{metric}_total"
            total, count = series.each(Name(f"{stem}_sum")), series.each(Name(f"{stem}_count"))
            if total and count:
                found.setdefault(histogram, Observed(sum(total), sum(count)))
    return found


def _accepted(series: _Series) -> tuple[float, ...]:
    """Accepted drafts by position, added up over replicas; nothing where a position is missing."""
    positions = sorted({n for labels in series.labels(names.ACCEPTED) if (n := _whole(labels, "position")) is not None})
    if positions != list(range(len(positions))) or len(positions) > _MOST_POSITIONS:
        return ()
    return tuple(sum(series.each(Name(names.ACCEPTED, "position", (str(n),)))) for n in positions)


def _activities(samples: Iterable[Sample]) -> tuple[Activity, ...]:
    """One sample of each GPU (of each MIG instance) that an exporter tells of; its time is the scrape's."""
    fields: dict[str, dict[int, float | None]] = {}
    for sample in samples:
        field = field_of(sample.name) if sample.name.startswith(names.EXPORTER) else None
        if field is not None:
            instance = sample.labels.get("GPU_I_ID", "")
            device = f"GPU {sample.labels.get('gpu', '?')}{f' instance {instance}' if instance else ''}"
            fields.setdefault(printable(device[:60]), {})[field] = sampled(sample.value)
    return tuple(Activity(device, None, values) for device, values in sorted(fields.items()))
