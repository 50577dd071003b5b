"""Counters of AMD's Instinct parts -> FLOP by pipe and bytes by level.

Source: ROCm/rocprofiler-compute, src/utils/roofline_calc.py (calc_ai), and "MI300 and MI200 series performance counters
and metrics", rocm.docs.amd.com: FETCH_SIZE and WRITE_SIZE are kilobytes of 1,024 bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from rooflens.core.op import DType

WAVE = 64
"""Lanes that an instruction of a wave counts for, whether they were active or not."""

_MOPS = 512
"""Operations that one count of SQ_INSTS_VALU_MFMA_MOPS_* stands for."""

_LINE = 64
"""Bytes of a request between the vector L1 and the L2, and of an access to the vector L1."""

_VECTOR = {"ffma": "F32", "hfma": "F16", "dfma": "F64"}
_MATRIX = {"F16": DType.FP16, "BF16": DType.BF16, "F32": DType.FP32, "F64": DType.FP64, "I8": DType.INT8}
_OPTIONAL = ("I8",)
"""Matrix operations that parts or versions do not count, and that are then left out."""

_KIBI = 1024
_LARGEST = 2**63
_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?([eE][-+]?\d{1,3})?")
_PASS = re.compile(r"(.+?)_\d{1,3}")
_PART = re.compile(r"(.+)\[\d{1,4}\]")

Counts = Mapping[str, float]


def columns_of(header: list[str]) -> dict[str, tuple[int, ...]]:
    """Indices of the columns of each counter in `header`.

    A counter that several passes collected has columns with suffixes, of which the first holds; one of several
    instances ("TCC_HIT[0]") stands for their sum, as "TCC_HIT_sum".
    """
    found: dict[str, tuple[int, ...]] = {}
    for index, name in enumerate(header):
        part = _PART.fullmatch(name)
        if part:
            found[f"{part[1]}_sum"] = (*found.get(f"{part[1]}_sum", ()), index)
        else:
            found.setdefault(name, (index,))
    for index, name in enumerate(header):
        later = _PASS.fullmatch(name)
        if later:
            found.setdefault(later[1], (index,))
    return found


def number(text: str) -> float | None:
    """A count; exact where it is whole, None where it is no number, negative or beyond 64 bit."""
    text = text.strip()
    if len(text) > 60 or not _NUMBER.fullmatch(text):
        return None
    value = int(text) if text.lstrip("+-").isdigit() else float(text)
    return value if 0 <= value < _LARGEST and math.isfinite(value) else None


def flops_of(counts: Counts) -> dict[str, float]:
    """FLOP of each pipe of which everything was counted; transcendental functions count as one FLOP."""
    wave = counts.get("wave_size", counts.get("Wave_Size", WAVE))
    flops: dict[str, float] = {}
    matrix = {name: counts.get(f"SQ_INSTS_VALU_MFMA_MOPS_{name}") for name in _MATRIX}
    if all(value is not None for name, value in matrix.items() if name not in _OPTIONAL):
        flops["tensor"] = _MOPS * sum(value or 0 for value in matrix.values())
    for pipe, dtype in _VECTOR.items():
        each = [counts.get(f"SQ_INSTS_VALU_{op}_{dtype}") for op in ("ADD", "MUL", "TRANS", "FMA", "FMA")]
        if all(value is not None for value in each):
            flops[pipe] = wave * sum(value or 0 for value in each)
    return flops


def dtype_of(counts: Counts, flops: Mapping[str, float]) -> DType | None:
    """The arithmetic of most FLOP; None where nothing was counted, or the matrix units were not."""
    if "tensor" not in flops or not any(flops.values()):
        return None
    lead = max(flops, key=lambda pipe: flops[pipe])
    if lead != "tensor":
        return {"ffma": DType.FP32, "hfma": DType.FP16, "dfma": DType.FP64}[lead]
    return _MATRIX[max(_MATRIX, key=lambda name: counts.get(f"SQ_INSTS_VALU_MFMA_MOPS_{name}", 0))]


def bytes_of(counts: Counts) -> dict[str, float]:
    """Bytes at each level that was counted: between L2 and memory, between L1 and L2, at the vector L1."""
    levels: dict[str, float] = {}
    read, written = _read(counts), _written(counts)
    if read is not None and written is not None:
        levels["dram"] = read + written
    requests = [counts.get(f"TCP_TCC_{kind}_REQ_sum") for kind in ("READ", "WRITE")]
    atomics = [counts.get(f"TCP_TCC_ATOMIC_{kind}_RET_REQ_sum") for kind in ("WITH", "WITHOUT")]
    if all(value is not None for value in requests):
        levels["l2"] = _LINE * sum(value or 0 for value in (*requests, *atomics))
    accesses = counts.get("TCP_TOTAL_CACHE_ACCESSES_sum")
    if accesses is not None:
        levels["l1"] = _LINE * accesses
    return levels


def missing(flops: Mapping[str, float], levels: Mapping[str, float]) -> tuple[str, ...]:
    """Counters by name that what is not in `flops` and `levels` would need."""
    names = {
        "tensor": "SQ_INSTS_VALU_MFMA_MOPS_*",
        **{pipe: f"SQ_INSTS_VALU_*_{dtype}" for pipe, dtype in _VECTOR.items()},
        "dram": "TCC_EA*_RDREQ*, TCC_EA*_WRREQ*",
        "l2": "TCP_TCC_*_REQ_sum",
        "l1": "TCP_TOTAL_CACHE_ACCESSES_sum",
    }
    return tuple(counter for what, counter in names.items() if what not in flops and what not in levels)


def _read(counts: Counts) -> float | None:
    """Bytes read: of MI200 (EA) requests of 32 and 64 bytes, of MI300 (EA0) also of 128, which TCC_BUBBLE counts."""
    total, small = counts.get("TCC_EA_RDREQ_sum"), counts.get("TCC_EA_RDREQ_32B_sum")
    large: float | None = 0
    if total is None:
        total, small = counts.get("TCC_EA0_RDREQ_sum"), counts.get("TCC_EA0_RDREQ_32B_sum")
        large = counts.get("TCC_BUBBLE_sum")
    if total is None or small is None or large is None or total < small + large:
        return _size(counts, "FETCH_SIZE", "FetchSize")
    return 32 * small + 128 * large + 64 * (total - small - large)


def _written(counts: Counts) -> float | None:
    """Bytes written, in requests of 32 and 64 bytes."""
    for arbiter in ("TCC_EA", "TCC_EA0"):
        total, large = counts.get(f"{arbiter}_WRREQ_sum"), counts.get(f"{arbiter}_WRREQ_64B_sum")
        if total is not None and large is not None and total >= large:
            return 64 * large + 32 * (total - large)
    return _size(counts, "WRITE_SIZE", "WriteSize")


def _size(counts: Counts, *names: str) -> float | None:
    sizes = (counts.get(name) for name in names)
    return next((size * _KIBI for size in sizes if size is not None), None)
