"""What `perf stat -x` prints, as counters: a pure reader of text."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NUMBER = re.compile(r"-?\d+(?:[.,]\d+)?")
_MODIFIERS = re.compile(r"(?::|(?<=/))[ukhGHpPSDIWeb]+$")
_CORE_PMU = re.compile(r"(?:cpu|armv)\w*/([\w.-]+)/")
_REFUSED = {
    "<not counted>": "perf did not get to count it, as in a stretch too short or with more events than counters",
    "<not supported>": "the kernel has no such counter here; a virtual machine needs a host that passes its PMU on",
}


@dataclass(frozen=True, slots=True)
class Counter:
    """One line of perf: an event and its count in `unit` (empty for a plain count), or None and a note that says why.

    running: share of the stretch, 0 to 1, in which a hardware counter held the event. perf scales a count by
    1 / running where several events took turns; the note then says so.
    """

    event: str
    value: float | None
    unit: str
    running: float
    note: str = ""


def parse_stat(text: str, separator: str = ";") -> tuple[Counter, ...]:
    """The counters in what `perf stat -x SEPARATOR` prints without -I, -A or -r, in its order.

    Lines that are no counter (messages, metrics that perf adds) are passed over. A decimal comma is read as one, also
    where the separator is a comma: a whole count never has a fraction, and the percentage always has.

    Source: man perf-stat, "CSV FORMAT": value, unit, event, run time, percentage, then metrics.
    """
    found = (_counter(line.split(separator), separator) for line in text.splitlines() if separator in line)
    return tuple(counter for counter in found if counter is not None)


def plain_name(event: str) -> str:
    """The event as it was asked for, without the modifiers and the core PMU that perf adds: "cpu_atom/cycles/u"."""
    bare = _MODIFIERS.sub("", event)
    match = _CORE_PMU.fullmatch(bare)
    return match[1] if match else bare


def _counter(fields: list[str], separator: str) -> Counter | None:
    head, rest = _value(fields)
    if head is None or len(rest) < 4:
        return None
    unit = rest[0]
    event, rest = _event(rest[1:], separator)
    if not event or len(rest) < 2 or not rest[0].isdigit():
        return None
    running = _percentage(rest[1:])
    if running is None:
        return None
    if head in _REFUSED:
        return Counter(event, None, unit, running, _REFUSED[head])
    shared = f"counted {100 * running:.2f} % of the stretch and scaled up by perf" if running < 1 else ""
    return Counter(event, float(head.replace(",", ".")), unit, running, shared)


def _value(fields: list[str]) -> tuple[str | None, list[str]]:
    """The value, and the fields after it: two of digits stand for one number whose decimal comma was the separator."""
    first = fields[0].strip()
    if first in _REFUSED:
        return first, fields[1:]
    if not _NUMBER.fullmatch(first):
        return None, fields
    if first.isdigit() and len(fields) > 1 and fields[1].isdigit():
        return f"{first}.{fields[1]}", fields[2:]
    return first, fields[1:]


def _event(fields: list[str], separator: str) -> tuple[str, list[str]]:
    """The event's name, put together where commas between its slashes split it: cpu/event=0xc7,umask=0x20/."""
    taken = 1
    while taken < len(fields) and separator.join(fields[:taken]).count("/") % 2:
        taken += 1
    return separator.join(fields[:taken]), fields[taken:]


def _percentage(fields: list[str]) -> float | None:
    first = fields[0].strip()
    if first.isdigit() and len(fields) > 1 and fields[1].isdigit():
        first = f"{first}.{fields[1]}"
    return float(first.replace(",", ".")) / 100 if _NUMBER.fullmatch(first) else None
