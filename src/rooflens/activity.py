"""Prefill and decode told apart by what a GPU's counters showed: the tensor pipe against device memory.

A sample of 100 ms mixes phases. The model: within a sample the GPU spends a share p in prefill, a share q in decode and
the rest idle; a phase alone shows the same tensor and DRAM activity whenever it runs, so that

    tensor = p x prefill.tensor + q x decode.tensor
    DRAM   = p x prefill.dram   + q x decode.dram

which are two equations for p and q. The two signatures come from the log where it holds both phases apart, else from
the textbook. SM activity (1002) is not used: warps that wait for memory count as active, so that it is high in both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from rooflens.core.activity import Activity, Field
from rooflens.core.hardware import Hardware
from rooflens.errors import InputError


@dataclass(frozen=True, slots=True)
class Signature:
    """What one phase alone shows, each a share in 0..1. origin: where the figures come from."""

    tensor: float
    dram: float
    origin: str


TEXTBOOK_PREFILL = Signature(0.85, 0.30, "textbook: tensor pipe 80-90 %, DRAM 25-35 %")
TEXTBOOK_DECODE = Signature(0.15, 0.90, "textbook: tensor pipe 10-20 %, DRAM 85-95 %")
"""The middles of the figures that textbooks give for dcgmi. They call the first one SM utilisation; decode's low figure
is the tensor pipe's (1004), for 1002 counts warps that wait for memory.

Source: "Profiling Prefill and Decode Separately in Practice", a textbook paragraph for Llama-3-8B; DCGM, field 1002.
"""

_IDLE = 0.02
"""Tensor and DRAM activity together below which a sample says nothing about a phase."""
_APART = 4.0
"""How many times more tensor activity per DRAM activity the one end of a log must show than the other end, for both
phases to be in it; the textbook's differ 17 times, the layers of one phase among themselves about twice."""
_ENDS = 0.05
"""Share of the samples at either end that a signature is taken from."""
_ALIKE = 0.02
"""How far tensor activity as a share of both may differ between samples of one end."""


@dataclass(frozen=True, slots=True)
class PhaseShare:
    """Shares in 0..1 of one sample: prefill, decode, idle; they add up to 1. None where a counter was not sampled.

    bytes_per_s: DRAM activity x the part's bandwidth. sm: field 1002, shown and not used.
    """

    device: str
    seconds: float | None
    prefill: float | None
    decode: float | None
    idle: float | None
    tensor: float | None
    dram: float | None
    sm: float | None
    bytes_per_s: float | None


@dataclass(frozen=True, slots=True)
class ActivityReading:
    """The samples of a log as shares of phases, with the signatures that they were told apart by.

    bandwidth: of the part, byte/s; None where no part was given.
    """

    shares: tuple[PhaseShare, ...]
    prefill: Signature
    decode: Signature
    hardware: str | None
    bandwidth: float | None
    notes: tuple[str, ...] = ()

    def mean(self, figure: str) -> float | None:
        """The mean of one figure of `PhaseShare` over the samples that have it; None where none has."""
        values = [value for share in self.shares if (value := getattr(share, figure)) is not None]
        return fmean(values) if values else None


def read_activity(
    samples: Sequence[Activity], hardware: Hardware | None = None, *, notes: Iterable[str] = ()
) -> ActivityReading:
    """Tell the phases of `samples` apart.

    hardware: the part that they were taken on, for bytes per second; one part for all devices.

    Raises:
        InputError: no samples at all.
    """
    if not samples:
        raise InputError("there are no samples of a GPU's counters; expected rows of `dcgmi dmon` or of dcgm-exporter")
    said = [*notes]
    signatures = _seen(samples)
    if signatures is None:
        said.append("the log does not show both phases apart: they are told by the textbook's figures, which are rough")
        signatures = (TEXTBOOK_PREFILL, TEXTBOOK_DECODE)
    told = [sample for sample in samples if _pair(sample) is not None]
    if not told:
        said.append("tensor (1004) or DRAM activity (1005) was not sampled: phases cannot be told apart")
    bandwidth = None if hardware is None or hardware.memory.bandwidth is None else hardware.memory.bandwidth.value
    shares = tuple(_share(sample, signatures, bandwidth) for sample in samples)
    return ActivityReading(shares, *signatures, None if hardware is None else hardware.name, bandwidth, tuple(said))


def mixture(tensor: float, dram: float, prefill: Signature, decode: Signature) -> tuple[float, float]:
    """Shares in 0..1 of prefill and of decode that add up to (tensor, dram), at most 1 together.

    Derivation: Cramer's rule for the two equations above. A share below 0 lies outside the two signatures: it is 0, and
    the other one is fitted alone by least squares; shares above 1 together are divided by their sum.
    """
    determinant = prefill.tensor * decode.dram - decode.tensor * prefill.dram
    p = (tensor * decode.dram - dram * decode.tensor) / determinant
    q = (dram * prefill.tensor - tensor * prefill.dram) / determinant
    if p < 0:
        p, q = 0.0, _alone(tensor, dram, decode)
    elif q < 0:
        p, q = _alone(tensor, dram, prefill), 0.0
    whole = max(1.0, p + q)
    return p / whole, q / whole


def _alone(tensor: float, dram: float, phase: Signature) -> float:
    """The share of one phase alone that comes nearest."""
    return (tensor * phase.tensor + dram * phase.dram) / (phase.tensor**2 + phase.dram**2)


def _pair(sample: Activity) -> tuple[float, float] | None:
    tensor, dram = sample.get(Field.TENSOR), sample.get(Field.DRAM)
    return None if tensor is None or dram is None else (min(tensor, 1.0), min(dram, 1.0))


def _seen(samples: Iterable[Activity]) -> tuple[Signature, Signature] | None:
    """The signatures of both phases as the log shows them; None where its ends are not apart.

    Every sample is a mixture, so that none lies outside the two phases alone: those with the most and with the least
    tensor activity for their DRAM activity come nearest to them. Of each end the busiest sample counts, which idle time
    dilutes least.
    """
    pairs = [pair for sample in samples if (pair := _pair(sample)) is not None and sum(pair) > _IDLE]
    if len(pairs) < 2:
        return None
    ordered = sorted(pairs, key=_slope)
    few = max(1, round(_ENDS * len(ordered)))
    low, high = _slope(ordered[few - 1]) + _ALIKE, _slope(ordered[-few]) - _ALIKE
    decode = max((pair for pair in pairs if _slope(pair) <= low), key=sum)
    prefill = max((pair for pair in pairs if _slope(pair) >= high), key=sum)
    if prefill[0] * decode[1] < _APART * decode[0] * prefill[1] or not prefill[0] * decode[1]:
        return None
    origin = "seen: the busiest sample at this end of the log"
    return Signature(*prefill, origin), Signature(*decode, origin)


def _slope(pair: tuple[float, float]) -> float:
    """Tensor activity as a share of both, 0..1: the same in a sample that is partly idle."""
    return pair[0] / (pair[0] + pair[1])


def _share(sample: Activity, signatures: tuple[Signature, Signature], bandwidth: float | None) -> PhaseShare:
    tensor, dram = sample.get(Field.TENSOR), sample.get(Field.DRAM)
    pair = _pair(sample)
    prefill, decode = mixture(*pair, *signatures) if pair is not None else (None, None)
    return PhaseShare(
        device=sample.device,
        seconds=sample.seconds,
        prefill=prefill,
        decode=decode,
        idle=None if prefill is None or decode is None else max(0.0, 1 - prefill - decode),
        tensor=tensor,
        dram=dram,
        sm=sample.get(Field.SM),
        bytes_per_s=None if dram is None or bandwidth is None else dram * bandwidth,
    )
