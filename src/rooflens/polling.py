"""Polling a server: snapshots at an interval, readings between them, and what went wrong in a line each."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from statistics import fmean

from rooflens.core.activity import Activity
from rooflens.core.profile import Finding
from rooflens.core.reading import Reading
from rooflens.core.server import Snapshot
from rooflens.errors import InputError
from rooflens.live.dcgmi_run import DcgmiRun, dcgmi_run
from rooflens.live.scrape import UnreadError, checked_url, scrape
from rooflens.sources.dcgmi import DcgmiReader
from rooflens.sources.prometheus import LIMIT, read_snapshot
from rooflens.watching import Watched, read, restarted

MOST_FAILURES = 5
"""Answers in a row that may fail before watching ends."""


@dataclass(frozen=True, slots=True)
class Polling:
    """What is polled: addresses, seconds between two reads, seconds that an answer may take, failures in a row.

    dcgm: address of a dcgm-exporter. dcgmi: whether `dcgmi dmon` is run here. count: readings until it ends; None for
    ever.
    """

    url: str
    interval_s: float = 2.0
    count: int | None = None
    timeout_s: float = 5.0
    failures: int = MOST_FAILURES
    dcgm: str | None = None
    dcgmi: bool = False
    clock: Callable[[], float] = field(default=time.monotonic)
    sleep: Callable[[float], None] = field(default=time.sleep)

    def __post_init__(self) -> None:
        """Raises InputError for an address, an interval or a count that cannot be polled."""
        for url in filter(None, (self.url, self.dcgm)):
            checked_url(url)
        if not 0.01 <= self.interval_s <= 86400:
            raise InputError(f"the interval is {self.interval_s:g} s; expected 0.01 s to a day")
        if not 0.01 <= self.timeout_s <= 3600:
            raise InputError(f"the timeout is {self.timeout_s:g} s; expected 0.01 s to an hour")
        for name, value in (("count", self.count), ("failures", self.failures)):
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}; expected a whole number from 1")


def poll(polling: Polling, watched: Watched) -> Iterator[Reading | Finding]:
    """A reading for each interval, or a finding that says in one sentence why there is none.

    Counters that went down and answers that failed skip their interval; polling goes on with the next snapshot.

    Raises:
        InputError: `polling.failures` answers in a row failed, or the address is of no server that is known.
        MissingExtraError: prometheus-client is not installed.
    """
    with _gpus(polling) as gpus:
        before, failed, made, known = None, 0, 0, False
        told: set[str] = set()
        due = polling.clock()
        while polling.count is None or made < polling.count:
            try:
                after, failed, known = _snapshot(polling, known), 0, True
            except UnreadError as problem:
                before, failed = None, failed + 1
                if failed >= polling.failures:
                    raise InputError(f"{problem}; {failed} in a row, which ends it") from problem
                yield Finding("warning", "unread", f"{problem}; {failed} of {polling.failures} that may fail in a row")
            else:
                seen, said = gpus()
                yield from (finding for finding in said if finding.text not in told)
                told.update(finding.text for finding in said)
                if before is not None:
                    found = _between(before, after, watched, seen)
                    made += isinstance(found, Reading)
                    yield found
                before = after
            due = _wait(polling, due, last=polling.count is not None and made >= polling.count)


def _snapshot(polling: Polling, known: bool) -> Snapshot:
    """The next snapshot. What holds no metrics of a server ends it, unless the address is known to give them."""
    data = scrape(polling.url, timeout_s=polling.timeout_s, limit=LIMIT)
    try:
        found = read_snapshot(data, polling.url.partition("?")[0][:100], seconds=polling.clock())
        if not found.engine:
            raise InputError(
                f"{polling.url[:100]} is of an exporter and no server; expected the /metrics of vLLM or SGLang, and "
                "the exporter's with --dcgm"
            )
    except InputError as problem:
        if not known:
            raise
        raise UnreadError(str(problem)) from problem
    return found


def _between(before: Snapshot, after: Snapshot, watched: Watched, seen: tuple[Activity, ...]) -> Reading | Finding:
    fell = restarted(before, after)
    if fell is not None:
        return Finding(
            "warning", "restarted", f"{fell[:100]} went down: the server restarted, and this interval is skipped"
        )
    reading = read(before, after, watched)
    return replace(reading, activities=seen or reading.activities)


def _wait(polling: Polling, due: float, *, last: bool) -> float:
    """Sleep until the next time that is due; times that passed while an answer was late are left out."""
    if last:
        return due
    now = polling.clock()
    due = max(due + polling.interval_s, now)
    if due > now:
        polling.sleep(due - now)
    return due


@contextlib.contextmanager
def _gpus(polling: Polling) -> Iterator[Callable[[], tuple[tuple[Activity, ...], list[Finding]]]]:
    """What gives the activities of GPUs since the last call: an exporter, dcgmi, or nothing."""
    if polling.dcgmi:
        delay = 100 if polling.interval_s <= 10 else 1000
        with dcgmi_run(delay) as run:
            yield _Local(run, DcgmiReader(delay / 1000)).take
    else:
        yield lambda: _exported(polling)


def _exported(polling: Polling) -> tuple[tuple[Activity, ...], list[Finding]]:
    if polling.dcgm is None:
        return (), []
    try:
        data = scrape(polling.dcgm, timeout_s=polling.timeout_s, limit=LIMIT)
        found = read_snapshot(data, polling.dcgm.partition("?")[0][:100], seconds=polling.clock())
    except InputError as problem:
        return (), [Finding("warning", "unread", str(problem))]
    if not found.activities:
        return (), [
            Finding("warning", "unread", f"{polling.dcgm[:100]} exports no profiling fields (DCGM_FI_PROF_...)")
        ]
    return found.activities, []


@dataclass(slots=True)
class _Local:
    """`dcgmi dmon` on this machine: the mean of each GPU's samples since the last call."""

    run: DcgmiRun
    reader: DcgmiReader
    told: bool = False

    def take(self) -> tuple[tuple[Activity, ...], list[Finding]]:
        samples = list(self.reader.read(self.run.lines()))
        status = self.run.ended
        if status is None or self.told:
            return mean_activities(samples), []
        self.told = True
        return mean_activities(samples), [
            Finding(
                "warning", "dcgmi", f"dcgmi ended with status {status}: counters of GPUs are not known from here on"
            )
        ]


def mean_activities(samples: list[Activity]) -> tuple[Activity, ...]:
    """One sample for each device: the mean of what was sampled of each field."""
    devices = dict.fromkeys(sample.device for sample in samples)
    return tuple(_mean(device, [sample for sample in samples if sample.device == device]) for device in devices)


def _mean(device: str, samples: list[Activity]) -> Activity:
    fields: dict[int, float | None] = {}
    for field_id in samples[0].fields:
        values = [value for sample in samples if (value := sample.fields.get(field_id)) is not None]
        fields[field_id] = fmean(values) if values else None
    return Activity(device, samples[0].seconds, fields)
