"""Op: one kernel (or several alike) with its FLOP, its typed traffic and its shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum

from rooflens.core.arrays import Count, is_array, plus, ratio
from rooflens.core.dtype import DType as DType


class OpKind(str, Enum):
    """What a kernel is, in the field's words."""

    GEMM = "gemm"
    EXPERTS = "experts"
    ATTENTION = "attention"
    EMBEDDING = "embedding"
    NORM = "norm"
    ROTARY = "rotary"
    ACTIVATION = "activation"
    RESIDUAL = "residual"
    COPY = "copy"
    SOFTMAX = "softmax"
    SCAN = "scan"
    CONVOLUTION = "convolution"
    INDEXER = "indexer"
    POINTWISE = "pointwise"
    REDUCTION = "reduction"
    COLLECTIVE = "collective"
    SAMPLING = "sampling"
    OTHER = "other"

    def __str__(self) -> str:
        return self.value

    @property
    def on_matrix_units(self) -> bool:
        """Whether the kernel multiplies matrices; the others run on the vector units."""
        return self in (OpKind.GEMM, OpKind.EXPERTS, OpKind.ATTENTION, OpKind.SCAN, OpKind.INDEXER)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that cross device memory (and the link), by kind; every field is an int or an array."""

    weights: Count = 0
    kv_read: Count = 0
    kv_write: Count = 0
    activations: Count = 0
    state: Count = 0
    link: Count = 0

    @property
    def memory(self) -> Count:
        """Bytes over the memory bus: all kinds but `link`."""
        return plus(self.weights, self.kv_read, self.kv_write, self.activations, self.state)

    @property
    def total(self) -> Count:
        """All bytes, in bytes."""
        return plus(self.memory, self.link)

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic.total_of((self, other))

    @classmethod
    def total_of(cls, traffics: Sequence[Traffic]) -> Traffic:
        """The sum of `traffics`, kind by kind."""
        return cls(*(plus(*(getattr(traffic, f.name) for traffic in traffics)) for f in fields(cls)))

    def times(self, factor: int) -> Traffic:
        """Every kind multiplied by `factor`."""
        return Traffic(*(_scaled(getattr(self, f.name), factor) for f in fields(self)))


def _scaled(count: Count, factor: int) -> Count:
    return count * factor if is_array(count) or count else 0


@dataclass(frozen=True, slots=True)
class GemmShape:
    """y[m, n] = x[m, k] @ W[k, n] (+ bias[n])."""

    m: Count
    n: int
    k: int
    bias: bool = False


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Scores and weighted sum of `sequences` x `q_tokens` queries.

    `pairs` counts (query, key) pairs of one sequence and one head that are multiplied;
    `kv_tokens` is how many cached tokens of one sequence are read.
    """

    sequences: Count
    q_tokens: Count
    kv_tokens: Count
    pairs: Count
    heads: int
    kv_heads: int
    d_k: int
    d_v: int


@dataclass(frozen=True, slots=True)
class ExpertShape:
    """Grouped GEMM: `m` routed rows over the `experts` distinct matrices W[k, n] that they touch."""

    m: Count
    n: int
    k: int
    experts: Count
    bias: bool = False


@dataclass(frozen=True, slots=True)
class ScanShape:
    """A recurrence over `tokens` tokens of each of `sequences` sequences with `state` values each.

    chunk: tokens of a chunk in the chunked form, 0 where the state is stepped token by token.
    """

    sequences: Count
    tokens: Count
    state: int
    chunk: int


@dataclass(frozen=True, slots=True)
class PointwiseShape:
    """`flops_per_value` operations on each of `rows` x `width` values."""

    rows: Count
    width: int
    flops_per_value: int

    @property
    def values(self) -> Count:
        """How many values there are."""
        return self.rows * self.width


Shape = GemmShape | ExpertShape | AttentionShape | ScanShape | PointwiseShape


@dataclass(frozen=True, slots=True)
class Op:
    """A kernel that runs `count` times; `flops`, `traffic` and `leaving_bytes` are totals over `count`.

    flops: everything counted, in FLOP (a multiply-add is 2).
    model_flops: matrix multiplications and attention alone, the numerator of MFU.
    traffic: bytes by kind.
    leaving_bytes: activations that leave the model (logits), a part of `traffic.activations`: they are
        compulsory even where every other activation stays on chip.
    dtype: the arithmetic, which selects the roof.
    shape: of one of the `count` kernels.
    """

    name: str
    kind: OpKind
    dtype: DType
    flops: Count
    model_flops: Count
    traffic: Traffic
    shape: Shape
    count: int = 1
    leaving_bytes: Count = 0

    @property
    def intensity(self) -> Count:
        """FLOP per byte of memory traffic; infinite or not-a-number where no byte moves."""
        return ratio(self.flops, self.traffic.memory)

    @property
    def compulsory_bytes(self) -> Count:
        """Bytes that any implementation moves: weights, KV, state, and what leaves the model."""
        t = self.traffic
        return plus(t.weights, t.kv_read, t.kv_write, t.state, self.leaving_bytes)

    def times(self, count: int) -> Op:
        """The same kernel run `count` times as often."""
        if count == 1:
            return self
        flops = _scaled(self.flops, count)
        return replace(
            self,
            count=self.count * count,
            flops=flops,
            model_flops=flops if self.model_flops is self.flops else _scaled(self.model_flops, count),
            traffic=self.traffic.times(count),
            leaving_bytes=_scaled(self.leaving_bytes, count),
        )


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a figure comes from: data sheet, third party (a collection of such figures), driver, measured, calibrated,
    derived, or user."""

    kind: str
    source: str
    note: str = field(default="")
