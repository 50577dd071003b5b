"""Sizes of a framework's model that its passes do not tell: tables, and what its cache holds at a length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rooflens.audit.build import Built
from rooflens.audit.passes import cache_bytes, prefill
from rooflens.errors import InputError
from rooflens.frameworks import first_line, quiet

_SHORT = 8
"""Tokens below every published window."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Of a model without weights: numbers of values, bytes of state.

    growing: cached values of one token in layers that keep every token; bounded: in those that keep `held` tokens of
    a window. state_bytes: of one sequence, as the framework stores it.
    """

    parameters: int
    hidden: int
    vocab: int
    table_width: int
    tied: bool
    max_context: int | None
    growing: int
    bounded: int
    held: int
    state_bytes: int


def facts(built: Built, longest: int) -> Facts:
    """Read the sizes of `built`; its cache is taken after short prompts and after up to `longest` tokens.

    Derivation: v(n) values after n tokens. Short of every window v(2s) - v(s) is what a token adds in all layers; at
    the length asked for v(2n) - v(n) is what it adds beyond the windows; what is left over is what windows hold.

    Raises:
        InputError: the framework cannot run a prompt on the meta device.
    """
    model, table = built.model, built.model.get_input_embeddings().weight
    half = max(longest // 2, 2 * _SHORT)
    with quiet():
        try:
            short, double, near, far = (_values(model, n) for n in (_SHORT, 2 * _SHORT, half, 2 * half))
            state = cache_bytes(prefill(model, _SHORT))[1]
        except Exception as cause:  # the framework raises whatever its code runs into
            raise InputError(f"{built.class_name} did not run on the meta device ({first_line(cause)})") from cause
    each, growing = (double - short) // _SHORT, (far - near) // half
    bounded = each - growing
    head = model.get_output_embeddings()
    return Facts(
        parameters=built.parameters,
        hidden=int(built.model.config.get_text_config().hidden_size),
        vocab=int(table.shape[0]),
        table_width=int(table.shape[1]),
        tied=head is not None and head.weight is table,
        max_context=getattr(built.model.config.get_text_config(), "max_position_embeddings", None),
        growing=growing,
        bounded=bounded,
        held=(far - growing * 2 * half) // bounded if bounded else 0,
        state_bytes=state,
    )


def _values(model: Any, tokens: int) -> int:
    width = next(model.parameters()).element_size()
    return int(cache_bytes(prefill(model, tokens))[0] // width)
