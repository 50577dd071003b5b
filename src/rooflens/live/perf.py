"""Hardware counters of a stretch of this process, through the `perf` of Linux where it has them."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rooflens.live.facts import SLASH, read_number
from rooflens.live.perf_events import FAMILIES, GENERIC, Event, of_family
from rooflens.live.perf_text import Counter, parse_stat, plain_name

_SEPARATOR = ";"
_PARANOID = "proc/sys/kernel/perf_event_paranoid"
_PATIENCE_S = 5.0
"""Seconds that perf gets to answer: it answers in milliseconds, or not at all."""
_FACTORS = {"MiB": 2**20, "Joules": 1, "": 1, "msec": 1e-3, "ns": 1e-9}
"""Units of perf in bytes, joules, counts and seconds."""


@dataclass(frozen=True, slots=True)
class PerfSupport:
    """Whether perf counts hardware events here; `reason` says in one sentence why not; `events` are those it counts."""

    available: bool
    reason: str
    events: tuple[str, ...]


@dataclass(slots=True)
class Counted:
    """What a stretch was counted at; it is filled when the stretch ends.

    values: by event as it was asked for, in counts, bytes, joules or seconds. notes: by event, why it has no value, or
    that it was scaled. reason: why nothing was counted at all, empty otherwise.
    """

    values: dict[str, float] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    reason: str = ""


def perf_support(*, root: Path = SLASH) -> PerfSupport:
    """Whether `perf stat` counts hardware events on this machine, and which of the table it counts.

    It runs `perf stat` on an idle command, once for each family of events. Nothing is raised.

    Source: man perf-stat; Linux kernel, Documentation/admin-guide/perf-security.rst for perf_event_paranoid.
    """
    reason = _absent(root)
    if reason:
        return PerfSupport(False, reason, ())
    generic, reason = _probe(of_family(GENERIC))
    if not generic:
        return PerfSupport(False, _forbidden(root) or reason, ())
    others = (_probe(of_family(family))[0] for family in FAMILIES if family != GENERIC)
    return PerfSupport(True, "", (*generic, *(name for names in others for name in names)))


@contextmanager
def counting(events: Sequence[str], *, machine_wide: bool = False) -> Iterator[Counted]:
    """Count `events` over what runs inside, in every thread of this process: `with counting(events) as counted: ...`.

    perf runs beside the process, attached to it, and counts between "enable" and "disable"; starting it takes some tens
    of milliseconds, outside of the stretch. machine_wide: count every process on every CPU, which events of a memory
    controller need. What cannot be counted is a reason or a note of `counted`, never an error.

    Source: man perf-stat, --control, --pid, --delay=-1.
    """
    counted = Counted()
    session = _start(tuple(events), machine_wide, counted)
    try:
        yield counted
    finally:
        if session is not None:
            _finish(session, tuple(events), counted)


def _absent(root: Path = SLASH) -> str:
    """Why perf cannot be tried at all, or nothing."""
    if sys.platform != "linux":
        return f"perf is a tool of Linux, and this is {sys.platform}"
    if shutil.which("perf") is None:
        return "perf is not installed; the package is called linux-perf, linux-tools or perf"
    if read_number(root / _PARANOID) is None:
        return f"the kernel has no perf events: /{_PARANOID} is not there"
    return ""


def _forbidden(root: Path = SLASH) -> str:
    """Why the kernel refused to count, where its setting says so; asked after a refusal: a capability overrides it."""
    paranoid = read_number(root / _PARANOID)
    if paranoid is None or paranoid <= 2 or os.geteuid() == 0:
        return ""
    return f"perf_event_paranoid is {paranoid}, which leaves counting to root; 2 or less would allow it"


def _probe(events: tuple[Event, ...]) -> tuple[tuple[str, ...], str]:
    """The events of a family that perf counts in an idle command, and why where it counts none.

    perf refuses a whole list for one name that it does not know, so a machine of another make is told by that.
    """
    names = [event.name for event in events]
    scope = ["-a"] if events[0].machine_wide else []
    command = ["perf", "stat", "-x", _SEPARATOR, *scope, "-e", ",".join(names), "--", "true"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, env=_plain(), timeout=_PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return (), f"perf could not be run: {error}"
    counters = parse_stat(ran.stderr, _SEPARATOR)
    if not counters:
        return (), f"perf counted nothing and said {_first_line(ran.stderr)!r}"
    reached = {plain_name(counter.event) for counter in counters if counter.value is not None}
    refused = "; ".join(dict.fromkeys(counter.note for counter in counters if counter.value is None))
    return tuple(name for name in names if name in reached), f"perf is here, but {refused}"


@dataclass(frozen=True, slots=True)
class _Session:
    """A running perf, with the pipes on which it takes commands and acknowledges them."""

    perf: subprocess.Popen[str]
    control: int
    answers: int


def _start(events: tuple[str, ...], machine_wide: bool, counted: Counted) -> _Session | None:
    """Attach perf and enable it, or leave a reason in `counted`."""
    counted.reason = _absent() or ("" if events else "no event was asked for")
    if counted.reason:
        return None
    taken, control = os.pipe()
    answers, given = os.pipe()
    scope = ["-a"] if machine_wide else ["-p", str(os.getpid())]
    told = ["--control", f"fd:{taken},{given}", "--delay=-1"]
    command = ["perf", "stat", "-x", _SEPARATOR, *told, "-e", ",".join(events), *scope]
    quiet, pipe = subprocess.DEVNULL, subprocess.PIPE
    try:
        perf = subprocess.Popen(
            command, pass_fds=(taken, given), stdin=quiet, stdout=quiet, stderr=pipe, text=True, env=_plain()
        )
    except OSError as error:
        counted.reason = f"perf could not be run: {error}"
        _close(control, answers)
        return None
    finally:
        _close(taken, given)
    session = _Session(perf, control, answers)
    if _tell(session, b"enable\n"):
        return session
    said = _first_line(_stop(session))
    counted.reason = _forbidden() or f"perf did not start to count and said {said!r}"
    return None


def _finish(session: _Session, events: tuple[str, ...], counted: Counted) -> None:
    """Disable perf, read what it counted and put it into `counted`."""
    acknowledged = _tell(session, b"disable\n")
    text = _stop(session)
    if not acknowledged:
        counted.reason = f"perf ended before the stretch did and said {_first_line(text)!r}"
        return
    counters = parse_stat(text, _SEPARATOR)
    for event in events:
        exact = [counter for counter in counters if counter.event == event]
        others = [counter for counter in counters if counter.event not in events]
        _add(event, exact or [counter for counter in others if plain_name(counter.event) == event], counted)


def _add(event: str, parts: list[Counter], counted: Counted) -> None:
    """Put one event into `counted`: the sum of its parts where a hybrid CPU counts it on two kinds of core."""
    values = [part.value * _FACTORS[part.unit] for part in parts if part.value is not None and part.unit in _FACTORS]
    notes = [part.note for part in parts if part.note]
    notes += [f"perf counts it in {part.unit}, which is not read here" for part in parts if part.unit not in _FACTORS]
    if values:
        counted.values[event] = sum(values)
    if notes or not parts:
        counted.notes[event] = "; ".join(dict.fromkeys(notes)) or "perf printed no line for it"


def _tell(session: _Session, command: bytes) -> bool:
    """Whether perf acknowledged `command`."""
    try:
        os.write(session.control, command)
        ready, _, _ = select.select([session.answers], [], [], _PATIENCE_S)
        return bool(ready) and b"ack" in os.read(session.answers, 64)
    except OSError:
        return False


def _stop(session: _Session) -> str:
    """End perf as Ctrl-C does, and return what it printed."""
    session.perf.send_signal(signal.SIGINT)
    try:
        _, text = session.perf.communicate(timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        session.perf.kill()
        _, text = session.perf.communicate()
    _close(session.control, session.answers)
    return text


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _plain() -> dict[str, str]:
    """The environment with the C locale, so that figures have a point and messages are English."""
    return {**os.environ, "LC_ALL": "C"}


def _first_line(text: str) -> str:
    lines = (line.strip() for line in text.splitlines())
    return next((line for line in lines if line not in ("", "Error:")), "nothing")
