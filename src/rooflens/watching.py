"""Two snapshots of a server to a reading: its tokens as prefill and decode passes, under the roofs of its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rooflens.core.hardware import Hardware, Roof
from rooflens.core.model import ModelSpec
from rooflens.core.op import Op
from rooflens.core.profile import Bound, PhaseProfile, largest
from rooflens.core.reading import Cache, Rates, Reading, Workload
from rooflens.core.scenario import Batch, Conventions, Phase, PhaseKind, Precision
from rooflens.core.server import Gauge, Snapshot, Total
from rooflens.count import forward
from rooflens.errors import InputError
from rooflens.roofline import place_phase, ridge_point
from rooflens.serving import Change, accepted_of, estimated_of, origins_of, queue_of, workload_of


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

    Raises:
        InputError: counters that went down (the server restarted), no time between the two, or two engines.
    """
    _check(before, after)
    change = Change(before, after, after.seconds - before.seconds)
    work = workload_of(change, prompt=watched.prompt, context=watched.context)
    parts = watched.tp * after.engines
    prefill, decode = _prefill(work, watched), _decode(work, watched, after.engines)
    known = prefill is not None and decode is not None
    passes = [*(prefill or ()), *(decode or ())]
    roof = watched.hardware.roof(watched.precision.compute)
    shares = _bound_share(passes) if known else {}
    reading = Reading(
        engine=after.engine,
        model=watched.model.name,
        hardware=watched.hardware.name,
        precision=watched.precision,
        seconds=change.seconds,
        parts=parts,
        peak=roof.peak,
        bandwidth=roof.bandwidth,
        ridge_point=ridge_point(roof),
        workload=work,
        queue=queue_of(change),
        cache=Cache(after.gauges.get(Gauge.KV_USAGE), after.gauges.get(Gauge.KV_TOKENS)),
        prefill=None if prefill is None else _rates(prefill, roof, parts),
        decode=None if decode is None else _rates(decode, roof, parts),
        total=_rates(passes, roof, parts) if known else None,
        bound=largest(shares) if shares else None,
        bound_share=shares if known else None,
        estimated=estimated_of(change),
        accepted=accepted_of(change),
        activities=after.activities,
        origins=(*_figures(watched, roof), *origins_of(change, work, context=watched.context)),
    )
    return replace(reading, notes=tuple(_notes(reading, change, watched)))


def _figures(watched: Watched, roof: Roof) -> tuple[tuple[str, str], ...]:
    """Where the roof and the shapes come from."""
    peak, memory = watched.hardware.peak(roof.dtype), watched.hardware.memory.bandwidth
    rows = [(f"{roof.dtype} peak", peak), (f"{watched.hardware.memory.name} bandwidth", memory)]
    told = [(name, f"{one.provenance.kind}: {one.provenance.source}") for name, one in rows if one is not None]
    return (*told, ("model shape", watched.model.source or watched.model.name))


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
class _Passes:
    """A phase as it is counted, and how many of its passes run per second."""

    placed: PhaseProfile
    per_s: float


def _prefill(work: Workload, watched: Watched) -> list[_Passes] | None:
    """Passes of the mean prompt; none where no prompt ran, None where it is not known.

    Whole numbers of tokens are counted; the number of passes makes up for the rounding.
    """
    if not work.computed_per_s:
        return None if work.computed_per_s is None else []
    if work.prompt_tokens is None:
        return None
    tokens = max(1, round(work.prompt_tokens))
    phase = Phase(PhaseKind.PREFILL, Batch(1, tokens, round(work.prefix_tokens or 0)))
    return [_placed(phase, watched, work.computed_per_s / tokens)]


def _decode(work: Workload, watched: Watched, engines: int) -> list[_Passes] | None:
    """Steps of the mean batch of each replica; none where nothing was decoded, None where it is not known.

    A batch between two whole numbers is steps of the one and of the other, so that their mean is it.
    """
    if not work.decoded_per_s:
        return None if work.decoded_per_s is None else []
    if work.batch is None or work.context is None:
        return None
    batch = max(1.0, work.batch / engines)
    steps_per_s = work.decoded_per_s / (batch * work.tokens_per_step)
    low = int(batch)
    passes = []
    for sequences, share in ((low, low + 1 - batch), (low + 1, batch - low)):
        if share > 1e-9:
            phase = Phase(PhaseKind.DECODE, Batch(sequences, 1 + work.drafted, round(work.context)))
            passes.append(_placed(phase, watched, steps_per_s * share))
    return passes


def _placed(phase: Phase, watched: Watched, per_s: float) -> _Passes:
    ops = _step(phase, watched)
    return _Passes(place_phase(phase, ops, watched.hardware, watched.precision.compute), per_s)


def _step(phase: Phase, watched: Watched) -> tuple[Op, ...]:
    """The kernels of a pass; a decode step that verifies drafts runs the output head for each of them."""
    ops = forward(watched.model, phase, watched.precision, watched.conventions)
    if phase.kind is PhaseKind.PREFILL or phase.batch.new_tokens == 1:
        return ops
    every = Phase(phase.kind, Batch(phase.batch.tokens, 1, phase.batch.cached_tokens))
    name = watched.model.head.name
    heads = {op.name: op for op in forward(watched.model, every, watched.precision, watched.conventions)}
    return tuple(heads[name] if op.name == name else op for op in ops)


def _rates(passes: list[_Passes], roof: Roof, parts: int) -> Rates:
    """Sums over passes per second. One part's peak times `parts` is what MFU, MBU and busy are shares of."""

    def added(figure: str) -> float:
        return sum(one.per_s * float(getattr(one.placed, figure)) for one in passes)

    def moved(*kinds: str) -> float:
        return sum(one.per_s * float(getattr(one.placed.traffic, kind)) for one in passes for kind in kinds)

    return Rates(
        flops=added("flops"),
        model_flops=added("model_flops"),
        memory=moved("memory"),
        weights=moved("weights"),
        kv=moved("kv_read", "kv_write"),
        mfu=added("matrix_s") / parts,
        mbu=added("compulsory_bytes") / (roof.bandwidth * parts),
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


def _notes(reading: Reading, change: Change, watched: Watched) -> list[str]:
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
    if reading.engine == "sglang" and Total.DECODED not in change.after.totals:
        notes.append("prompt tokens are counted when a request ends: over a short interval their rate jumps")
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
