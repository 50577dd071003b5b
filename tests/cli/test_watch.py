"""`rooflens watch` as a process, against servers on 127.0.0.1."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rooflens.api import watch
from rooflens.core.profile import Finding
from rooflens.core.reading import Reading
from rooflens.errors import InputError
from rooflens.render.reading import reading_document, reading_view
from tests.conftest import part, tiny_model
from tests.metrics_server import Answer, dying, late, served, sglang, status, vllm
from tests.test_activity import printed

pytest.importorskip("prometheus_client")

SERVED = ("--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--interval", "0.05")


def run(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rooflens", "watch", *args]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env}, timeout=60, check=False)


def polled(*answers: Answer, count: int = 1, **options: Any) -> list[Any]:
    with served(*answers) as server:
        options = {"interval": 0.02, "timeout": 2.0, **options}
        return list(watch(server.url, tiny_model(), part(), count=count, **options))


def test_readings_of_a_server() -> None:
    """40 computed, 20 cached and 110 generated tokens in each interval, of which 10 came out of prefill."""
    readings = polled(vllm(0), vllm(1), vllm(2), count=2)
    assert [type(one) for one in readings] == [Reading, Reading]
    for one in readings:
        work = one.workload
        assert work.computed_per_s * one.seconds == pytest.approx(40)
        assert work.cached_per_s * one.seconds == pytest.approx(20)
        assert work.generated_per_s * one.seconds == pytest.approx(110)
        assert work.decoded_per_s * one.seconds == pytest.approx(100)
        assert one.prefill.model_flops * one.seconds == pytest.approx(10 * 2576)
        assert one.estimated.flops_per_s * one.seconds == pytest.approx(60_000)
        assert one.estimated.bytes_per_s * one.seconds == pytest.approx(31_000)
        assert (one.queue.waiting, one.queue.ttft_s, one.queue.queue_s) == (3, pytest.approx(0.05), pytest.approx(0.02))


def test_other_engines_and_older_names() -> None:
    (of_sglang,) = polled(sglang(0), sglang(1))
    old = [vllm(n, usage="gpu_cache_usage_perc", drop=("by_source",)) for n in (0, 1)]
    (of_old,) = polled(*old)
    for one in (of_sglang, of_old):
        assert one.workload.computed_per_s * one.seconds == pytest.approx(40)
        assert one.workload.context == pytest.approx(9)


def test_a_restart_skips_its_interval() -> None:
    found = polled(vllm(5), vllm(1), vllm(2))
    assert isinstance(found[0], Finding)
    assert "went down: the server restarted, and this interval is skipped" in found[0].text
    assert found[1].workload.generated_per_s * found[1].seconds == pytest.approx(110)


def test_failures_in_between_are_said_and_skipped() -> None:
    found = polled(vllm(0), dying, status(503), "<html>", vllm(1), vllm(2))
    texts = [one.text for one in found if isinstance(one, Finding)]
    assert len(texts) == 3
    assert "3 of 5 that may fail in a row" in texts[2]
    assert found[-1].workload.generated_per_s * found[-1].seconds == pytest.approx(110)


def test_a_late_answer_is_a_failure() -> None:
    found = polled(vllm(0), late(0.5), vllm(1), vllm(2), timeout=0.2)
    assert "no answer within 0.2 s" in found[0].text
    assert isinstance(found[-1], Reading)


def test_failures_in_a_row_end_it() -> None:
    with pytest.raises(InputError, match="status 500; expected 200; 2 in a row"):
        polled(vllm(0), status(500), failures=2)


def test_an_address_of_something_else_ends_it_at_once() -> None:
    with pytest.raises(InputError, match="no metric that is known"):
        polled("<html></html>\n")
    with pytest.raises(InputError, match="an exporter and no server"):
        polled('DCGM_FI_PROF_SM_ACTIVE{gpu="0"} 0.5\n')


def test_an_exporter_beside_the_server() -> None:
    gpus = 'DCGM_FI_PROF_DRAM_ACTIVE{gpu="0"} 0.5\nDCGM_FI_PROF_SM_ACTIVE{gpu="0"} 0.95\n'
    with served(gpus) as exporter:
        (reading,) = polled(vllm(0), vllm(1), dcgm=exporter.url)
    assert "GPU 0, tensor pipe -, DRAM 50.0 % (500 GB/s); SM active 95.0 %" in printed(reading_view(reading))
    with served(status(404)) as exporter:
        found = polled(vllm(0), vllm(1), dcgm=exporter.url)
    assert "status 404" in found[0].text
    assert isinstance(found[-1], Reading)


@pytest.mark.parametrize(
    "options", [{"interval": 0}, {"interval": float("nan")}, {"timeout": -1}, {"count": 0}, {"failures": 0}, {"tp": 0}]
)
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="expected"):
        polled(vllm(0), **options)


def test_the_view_says_everything() -> None:
    (reading,) = polled(vllm(0), vllm(1))
    text = printed(reading_view(reading))
    for said in (
        "memory-bound",
        "Next limit: the KV cache, 9.0 % of 200 tokens held",
        "Queueing, apart from the work",
        "3 wait",
        "The engine's own estimate for one GPU",
        "counted here",
    ):
        assert said in text


def test_the_document_is_described() -> None:
    (reading,) = polled(vllm(0), vllm(1))
    document = reading_document(reading)
    page = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
    nested = ("workload", "total", "queue", "kv_cache", "estimated", "dtypes", "bound_share", "limits")
    names = [*document, *(name for part in nested for name in document[part])]
    assert not [name for name in names if f"`{name}`" not in page and f"`{name}[]`" not in page]


def test_lines_for_a_pipe() -> None:
    with served(vllm(0), vllm(1), vllm(2)) as server:
        result = run(server.url, *SERVED, "--count", "2")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == 2
    assert "memory-bound" in lines[0]
    assert "KV 9.0 % | wait 3 | next limit memory" in lines[0]


def test_json_lines() -> None:
    with served(vllm(0), vllm(1), vllm(2)) as server:
        result = run(server.url, *SERVED, "--count", "2", "--json", "--tp", "2")
    documents = [json.loads(line) for line in result.stdout.splitlines()]
    assert [document["schema"] for document in documents] == ["rooflens.reading/1"] * 2
    assert documents[0]["parts"] == 2
    assert documents[0]["total"]["flops_per_s"] > 0


def test_status_2_in_one_sentence() -> None:
    with served(vllm(0), status(500)) as server:
        result = run(server.url, *SERVED, "--failures", "2")
    lines = result.stderr.splitlines()
    assert (result.returncode, result.stdout, len(lines)) == (2, "", 2)
    assert "1 of 2 that may fail in a row" in lines[0]
    assert "2 in a row, which ends it" in lines[1]


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("file:///etc/passwd", *SERVED), "is no address"),
        (("http://127.0.0.1:1/metrics", *SERVED, "--failures", "1"), "could not be read"),
        (("http://127.0.0.1:1/metrics", *SERVED, "--dcgmi"), "dcgmi is not on this machine"),
        (("http://127.0.0.1:1/metrics", *SERVED, "--dcgmi", "--dcgm", "http://127.0.0.1:1/"), "pass one"),
        (("http://127.0.0.1:1/metrics", *SERVED, "--json", "--full"), "choose one"),
        (("http://127.0.0.1:1/metrics", *SERVED, "--interval", "nan"), "the interval is nan s"),
        (("http://127.0.0.1:1/metrics", "--model", "gpt2"), "Missing option '--gpu'"),
    ],
)
def test_bad_input_is_one_sentence(args: tuple[str, ...], text: str) -> None:
    result = run(*args, PATH="/nowhere")
    assert (result.returncode, result.stdout, len(result.stderr.splitlines())) == (2, "", 1)
    assert text in result.stderr


def test_an_interrupt_ends_it_cleanly() -> None:
    with served(*(vllm(n) for n in range(200))) as server:
        command = [sys.executable, "-m", "rooflens", "watch", server.url, *SERVED]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert err.splitlines()[-1] == "rooflens: stopped"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_the_view_on_a_terminal() -> None:
    import pty

    ours, theirs = pty.openpty()
    with served(vllm(0), vllm(1), vllm(2)) as server:
        command = [sys.executable, "-m", "rooflens", "watch", server.url, *SERVED, "--count", "2"]
        env = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "60"}
        process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env)
        os.close(theirs)
        text = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:
                break
            if not piece:
                break
            text += piece
        os.close(ours)
        assert process.wait(timeout=20) == 0
    assert b"waiting for the second snapshot" in text
    assert b"Next limit" in text


def test_dcgmi_is_run_and_ended(tmp_path: Path) -> None:
    """A stand-in for dcgmi that prints rows until it is ended."""
    ended = tmp_path / "ended"
    script = tmp_path / "dcgmi"
    script.write_text(
        f"#!/bin/sh\ntrap 'touch {ended}; exit 0' TERM\nprintf '#Entity GRACT SMACT SMOCC TENSO DRAMA\\nID\\n'\n"
        "while :; do echo 'GPU 0 0.875 0.75 N/A 0.25 0.5'; sleep 0.02; done\n"
    )
    script.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    with served(vllm(0), vllm(1), vllm(2), vllm(3)) as server:
        result = run(server.url, *SERVED, "--interval", "0.3", "--count", "2", "--dcgmi", "--json", PATH=path)
    documents = [json.loads(line) for line in result.stdout.splitlines()]
    assert documents[-1]["gpus"] == [
        {"device": "GPU 0", "fields": {"1001": 0.875, "1002": 0.75, "1003": None, "1004": 0.25, "1005": 0.5}}
    ]
    end = time.monotonic() + 5
    while not ended.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert ended.exists()
