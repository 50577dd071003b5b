"""Matrix-multiply peaks by dtype on a torch device: 2 n^3 FLOP of square products of random values, over seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rooflens.core.op import DType
from rooflens.live.clock import Clock
from rooflens.live.machine import load_torch
from rooflens.live.repeats import Repeats, best

DTYPES = (DType.FP32, DType.TF32, DType.BF16, DType.FP16, DType.FP64, DType.INT8, DType.FP8)
"""The dtypes that are tried; one that torch refuses on the device has no figure."""

_TORCH_NAMES = {DType.FP64: "float64", DType.BF16: "bfloat16", DType.FP16: "float16"}
_CPU_SIZES = (512, 1024, 2048, 4096)
GPU_SIZES = (4096, 8192)
_LONGEST_CALL_S = 0.3
_MOST_ROUNDS = 15

Call = Callable[[], object]


def torch_dtype(torch: Any, dtype: DType) -> Any:
    """The torch dtype that `dtype` is stored in (float32 for fp32 and tf32)."""
    return getattr(torch, _TORCH_NAMES.get(dtype, "float32"))


@contextmanager
def arithmetic(torch: Any, dtype: DType) -> Iterator[None]:
    """Multiply float32 in 19 bits for tf32 alone, in full for everything else; as it was afterwards."""
    flags = torch.backends.cuda.matmul
    before = flags.allow_tf32
    flags.allow_tf32 = dtype is DType.TF32
    try:
        with torch.inference_mode():
            yield
    finally:
        flags.allow_tf32 = before


def gemm_peak(device: str, dtype: DType, *, seconds: float = 1.2) -> Repeats:
    """FLOP/s (OP/s for int8) of the best square product in `dtype`, measured for about `seconds`.

    On the processor NumPy's product counts as well for fp32 and fp64, whichever is faster. Sizes whose product would
    take more than 0.3 s are left out.

    Raises:
        RuntimeError, NotImplementedError, AttributeError: torch does not multiply `dtype` on `device`.
        MissingExtraError: torch is not installed.
    """
    torch, clock = load_torch(), Clock(device)
    with arithmetic(torch, dtype):
        sizes = fitting_sizes(torch, clock, dtype)[-2:] if device == "cpu" else GPU_SIZES
        return best([one for size in sizes for one in _at(torch, clock, dtype, size, seconds / len(sizes))])


def fitting_sizes(torch: Any, clock: Clock, dtype: DType, longest_s: float = _LONGEST_CALL_S) -> tuple[int, ...]:
    """The sizes whose product takes at most `longest_s`, each estimated from the one before; the smallest always.

    The estimate is from the fastest of four calls, since threads that wait for a busy core make small products slow.
    """
    fitting = [_CPU_SIZES[0]]
    for size in _CPU_SIZES[1:]:
        call = product(torch, clock.device, dtype, fitting[-1])
        longest_here = longest_s * (fitting[-1] / size) ** 3
        if clock.seconds(call, 1)[0] > longest_here and min(clock.seconds(call, 3)) > longest_here:
            break
        fitting.append(size)
    return tuple(fitting)


def ways(torch: Any, device: str, dtype: DType, size: int) -> dict[str, Call]:
    """Every way to multiply at one size, by name."""
    found = {"torch": product(torch, device, dtype, size)}
    if device == "cpu" and dtype in (DType.FP32, DType.FP64):
        found["NumPy"] = numpy_product(dtype, size)
    return found


def _at(torch: Any, clock: Clock, dtype: DType, size: int, seconds: float) -> list[Repeats]:
    """Rates of every way to multiply at one size, in turn, until `seconds` are over (three rounds at least)."""
    calls = ways(torch, clock.device, dtype, size)
    for call in calls.values():
        call()
    rates: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + seconds
    while len(rates["torch"]) < 3 or (time.perf_counter() < end and len(rates["torch"]) < _MOST_ROUNDS):
        for name, call in calls.items():
            rates[name].append(2 * size**3 / clock.seconds(call, 1)[0])
    return [Repeats(tuple(found), f"{name}, n = {size}") for name, found in rates.items()]


def product(torch: Any, device: str, dtype: DType, size: int) -> Call:
    """The call that multiplies two random `size` x `size` matrices of `dtype`."""
    if dtype is DType.INT8:
        a, b = (torch.randint(-127, 128, (size, size), dtype=torch.int8, device=device) for _ in range(2))
        return lambda: torch._int_mm(a, b.t())
    a, b = (torch.randn(size, size, device=device) for _ in range(2))
    if dtype is DType.FP8:
        return _fp8(torch, a, b)
    kind = torch_dtype(torch, dtype)
    a, b = a.to(kind), b.to(kind)
    out = torch.empty_like(a)
    return lambda: torch.mm(a, b, out=out)


def _fp8(torch: Any, a: Any, b: Any) -> Call:
    """The product in e4m3, in the encoding of the device (AMD's first one differs), with unit scales."""
    gfx = getattr(torch.cuda.get_device_properties(a.device), "gcnArchName", "") if a.is_cuda else ""
    kind = torch.float8_e4m3fnuz if gfx.startswith("gfx94") else torch.float8_e4m3fn
    left, right, one = a.to(kind), b.to(kind).t(), torch.ones((), device=a.device)
    return lambda: torch._scaled_mm(left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


def numpy_product(dtype: DType, size: int) -> Call:
    """The same with NumPy's library, in fp32 or fp64."""
    import numpy as np

    kind = np.float64 if dtype is DType.FP64 else np.float32
    random = np.random.default_rng()
    a, b = (random.standard_normal((size, size), np.float32).astype(kind) for _ in range(2))
    out = np.empty_like(a)
    return lambda: np.matmul(a, b, out=out)
