"""What runs on a GPU, on a torch that is not there: which device is waited for, what is traced, and what is kept."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="devices are torch's (extra torch)")

from rooflens import profiler  # noqa: E402
from rooflens.core.op import DType  # noqa: E402
from rooflens.errors import InputError  # noqa: E402
from rooflens.live import ceilings, clock, counted, device as devices, machine, memory, run  # noqa: E402
from rooflens.live.conditions import state  # noqa: E402
from rooflens.live.counted import count_phases, counter_words  # noqa: E402
from rooflens.live.device import Device, device_of  # noqa: E402
from rooflens.live.energy import Energy, EnergyMeter  # noqa: E402
from rooflens.live.passes import Runner  # noqa: E402
from rooflens.live.perf import Counted, PerfSupport  # noqa: E402
from rooflens.live.run import Schedule, time_phases  # noqa: E402
from rooflens.live.vitals import missing  # noqa: E402

LOST = RuntimeError("CUDA error: unspecified launch failure\nCUDA kernel errors might be reported elsewhere")


def fake(*, cuda: int = 0, xpu: int = 0, mps: bool = False) -> SimpleNamespace:
    """A torch with so many devices; `said` holds what its backends were asked."""
    said: list[tuple[str, Any]] = []

    @contextmanager
    def chosen(kind: str, which: str) -> Any:
        said.append((f"{kind} device", which))
        yield

    def backend(kind: str, many: int) -> SimpleNamespace:
        return SimpleNamespace(
            is_available=lambda: many > 0,
            device_count=lambda: many,
            synchronize=lambda *which: said.append((f"{kind} synchronize", *which)),
            device=lambda which: chosen(kind, which),
            mem_get_info=lambda which: (100, 1000),
            memory_reserved=lambda which: 50,
            memory_allocated=lambda which: 20,
        )

    return SimpleNamespace(
        cuda=backend("cuda", cuda),
        xpu=backend("xpu", xpu),
        mps=SimpleNamespace(
            synchronize=lambda: said.append(("mps synchronize",)),
            recommended_max_memory=lambda: 70,
            driver_allocated_memory=lambda: 30,
        ),
        backends=SimpleNamespace(mps=SimpleNamespace(is_available=lambda: mps)),
        said=said,
    )


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Any:
    def installed(**have: Any) -> SimpleNamespace:
        made = fake(**have)
        monkeypatch.setitem(sys.modules, "torch", made)
        monkeypatch.setattr(devices, "_torch", lambda: made)
        monkeypatch.setattr(machine, "load_torch", lambda: made)
        return made

    return installed


# Names


def test_both_device_checks_know_the_same_devices(install: Any) -> None:
    install(cuda=2, mps=True)
    assert machine.devices() == ("cpu", "cuda:0", "cuda:1", "mps")
    assert [machine.check_device(name) for name in ("cpu", "cuda", "cuda:1", "mps")] == [
        "cpu",
        "cuda:0",
        "cuda:1",
        "mps",
    ]
    assert [device_of(name).name for name in (None, " CUDA:1 ", "cuda", "mps", "cpu")] == [
        "cuda",
        "cuda:1",
        "cuda",
        "mps",
        "cpu",
    ]


@pytest.mark.parametrize("name", ["cuda:2", "cuda:²", "cuda:-1", "cuda:", "cpu:1", "xpu", "mps", "tpu", "", ":0"])
def test_both_refuse_what_is_not_there(install: Any, name: str) -> None:
    install(cuda=2)
    with pytest.raises(InputError, match=r"is not there; torch sees cuda, cpu on this machine"):
        device_of(name)
    with pytest.raises(InputError, match=r"this machine has cpu, cuda:0, cuda:1$"):
        machine.check_device(name)


# The device that is waited for


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cuda:1", ("cuda synchronize", "cuda:1")),
        ("xpu:0", ("xpu synchronize", "xpu:0")),
        ("mps", ("mps synchronize",)),
    ],
)
def test_the_device_that_runs_is_waited_for(install: Any, name: str, said: tuple[str, ...]) -> None:
    made = install(cuda=2, xpu=1, mps=True)
    Device(name).synchronize()
    assert made.said == [said]
    Device("cpu").synchronize()
    assert made.said == [said]


def test_the_device_that_runs_is_torchs_own_meanwhile(install: Any) -> None:
    made = install(cuda=2)
    with Device("cuda:1").chosen(), Device("cpu").chosen(), Device("mps").chosen():
        assert made.said == [("cuda device", "cuda:1")]


def test_a_device_whose_kernel_faulted_no_longer_answers(install: Any) -> None:
    made = install(cuda=1)
    assert Device("cuda").answers()

    def refuse(_which: str) -> None:
        raise LOST

    made.cuda.synchronize = refuse
    assert not Device("cuda").answers()
    assert Device("cpu").answers()


def test_ranges_of_a_trace_begin_and_end_with_an_idle_device(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    @contextmanager
    def marked(name: str) -> Any:
        said.append(f"open {name}")
        yield
        said.append("close")

    monkeypatch.setattr(run, "phase_range", marked)
    waits = SimpleNamespace(synchronize=lambda: said.append("wait"))
    run._in_range(waits, "decode", lambda: said.append("work"))  # type: ignore[arg-type]
    assert said == ["wait", "open decode", "work", "wait", "close"]


def test_gpu_events_start_behind_work_that_hides_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            said.append("record")

        def synchronize(self) -> None:
            said.append("event wait")

        def elapsed_time(self, _other: Event) -> float:
            return 8.0

    made = fake(cuda=1)
    made.cuda.Event, made.cuda._sleep = Event, lambda cycles: said.append("busy")
    monkeypatch.setattr(clock, "load_torch", lambda: made)
    times = clock.Clock("cuda:0").seconds(lambda: said.append("call"), 1, calls=2)
    assert times == (0.004,)
    assert said == ["busy", "record", "call", "call", "record", "event wait"]
    del made.cuda._sleep
    assert clock.Clock("cuda:0").seconds(lambda: None, 1) == (0.008,)


# Memory


def test_free_memory_counts_what_torch_keeps_unused(install: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = install(cuda=2, xpu=1, mps=True)
    assert memory.free_bytes(Device("cuda:1")) == 100 + 50 - 20
    monkeypatch.setattr(memory, "free_host_bytes", lambda: 60)
    assert memory.free_bytes(Device("mps")) == 40
    assert memory.free_bytes(Device("cpu")) == 60

    def refuse(_which: str) -> None:
        raise RuntimeError("The device doesn't support querying the available free memory.")

    made.xpu.mem_get_info = refuse
    assert memory.free_bytes(Device("xpu:0")) is None


@pytest.mark.parametrize(
    ("said", "lacks"),
    [
        ("CUDA out of memory. Tried to allocate 20.00 MiB", True),
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", True),
        ("MPS backend out of memory (MPS allocated: 9 GB)", True),
        ("HIP out of memory", True),
        (str(LOST), False),
    ],
)
def test_words_for_no_memory(said: str, lacks: bool) -> None:
    assert memory.is_out_of_memory(RuntimeError(said)) is lacks


# Devices that nothing is known of


def test_an_intel_gpu_says_that_it_is_not_asked() -> None:
    assert missing("xpu:0") == (("state", "the state of an Intel GPU is not read here"),)
    assert EnergyMeter("xpu").read().reason == "the energy of an Intel GPU is not read here"


def test_the_profiler_traces_what_it_supports(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = torch.profiler.ProfilerActivity
    monkeypatch.setattr(torch.profiler, "supported_activities", lambda: {kinds.CPU, kinds.CUDA})
    assert Device("cpu").untraced() == Device("cuda:1").untraced() == ""
    assert Device("mps").untraced() == "PyTorch's profiler records no kernels of mps here"
    assert Device("xpu:0").untraced() == "PyTorch's profiler records no kernels of xpu:0 here"
    assert Device("cuda").activities() == [kinds.CPU, kinds.CUDA]
    assert Device("mps").activities() == [kinds.CPU]


# Runs


class Model:
    """Counts its passes, and raises `error` in that of number `fails`."""

    config = SimpleNamespace(get_text_config=lambda: SimpleNamespace(vocab_size=10))

    def __init__(self, fails: int = -1, error: BaseException = LOST) -> None:
        self.passes, self.fails, self.error = 0, fails, error

    def forward(self, input_ids: Any, use_cache: bool, past_key_values: Any = None) -> Any:
        self.passes += 1
        if self.passes == self.fails:
            raise self.error
        return SimpleNamespace(logits=torch.zeros(*input_ids.shape, 10), past_key_values="cache")

    __call__ = forward


def runner(model: Any) -> Runner:
    return Runner(model, Device("cpu"), 1, 4)


def test_a_device_that_vanishes_keeps_the_repeats_that_were_complete() -> None:
    """Each repeat is a prefill and two steps: the ninth pass is the last step of the third repeat."""
    times = time_phases(runner(Model(fails=9)), Schedule(output=3, warmup=1, repeat=4))
    assert (len(times.prefill_s), len(times.decode_s), times.partial) == (1, 1, True)
    assert times.failure is LOST
    (finding,) = profiler._stopped(times)
    assert finding.text == (
        "the run failed (RuntimeError: CUDA error: unspecified launch failure) after 1 complete repeat; "
        "the breakdown is missing"
    )


def test_an_interrupt_is_no_failure() -> None:
    times = time_phases(runner(Model(fails=9, error=KeyboardInterrupt())), Schedule(output=3, warmup=1, repeat=4))
    assert (len(times.prefill_s), times.partial, times.failure) == (1, True, None)


def test_a_device_that_vanishes_before_a_repeat_is_one_sentence() -> None:
    with pytest.raises(InputError) as refusal, profiler._said(Device("cuda")):
        time_phases(runner(Model(fails=2)), Schedule(output=3, warmup=1, repeat=4))
    assert str(refusal.value) == (
        "the model did not run on cuda (RuntimeError: CUDA error: unspecified launch failure)"
    )


def test_ranges_are_opened_once_a_phase_and_close_after_the_device_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    @contextmanager
    def marked(name: str) -> Any:
        said.append(name)
        yield
        said.append(f"end {name}")

    monkeypatch.setattr(run, "nvtx_range", marked)
    monkeypatch.setattr(Device, "synchronize", lambda self: said.append("wait"))
    time_phases(runner(Model()), Schedule(output=3, warmup=0, repeat=1))
    assert said == ["prefill", "wait", "wait", "end prefill", "decode", "wait", "wait", "end decode"]


def test_state_of_a_device_that_is_gone_is_not_asked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_device: str) -> None:
        raise LOST

    monkeypatch.setattr("rooflens.live.conditions.vitals", refuse)
    assert state(Device("cuda")) == ()


# Breakdowns


def test_without_kernels_of_the_device_there_is_no_breakdown(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule, work = Schedule(output=2), profiler.Work()
    mps = SimpleNamespace(device=Device("mps"))
    phases, (finding,) = profiler._traced(mps, schedule, work)  # type: ignore[arg-type]
    assert (phases, finding.code) == ((), "no_breakdown")
    assert finding.text == (
        "PyTorch's profiler records no kernels of mps here: the phases are timed, and the breakdown is left out"
    )
    monkeypatch.setattr(Device, "untraced", lambda self: "")
    monkeypatch.setattr(profiler, "_read", lambda *_: (SimpleNamespace(gpu=False),))
    cuda = SimpleNamespace(device=Device("cuda"))
    phases, (finding,) = profiler._traced(cuda, schedule, work)  # type: ignore[arg-type]
    assert (phases, finding.code) == ((), "no_breakdown")
    assert "the trace of PyTorch's profiler holds no kernels of cuda" in finding.text
    monkeypatch.setattr(profiler, "_read", lambda *_: (SimpleNamespace(gpu=True),))
    assert profiler._traced(cuda, schedule, work)[1] == ()  # type: ignore[arg-type]


def test_a_slice_needs_a_breakdown_before_it_is_loaded(tiny: Any) -> None:
    loading = profiler.Loading(Device("mps"), DType.FP16, layers=1)
    with pytest.raises(InputError, match="records no kernels of mps here, and --layers scales by its breakdown"):
        profiler.load_subject(tiny, {}, loading)


# Ceilings


def test_a_refused_dtype_is_a_note_and_a_dead_device_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Any:
        raise LOST

    monkeypatch.setattr(Device, "answers", lambda self: True)
    assert ceilings._tried("cuda:0", refuse) == "CUDA error: unspecified launch failure"
    monkeypatch.setattr(Device, "answers", lambda self: False)
    with pytest.raises(InputError) as refusal, ceilings._memory_lasts("cuda:0"):
        ceilings._tried("cuda:0", refuse)
    assert str(refusal.value) == (
        "cuda:0 failed while it was measured (RuntimeError: CUDA error: unspecified launch failure)"
    )


# Energy


class Meter:
    """Each stretch spends 2 J by a counter that needs `least_s`."""

    def __init__(self, least_s: float, reason: str = "") -> None:
        self.least_s, self.reason = least_s, reason

    def read(self) -> int:
        return 0

    def joules_since(self, _start: int) -> Energy:
        return Energy(None, "a counter", self.reason) if self.reason else Energy(2.0, "a counter")


def test_energy_is_of_one_pass() -> None:
    """2 J for a prefill, and 2 J for two steps."""
    meter: Any = Meter(0.0)
    times = time_phases(runner(Model()), Schedule(output=3, warmup=1, repeat=3, meter=meter))
    assert times.joules == {"prefill": 2.0, "decode": 1.0}
    assert times.energy == ""


def test_a_run_that_is_shorter_than_its_counter_can_tell_has_no_energy() -> None:
    meter: Any = Meter(1e3)
    times = time_phases(runner(Model()), Schedule(output=3, warmup=1, repeat=3, meter=meter))
    assert times.joules == {}
    assert "and the counter needs 1000 s to tell; decode ran for" in times.energy
    still: Any = Meter(0.0, "the counter did not move")
    times = time_phases(runner(Model()), Schedule(output=3, warmup=1, repeat=3, meter=still))
    assert (times.joules, times.energy) == ({}, "the counter did not move")


# Hardware counters

ALL = PerfSupport(True, "", ("instructions", "cycles", "cache-misses", "LLC-load-misses"))


def test_counters_are_of_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """3 instructions in 2 cycles; 4,000 misses in two steps are 2,000 a pass, 128,000 B."""

    @contextmanager
    def counting(events: list[str]) -> Any:
        assert events == ["instructions", "cycles", "cache-misses"]
        yield Counted({"instructions": 3e6, "cycles": 2e6, "cache-misses": 4e3})

    monkeypatch.setattr(counted, "counting", counting)
    model = Model()
    found = dict(count_phases(runner(model), 2, ALL))
    assert model.passes == 3
    assert found["hardware counters, prefill"] == (
        "1.50 instructions per cycle; 4,000 last-level-cache misses a pass (2.56e+05 B at 64 B each)"
    )
    assert found["hardware counters, decode"] == (
        "1.50 instructions per cycle; 2,000 last-level-cache misses a pass (1.28e+05 B at 64 B each)"
    )


def test_nothing_runs_where_nothing_counts() -> None:
    model: Any = Model()
    no = PerfSupport(False, "perf is not installed", ())
    assert count_phases(runner(model), 2, no) == (("hardware counters", "perf is not installed"),)
    on_gpu: Any = SimpleNamespace(device=Device("cuda"))
    assert count_phases(on_gpu, 2, ALL) == (
        ("hardware counters", "perf counts the processor, and the model ran on cuda"),
    )
    assert model.passes == 0


def test_a_counter_that_failed_says_why() -> None:
    assert counter_words(Counted(reason="perf ended"), 1) == "perf ended"
    partly = Counted({"instructions": 3.0, "cycles": 2.0}, {"cache-misses": "the kernel has no such counter here"})
    assert counter_words(partly, 1) == "1.50 instructions per cycle; the kernel has no such counter here"


def test_traces_of_intel_gpus_have_launches_of_their_own(tmp_path: Path) -> None:
    from rooflens.sources.kineto import read_kineto

    rows = [
        ("user_annotation", "decode", 1, 0, 100, {}),
        ("cpu_op", "aten::mm", 1, 10, 30, {}),
        ("xpu_runtime", "urEnqueueKernelLaunch", 1, 20, 5, {"correlation": 7}),
        ("kernel", "gemm", 2, 50, 20, {"correlation": 7}),
    ]
    events = [
        {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args}
        for cat, name, tid, ts, dur, args in rows
    ]
    file = tmp_path / "trace.json"
    import json

    file.write_text(json.dumps({"traceEvents": events}))
    (phase,) = read_kineto(file, ["decode"])
    assert phase.gpu
    assert phase.busy_s == pytest.approx(20e-6)
