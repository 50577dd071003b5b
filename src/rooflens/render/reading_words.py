"""What a reading of a server says in words: what bounds it, and how far the next limit is."""

from __future__ import annotations

from rooflens.core.reading import Reading
from rooflens.render.figures import figure, percent
from rooflens.units import si

_NAMES = {"compute": "compute", "memory": "memory bandwidth", "kv_cache": "the KV cache"}


def watch_verdict(reading: Reading) -> str:
    """One sentence: what holds most of the work's time at the roof, and how much of the interval it needs there."""
    total, bound = reading.total, reading.bound
    if total is None:
        return "what limits the server is not known"
    if bound is None or reading.bound_share is None or not total.busy:
        return "the server did no work in this interval"
    where = "no byte moved"
    if total.intensity is not None:
        relation = "above" if total.intensity > reading.ridge_point else "not above"
        ridge = f"{figure(reading.ridge_point)} FLOP/byte"
        where = f"{figure(total.intensity)} FLOP/byte, {relation} the ridge point of {ridge}"
    return (
        f"the server is {bound}-bound: {percent(reading.bound_share[bound])} of its work's time at the roofs "
        f"({where}); at the roofs the work needs {percent(total.busy)} of the interval"
    )


def headroom(reading: Reading) -> list[str]:
    """A sentence for each limit that is known, the next one first."""
    ordered = sorted(reading.limits.items(), key=lambda limit: -limit[1])
    lines = [_limit(reading, name, used) for name, used in ordered]
    return [f"next limit: {lines[0]}", *lines[1:]] if lines else []


def _limit(reading: Reading, name: str, used: float) -> str:
    if name == "kv_cache":
        return _room(reading, used)
    rate = reading.peak if name == "compute" else reading.bandwidth
    unit = "FLOP/s" if name == "compute" else "B/s"
    whole = si(rate * reading.parts, unit)
    more = f"{figure(1 / used)} times this work at the same batch reaches it" if used else "nothing of it is used"
    return f"{_NAMES[name]}, {percent(used)} of {whole}; {more}"


def _room(reading: Reading, used: float) -> str:
    tokens, context = reading.cache.tokens, reading.workload.context
    text = f"{_NAMES['kv_cache']}, {percent(used)}"
    if tokens is None:
        return f"{text} held; its size is not known"
    free = max(0.0, (1 - used) * tokens)
    text = f"{text} of {tokens:,.0f} tokens held; room for {free:,.0f} tokens"
    return f"{text}, {int(free / context):,} more sequences of {context:,.0f}" if context else text


def waiting_line(reading: Reading) -> str:
    """Queueing, apart from the work: sequences that run and wait, and seconds of waiting; "" where nothing is told."""
    queue = reading.queue
    parts = []
    if queue.running is not None:
        parts.append(f"{figure(queue.running)} run")
    if queue.waiting is not None:
        parts.append(f"{figure(queue.waiting)} wait")
    for text, seconds in (("in the queue", queue.queue_s), ("to the first token", queue.ttft_s),
                          ("between tokens", queue.inter_token_s)):  # fmt: skip
        if seconds is not None:
            parts.append(f"{si(seconds, 's')} {text}")
    if queue.preemptions_per_s:
        parts.append(f"{figure(queue.preemptions_per_s)} preemptions/s")
    return ", ".join(parts)


def estimates_line(reading: Reading) -> str:
    """The engine's own estimate for one GPU beside this count; "" where it exports none."""
    own, total = reading.estimated, reading.total
    counted = (None, None) if total is None else (total.flops, total.memory)
    rows = ((own.flops_per_s, counted[0], "FLOP/s"), (own.bytes_per_s, counted[1], "B/s"))
    parts = []
    for theirs, ours, unit in rows:
        if theirs is not None:
            here = f", counted here {si(ours / reading.parts, unit)}" if ours is not None else ""
            parts.append(f"{si(theirs, unit)}{here}")
    return "; ".join(parts)


def drafts_line(reading: Reading) -> str:
    """How often the draft at each position was accepted, and tokens of a step; "" without speculative decoding."""
    if not reading.workload.drafted:
        return ""
    each = ", ".join(percent(share) for share in reading.accepted)
    by_position = f", accepted by position {each}" if each else ""
    return f"{reading.workload.drafted} a pass, {figure(reading.workload.tokens_per_step)} tokens each{by_position}"
