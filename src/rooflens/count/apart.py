"""The kernels of norms, rotary embedding and activation functions where a framework runs each of their ops apart.

Source: transformers, modeling_llama.py: LlamaRMSNorm (widen, square, mean, add, rsqrt, multiply, narrow, multiply by
the weight), apply_rotary_pos_emb (x cos + rotate_half(x) sin, for q and for k), LlamaMLP (act(gate) * up). A LayerNorm
is one kernel.
"""

from __future__ import annotations

from rooflens.core.arrays import Count
from rooflens.core.blocks import NormKind
from rooflens.core.op import DType, Op, OpKind, PointwiseShape, Traffic
from rooflens.count.plan import Activate, AddResidual, Normalise, Rotate, Step
from rooflens.count.setting import Setting


def kernels_apart(step: Step, setting: Setting) -> list[Op]:
    """Return the kernels of `step` as the framework runs them, each with its own operands; none if it is one kernel."""
    narrow = setting.precision.activations
    match step:
        case Normalise(norm) if norm.kind is NormKind.RMS:
            width, rows = norm.width * norm.rows, norm.rows
            wide = DType.FP32
            return [
                _kernel("norm.widen", OpKind.COPY, width, 0, (narrow, wide), setting),
                _kernel("norm.square", OpKind.POINTWISE, width, 1, (wide, wide), setting),
                _kernel("norm.mean", OpKind.REDUCTION, width, 1, (wide,), setting),
                _kernel("norm.add", OpKind.POINTWISE, rows, 1, (wide, wide), setting),
                _kernel("norm.rsqrt", OpKind.POINTWISE, rows, 1, (wide, wide), setting),
                _kernel("norm.scale", OpKind.POINTWISE, width, 1, (wide, wide), setting),
                _kernel("norm.narrow", OpKind.COPY, width, 0, (wide, narrow), setting),
                _kernel("norm.weight", OpKind.POINTWISE, width, 1, (narrow, narrow), setting),
            ]
        case Rotate(name, width):
            return [
                _kernel(f"{name}.cos", OpKind.POINTWISE, width, 1, (narrow, narrow), setting),
                _kernel(f"{name}.negate", OpKind.POINTWISE, width // 2, 1, (narrow, narrow), setting),
                _kernel(f"{name}.turn", OpKind.COPY, width, 0, (narrow, narrow), setting),
                _kernel(f"{name}.sin", OpKind.POINTWISE, width, 1, (narrow, narrow), setting),
                _kernel(f"{name}.add", OpKind.POINTWISE, width, 1, (narrow, narrow, narrow), setting),
            ]
        case Activate(name, width, gated):
            function = _kernel(name, OpKind.ACTIVATION, width, 4, (narrow, narrow), setting)
            product = _kernel(f"{name}.gate", OpKind.POINTWISE, width, 1, (narrow,) * 3, setting)
            return [function, product] if gated else [function]
        case AddResidual(name, width):
            return [_kernel(name, OpKind.POINTWISE, width, 1, (narrow,) * 3, setting)]
        case _:
            return []


def _kernel(name: str, kind: OpKind, width: int, per_value: int, moves: tuple[DType, ...], setting: Setting) -> Op:
    """A kernel over `width` values of each token, each of which moves once in each of the dtypes of `moves`."""
    values: Count = setting.tokens * width
    moved = sum(dtype.bytes_of(values) for dtype in moves)
    shape = PointwiseShape(setting.tokens, width, per_value)
    return Op(name, kind, moves[0], values * per_value, 0, Traffic(activations=moved), shape)
