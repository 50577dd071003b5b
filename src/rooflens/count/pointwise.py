"""Norms, rotary embedding, activation functions, residual adds and the embedding lookup.

In the default traffic model they are fused into their neighbours and move no activation bytes of their
own; `--traffic eager` charges what each framework op reads and writes. A transcendental function counts
as one FLOP.
"""

from __future__ import annotations

from typing import NamedTuple

from rooflens.core.arrays import Count
from rooflens.core.blocks import Norm, NormKind
from rooflens.core.op import DType, Op, OpKind, PointwiseShape, Traffic
from rooflens.count.setting import Setting


class Passes(NamedTuple):
    """How often eager execution reads or writes a value: in the activations' dtype, and in fp32."""

    native: int
    fp32: int = 0
    casts: int = 0

    def bytes_per_value(self, dtype: DType) -> int:
        """Bytes per value; casts to fp32 and back vanish (read and write) where `dtype` is fp32."""
        if dtype is DType.FP32:
            return 4 * (self.native + self.fp32)
        wide = self.fp32 + self.casts
        return int(dtype.bytes_of(self.native + self.casts)) + 4 * wide


RMS_NORM = Passes(native=2, fp32=5, casts=2)
"""Cast to fp32, square (read, write), mean (read), scale (read, write), cast back, weight (read, write)."""
LAYER_NORM = Passes(native=2)
"""One kernel: read, write."""
ROTARY = Passes(native=10)
"""x cos (2), rotate half: negate a half (1) and concatenate (2), times sin (2), add (3)."""
ACTIVATION = Passes(native=2)
"""One kernel: read, write; a gated layer multiplies by `up` besides (read two, write one)."""
GATE = Passes(native=3)
RESIDUAL = Passes(native=3)
"""Read two, write one."""

_ROTARY_FLOPS = 3
_ACTIVATION_FLOPS = 4


def norm(layer: Norm, setting: Setting, *, adds_residual: bool) -> Op:
    """Count a normalisation of every token, with the residual add that engines fuse into it.

    Derivation, FLOP per value: RMSNorm squares, accumulates and scales (3); LayerNorm also sums and
    subtracts the mean (5); a weight and a bias add 1 each, a fused residual add 1.
    """
    per_value = (3 if layer.kind is NormKind.RMS else 5) + int(layer.weight) + int(layer.bias) + int(adds_residual)
    passes = RMS_NORM if layer.kind is NormKind.RMS else LAYER_NORM
    weights = setting.precision.kept.bytes_of(layer.params)
    width = layer.width * layer.rows
    return _pointwise(layer.name, OpKind.NORM, width, per_value, setting, passes=passes, weights=weights)


def rotary(name: str, width: int, setting: Setting) -> Op:
    """Count the rotation of `width` values of q and k per token: two products and a sum each."""
    return _pointwise(name, OpKind.ROTARY, width, _ROTARY_FLOPS, setting, passes=ROTARY)


def activation(name: str, width: int, gated: bool, setting: Setting) -> Op:
    """Count act(gate) * up, or act(up): 4 FLOP per value for the function, 1 for the gate.

    Derivation: SiLU is x / (1 + exp(-x)): negate, exponential, add, divide. GELU is counted alike.
    """
    passes = Passes(ACTIVATION.native + (GATE.native if gated else 0))
    flops = _ACTIVATION_FLOPS + int(gated)
    return _pointwise(name, OpKind.ACTIVATION, width, flops, setting, passes=passes)


def residual(name: str, width: int, setting: Setting) -> Op:
    """Count a residual add of `width` values per token: 1 FLOP each."""
    return _pointwise(name, OpKind.RESIDUAL, width, 1, setting, passes=RESIDUAL)


def embedding(name: str, width: int, positions: bool, setting: Setting) -> Op:
    """Count the lookup of one row per token: the rows that are read move, not the table.

    A learned position is one more row and one add. In eager execution the rows are written as well.
    """
    rows = 2 if positions else 1
    return _pointwise(
        name,
        OpKind.EMBEDDING,
        width,
        rows - 1,
        setting,
        passes=Passes(rows + (RESIDUAL.native if positions else 0)),
        weights=setting.precision.kept.bytes_of(setting.tokens * (width * rows)),
    )


def _pointwise(
    name: str,
    kind: OpKind,
    width: int,
    flops_per_value: int,
    setting: Setting,
    *,
    passes: Passes,
    weights: Count = 0,
) -> Op:
    dtype = setting.precision.activations
    activations = setting.tokens * (width * passes.bytes_per_value(dtype)) if setting.eager else 0
    return Op(
        name=name,
        kind=kind,
        dtype=dtype,
        flops=setting.tokens * (width * flops_per_value) if flops_per_value else 0,
        model_flops=0,
        traffic=setting.charged(Traffic(weights=weights, activations=activations)),
        shape=PointwiseShape(setting.tokens, width, flops_per_value),
    )
