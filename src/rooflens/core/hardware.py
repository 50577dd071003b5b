"""Hardware: what an accelerator can do, each figure with the source that says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from rooflens.core.op import DType, Provenance
from rooflens.errors import UnknownPeakError

STABLE_SPREAD = 0.10
"""The spread up to which a measured figure counts as stable."""


class KernelShape(str, Enum):
    """A shape of kernel that decode is made of, and whose own ceiling can be measured.

    m1_linear: a linear layer over one row of activations; skinny_linear: over 16 rows; decode_attention: one query
    of each sequence over a long KV cache.
    """

    M1_LINEAR = "m1_linear"
    SKINNY_LINEAR = "skinny_linear"
    DECODE_ATTENTION = "decode_attention"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Ceiling:
    """One figure of a part and where it comes from. The unit is said by the field that holds it.

    spread: (largest - smallest) / median of the repeats of a measured figure, from 0; None where nothing was repeated.
    """

    value: float
    provenance: Provenance
    spread: float | None = None

    @property
    def stable(self) -> bool:
        """Whether repeats lie within a tenth of their median; a figure that was not repeated counts as stable."""
        return self.spread is None or self.spread <= STABLE_SPREAD


@dataclass(frozen=True, slots=True)
class MemoryLevel:
    """A level of memory: `bandwidth` in byte/s, `capacity` in bytes; None where it is not known.

    patterns: measured byte/s of "read", "copy" and "triad", and of "copy_nt" and "triad_nt" whose stores bypass the
    caches; N bytes of each array that is named in the source line count, write-allocates do not. The bandwidth of a
    measured level is that of "read".
    """

    name: str
    bandwidth: Ceiling | None = None
    capacity: Ceiling | None = None
    patterns: Mapping[str, Ceiling] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Link:
    """A link to other devices: rates in byte/s, one direction and both; None where not known."""

    name: str
    per_direction: Ceiling | None = None
    total: Ceiling | None = None


@dataclass(frozen=True, slots=True)
class Roof:
    """A peak in FLOP/s with a bandwidth in byte/s: the roofline of one dtype at one memory level."""

    peak: float
    bandwidth: float
    dtype: DType
    level: str
    units: str = "matrix"


@dataclass(frozen=True, slots=True)
class Conflict:
    """A figure that sources disagree about: every value, which one is used, and why."""

    field: str
    values: tuple[str, ...]
    used: str
    why: str


@dataclass(frozen=True, slots=True)
class Hardware:
    """An accelerator. Peaks are dense and in FLOP/s (OP/s for integers); sizes in bytes.

    matrix: peaks of the matrix units by dtype (tensor cores, matrix cores, MXU).
    vector: peaks of the vector units by dtype (CUDA cores, shaders).
    absent: dtypes that the part's matrix units do not have, as opposed to not known.
    memory: the device memory; `memory_label` is the vendor's size, `memory_bytes` what the driver reports.
    kernels: measured byte/s (weights and activations, or KV) that kernels of a shape reach in a dtype.
    conditions: what held while figures were measured, as (name, value): processor, threads, clock, date.
    """

    name: str
    title: str
    vendor: str
    architecture: str
    memory: MemoryLevel
    matrix: Mapping[DType, Ceiling] = field(default_factory=dict)
    vector: Mapping[DType, Ceiling] = field(default_factory=dict)
    absent: frozenset[DType] = frozenset()
    memory_label: Ceiling | None = None
    memory_driver: Ceiling | None = None
    caches: tuple[MemoryLevel, ...] = ()
    links: tuple[Link, ...] = ()
    power_w: Ceiling | None = None
    multiprocessors: Ceiling | None = None
    boost_hz: Ceiling | None = None
    aliases: tuple[str, ...] = ()
    device_names: tuple[str, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    notes: tuple[str, ...] = ()
    confidence: str = ""
    origin: str = "data sheet"
    kernels: Mapping[tuple[KernelShape, DType], Ceiling] = field(default_factory=dict)
    conditions: tuple[tuple[str, str], ...] = ()

    @property
    def memory_bytes(self) -> Ceiling | None:
        """Device memory in bytes: what the driver reports where known, else the vendor's label."""
        return self.memory_driver or self.memory_label

    def peak(self, dtype: DType) -> Ceiling | None:
        """Peak in FLOP/s for matrix multiplication in `dtype`, or None where none is published.

        The matrix units' peak where they have the dtype, else the vector units' (fp32 without TF32).
        """
        return self.matrix.get(dtype) or self.vector.get(dtype)

    def dtypes(self) -> tuple[DType, ...]:
        """The dtypes with a known peak, in the order of `DType`."""
        return tuple(d for d in DType if self.peak(d) is not None)

    def roof(self, dtype: DType) -> Roof:
        """The roofline of `dtype` over device memory.

        Raises:
            UnknownPeakError: the part has no published peak for `dtype`; names those it has.
        """
        ceiling = self.peak(dtype)
        if ceiling is None:
            raise UnknownPeakError(self._no_peak(dtype))
        assert self.memory.bandwidth is not None
        units = "matrix" if dtype in self.matrix else "vector"
        return Roof(ceiling.value, self.memory.bandwidth.value, dtype, self.memory.name, units)

    def vector_roof(self, fallback: DType) -> Roof:
        """The roofline of norms and pointwise kernels: fp32 on the vector units.

        Where that peak is not published the one of `fallback` stands in: it is higher, so that a
        floor computed with it still is a floor.
        """
        ceiling = self.vector.get(DType.FP32)
        if ceiling is None:
            return self.roof(fallback)
        assert self.memory.bandwidth is not None
        return Roof(ceiling.value, self.memory.bandwidth.value, DType.FP32, self.memory.name, "vector")

    def _no_peak(self, dtype: DType) -> str:
        has = ", ".join(str(d) for d in self.dtypes())
        state = "its matrix units do not have it" if dtype in self.absent else "its peak is not published"
        known = f"it has {has}" if has else "no peak of it is published: put measured ones into a TOML file"
        return f"{self.name} cannot be placed under a {dtype} roof: {state}; {known}"
