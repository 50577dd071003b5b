"""KernelCounters: what hardware counters say about one launch of a kernel, before it is under anybody's roofs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rooflens.core.op import DType

PIPES = ("tensor", "ffma", "hfma", "dfma")
"""Pipes that FLOP are counted in: matrix units, fp32, fp16 and fp64 of the vector units."""

LEVELS = ("dram", "l2", "l1")
"""Levels of memory that bytes are counted at, from the device memory inwards."""


@dataclass(frozen=True, slots=True)
class KernelCounters:
    """One launch of a kernel as counters saw it; what was not counted has no entry, and zero is a count.

    seconds: its duration under the profiler, None where the file has none. flops_by_pipe: FLOP of each of `PIPES` that
    was counted (OP for integers on the matrix units). bytes_by_level: bytes at each of `LEVELS` that was counted.
    peaks: byte/s that the file says a level has at most. dtype: arithmetic of most FLOP, None where no counter tells.
    grid, block: launch sizes. clock_control, cache_control: as the file says, else empty. missing: metrics, by the
    vendor's names, that the file lacks or could not count.
    """

    name: str
    id: int
    seconds: float | None
    flops_by_pipe: Mapping[str, float] = field(default_factory=dict)
    bytes_by_level: Mapping[str, float] = field(default_factory=dict)
    peaks: Mapping[str, float] = field(default_factory=dict)
    dtype: DType | None = None
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    device: str = ""
    clock_control: str = ""
    cache_control: str = ""
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def flops(self) -> float | None:
        """FLOP of all counted pipes; None where they do not tell what the kernel computed.

        A kernel whose matrix units were not counted is not known by its vector units: an epilogue in fp32 is a
        thousandth of a matrix product. Neither is one that computed nothing in the pipes that were counted while
        others were not: cuBLAS runs a bf16 matrix-vector product on the fp32 pipe alone.
        """
        counted = sum(self.flops_by_pipe.values())
        if "tensor" not in self.flops_by_pipe or (not counted and not self.complete):
            return None
        return counted

    @property
    def complete(self) -> bool:
        """Whether every pipe was counted; otherwise `flops` is at least what it says."""
        return all(pipe in self.flops_by_pipe for pipe in PIPES)
