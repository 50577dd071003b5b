"""Names of metrics: what is meant -> every name that engines have given it, with the label that selects a part.

Source: vLLM, docs/design/metrics.md, docs/usage/metrics.md and issues 33290 (prompt tokens by source), 30950 (estimated
figures), 56923 (prompt tokens include cached ones); SGLang, docs/references/production_metrics.md and issue 19395.
"""

from __future__ import annotations

from typing import NamedTuple

from rooflens.core.server import Gauge, Histogram, Total


class Name(NamedTuple):
    """A metric without its engine's prefix and without `_total`; (label, values) where only those series count."""

    metric: str
    label: str = ""
    values: tuple[str, ...] = ()


_CACHED_SOURCES = ("local_cache_hit", "external_kv_transfer")

TOTALS: dict[str, dict[Total, tuple[Name, ...]]] = {
    "vllm": {
        Total.PROMPT: (Name("prompt_tokens"),),
        Total.COMPUTED: (Name("prompt_tokens_by_source", "source", ("local_compute",)),),
        Total.CACHED: (
            Name("prompt_tokens_by_source", "source", _CACHED_SOURCES),
            Name("prompt_tokens_cached"),
            Name("prefix_cache_hits"),
            Name("gpu_prefix_cache_hits"),
        ),
        Total.GENERATED: (Name("generation_tokens"),),
        Total.DRAFTS: (Name("spec_decode_num_drafts"),),
        Total.DRAFT_TOKENS: (Name("spec_decode_num_draft_tokens"),),
        Total.ACCEPTED: (Name("spec_decode_num_accepted_tokens"),),
        Total.PREEMPTIONS: (Name("num_preemptions"),),
    },
    "sglang": {
        Total.PROMPT: (
            Name("realtime_tokens", "mode", ("prefill_compute", "prefill_cache")),
            Name("prompt_tokens"),
        ),
        Total.COMPUTED: (Name("realtime_tokens", "mode", ("prefill_compute",)),),
        Total.CACHED: (Name("realtime_tokens", "mode", ("prefill_cache",)), Name("cached_tokens")),
        Total.GENERATED: (Name("generation_tokens"),),
        Total.DECODED: (Name("realtime_tokens", "mode", ("decode",)),),
        Total.PREEMPTIONS: (Name("num_retracted_requests"),),
    },
}
"""Counters, added up over replicas; the first name that is exported holds. SGLang counts `prompt_tokens` when a request
ends and `realtime_tokens` as it runs."""

ESTIMATES: dict[Total, tuple[Name, ...]] = {
    Total.ESTIMATED_FLOPS: (Name("estimated_flops_per_gpu"),),
    Total.ESTIMATED_READ: (Name("estimated_read_bytes_per_gpu"),),
    Total.ESTIMATED_WRITE: (Name("estimated_write_bytes_per_gpu"),),
}
"""Counters of one GPU, in both engines: the mean over replicas."""

GAUGES: dict[str, dict[Gauge, tuple[Name, ...]]] = {
    "vllm": {
        Gauge.RUNNING: (Name("num_requests_running"),),
        Gauge.WAITING: (Name("num_requests_waiting"),),
    },
    "sglang": {
        Gauge.RUNNING: (Name("num_running_reqs"), Name("num_requests_running")),
        Gauge.WAITING: (Name("num_queue_reqs"), Name("queue_req"), Name("num_requests_waiting")),
        Gauge.KV_TOKENS: (Name("max_total_num_tokens"),),
        Gauge.THROUGHPUT: (Name("gen_throughput"),),
    },
}
"""Gauges, added up over replicas."""

USAGE: dict[str, tuple[Name, ...]] = {
    "vllm": (Name("kv_cache_usage_perc"), Name("gpu_cache_usage_perc")),
    "sglang": (Name("full_token_usage"), Name("token_usage")),
}
"""The share of the KV cache that is held, 0..1: the mean over replicas."""

HISTOGRAMS: dict[str, dict[Histogram, tuple[Name, ...]]] = {
    "vllm": {
        Histogram.TTFT: (Name("time_to_first_token_seconds"),),
        Histogram.INTER_TOKEN: (Name("inter_token_latency_seconds"), Name("time_per_output_token_seconds")),
        Histogram.QUEUE: (Name("request_queue_time_seconds"),),
        Histogram.PREFILL: (Name("request_prefill_time_seconds"),),
        Histogram.DECODE: (Name("request_decode_time_seconds"),),
        Histogram.INFERENCE: (Name("request_inference_time_seconds"),),
        Histogram.PROMPT_TOKENS: (Name("request_prompt_tokens"),),
        Histogram.STEP_TOKENS: (Name("iteration_tokens"),),
    },
    "sglang": {
        Histogram.TTFT: (Name("time_to_first_token_seconds"),),
        Histogram.INTER_TOKEN: (Name("inter_token_latency_seconds"),),
        Histogram.QUEUE: (Name("queue_time_seconds"),),
        Histogram.PROMPT_TOKENS: (Name("prompt_tokens_histogram"),),
    },
}
"""Histograms, sums and numbers added up. SGLang's `time_per_output_token_seconds` is a mean of each request, no gap
between tokens, and left out. vLLM's `iteration_tokens_total` ends in a suffix that is taken off like any other."""

ACCEPTED = "spec_decode_num_accepted_tokens_per_pos"
CACHE_CONFIG = "cache_config_info"
EXPORTER = "DCGM_FI_PROF_"
COPIES = frozenset({"tp_rank", "pp_rank", "moe_ep_rank", "pid"})
"""Labels of which each value tells the same again: the ranks of one replica."""
REPLICAS = ("engine", "dp_rank")
