"""What the figures of a phase say, and where the textbook's sentence about it does not hold."""

from __future__ import annotations

from collections.abc import Iterator

from rooflens.core.experts import Moe
from rooflens.core.model import ModelSpec
from rooflens.core.profile import Bound, PhaseProfile, Profile
from rooflens.core.recurrent import Recurrent
from rooflens.core.scenario import PhaseKind
from rooflens.render.explain_formula import number, shown
from rooflens.render.words import has_block


def reading(profile: Profile, phase: PhaseProfile) -> Iterator[str]:
    """Sentences that say what bounds `phase` and why, with what experts and states change about it."""
    kind, bound, model = phase.phase.kind, phase.bound, profile.model
    side = "above" if phase.intensity > phase.ridge_point else "below"
    yield (
        f"Reading: {kind} is {bound}-bound; {bound} holds {shown(phase.bound_share[bound], '%')} of its floor, and its "
        f"{number(phase.intensity)} FLOP/byte lie {side} the ridge point of {number(phase.ridge_point)}."
    )
    if kind is PhaseKind.PREFILL:
        yield _prefill(bound)
    elif bound is Bound.COMPUTE:
        yield "The textbook has decode memory-bound: this batch shares each weight among so many tokens that it is not."
    else:
        yield _decode(model)
    if has_block(model, Moe):
        yield (
            "Experts are the exception to shared weights: each serves the few tokens that were routed to it, so that "
            "they stay memory-bound long after the dense layers."
        )
    if has_block(model, Recurrent) and kind is PhaseKind.DECODE:
        yield "Recurrent layers read and write a state of fixed size: a longer context costs them nothing."


def _prefill(bound: Bound) -> str:
    if bound is Bound.MEMORY:
        return (
            "The textbook has prefill compute-bound: these are too few tokens to repay one read of the weights, "
            "so that a longer prompt or a larger batch comes at almost no extra time."
        )
    return "Every weight that is read serves many tokens of the pass, so that arithmetic takes longer than reading."


def _decode(model: ModelSpec) -> str:
    weights = "the weights of the experts that its tokens reach, all others" if has_block(model, Moe) else "all weights"
    return (
        f"A step reads {weights} and the whole cache for one token per sequence. Sequences share the weights, so "
        "that a larger batch raises the linear layers' intensity; none shares its cache, and attention's stays."
    )
