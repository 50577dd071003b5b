"""Matrix products, kernels of decode and rates through torch: operands, bytes, sizes, and what is refused."""

from __future__ import annotations

import time
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="products are torch's (extra measure)")

from rooflens.core.hardware import KernelShape  # noqa: E402
from rooflens.core.op import DType  # noqa: E402
from rooflens.live import matmul, shaped, torch_bandwidth  # noqa: E402
from rooflens.live.clock import Clock  # noqa: E402

FLOATS = (DType.FP32, DType.BF16, DType.FP64)


@pytest.mark.parametrize("dtype", FLOATS)
def test_operands_are_random_and_of_the_dtype(dtype: DType) -> None:
    out: Any = matmul.product(torch, "cpu", dtype, 64)()
    assert out.shape == (64, 64)
    assert out.dtype is matmul.torch_dtype(torch, dtype)
    assert torch.count_nonzero(out) > 4000
    assert 4 < out.float().std() < 16, "sums of 64 products of normal values have a deviation of 8"


def test_integers_are_multiplied_as_integers() -> None:
    try:
        out: Any = matmul.product(torch, "cpu", DType.INT8, 64)()
    except (RuntimeError, NotImplementedError) as refusal:
        pytest.skip(f"torch does not multiply int8 here: {refusal}")
    assert out.dtype is torch.int32
    assert torch.count_nonzero(out) > 4000


@pytest.mark.parametrize("dtype", [DType.FP32, DType.FP64])
def test_numpy_multiplies_as_well(dtype: DType) -> None:
    assert set(matmul.ways(torch, "cpu", dtype, 16)) == {"torch", "NumPy"}
    out: Any = matmul.numpy_product(dtype, 64)()
    assert out.dtype.itemsize == dtype.bits / 8
    assert 4 < out.std() < 16


def test_tf32_is_on_for_itself_alone_and_as_before_afterwards() -> None:
    flags = torch.backends.cuda.matmul
    before = flags.allow_tf32
    try:
        for stood in (False, True):
            flags.allow_tf32 = stood
            for dtype in (DType.TF32, DType.FP32):
                with matmul.arithmetic(torch, dtype):
                    assert flags.allow_tf32 is (dtype is DType.TF32)
                assert flags.allow_tf32 is stood
    finally:
        flags.allow_tf32 = before


def test_a_peak_is_two_n_cubed_over_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every product takes half a second: 2 x 16^3 / 0.5 is 16,384 FLOP/s at n = 16, and 2,048 at n = 8."""
    monkeypatch.setattr(matmul, "_CPU_SIZES", (8, 16))
    monkeypatch.setattr(matmul, "_LONGEST_CALL_S", 100.0)
    monkeypatch.setattr(matmul, "fitting_sizes", lambda *_: (8, 16))
    monkeypatch.setattr(Clock, "seconds", lambda *_, **__: (0.5,))
    peak = matmul.gemm_peak("cpu", DType.FP32, seconds=0.01)
    assert peak.value == 16_384
    assert peak.variant.endswith(", n = 16")


def test_sizes_that_take_too_long_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.01 s at 512 is 0.08 s at 1,024; 0.08 s there is 0.64 s at 2,048, which is too long."""
    monkeypatch.setattr(matmul, "product", lambda _t, _d, _k, size: size)
    monkeypatch.setattr(Clock, "seconds", lambda _s, size, _r, **__: ((size / 512) ** 3 * 0.01,))
    assert matmul.fitting_sizes(torch, Clock("cpu"), DType.FP32, 0.3) == (512, 1024)
    assert matmul.fitting_sizes(torch, Clock("cpu"), DType.FP32, 0.001) == (512,)


# Kernels of decode


def test_bytes_of_a_linear_layer() -> None:
    """W[8, 4] is 32 values, x[2, 4] 8, y[2, 8] 16: 56 values of 2 bytes."""
    assert shaped.linear_bytes(2, 8, 4, 2) == 112


def test_bytes_of_attention() -> None:
    """3 sequences, 10 tokens, 2 KV heads of 128: K and V 2 x 10 x 2 x 128 values, query and result 2 x 8 x 128."""
    assert shaped.attention_bytes(3, 10, (8, 2), 2) == 2 * 3 * (5120 + 2048)


@pytest.mark.parametrize("shape", KernelShape)
def test_kernels_run_over_more_than_the_caches(shape: KernelShape, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shaped, "_CPU_LAYERS", ((64, 32), (32, 64)))
    monkeypatch.setattr(shaped, "_TOKENS", 16)
    moved: list[int] = []
    rates = shaped._rates

    def spied(clock: Clock, sweep: Any, bytes_moved: int, *rest: Any) -> Any:
        moved.append(bytes_moved)
        return rates(clock, sweep, bytes_moved, *rest)

    monkeypatch.setattr(shaped, "_rates", spied)
    found = shaped.shaped_rate("cpu", shape, DType.BF16, beyond=300_000, seconds=1e-3)
    assert len(moved) == 2
    assert all(300_000 <= one < 600_000 for one in moved)
    assert len(found.rates) >= 3
    assert found.value > 0
    assert found.variant.startswith("torch, ")


# Rates through torch


@pytest.mark.parametrize(("name", "moved"), [("read", 4000), ("copy", 8000), ("triad", 12_000)])
def test_bytes_through_torch(name: str, moved: int) -> None:
    work, counted = torch_bandwidth.sweep(torch, "cpu", name, 1000)
    assert counted == moved
    result: Any = work()
    assert torch.count_nonzero(result) > 0


def test_rates_through_torch_have_every_pattern() -> None:
    rates = torch_bandwidth.torch_rates("cpu", 1 << 16, rounds=3, seconds=1e-3)
    assert list(rates) == ["read", "copy", "triad"]
    assert all(len(one.rates) == 3 and min(one.rates) > 0 for one in rates.values())


# The clock


def test_a_clock_gives_the_mean_of_calls() -> None:
    calls: list[int] = []

    def call() -> None:
        calls.append(1)
        time.sleep(0.002)

    taken = Clock("cpu").seconds(call, 2, calls=3)
    assert len(calls) == 6
    assert len(taken) == 2
    assert min(taken) >= 0.002


def test_a_gpu_is_timed_by_its_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """The events say 6 ms for three calls: 2 ms each; the queue is empty before the first."""
    said: list[str] = []

    class Event:
        def __init__(self, *, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            said.append("record")

        def synchronize(self) -> None:
            said.append("end")

        def elapsed_time(self, _end: object) -> float:
            return 6.0

    class Backend:
        @staticmethod
        def device(_name: str) -> Any:
            import contextlib

            return contextlib.nullcontext()

        @staticmethod
        def synchronize(_name: str) -> None:
            said.append("wait")

    Backend.Event = Event
    monkeypatch.setattr(torch, "cuda", Backend)
    assert Clock("cuda:0").seconds(lambda: said.append("call"), 1, calls=3) == (0.002,)
    assert said == ["wait", "record", "call", "call", "call", "record", "end"]
