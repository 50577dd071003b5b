"""Collectives between the ranks of tensor parallelism."""

from __future__ import annotations

from rooflens.core.op import Op, OpKind, PointwiseShape, Traffic
from rooflens.count.setting import Setting

ALL_REDUCE = "all_reduce"
"""The sum over ranks after each block."""


def all_reduce(width: int, setting: Setting, tp: int) -> Op:
    """Count the sum over `tp` ranks of `width` values for each token.

    Derivation: a ring sends each of N parts N - 1 times to be added and N - 1 times to be shared, 2 (N - 1) / N of the
    message over each rank's link in each direction, and every value is added N - 1 times, (N - 1) / N of that on each
    rank. Device memory holds the message before and after: one read and one write. Source: Patarasuk, Yuan, JPDC
    69(2), 2009; Megatron-LM, 1909.08053, section 3, has one of them after attention and one after the MLP.
    """
    values = setting.tokens * width
    message = setting.precision.activations.bytes_of(values)
    return Op(
        name=ALL_REDUCE,
        kind=OpKind.COLLECTIVE,
        dtype=setting.precision.activations,
        flops=values * (tp - 1) // tp,
        model_flops=0,
        traffic=Traffic(activations=2 * message, link=2 * (tp - 1) * message // tp),
        shape=PointwiseShape(setting.tokens, width, 1),
    )


def gather_logits(vocab: int, setting: Setting, tp: int) -> Op:
    """Count the collection of the logits of `tp` ranks, each with `vocab` of them for each token.

    Derivation: every rank gets the parts of the N - 1 others over its link, and writes the whole once.
    """
    part = setting.precision.activations.bytes_of(setting.logit_tokens * vocab)
    return Op(
        name="gather_logits",
        kind=OpKind.COLLECTIVE,
        dtype=setting.precision.activations,
        flops=0,
        model_flops=0,
        traffic=Traffic(activations=(tp + 1) * part, link=(tp - 1) * part),
        shape=PointwiseShape(setting.logit_tokens, vocab * tp, 0),
    )
