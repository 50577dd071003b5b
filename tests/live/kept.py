"""A measured part of round numbers, and the cache folder that keeps it for this machine."""

from __future__ import annotations

from pathlib import Path

from rooflens.core.hardware import Ceiling, Hardware, KernelShape, MemoryLevel
from rooflens.core.op import DType, Provenance
from rooflens.render.hardware_toml import hardware_toml

ORIGIN = Provenance("measured", "measured here", "unroll 4; 2 pinned threads")
SYSTEM = Provenance("driver", "the operating system")


def figure(value: float, spread: float | None = 0.02) -> Ceiling:
    return Ceiling(value, ORIGIN, spread)


def measured_part() -> Hardware:
    """100 GFLOP/s fp32 and 200 GFLOP/s bf16 over 20 GB/s: ridge points 5 and 10; the copy of memory is not stable."""
    size = Ceiling(16e9, SYSTEM)
    rates = {"read": figure(20e9), "copy": figure(21e9, 0.4), "triad": figure(22e9), "copy_nt": figure(30e9)}
    return Hardware(
        name="example-9000-measured",
        title="Example 9000, measured here",
        vendor="Example",
        architecture="AVX512",
        memory=MemoryLevel("memory", rates["read"], size, rates),
        matrix={DType.FP32: figure(100e9), DType.BF16: figure(200e9)},
        memory_driver=size,
        caches=(MemoryLevel("L1", figure(400e9), Ceiling(32768.0, SYSTEM), {"read": figure(400e9)}),),
        notes=("fp8 has no peak: torch does not multiply it here (not implemented)",),
        origin="measured",
        kernels={(KernelShape.M1_LINEAR, DType.FP32): figure(19e9)},
        conditions=(("processor", "Example 9000"), ("threads", "2 of torch")),
    )


def keep(folder: Path, part: Hardware | None = None) -> Path:
    """Write `part` where `rooflens ceilings` looks for this machine's, with `folder` as its cache."""
    from rooflens.live.machine import machine_key

    path = folder / "ceilings" / f"{machine_key()}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(hardware_toml(part or measured_part()), encoding="utf-8")
    return path
