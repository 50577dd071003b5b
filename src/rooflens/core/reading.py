"""Reading: what a server did over one interval, as work under the roofs of its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rooflens.core.activity import Activity
from rooflens.core.profile import Bound
from rooflens.core.scenario import Precision


@dataclass(frozen=True, slots=True)
class Workload:
    """What passed through the engine over the interval; None is not exported.

    Rates in tokens/s: computed and cached prompt tokens, generated tokens, and those that decode gave. prompts: whose
    prefill ended, per second. prompt_tokens: computed of a prompt, a mean; prefix_tokens: cached of it. batch:
    sequences that decode, a mean over the interval; context: tokens that each holds. tokens_per_step: of a sequence,
    above 1 with accepted drafts; drafted: tokens that a pass verifies beside the one it adds.
    """

    computed_per_s: float | None = None
    cached_per_s: float | None = None
    generated_per_s: float | None = None
    decoded_per_s: float | None = None
    prompts_per_s: float | None = None
    prompt_tokens: float | None = None
    prefix_tokens: float | None = None
    batch: float | None = None
    context: float | None = None
    tokens_per_step: float = 1.0
    drafted: int = 0


@dataclass(frozen=True, slots=True)
class Rates:
    """Work per second of all parts together, counted from the model's shapes.

    flops, model_flops: FLOP/s. memory: byte/s of device memory, of weights and kv (read and written) among them.
    mfu, mbu: model FLOP and compulsory bytes over what the parts could do, 0..; busy: share of the interval that the
    work needs at its roofs, kernel by kernel. Above 1 none of the three is possible.
    """

    flops: float
    model_flops: float
    memory: float
    weights: float
    kv: float
    mfu: float
    mbu: float
    busy: float

    @property
    def intensity(self) -> float | None:
        """FLOP per byte of memory traffic; None where no byte moves."""
        return self.flops / self.memory if self.memory else None


@dataclass(frozen=True, slots=True)
class Queue:
    """Sequences that run and wait (means of the two ends), and mean seconds of what the interval saw; None unknown.

    ttft_s holds queue_s; inter_token_s is the gap between two tokens of a sequence.
    """

    running: float | None = None
    waiting: float | None = None
    queue_s: float | None = None
    ttft_s: float | None = None
    inter_token_s: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    step_tokens: float | None = None
    preemptions_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Cache:
    """The KV cache at the end of the interval: share held, 0..1, and tokens that fit; None where it is not exported."""

    usage: float | None = None
    tokens: float | None = None


@dataclass(frozen=True, slots=True)
class Estimated:
    """The engine's own estimate for one GPU, FLOP/s and byte/s, None where it is not exported."""

    flops_per_s: float | None = None
    bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """One interval of a server.

    seconds: length. parts: GPUs that share the work (tp x replicas). peak, bandwidth, ridge_point: of one part, FLOP/s
    and byte/s and FLOP/byte, in the dtype of the linear layers. prefill, decode, total: None where what they need is
    not exported, as `notes` says. bound: what holds most of `total.busy`. accepted: share of passes whose draft at each
    position was accepted. origins: (figure, where it comes from).
    """

    engine: str
    model: str
    hardware: str
    precision: Precision
    seconds: float
    parts: int
    peak: float
    bandwidth: float
    ridge_point: float
    workload: Workload
    queue: Queue
    cache: Cache
    prefill: Rates | None = None
    decode: Rates | None = None
    total: Rates | None = None
    bound: Bound | None = None
    bound_share: Mapping[Bound, float] | None = None
    estimated: Estimated = Estimated()
    accepted: tuple[float, ...] = ()
    activities: tuple[Activity, ...] = ()
    origins: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def attainable(self) -> float | None:
        """FLOP/s that the parts' roofs allow at the intensity of `total`; None where that is not known."""
        if self.total is None or self.total.intensity is None:
            return None
        return self.parts * min(self.peak, self.bandwidth * self.total.intensity)

    @property
    def limits(self) -> dict[str, float]:
        """Share of each limit that is used, 0..; limits that are not known are left out."""
        found = {} if self.total is None else {"compute": self.total.mfu, "memory": self.total.mbu}
        return found if self.cache.usage is None else {**found, "kv_cache": self.cache.usage}

    @property
    def next_limit(self) -> str | None:
        """The limit that is used most, which the same mix of work reaches first; None where none is known."""
        return max(self.limits, key=lambda name: self.limits[name], default=None)
