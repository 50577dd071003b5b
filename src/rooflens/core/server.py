"""Snapshot: what a serving engine or an exporter of GPU counters told of itself at one instant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from rooflens.core.activity import Activity


class Total(str, Enum):
    """What an engine counts up since it started: tokens, passes, FLOP, bytes.

    PROMPT: all tokens of prompts, those out of a cache among them; COMPUTED and CACHED its parts. GENERATED: first
    tokens, which prefill gives, among them; DECODED: without them. ESTIMATED_*: the engine's own, of one GPU.
    """

    PROMPT = "prompt_tokens"
    COMPUTED = "computed_prompt_tokens"
    CACHED = "cached_prompt_tokens"
    GENERATED = "generated_tokens"
    DECODED = "decoded_tokens"
    DRAFTS = "drafts"
    DRAFT_TOKENS = "draft_tokens"
    ACCEPTED = "accepted_tokens"
    PREEMPTIONS = "preemptions"
    ESTIMATED_FLOPS = "estimated_flops"
    ESTIMATED_READ = "estimated_read_bytes"
    ESTIMATED_WRITE = "estimated_write_bytes"


class Gauge(str, Enum):
    """What holds at the instant: sequences, a share in 0..1, tokens, tokens/s."""

    RUNNING = "running"
    WAITING = "waiting"
    KV_USAGE = "kv_usage"
    KV_TOKENS = "kv_capacity_tokens"
    THROUGHPUT = "generation_tokens_per_s"


class Histogram(str, Enum):
    """Sums of observations with their number: seconds, or tokens where the name says so."""

    TTFT = "ttft_s"
    INTER_TOKEN = "inter_token_s"
    QUEUE = "queue_s"
    PREFILL = "prefill_s"
    DECODE = "decode_s"
    INFERENCE = "inference_s"
    PROMPT_TOKENS = "request_prompt_tokens"
    STEP_TOKENS = "step_tokens"


@dataclass(frozen=True, slots=True)
class Observed:
    """The sum of all observations since the start, and their number."""

    total: float
    count: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One answer of a /metrics endpoint; what it does not export is not there.

    engine: "vllm", "sglang", or "" where only GPUs are told of. seconds: when it was read, on a clock that only goes
    up. models: served names. engines: replicas that are added up. series: each total by itself, by name and labels,
    which tells a restart. accepted: drafted tokens that were accepted at each position. activities: of GPUs.
    """

    engine: str
    seconds: float
    models: tuple[str, ...] = ()
    engines: int = 1
    totals: Mapping[Total, float] = field(default_factory=dict)
    gauges: Mapping[Gauge, float] = field(default_factory=dict)
    histograms: Mapping[Histogram, Observed] = field(default_factory=dict)
    accepted: tuple[float, ...] = ()
    series: Mapping[str, float] = field(default_factory=dict)
    activities: tuple[Activity, ...] = ()
    notes: tuple[str, ...] = ()
