"""What kernels of decode reach: linear layers over few rows, and one query over a long KV cache, in byte/s.

Operands together exceed the last cache several times and are taken in turn, so that none is found in a cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rooflens.core.hardware import KernelShape
from rooflens.core.op import DType
from rooflens.live.clock import Clock
from rooflens.live.machine import load_torch
from rooflens.live.matmul import arithmetic, torch_dtype
from rooflens.live.repeats import Repeats, best

DTYPES = (DType.FP32, DType.BF16, DType.FP16)
"""The dtypes that linear layers and attention are measured in."""

ROWS = {KernelShape.M1_LINEAR: 1, KernelShape.SKINNY_LINEAR: 16}
"""Rows of activations of each linear shape."""

_CPU_LAYERS = ((2048, 2048), (8192, 2048), (2048, 8192))
_GPU_LAYERS = ((4096, 4096), (14336, 4096), (4096, 14336), (8192, 8192))
_HEADS = ((8, 8), (32, 8))
"""Query heads and KV heads that are tried: one for one, and four for one."""

_HEAD_DIM = 128
_TOKENS = 4096


def shaped_rate(device: str, shape: KernelShape, dtype: DType, *, beyond: int, seconds: float = 0.8) -> Repeats:
    """byte/s of weights and activations (or of KV, query and result) that kernels of `shape` move, the best of a few.

    beyond: bytes that the operands together must exceed.

    Raises:
        RuntimeError, NotImplementedError: torch does not run the kernel in `dtype` on `device`.
        MissingExtraError: torch is not installed.
    """
    torch, clock = load_torch(), Clock(device)
    build: list[Callable[[], tuple[Callable[[], object], int, str]]]
    if shape is KernelShape.DECODE_ATTENTION:
        build = [lambda h=heads: _attention(torch, device, dtype, h, beyond) for heads in _HEADS]  # type: ignore[misc]
    else:
        layers = _CPU_LAYERS if device == "cpu" else _GPU_LAYERS
        rows = ROWS[shape]
        build = [lambda s=size: _linear(torch, device, dtype, (rows, *s), beyond) for size in layers]  # type: ignore[misc]
    with arithmetic(torch, dtype):
        return best([_rates(clock, *one(), seconds / len(build)) for one in build])


def _rates(clock: Clock, sweep: Callable[[], object], moved: int, variant: str, seconds: float) -> Repeats:
    """Repeats of `sweep`, which moves `moved` bytes, for about `seconds` and between 3 and 15 times."""
    taken = min(clock.seconds(sweep, 2))
    rounds = max(3, min(15, round(seconds / taken)))
    return Repeats(tuple(moved / one for one in clock.seconds(sweep, rounds)), variant)


def linear_bytes(rows: int, n: int, k: int, itemsize: int) -> int:
    """Bytes of y[rows, n] = x[rows, k] @ W[n, k]^T: each operand crosses memory once."""
    return itemsize * (n * k + rows * k + rows * n)


def attention_bytes(sequences: int, tokens: int, heads: tuple[int, int], itemsize: int) -> int:
    """Bytes of one query of each sequence over `tokens`: K and V of the KV heads, query and result of the others."""
    queries, kept = heads
    return itemsize * sequences * _HEAD_DIM * (2 * tokens * kept + 2 * queries)


def _linear(
    torch: Any, device: str, dtype: DType, size: tuple[int, int, int], beyond: int
) -> tuple[Callable[[], object], int, str]:
    """One pass over enough weight matrices W[n, k], the bytes that it moves, and its words."""
    rows, n, k = size
    kind = torch_dtype(torch, dtype)
    one = linear_bytes(rows, n, k, kind.itemsize)
    count = max(2, -(-beyond // one))
    x = torch.randn(rows, k, device=device).to(kind)
    first = torch.randn(n, k, device=device).to(kind)
    weights = [first, *(first.clone() for _ in range(count - 1))]

    def sweep() -> None:
        for weight in weights:
            torch.nn.functional.linear(x, weight)

    return sweep, count * one, f"torch, {count} of {n} x {k}"


def _attention(
    torch: Any, device: str, dtype: DType, heads: tuple[int, int], beyond: int
) -> tuple[Callable[[], object], int, str]:
    """One query of each of enough sequences over 4,096 cached tokens, the bytes that it moves, and its words."""
    queries, kept = heads
    kind = torch_dtype(torch, dtype)
    sequences = max(1, -(-beyond // attention_bytes(1, _TOKENS, heads, kind.itemsize)))
    q = torch.randn(sequences, queries, 1, _HEAD_DIM, device=device).to(kind)
    k, v = (
        torch.randn(1, kept, _TOKENS, _HEAD_DIM, device=device).to(kind).repeat(sequences, 1, 1, 1) for _ in range(2)
    )
    attend = torch.nn.functional.scaled_dot_product_attention
    moved = attention_bytes(sequences, _TOKENS, heads, kind.itemsize)
    words = f"torch, {sequences} sequences, {queries} / {kept} heads"
    return lambda: attend(q, k, v, enable_gqa=queries != kept), moved, words
