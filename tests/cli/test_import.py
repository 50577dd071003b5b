"""`rooflens import` as a process sees it: status, what is printed and written, and what is refused in one sentence."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.test_cli import answer, refused, run
from tests.sources.replays import replayed, trace
from tests.test_docs import CONFIG


@pytest.fixture
def replay(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(CONFIG)
    return trace(tmp_path / "trace.json", replayed())


def test_strict(replay: Path) -> None:
    """Without a model no kernel has bytes: status 3 and the table all the same."""
    result = run("import", str(replay), "--strict", "90")
    assert result.returncode == 3
    assert "coverage 0.0 %" in result.stdout
    assert result.stderr == "rooflens: 0.0 % of the time is modelled, less than --strict 90\n"
    modelled = run("import", str(replay), "--strict", "90", "--model", str(replay.parent))
    assert (modelled.returncode, modelled.stderr) == (0, "")
    assert "coverage 100.0 %" in modelled.stdout


def test_the_least_of_several_files_is_held(replay: Path) -> None:
    other = trace(replay.parent / "other.json", replayed(name="step[IDLE bs=3]"))
    result = run("import", str(replay), str(other), "--model", str(replay.parent), "--strict", "90")
    assert result.returncode == 3


def test_json_and_csv_of_one_file_and_of_several(replay: Path) -> None:
    one = answer("import", str(replay), "--json")
    assert one["schema"] == "rooflens.profile/1"
    assert one["metrics"]["ttft_s"] is one["metrics"]["e2e_s"] is one["metrics"]["prefill_tokens_per_s"] is None
    assert {finding["code"] for finding in one["findings"]} >= {"recording"}
    assert [d["phases"][0]["phase"] for d in answer("import", str(replay), str(replay), "--json")] == ["decode"] * 2
    rows = list(csv.DictReader(io.StringIO(run("import", str(replay), str(replay), "--csv").stdout)))
    assert len(rows) % 2 == 0
    assert {row["phase"] for row in rows} == {"decode"}


def test_a_page(replay: Path) -> None:
    page = replay.parent / "page.html"
    assert run("import", str(replay), "--model", str(replay.parent), "--html", str(page)).returncode == 0
    assert "down_proj" in page.read_text()
    assert "of one profile" in refused("import", str(replay), str(replay), "--html", str(page))
    assert "--json and --csv" in refused("import", str(replay), "--json", "--csv")


def test_the_part_is_asked_for(tmp_path: Path) -> None:
    path = trace(tmp_path / "trace.json", replayed(), device="")
    assert "--gpu" in refused("import", str(path))


def test_the_size_has_a_limit(replay: Path) -> None:
    packed = replay.parent / "bomb"
    packed.write_bytes(gzip.compress(b'{"traceEvents": [' + b" " * 30_000_000))
    assert "more than 1,000,000 bytes unpacked" in refused("import", str(packed), "--max-bytes", "1MB")
    assert "--max-bytes" in refused("import", str(replay), "--max-bytes", "lots")
    assert "--max-bytes" in refused("import", str(replay), "--max-bytes", "-1")
    assert run("import", str(replay), "--max-bytes", "1GiB").returncode == 0


SPAN = b'{"ph":"X","cat":"user_annotation","name":"decode","ts":0,"dur":9,"pid":1,"tid":1}'
HOSTILE = {
    "empty": b"",
    "cut": b'{"traceEvents": [{"ph": "X", "name": "a"',
    "no UTF-8": b'{"traceEvents": [{"ph": "X", "name": "\xff\xfe"}]}',
    "overflow": b'{"traceEvents": [{"ph": "X", "args": {"correlation": 99999999999999999999}}]}',
    "a time beyond a double": b'{"traceEvents": [{"ph": "X", "ts": 1e999}]}',
    "empty traceEvents": b'{"traceEvents": []}',
    "a range and nothing in it": b'{"traceEvents": [' + SPAN + b"]}",
    "a million arrays": b'{"traceEvents": ' + b"[" * 1_000_000,
    "a million arrays unread": b'{"metadata": ' + b"[" * 1_000_000 + b"]" * 1_000_000 + b', "traceEvents": []}',
    "cut gzip": gzip.compress(os.urandom(9999))[:5000],
    "binary": bytes(range(256)),
    "cut SQLite": b"SQLite format 3\x00" + bytes(50),
    "rocprof without rows": b"Dispatch_ID,Kernel_Name,Start_Timestamp,End_Timestamp\n",
    "rocprof of words": b"Dispatch_ID,Kernel_Name,Start_Timestamp,End_Timestamp\n0,gemm,now,later\n",
    "ncu": b'==PROF==\n"ID","Kernel Name","Metric Name","Metric Value"\n"0","k","x","1"\n',
    "rocprofv3 of arrays": b'{"rocprofiler-sdk-tool": ' + b"[" * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_one_sentence(tmp_path: Path, name: str) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(HOSTILE[name])
    assert str(path) in refused("import", str(path), "--gpu", "h100-sxm")


def test_what_is_no_file_is_one_sentence(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "none", Path("/dev/null")):
        assert "could not be read" in refused("import", str(path), "--gpu", "h100-sxm")


def test_sqlite_of_somebody_else(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection, connection:
        connection.execute("CREATE TABLE passwords (user TEXT)")
    message = refused("import", str(tmp_path / "a.db"))
    assert "without tables of Nsight Systems" in message
    assert "passwords" not in message


def test_events_that_end_before_they_start_are_said(tmp_path: Path) -> None:
    events = replayed()
    for event in events[-3:]:
        event["dur"] = -1
    result = run("import", str(trace(tmp_path / "trace.json", events)))
    assert result.returncode == 0
    assert "3 events could not be read" in result.stdout


def test_json_is_json_for_any_names(tmp_path: Path) -> None:
    events = [{**event, "name": event["name"] + '"</script>\u2028\x00'} for event in replayed(name="decode")]
    events[0]["name"] = "decode"
    path = trace(tmp_path / "trace.json", events)
    page = tmp_path / "page.html"
    result = run("import", str(path), "--json", "--html", str(page))
    assert json.loads(result.stdout)["phases"]
    assert '"</script>\u2028' not in page.read_text()
