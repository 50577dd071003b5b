"""Recurrent layers: the scan in chunks (prefill) or one step (decode), and the causal convolution before it.

`model_flops` are the products that the reference framework runs as matrix products in its chunked form; what it runs
value by value counts in `flops` alone.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from rooflens.core.arrays import Count, plus
from rooflens.core.gated_recurrence import RgLru, Rwkv4
from rooflens.core.linear_attention import DeltaNet, LightningAttention
from rooflens.core.op import DType, Op, OpKind, PointwiseShape, ScanShape, Traffic
from rooflens.core.recurrent import Mamba, Mamba2, Recurrent
from rooflens.core.scenario import PhaseKind
from rooflens.count.setting import Setting

CONVOLUTION_ACTIVATION = 4
"""FLOP of the activation function that follows the convolution: negate, exponential, add, divide (SiLU)."""


def convolution(name: str, layer: Recurrent, setting: Setting) -> Op:
    """Count the depthwise causal convolution: 2 x kernel FLOP for each channel and token, and an activation.

    Its state (the last kernel - 1 columns) is read where tokens came before, and written. No part of `model_flops`.
    """
    kept = setting.precision.state or setting.precision.activations
    per_value = 2 * layer.conv_kernel + CONVOLUTION_ACTIVATION
    return Op(
        name=name,
        kind=OpKind.CONVOLUTION,
        dtype=setting.precision.activations,
        flops=setting.tokens * (layer.conv_channels * per_value),
        model_flops=0,
        traffic=setting.charged(Traffic(state=_state_bytes(layer.conv_values, kept, setting))),
        shape=PointwiseShape(setting.tokens, layer.conv_channels, per_value),
    )


def scan(name: str, layer: Recurrent, setting: Setting) -> Op:
    """Count the recurrence of one layer; its state is read where tokens came before, and written once."""
    batch = setting.batch
    stepping = setting.phase.kind is PhaseKind.DECODE
    total = batch.sequences * plus(*(term.value for term in products(layer, batch.new_tokens, stepping)))
    pointwise = setting.tokens * sum(int(term.value) for term in pointwise_terms(layer, stepping))
    kept = setting.precision.state or DType.FP32
    moved = Traffic(
        state=_state_bytes(layer.state_values, kept, setting),
        activations=setting.precision.activations.bytes_of(setting.tokens * layer.scan_width),
    )
    return Op(
        name=name,
        kind=OpKind.SCAN,
        dtype=setting.precision.attention,
        flops=total + pointwise,
        model_flops=total,
        traffic=setting.charged(moved),
        shape=ScanShape(batch.sequences, batch.new_tokens, layer.state_values, chunk_of(layer, stepping)),
    )


def _state_bytes(values: int, dtype: DType, setting: Setting) -> Count:
    moves = 2 if setting.phase.kind is PhaseKind.DECODE else 1
    return setting.batch.sequences * (moves * int(dtype.bytes_of(values)))


class Term(NamedTuple):
    """A product that is part of a count: what it is, its factors in words, and the factors themselves."""

    name: str
    words: str
    factors: tuple[Count, ...]

    @property
    def value(self) -> Count:
        """The product of the factors."""
        return prod(self.factors)


def products(layer: Recurrent, tokens: Count, stepping: bool) -> tuple[Term, ...]:
    """Matrix-product FLOP of `tokens` tokens of one sequence, term by term; none where the layer has none."""
    match layer:
        case Mamba2() if stepping:
            words = "2 x heads x head width x state"
            return (Term("reading", words, (2, layer.heads, layer.head_dim, layer.state)),)
        case Mamba2():
            return _ssd_chunks(layer, tokens)
        case DeltaNet() if not stepping:
            return _delta_chunks(layer, tokens)
        case LightningAttention():
            return _lightning(layer, tokens, stepping)
        case Mamba():
            return (Term("reading", "2 x tokens x channels x state", (2, tokens, layer.inner, layer.state)),)
        case _:
            return ()


def chunk_of(layer: Recurrent, stepping: bool) -> int:
    """Tokens of a chunk in the chunked form; 0 where the state is stepped token by token."""
    return layer.chunk if isinstance(layer, (Mamba2, DeltaNet, LightningAttention)) and not stepping else 0


def _ssd_chunks(layer: Mamba2, tokens: Count) -> tuple[Term, ...]:
    """State space duality in c chunks of Q: scores C B^T and their product with x inside a chunk, Q^2 (N + P); the
    state out of and into each chunk, 2 Q N P; and the pass over chunk states, (c + 1)^2 P N (2405.21060, section 6).
    """
    q, n, p, heads = layer.chunk, layer.state, layer.head_dim, layer.heads
    chunks = -(-tokens // q)
    return (
        Term("scores", "2 x heads x chunks x Q x Q x state", (2, heads, chunks, q, q, n)),
        Term("within chunks", "2 x heads x chunks x Q x Q x head width", (2, heads, chunks, q, q, p)),
        Term("in and out", "4 x heads x chunks x Q x state x head width", (4, heads, chunks, q, n, p)),
        Term(
            "between chunks",
            "2 x heads x (chunks + 1) x (chunks + 1) x head width x state",
            (2, heads, chunks + 1, chunks + 1, p, n),
        ),
    )


def _delta_chunks(layer: DeltaNet, tokens: Count) -> tuple[Term, ...]:
    """Gated delta rule in chunks of C: k k^T and q k^T, and two products of C x C with d_k or d_v, then three of the
    chunk with the state (2412.06464, section 3.3): 2 C^2 d_k + C^2 d_v + 3 C d_k d_v multiply-adds a head and chunk.
    """
    c, k, v, heads = layer.chunk, layer.d_k, layer.d_v, layer.v_heads
    chunks = -(-tokens // c)
    return (
        Term("keys", "4 x heads x chunks x Q x Q x d_k", (4, heads, chunks, c, c, k)),
        Term("values", "2 x heads x chunks x Q x Q x d_v", (2, heads, chunks, c, c, v)),
        Term("with the state", "6 x heads x chunks x Q x d_k x d_v", (6, heads, chunks, c, k, v)),
    )


def _lightning(layer: LightningAttention, tokens: Count, stepping: bool) -> tuple[Term, ...]:
    """Blocks of B: q k^T and its product with v, 2 B^2 d; q with the state and the state's update, 2 B d^2."""
    d, b, heads = layer.head_dim, layer.chunk, layer.heads
    if stepping:
        return (Term("with the state", "4 x heads x d x d", (4, heads, d, d)),)
    whole, rest = tokens // b, tokens % b
    return (
        Term("within chunks", "4 x heads x whole chunks x Q x Q x d", (4, heads, whole, b, b, d)),
        Term("the last chunk", "4 x heads x rest x rest x d", (4, heads, rest, rest, d)),
        Term("with the state", "4 x heads x tokens x d x d", (4, heads, tokens, d, d)),
    )


def pointwise_terms(layer: Recurrent, stepping: bool) -> tuple[Term, ...]:
    """FLOP of one token that no matrix product does: decay, gating and, in a step, the state's update.

    Derivation: a state value is decayed, gets its update and is added (3); Mamba discretises A and B as well (6).
    A delta step reads the state for the key, corrects it and reads it for the query: 2 + 2 + 2, and the decay.
    RG-LRU and RWKV take about ten for each channel (gates, exponentials, recurrence).
    """
    match layer:
        case Mamba():
            return _on_state(6, layer), Term("gate", "2 x channels", (2, layer.inner))
        case Mamba2():
            gate = Term("gate", "6 x channels", (6, layer.inner))
            return (_on_state(3, layer), gate) if stepping else (gate,)
        case DeltaNet():
            gate = Term("gate", "6 x channels", (6, layer.value_width))
            return (_on_state(7, layer), gate) if stepping else (gate,)
        case LightningAttention():
            gate = Term("gate", "4 x channels", (4, layer.width))
            return (_on_state(3, layer), gate) if stepping else (gate,)
        case RgLru() | Rwkv4():
            return (Term("channels", "10 x channels", (10, layer.width)),)
        case _:
            return (Term("gates", "2 x values in and out", (2, layer.scan_width)),)


def _on_state(flops: int, layer: Recurrent) -> Term:
    return Term("state", f"{flops} x state values", (flops, layer.state_values))
