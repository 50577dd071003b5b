"""perf: its CSV as man perf-stat describes it, and a stretch counted by a perf that speaks the control protocol."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rooflens.live import perf
from rooflens.live.perf import counting, perf_support
from rooflens.live.perf_events import EVENTS, FAMILIES
from rooflens.live.perf_text import Counter, parse_stat, plain_name

PLAIN = """\
Events disabled
Events enabled
Events disabled
1234567;;instructions;2000000;100.00;1.42;insn per cycle
869413;;cycles:u;2000000;100.00;0.434;GHz
4200;;cache-misses;842000;42.10;;
<not counted>;;LLC-load-misses;0;0.00;;
<not supported>;;fp_ret_sse_avx_ops.all;0;100.00;;
188.36;msec;task-clock;188359522;100.00;0.937;CPUs utilized
;;;;;0.50;stalled cycles per insn
"""


def by_event(text: str, separator: str = ";") -> dict[str, Counter]:
    return {counter.event: counter for counter in parse_stat(text, separator)}


def test_counts_units_and_refusals_are_read() -> None:
    found = by_event(PLAIN)
    assert found["instructions"] == Counter("instructions", 1234567.0, "", 1.0)
    assert found["task-clock"] == Counter("task-clock", 188.36, "msec", 1.0)
    assert found["LLC-load-misses"].value is None
    assert "too short" in found["LLC-load-misses"].note
    assert found["fp_ret_sse_avx_ops.all"].value is None
    assert "virtual machine" in found["fp_ret_sse_avx_ops.all"].note


def test_messages_and_added_metrics_are_no_counters() -> None:
    assert len(parse_stat(PLAIN)) == 6
    assert parse_stat("WARNING: perf not found for kernel 6.1.0; install it") == ()
    assert parse_stat("") == ()
    assert parse_stat("1;;;;;") == ()


def test_multiplexed_count_is_kept_as_scaled_and_says_so() -> None:
    counter = by_event(PLAIN)["cache-misses"]
    assert counter.value == 4200.0
    assert counter.running == pytest.approx(0.421)
    assert "42.10 %" in counter.note


@pytest.mark.parametrize(
    ("line", "separator"),
    [
        ("0,63;msec;task-clock;633790;42,10;0,175;CPUs utilized", ";"),
        ("0,63,msec,task-clock,633790,42,10,0,175,CPUs utilized", ","),
        ("0.63,msec,task-clock,633790,42.10,0.175,CPUs utilized", ","),
    ],
)
def test_decimal_comma_is_read_with_either_separator(line: str, separator: str) -> None:
    (counter,) = parse_stat(line, separator)
    assert (counter.event, counter.value, counter.unit) == ("task-clock", 0.63, "msec")
    assert counter.running == pytest.approx(0.421)


def test_whole_counts_with_a_comma_separator_and_decimal_comma() -> None:
    (counter,) = parse_stat("12345,,instructions,633790,100,00,1,42,insn per cycle", ",")
    assert counter == Counter("instructions", 12345.0, "", 1.0)


def test_event_names_with_commas_are_put_together() -> None:
    (counter,) = parse_stat("7,,cpu/event=0xc7,umask=0x20/,1000,100.00,,", ",")
    assert (counter.event, counter.value) == ("cpu/event=0xc7,umask=0x20/", 7.0)


@pytest.mark.parametrize(
    ("printed", "asked"),
    [
        ("cycles:u", "cycles"),
        ("cpu_core/instructions/", "instructions"),
        ("cpu_atom/cache-misses/u", "cache-misses"),
        ("cpu/event=0xc7,umask=0x20/u", "cpu/event=0xc7,umask=0x20/"),
        ("uncore_imc/cas_count_read/", "uncore_imc/cas_count_read/"),
    ],
)
def test_names_as_they_were_asked(printed: str, asked: str) -> None:
    assert plain_name(printed) == asked


def test_table_has_every_event_once_with_source_and_family() -> None:
    names = [event.name for event in EVENTS]
    assert len(set(names)) == len(names)
    assert {event.family for event in EVENTS} == set(FAMILIES)
    assert all(event.source and event.meaning for event in EVENTS)


def test_flop_of_packed_events_are_bits_over_bits_of_a_value() -> None:
    flop = {event.name.partition(".")[2]: event.flop for event in EVENTS if event.family.startswith("Intel")}
    assert flop["256b_packed_single"] == 8  # 256 / 32
    assert flop["512b_packed_double"] == 8  # 512 / 64
    assert flop["scalar_double"] == 1


FAKE = """#!{python}
import os, signal, sys
names = sys.argv[sys.argv.index("-e") + 1].split(",")
table = {table!r}
def report(*_):
    for name in names:
        print(table[name], file=sys.stderr)
    sys.exit(0)
if any(name not in table for name in names):
    print("event syntax error: " + repr(names[0]), file=sys.stderr)
    sys.exit(129)
if "--control" not in sys.argv:
    report()
signal.signal(signal.SIGINT, report)
taken, given = (int(part) for part in sys.argv[sys.argv.index("--control") + 1][3:].split(","))
scope = sys.argv[-2:] if "-p" in sys.argv else ["-a"]
assert scope in (["-p", {pid!r}], ["-a"]), scope
while True:
    command = os.read(taken, 64)
    os.write(given, b"ack\\n\\0")
    if command == b"enable\\n" and {dies}:
        sys.exit("Terminated")
"""

COUNTS = {
    "instructions": "1000;;cpu_core/instructions/;5;100.00;;\n20;;cpu_atom/instructions/;5;50.00;;",
    "cycles": "3000;;cycles:u;5;100.00;;",
    "cycles:k": "7;;cycles:k;5;100.00;;",
    "cache-misses": "<not supported>;;cache-misses;0;100.00;;",
    "LLC-load-misses": "<not counted>;;LLC-load-misses;0;0.00;;",
    "uncore_imc/cas_count_read/": "1.5;MiB;uncore_imc/cas_count_read/;5;100.00;;",
    "odd": "1;parsec;odd;5;100.00;;",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    kernel = tmp_path / "root/proc/sys/kernel"
    kernel.mkdir(parents=True)
    (kernel / "perf_event_paranoid").write_text("2\n")
    return tmp_path / "root"


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: dict[str, str], *, dies: bool = False) -> None:
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin/perf"
    script.write_text(FAKE.format(python=sys.executable, table=table, pid=str(os.getpid()), dies=dies))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(perf.sys, "platform", "linux")
    monkeypatch.setattr(perf, "_absent", lambda root=None: "")


def test_stretch_is_counted_by_asked_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, COUNTS)
    with counting(["instructions", "cycles", "cycles:k", "cache-misses"]) as counted:
        assert counted.values == {}
    assert counted.reason == ""
    assert counted.values == {"instructions": 1020.0, "cycles": 3000.0, "cycles:k": 7.0}
    assert "50.00 %" in counted.notes["instructions"]
    assert "no such counter" in counted.notes["cache-misses"]


def test_memory_controller_counts_bytes_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, COUNTS)
    with counting(["uncore_imc/cas_count_read/", "odd"], machine_wide=True) as counted:
        pass
    assert counted.values == {"uncore_imc/cas_count_read/": 1.5 * 1024 * 1024}
    assert "parsec" in counted.notes["odd"]


def test_unknown_event_is_a_reason_and_the_stretch_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, COUNTS)
    monkeypatch.setattr(perf, "_forbidden", lambda root=None: "")
    ran = False
    with counting(["nosuch"]) as counted:
        ran = True
    assert ran
    assert "event syntax error" in counted.reason
    assert counted.values == {}


def test_perf_that_dies_in_the_stretch_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, COUNTS, dies=True)
    with counting(["cycles"]) as counted:
        pass
    assert "Terminated" in counted.reason
    assert counted.values == {}


def test_stretch_that_raises_still_ends_perf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, COUNTS)
    with pytest.raises(ZeroDivisionError), counting(["cycles"]) as counted:
        _ = 1 / 0
    assert counted.values == {"cycles": 3000.0}


def test_no_descriptor_is_left_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, COUNTS)
    before = os.dup(0)
    with counting(["cycles"]):
        pass
    with counting(["nosuch"]):
        pass
    after = os.dup(0)
    os.close(before)
    os.close(after)
    assert after == before + 1


def test_no_events_need_no_perf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf, "_absent", lambda root=None: "")
    with counting([]) as counted:
        pass
    assert counted.reason == "no event was asked for"


def test_support_lists_what_counts(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(
        tmp_path, monkeypatch, COUNTS | {"uncore_imc/cas_count_write/": "2;MiB;uncore_imc/cas_count_write/;5;100;;"}
    )
    support = perf_support(root=root)
    assert support.available
    memory = ("uncore_imc/cas_count_read/", "uncore_imc/cas_count_write/")
    assert support.events == ("instructions", "cycles", *memory)


def test_support_without_pmu_says_so(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("instructions", "cycles", "cache-misses", "LLC-load-misses")
    install(tmp_path, monkeypatch, {name: f"<not supported>;;{name};0;100.00;;" for name in names})
    support = perf_support(root=root)
    assert (support.available, support.events) == (False, ())
    assert "virtual machine" in support.reason


def test_support_names_the_setting_that_forbids(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, {})
    (root / "proc/sys/kernel/perf_event_paranoid").write_text("4\n")
    monkeypatch.setattr(perf.os, "geteuid", lambda: 1000)
    assert "perf_event_paranoid is 4" in perf_support(root=root).reason
    monkeypatch.setattr(perf.os, "geteuid", lambda: 0)
    assert "event syntax error" in perf_support(root=root).reason


def test_support_without_perf_or_kernel_or_linux(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf.sys, "platform", "linux")
    monkeypatch.setattr(perf.shutil, "which", lambda name: "/usr/bin/perf")
    assert "no perf events" in perf_support(root=root / "empty").reason
    monkeypatch.setattr(perf.shutil, "which", lambda name: None)
    assert "not installed" in perf_support(root=root).reason
    monkeypatch.setattr(perf.sys, "platform", "darwin")
    assert "darwin" in perf_support(root=root).reason


def test_support_survives_a_perf_that_hangs(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*args: object, **named: object) -> None:
        raise subprocess.TimeoutExpired("perf", 5)

    monkeypatch.setattr(perf, "_absent", lambda root=None: "")
    monkeypatch.setattr(perf, "_forbidden", lambda root=None: "")
    monkeypatch.setattr(perf.subprocess, "run", hang)
    assert "could not be run" in perf_support(root=root).reason


def test_fp_events_of_a_cpu_without_avx512_are_kept(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = [event.name for event in EVENTS if event.name.startswith("fp_arith") and "512b" not in event.name]
    names = ["instructions", "cycles", "cache-misses", "LLC-load-misses", *narrow]
    install(tmp_path, monkeypatch, {name: f"1;;{name};5;100.00;;" for name in names})
    assert perf_support(root=root).events == tuple(names)
