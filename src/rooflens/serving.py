"""What passed through a server between two snapshots: tokens, batch and context, queueing, its own estimates."""

from __future__ import annotations

from dataclasses import dataclass

from rooflens.core.reading import Estimated, Queue, Workload
from rooflens.core.server import Gauge, Histogram, Snapshot, Total


@dataclass(frozen=True, slots=True)
class Change:
    """What changed between two snapshots; None where it is not exported."""

    before: Snapshot
    after: Snapshot
    seconds: float

    def total(self, name: Total) -> float | None:
        """How much a counter grew."""
        return _less(self.after.totals.get(name), self.before.totals.get(name))

    def rate(self, name: Total) -> float | None:
        """The same per second."""
        grown = self.total(name)
        return None if grown is None else grown / self.seconds

    def observed(self, name: Histogram) -> tuple[float, float] | None:
        """(sum, number) of the observations of the interval."""
        after, before = self.after.histograms.get(name), self.before.histograms.get(name)
        if after is None or before is None:
            return None
        return max(0.0, after.total - before.total), max(0.0, after.count - before.count)

    def mean(self, name: Histogram) -> float | None:
        """Mean of the observations of the interval."""
        found = self.observed(name)
        return found[0] / found[1] if found is not None and found[1] else None

    def gauge(self, name: Gauge) -> float | None:
        """The mean of both ends."""
        ends = (self.before.gauges.get(name), self.after.gauges.get(name))
        return None if ends[0] is None or ends[1] is None else (ends[0] + ends[1]) / 2


def _less(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else max(0.0, after - before)


def workload_of(change: Change, *, prompt: int | None, context: int | None) -> Workload:
    """Tokens per second, lengths, batch and context of the interval; `prompt` and `context` where none is exported.

    Derivation: mean sequences in decode = sum of gaps between tokens / seconds (Little's law, L = rate x time); where
    gaps are not exported, the mean of the running sequences at both ends. The first token comes out of prefill, so that
    decode gave the others.
    """
    computed, cached = _prompt_tokens(change)
    first = change.observed(Histogram.TTFT) or change.observed(Histogram.PROMPT_TOKENS)
    prompts = None if first is None else first[1] / change.seconds
    generated, decoded = _generated(change, prompts or 0.0)
    length, prefix = _lengths(computed, cached, prompts, prompt) or _lifetime(change.after)
    drafts, drafted, accepted = (change.total(t) for t in (Total.DRAFTS, Total.DRAFT_TOKENS, Total.ACCEPTED))
    batch = _batch(change)
    return Workload(
        computed_per_s=computed,
        cached_per_s=cached,
        generated_per_s=generated,
        decoded_per_s=decoded,
        prompts_per_s=prompts,
        prompt_tokens=length,
        prefix_tokens=prefix,
        batch=batch,
        context=_context(change, context),
        tokens_per_step=1 + accepted / drafts if drafts and accepted is not None else 1.0,
        drafted=round(drafted / drafts) if drafts and drafted is not None else 0,
    )


def _prompt_tokens(change: Change) -> tuple[float | None, float | None]:
    """Computed and cached prompt tokens per second; all count as computed where cached ones are not told of."""
    prompt, cached, computed = (change.rate(total) for total in (Total.PROMPT, Total.CACHED, Total.COMPUTED))
    if computed is None and prompt is not None:
        computed = max(0.0, prompt - (cached or 0.0))
    return computed, cached


def _generated(change: Change, first_per_s: float) -> tuple[float | None, float | None]:
    """Tokens per second, all and those of decode: as decode counts them, else the engine's own rate, else both."""
    decoded = change.rate(Total.DECODED)
    if decoded is None:
        decoded = change.gauge(Gauge.THROUGHPUT)
    if decoded is not None:
        return decoded + first_per_s, decoded
    generated = change.rate(Total.GENERATED)
    return generated, None if generated is None else max(0.0, generated - first_per_s)


def _lengths(
    computed: float | None, cached: float | None, prompts: float | None, prompt: int | None
) -> tuple[float, float] | None:
    """Mean tokens of a prompt: computed, and before them cached; None where the interval tells none."""
    if prompts and computed is not None:
        return computed / prompts, (cached or 0.0) / prompts
    if prompt is None or computed is None:
        return None
    share = (cached or 0.0) / ((cached or 0.0) + computed) if computed else 0.0
    return prompt * (1 - share), prompt * share


def _lifetime(snapshot: Snapshot) -> tuple[float | None, float | None]:
    """The same over all prompts since the server started, where the interval saw none end but tokens of some."""
    first = snapshot.histograms.get(Histogram.TTFT) or snapshot.histograms.get(Histogram.PROMPT_TOKENS)
    prompt, cached, computed = (snapshot.totals.get(total) for total in (Total.PROMPT, Total.CACHED, Total.COMPUTED))
    if computed is None and prompt is not None:
        computed = max(0.0, prompt - (cached or 0.0))
    if first is None or not first.count or computed is None:
        return None, None
    return computed / first.count, (cached or 0.0) / first.count


def _batch(change: Change) -> float | None:
    gaps = change.observed(Histogram.INTER_TOKEN)
    if gaps is not None and gaps[0] > 0:
        return max(1.0, gaps[0] / change.seconds)
    running = change.gauge(Gauge.RUNNING)
    return max(1.0, running) if running else None


def _context(change: Change, context: int | None) -> float | None:
    """Tokens that each sequence holds: as it was given, else cache use x capacity / running sequences."""
    if context is not None:
        return float(context)
    usage, tokens, running = (change.gauge(g) for g in (Gauge.KV_USAGE, Gauge.KV_TOKENS, Gauge.RUNNING))
    return usage * tokens / running if usage and tokens and running else None


def queue_of(change: Change) -> Queue:
    """Queueing and latency as the engine measured them."""
    return Queue(
        running=change.gauge(Gauge.RUNNING),
        waiting=change.gauge(Gauge.WAITING),
        queue_s=change.mean(Histogram.QUEUE),
        ttft_s=change.mean(Histogram.TTFT),
        inter_token_s=change.mean(Histogram.INTER_TOKEN),
        prefill_s=change.mean(Histogram.PREFILL),
        decode_s=change.mean(Histogram.DECODE),
        step_tokens=change.mean(Histogram.STEP_TOKENS),
        preemptions_per_s=change.rate(Total.PREEMPTIONS),
    )


def estimated_of(change: Change) -> Estimated:
    """The engine's own estimate for one GPU; bytes read and written together."""
    read_, write = change.rate(Total.ESTIMATED_READ), change.rate(Total.ESTIMATED_WRITE)
    moved = None if read_ is None else read_ + (write or 0.0)
    return Estimated(change.rate(Total.ESTIMATED_FLOPS), moved)


def accepted_of(change: Change) -> tuple[float, ...]:
    """Share of passes whose draft at each position was accepted; nothing where positions are not exported."""
    drafts = change.total(Total.DRAFTS)
    before, after = change.before.accepted, change.after.accepted
    if not drafts or len(before) != len(after):
        return ()
    return tuple(max(0.0, new - old) / drafts for old, new in zip(before, after, strict=True))


def origins_of(change: Change, work: Workload, *, context: int | None) -> tuple[tuple[str, str], ...]:
    """(figure, where it comes from) of what is not simply a counter's rate."""
    found = []
    if work.batch is not None:
        gaps = change.observed(Histogram.INTER_TOKEN)
        by_gaps = gaps is not None and gaps[0] > 0
        found.append(("batch", "sum of gaps between tokens / seconds" if by_gaps else "running sequences at both ends"))
    if work.prompt_tokens is not None and work.computed_per_s:
        span = "of the interval" if work.prompts_per_s else "since the server started, or as given"
        found.append(("tokens of a prompt", f"mean {span}"))
    if work.context is not None:
        told = "KV cache use x its tokens / running sequences"
        found.append(("context", told if context is None else "given"))
    if work.decoded_per_s is not None:
        found.append(("decoded tokens", _decoded_origin(change)))
    return tuple(found)


def _decoded_origin(change: Change) -> str:
    if change.rate(Total.DECODED) is not None:
        return "counted by the engine as they run"
    if change.gauge(Gauge.THROUGHPUT) is not None:
        return "the engine's own rate, mean of both ends"
    return "generated tokens less the first one of each prompt"
