"""A step of a small Llama as an engine replays it from a CUDA graph: kernels with names and no shapes, by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.sources.kineto_traces import Json, kernel, launch, span

H100 = "NVIDIA H100 80GB HBM3"
DECODE = "execute_context_0(sq0sk0sqsq0sqsk0)_generation_4(sq4sk400sqsq4sqsk400)"
"""Four sequences, each with 99 tokens cached and a new one."""

GEMM = "nvjet_tst_64x8_64x16_4x1_v_bz_TNT"
LAYER = (
    "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)",
    GEMM,
    "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)",
    "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>(__nv_bfloat16 const*)",
    "void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>>(Flash_fwd_params)",
    GEMM,
    "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)",
    GEMM,
    "void vllm::act_and_mul_kernel<c10::BFloat16, &(c10::BFloat16 vllm::silu_kernel<c10::BFloat16>())>(int)",
    GEMM,
)
"""Norm, q/k/v, rotary embedding, cache, attention, output; norm, gate and up, activation, down."""

FIRST = "void at::native::(anonymous namespace)::indexSelectSmallIndex_embedding<c10::BFloat16>(int)"
LAST = (
    LAYER[0],
    GEMM,
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>>>(int)",
)


def replayed(*, layers: int = 2, name: str = DECODE, seconds_us: float = 10.0) -> list[Json]:
    """The events of one replay: a range of the step, one graph launch, its kernels one after another."""
    names = [FIRST, *(LAYER * layers), *LAST]
    kernels = [kernel(n, 100 + i * seconds_us, seconds_us, correlation=7) for i, n in enumerate(names)]
    return [span(name, 0, 50), launch(10, 7, name="cudaGraphLaunch"), *kernels]


def trace(path: Path, events: Iterable[Json], *, device: str = H100, **more: Any) -> Path:
    """Write a trace with a device of that name; `more` are further fields of the file."""
    devices = [{"id": 0, "name": device, "numSms": 132, "totalGlobalMem": 85_520_809_984}]
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": devices, "traceEvents": [*events], **more}))
    return path
