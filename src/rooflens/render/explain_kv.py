"""What the KV cache saves: a decode step with it, against running the whole sequence again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import fill
from typing import Any

from rooflens.core.model import ModelSpec
from rooflens.core.op import Op
from rooflens.core.scenario import Batch, Conventions, Phase, PhaseKind, Precision
from rooflens.count import forward, kv_cache_bytes, state_bytes
from rooflens.errors import InputError
from rooflens.render.explain_formula import Formula
from rooflens.units import binary

_LARGEST = 2**40
_WIDTH = 100


@dataclass(frozen=True, slots=True)
class KvSavings:
    """One token more after `context` tokens of one sequence, with the KV cache and without.

    cached_flops: FLOP of the decode step. recomputed_flops: FLOP of a prefill of context + 1 tokens with logits
    for the last one. held_bytes: the cache before the step. read_bytes, written_bytes: what the step moves of it.
    state_bytes: states of recurrent layers, which stand beside the cache. weight_bytes: weights that the step reads.
    """

    model: str
    context: int
    cached_flops: int
    recomputed_flops: int
    held_bytes: int
    read_bytes: int
    written_bytes: int
    state_bytes: int
    weight_bytes: int

    @property
    def factor(self) -> float:
        """How many times the FLOP of the step it takes to do without the cache."""
        return self.recomputed_flops / self.cached_flops


def stored_precision(model: ModelSpec) -> Precision:
    """The dtypes of `model` as its checkpoint stores it, the cache in the dtype of the activations."""
    kept = model.kept_dtype
    return Precision(compute=kept, attention=kept, activations=kept, weights=model.weights_dtype, kept=kept, kv=kept)


def kv_savings(model: ModelSpec, context: int, precision: Precision | None = None) -> KvSavings:
    """Count one decode step after `context` tokens with the KV cache, and without it.

    FLOP are everything counted, causal, for one sequence; bytes are of one sequence. `precision` is the
    checkpoint's own unless given: it changes bytes, and no FLOP.

    Raises:
        InputError: `context` is not a whole number of tokens from 1 to 2**40.

    Derivation: both are `count.forward`; without a cache every earlier token goes through every layer again.
    """
    if isinstance(context, bool) or not isinstance(context, int) or not 1 <= context <= _LARGEST:
        raise InputError(f"context is {context!r}; expected a whole number of tokens from 1 to {_LARGEST:,}")
    dtypes = precision or stored_precision(model)
    step = _pass(model, Phase(PhaseKind.DECODE, Batch(1, 1, context)), dtypes)
    whole = _pass(model, Phase(PhaseKind.PREFILL, Batch(1, context + 1, 0)), dtypes)
    return KvSavings(
        model=model.name,
        context=context,
        cached_flops=_sum(op.flops for op in step),
        recomputed_flops=_sum(op.flops for op in whole),
        held_bytes=_sum([kv_cache_bytes(model, context, dtypes.kv)]),
        read_bytes=_sum(op.traffic.kv_read for op in step),
        written_bytes=_sum(op.traffic.kv_write for op in step),
        state_bytes=state_bytes(model, dtypes.state, dtypes.activations),
        weight_bytes=_sum(op.traffic.weights for op in step),
    )


def _pass(model: ModelSpec, phase: Phase, precision: Precision) -> tuple[Op, ...]:
    return forward(model, phase, precision, Conventions())


def _sum(figures: Any) -> int:
    return int(sum(figures))


def kv_savings_text(savings: KvSavings) -> str:
    """Return `savings` for a reader: plain text, one figure a line, ending in a newline."""
    return "\n".join(_lines(savings)) + "\n"


def _lines(savings: KvSavings) -> Iterator[str]:
    yield f"What the KV cache saves: {savings.model}, one token more after {savings.context:,} tokens"
    yield f"with the cache {savings.cached_flops:,} FLOP: the new token alone goes through the layers"
    yield f"without it     {savings.recomputed_flops:,} FLOP: all {savings.context + 1:,} tokens go through them again"
    ratio = f"{savings.recomputed_flops:,} / {savings.cached_flops:,}"
    yield str(Formula("saved", "without / with", ratio, savings.factor, "times the FLOP"))
    yield f"what it costs  {savings.held_bytes:,} B ({binary(savings.held_bytes)}) of memory for each sequence;"
    yield f"               the step reads {savings.read_bytes:,} B of them and writes {savings.written_bytes:,} B more"
    if savings.state_bytes:
        yield f"               recurrent layers keep {savings.state_bytes:,} B beside it, however long the context is"
    yield ""
    yield fill(
        f"The time saved is less than that. Without the cache the step is a prefill of {savings.context + 1:,} tokens, "
        "which uses each weight that often, so that past the ridge point it is bound by compute. With it, the step "
        f"reads {savings.weight_bytes:,} B of weights, and the cache, for one token: it is bound by memory.",
        _WIDTH,
    )
