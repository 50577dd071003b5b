"""Mixture of experts: grouped GEMMs over the experts that a pass touches."""

from __future__ import annotations

from rooflens.core.arrays import Count, is_array
from rooflens.core.blocks import Linear
from rooflens.core.experts import Moe
from rooflens.core.op import ExpertShape, Op, OpKind, Traffic
from rooflens.count.gemm import activation_bytes, gemm_flops, weight_bytes
from rooflens.count.setting import Setting


def distinct_experts(experts: int, top_k: int, tokens: Count) -> Count:
    """Expected number of distinct experts that `tokens` tokens touch under uniform routing.

    Derivation: one token misses an expert with probability 1 - k / E, all of them with (1 - k / E)^T; the expected
    number that is not missed is E (1 - (1 - k / E)^T): k for one token, never min(T k, E).
    """
    if top_k == experts:
        return experts
    missed = 1 - top_k / experts
    if is_array(tokens):
        return experts * (1 - missed**tokens)
    return top_k if tokens == 1 else experts * (1 - missed ** float(tokens))


def expert_gemm(name: str, layer: Moe, parts: tuple[Linear, ...], setting: Setting) -> Op:
    """Count one grouped GEMM: every token's row goes through `top_k` of the experts.

    FLOP are those of T k rows; weights are those of the distinct experts (a measured count wins), once each;
    every routed row is read and written.
    """
    rows = setting.tokens * layer.top_k
    d_in, d_out = parts[0].d_in, sum(part.d_out for part in parts)
    measured = setting.measured_experts
    touched = distinct_experts(layer.experts, layer.top_k, setting.tokens) if measured is None else measured
    biased = sum(part.d_out for part in parts if part.bias)
    model_flops = gemm_flops(rows, d_in, d_out)
    arithmetic = setting.arithmetic(parts[0])
    moved = Traffic(
        weights=touched * sum(weight_bytes(part, setting) for part in parts),
        activations=activation_bytes(rows, d_in, d_out, arithmetic, setting),
    )
    return Op(
        name=name,
        kind=OpKind.EXPERTS,
        dtype=arithmetic,
        flops=model_flops + rows * biased if biased else model_flops,
        model_flops=model_flops,
        traffic=setting.charged(moved),
        shape=ExpertShape(rows, d_out, d_in, touched, bool(biased)),
    )
