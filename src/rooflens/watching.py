"""Two snapshots of a server to a reading: its tokens as prefill and decode passes, under the roofs of its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rooflens.core.hardware import Hardware
from rooflens.core.model import ModelSpec
from rooflens.core.op import Op
from rooflens.core.profile import Bound, PhaseProfile, largest
from rooflens.core.reading import Cache, Estimated, Queue, Rates, Reading, Workload
from rooflens.core.scenario import Batch, Conventions, Phase, PhaseKind, Precision
from rooflens.core.server import Gauge, Histogram, Snapshot, Total
from rooflens.count import forward
from rooflens.errors import InputError
from rooflens.roofline import place_phase, ridge_point


@dataclass(frozen=True, slots=True)
class Watched:
    """What is served, and where: `tp` GPUs for each replica.

    prompt, context: tokens, where the server does not tell them.
    """

    model: ModelSpec
    hardware: Hardware
    precision: Precision
    tp: int = 1
    prompt: int | None = None
    context: int | None = None
    conventions: Conventions = field(default_factory=Conventions)

    def __post_init__(self) -> None:
        """Raises InputError for sizes that are not whole numbers from 1 (context from 0)."""
        for name, value, least in (("tp", self.tp, 1), ("prompt", self.prompt, 1), ("context", self.context, 0)):
            if value is not None and value < least:
                raise InputError(f"{name} is {value}; expected a whole number from {least}")


def restarted(before: Snapshot, after: Snapshot) -> str | None:
    """The first counter that went down between two snapshots, so that their difference means nothing; None for none."""
    fell = (name for name, value in before.series.items() if after.series.get(name, value) < value)
    return next(fell, None)


def read(before: Snapshot, after: Snapshot, watched: Watched) -> Reading:
    """What the server did between `before` and `after`.

    Prefill: each prompt is a pass of the mean computed length behind the mean cached length; decode: each step is a
    pass of the mean batch at the mean context, so that steps = decoded tokens / (batch x tokens of a step). Each pass
    reads the weights once: chunks of a prompt and mixed batches are not told of, so that weight bytes of prefill are
    those of one prompt at a time. Work is shared evenly by the parts; bytes over links are not counted.

    Derivation: mean sequences in decode = sum of gaps between tokens / seconds (Little's law, L = rate x time); where
    gaps are not exported, the mean of the running sequences at both ends.

    Raises:
        InputError: counters that went down (the server restarted), no time between the two, or two engines.
    """
    _check(before, after)
    seconds = after.seconds - before.seconds
    change = _Change(before, after, seconds)
    work = _workload(change, watched)
    parts = watched.tp * after.engines
    prefill, decode = _prefill(work, watched), _decode(work, watched, after.engines)
    passes = [one for one in (prefill, decode) if one is not None]
    roof = watched.hardware.roof(watched.precision.compute)
    shares = _bound_share(passes)
    whole = work.decoded_per_s is not None and work.computed_per_s is not None
    complete = (
        whole and (decode is not None or not work.decoded_per_s) and (prefill is not None or not work.computed_per_s)
    )
    reading = Reading(
        engine=after.engine,
        model=watched.model.name,
        hardware=watched.hardware.name,
        precision=watched.precision,
        seconds=seconds,
        parts=parts,
        peak=roof.peak,
        bandwidth=roof.bandwidth,
        ridge_point=ridge_point(roof),
        workload=work,
        queue=_queue(change),
        cache=Cache(after.gauges.get(Gauge.KV_USAGE), after.gauges.get(Gauge.KV_TOKENS)),
        prefill=None if prefill is None else _rates([prefill], parts),
        decode=None if decode is None else _rates([decode], parts),
        total=_rates(passes, parts) if complete else None,
        bound=largest(shares) if shares and complete else None,
        bound_share=shares if complete else None,
        estimated=_estimated(change),
        accepted=_accepted(change),
        activities=after.activities,
    )
    return replace(reading, notes=tuple(_notes(reading, change, watched)))


def _check(before: Snapshot, after: Snapshot) -> None:
    if after.engine != before.engine or not after.engine:
        raise InputError(
            f"metrics of {before.engine or 'no engine'} and of {after.engine or 'no engine'} do not compare"
        )
    if after.seconds <= before.seconds:
        raise InputError("no time passed between the two snapshots; expected them in order")
    fell = restarted(before, after)
    if fell is not None:
        raise InputError(f"{fell[:160]} went down: the server restarted, and this interval is skipped")


@dataclass(frozen=True, slots=True)
class _Change:
    """What changed between two snapshots; None where it is not exported."""

    before: Snapshot
    after: Snapshot
    seconds: float

    def total(self, name: Total) -> float | None:
        return _less(self.after.totals.get(name), self.before.totals.get(name))

    def rate(self, name: Total) -> float | None:
        grown = self.total(name)
        return None if grown is None else grown / self.seconds

    def observed(self, name: Histogram) -> tuple[float, float] | None:
        """(sum, number) of the observations of the interval."""
        after, before = self.after.histograms.get(name), self.before.histograms.get(name)
        if after is None or before is None:
            return None
        return max(0.0, after.total - before.total), max(0.0, after.count - before.count)

    def mean(self, name: Histogram) -> float | None:
        found = self.observed(name)
        return found[0] / found[1] if found is not None and found[1] else None

    def gauge(self, name: Gauge) -> float | None:
        """The mean of both ends."""
        ends = (self.before.gauges.get(name), self.after.gauges.get(name))
        return None if ends[0] is None or ends[1] is None else (ends[0] + ends[1]) / 2


def _less(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else max(0.0, after - before)


def _workload(change: _Change, watched: Watched) -> Workload:
    computed, cached = _prompt_tokens(change)
    generated = change.rate(Total.GENERATED)
    first = change.observed(Histogram.TTFT)
    prompts = None if first is None else first[1] / change.seconds
    decoded = change.rate(Total.DECODED)
    if decoded is None and generated is not None:
        decoded = max(0.0, generated - (prompts or 0.0))
    length, prefix = _lengths(computed, cached, prompts, watched)
    drafts, drafted, accepted = (change.total(t) for t in (Total.DRAFTS, Total.DRAFT_TOKENS, Total.ACCEPTED))
    batch = _batch(change)
    return Workload(
        computed_per_s=computed,
        cached_per_s=cached,
        generated_per_s=decoded if generated is None else generated,
        decoded_per_s=decoded,
        prompts_per_s=prompts,
        prompt_tokens=length,
        prefix_tokens=prefix,
        batch=batch,
        context=_context(change, watched),
        tokens_per_step=1 + accepted / drafts if drafts and accepted is not None else 1.0,
        drafted=round(drafted / drafts) if drafts and drafted is not None else 0,
    )


def _prompt_tokens(change: _Change) -> tuple[float | None, float | None]:
    """Computed and cached prompt tokens per second; all count as computed where cached ones are not told of."""
    prompt, cached, computed = (change.rate(total) for total in (Total.PROMPT, Total.CACHED, Total.COMPUTED))
    if computed is None and prompt is not None:
        computed = max(0.0, prompt - (cached or 0.0))
    return computed, cached


def _lengths(
    computed: float | None, cached: float | None, prompts: float | None, watched: Watched
) -> tuple[float | None, float | None]:
    """Mean tokens of a prompt: computed, and before them cached."""
    if prompts and computed is not None:
        return computed / prompts, (cached or 0.0) / prompts
    if watched.prompt is None or computed is None:
        return None, None
    share = (cached or 0.0) / ((cached or 0.0) + computed) if computed else 0.0
    return watched.prompt * (1 - share), watched.prompt * share


def _batch(change: _Change) -> float | None:
    gaps = change.observed(Histogram.INTER_TOKEN)
    if gaps is not None and gaps[0] > 0:
        return max(1.0, gaps[0] / change.seconds)
    running = change.gauge(Gauge.RUNNING)
    return max(1.0, running) if running else None


def _context(change: _Change, watched: Watched) -> float | None:
    """Tokens that each sequence holds: as it was given, else cache use x capacity / running sequences."""
    if watched.context is not None:
        return float(watched.context)
    usage, tokens, running = (change.gauge(g) for g in (Gauge.KV_USAGE, Gauge.KV_TOKENS, Gauge.RUNNING))
    return usage * tokens / running if usage and tokens and running else None


@dataclass(frozen=True, slots=True)
class _Passes:
    """A phase as it is counted, and how many of its passes run per second."""

    placed: PhaseProfile
    per_s: float


def _prefill(work: Workload, watched: Watched) -> _Passes | None:
    """Whole numbers of tokens are counted; the number of passes makes up for the rounding."""
    if not work.computed_per_s or work.prompt_tokens is None:
        return None
    tokens = max(1, round(work.prompt_tokens))
    batch = Batch(1, tokens, round(work.prefix_tokens or 0))
    phase = Phase(PhaseKind.PREFILL, batch)
    ops = forward(watched.model, phase, watched.precision, watched.conventions)
    placed = place_phase(phase, ops, watched.hardware, watched.precision.compute)
    return _Passes(placed, work.computed_per_s / tokens)


def _decode(work: Workload, watched: Watched, engines: int) -> _Passes | None:
    if not work.decoded_per_s or work.batch is None or work.context is None:
        return None
    sequences = max(1, round(work.batch / engines))
    phase = Phase(PhaseKind.DECODE, Batch(sequences, 1 + work.drafted, round(work.context)))
    placed = place_phase(phase, _step(phase, watched), watched.hardware, watched.precision.compute)
    return _Passes(placed, work.decoded_per_s / (sequences * work.tokens_per_step))


def _step(phase: Phase, watched: Watched) -> tuple[Op, ...]:
    """The kernels of a decode step; one that verifies drafts runs the output head for each of them."""
    ops = forward(watched.model, phase, watched.precision, watched.conventions)
    if phase.batch.new_tokens == 1:
        return ops
    every = Phase(phase.kind, Batch(phase.batch.tokens, 1, phase.batch.cached_tokens))
    name = watched.model.head.name
    heads = {op.name: op for op in forward(watched.model, every, watched.precision, watched.conventions)}
    return tuple(heads[name] if op.name == name else op for op in ops)


def _rates(passes: list[_Passes], parts: int) -> Rates:
    """Sums over passes per second. One part's peak times `parts` is what MFU, MBU and busy are shares of."""

    def added(figure: str) -> float:
        return sum(one.per_s * float(getattr(one.placed, figure)) for one in passes)

    def moved(*kinds: str) -> float:
        return sum(one.per_s * float(getattr(one.placed.traffic, kind)) for one in passes for kind in kinds)

    bandwidth = passes[0].placed.roof.bandwidth if passes else 1.0
    return Rates(
        flops=added("flops"),
        model_flops=added("model_flops"),
        memory=moved("memory"),
        weights=moved("weights"),
        kv=moved("kv_read", "kv_write"),
        mfu=added("matrix_s") / parts,
        mbu=added("compulsory_bytes") / (bandwidth * parts),
        busy=added("floor_s") / parts,
    )


def _bound_share(passes: list[_Passes]) -> Mapping[Bound, float]:
    """Share of the time at the roofs that each bound holds, 0..1; nothing where no pass ran."""
    held = dict.fromkeys(Bound, 0.0)
    for one in passes:
        for bound, share in one.placed.bound_share.items():
            held[bound] += one.per_s * float(one.placed.floor_s) * float(share)
    whole = sum(held.values())
    return {bound: seconds / whole for bound, seconds in held.items()} if whole else {}


def _queue(change: _Change) -> Queue:
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


def _estimated(change: _Change) -> Estimated:
    read_, write = change.rate(Total.ESTIMATED_READ), change.rate(Total.ESTIMATED_WRITE)
    moved = None if read_ is None else read_ + (write or 0.0)
    return Estimated(change.rate(Total.ESTIMATED_FLOPS), moved)


def _accepted(change: _Change) -> tuple[float, ...]:
    drafts = change.total(Total.DRAFTS)
    before, after = change.before.accepted, change.after.accepted
    if not drafts or len(before) != len(after):
        return ()
    return tuple(max(0.0, new - old) / drafts for old, new in zip(before, after, strict=True))


def _notes(reading: Reading, change: _Change, watched: Watched) -> list[str]:
    """What is not exported, and what the figures therefore leave out."""
    work, notes = reading.workload, [*change.after.notes]
    if work.computed_per_s is None:
        notes.append("prompt tokens are not exported: prefill is not known")
    elif work.cached_per_s is None:
        notes.append("cached prompt tokens are not exported: all count as computed, which is the most there can be")
    if work.computed_per_s and reading.prefill is None:
        notes.append("the number of prompts is not exported: prefill is not known; --prompt gives their length")
    if work.decoded_per_s is None:
        notes.append("generated tokens are not exported: decode is not known")
    elif work.decoded_per_s and work.batch is None:
        notes.append("running sequences are not exported, or none ran: decode is not known")
    elif work.decoded_per_s and work.context is None:
        notes.append("the size of the KV cache is not exported: decode is not known; --context gives the mean context")
    if reading.total is not None and reading.total.busy > 1:
        notes.append(
            "the work needs more time at the roof than there was: --gpu, --tp or a dtype is not the server's, or "
            "prompt tokens were counted at once that ran before"
        )
    if change.after.engines > 1:
        notes.append(
            f"{change.after.engines} replicas are added up, each taken to run on {watched.tp} parts of its own"
        )
    return notes
