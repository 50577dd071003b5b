"""The kernels of one pass one after another, as engines launch them: what a trace without shapes is held against.

`count.forward` merges equal kernels; here every layer has its own. Layers of several kinds come by turns, in
proportion, since a ModelSpec does not keep their order. Inside a layer each block's norm comes first, then what
projects into it, what it does, and what projects out of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rooflens.core.arrays import Count
from rooflens.core.attention import Attention
from rooflens.core.blocks import Block, Mlp
from rooflens.core.experts import Moe
from rooflens.core.model import Layer, ModelSpec
from rooflens.core.op import DType, Op, OpKind, PointwiseShape, Traffic
from rooflens.core.scenario import Conventions, Fusion, Phase, Precision
from rooflens.count.apart import kernels_apart
from rooflens.count.collective import all_reduce, gather_logits
from rooflens.count.forward import count_step
from rooflens.count.plan import (
    Activate,
    AddResidual,
    Embed,
    Experts,
    Head,
    Normalise,
    Projection,
    Rotate,
    Step,
    block_steps,
    is_mixed,
)
from rooflens.count.setting import Setting

_OUT = ("o_proj", "out_proj", "down_proj", "dense_proj")
_READS_AND_WRITES = {OpKind.ROTARY: 2, OpKind.RESIDUAL: 3}


def sequence(
    model: ModelSpec, phase: Phase, precision: Precision, conventions: Conventions, *, tp: int = 1
) -> list[Op]:
    """Return every kernel of one pass in order, each as it runs once.

    Norms, rotary embedding, activation functions and the embedding move their own bytes here: as kernels of their own
    they read their inputs and write their outputs. tp: ranks of tensor parallelism, of which `model` is one (`shard`):
    a sum over them follows the embedding, whose table is split, and each block; the logits are collected.
    """
    setting = Setting(phase, precision, conventions)
    found: list[Op] = []
    for step in _steps(model, setting):
        if isinstance(step, _Meet):
            found += [all_reduce(model.hidden, setting, tp)] if tp > 1 else []
            continue
        apart = kernels_apart(step, setting) if conventions.fusion is Fusion.FRAMEWORK else []
        if apart:
            found += apart
            continue
        for op in count_step(step, setting):
            found += _before(op, step, setting)
            found.append(_summed(op, model.hidden, setting) if op.name == SUM else _alone(op, setting))
    found += [gather_logits(model.vocab, setting, tp)] if tp > 1 else []
    return [*found, _choice(model.vocab * tp, setting)]


@dataclass(frozen=True, slots=True)
class _Meet:
    """Where ranks add up what each has computed."""


STORE = "kv_cache_write"
"""The kernel that writes new keys and values into the cache, which comes before attention reads them."""

ROUTE = "experts_routing"
"""What chooses the experts of each token by the router's scores, and sorts tokens by expert."""

SUM = "experts_sum"
"""What adds up the rows that the experts of a token return."""

QUANTISE = "quantise_input"
"""What writes the input of a product in the narrower dtype that it is multiplied in."""


def _before(op: Op, step: Step, setting: Setting) -> list[Op]:
    """The kernels that `op` needs before it: its input quantised, its experts chosen, new keys and values stored."""
    found = []
    kept = setting.precision.activations
    if op.kind in (OpKind.GEMM, OpKind.EXPERTS) and op.dtype.bits < min(16, kept.bits):
        rows, width = _input(step, setting)
        moved = Traffic(activations=kept.bytes_of(rows * width) + op.dtype.bytes_of(rows * width))
        found.append(Op(QUANTISE, OpKind.POINTWISE, kept, 0, 0, moved, PointwiseShape(rows, width, 0)))
    if isinstance(step, Experts) and not _leaves(step):
        found.append(_route(step.layer, setting))
    if op.kind is OpKind.ATTENTION and op.traffic.kv_write:
        found.append(_cache_write(op, setting))
    return found


def _summed(op: Op, hidden: int, setting: Setting) -> Op:
    """Every routed row is read, and one row of each token written."""
    assert isinstance(op.shape, PointwiseShape)
    moved = setting.precision.activations.bytes_of(op.shape.values + setting.tokens * hidden)
    return replace(op, traffic=replace(op.traffic, activations=moved))


def _input(step: Step, setting: Setting) -> tuple[Count, int]:
    """Rows and width of what a product reads: of experts each token once, before it is routed."""
    if isinstance(step, Experts):
        rows = setting.tokens * (step.layer.top_k if _leaves(step) else 1)
        return rows, step.parts[0].d_in
    if isinstance(step, Projection):
        return setting.tokens, step.parts[0].d_in
    return setting.logit_tokens, 0


def _route(layer: Moe, setting: Setting) -> Op:
    """Scores are read once, and the number and weight of each chosen expert are written: 4 bytes each."""
    values = setting.tokens * layer.experts
    moved = setting.precision.activations.bytes_of(values) + setting.tokens * layer.top_k * 8
    shape = PointwiseShape(setting.tokens, layer.experts, 1)
    return Op(ROUTE, OpKind.EXPERTS, setting.precision.activations, values, 0, Traffic(activations=moved), shape)


def _cache_write(attention: Op, setting: Setting) -> Op:
    """New K and V are read and written: attention itself then writes none."""
    written = attention.traffic.kv_write
    moved = Traffic(kv_write=written, activations=written)
    return Op(STORE, OpKind.COPY, setting.precision.kv, 0, 0, moved, PointwiseShape(setting.tokens, 1, 0))


def _choice(vocab: int, setting: Setting) -> Op:
    """Choosing a token reads the logits of each sequence, in fp32 as engines widen them."""
    read = DType.FP32.bytes_of(setting.logit_tokens * vocab)
    shape = PointwiseShape(setting.logit_tokens, vocab, 1)
    flops = setting.logit_tokens * vocab
    return Op("choose_token", OpKind.SAMPLING, DType.FP32, flops, 0, Traffic(activations=read), shape)


def _steps(model: ModelSpec, setting: Setting) -> Iterator[Step | _Meet]:
    yield Embed("embed_tokens", model.table_width, bool(model.positions))
    yield _Meet()
    if model.embedding_norm:
        yield Normalise(model.embedding_norm)
    yield from (Projection(linear.name, (linear,)) for linear in (*model.inputs, *model.table_projections))
    mixed = is_mixed(model)
    for layer in by_turns(model.layers):
        yield from _layer(layer, model.hidden, setting, mixed)
    if model.final_norm:
        yield Normalise(model.final_norm)
    yield Head(model.head)


def by_turns(layers: tuple[Layer, ...]) -> Iterator[Layer]:
    """One layer after another: of several kinds each comes as often as there are of it, evenly spread."""
    total = sum(layer.count for layer in layers)
    taken = dict.fromkeys(range(len(layers)), 0)
    for index in range(total):
        behind = {i: layers[i].count * (index + 1) / total - taken[i] for i in taken if taken[i] < layers[i].count}
        chosen = max(behind, key=lambda i: behind[i])
        taken[chosen] += 1
        yield layers[chosen]


def _layer(layer: Layer, hidden: int, setting: Setting, mixed: bool) -> Iterator[Step | _Meet]:
    """Blocks one after another; those that are added at once are added up over ranks at once as well.

    An engine adds the residual in the norm after it, the framework in a kernel of its own.
    """
    norms, fusion = list(layer.norms), setting.conventions.fusion
    for block in layer.blocks:
        if norms:
            yield Normalise(norms.pop(0), adds_residual=True)
        steps = sorted(block_steps(block, layer, fusion, mixed), key=_place)
        yield from steps if fusion is Fusion.ENGINE else _as_framework(block, steps)
        if not layer.parallel:
            yield _Meet()
        if fusion is Fusion.FRAMEWORK:
            yield AddResidual("residual_add", hidden)
    if layer.parallel:
        yield _Meet()
    yield from (Normalise(norm, adds_residual=True) for norm in norms)


def _as_framework(block: Block, steps: Sequence[Step]) -> Iterator[Step]:
    """q and k are rotated one after the other; the activation function comes before what it is multiplied by."""
    names = [getattr(step, "name", "") for step in steps]
    gated = next((step for step in steps if isinstance(step, Activate) and step.gated), None)
    apart = gated is not None and any(name.endswith("gate_proj") for name in names) and isinstance(block, Mlp)
    for step, name in zip(steps, names, strict=True):
        if apart and gated is not None and name.endswith("gate_proj"):
            yield from (step, replace(gated, gated=False))
        elif apart and step is gated:
            yield AddResidual(f"{name}.gate", gated.width)
        elif isinstance(step, Rotate) and isinstance(block, Attention) and block.owns_cache:
            yield from (Rotate(step.name, heads * block.d_k) for heads in (block.heads, block.kv_heads))
        else:
            yield step


def _place(step: Step) -> int:
    """Where a step of a block comes: shared experts first, what projects out last, the experts' sum after all."""
    name = getattr(step, "name", "")
    if name.startswith("shared_"):
        return 0 if not name.endswith((*_OUT, "activation")) else 2 if _leaves(step) else 1
    if name == SUM:
        return 6
    if _leaves(step):
        return 5
    return 3 if isinstance(step, Projection) else 4


def _leaves(step: Step) -> bool:
    """Whether a step projects out of its block."""
    name = getattr(step, "name", "")
    return name.endswith(_OUT)


def _alone(op: Op, setting: Setting) -> Op:
    """A fused kernel as one of its own: it reads each input and writes each output once."""
    if op.kind is OpKind.ATTENTION:
        return replace(op, traffic=replace(op.traffic, kv_write=0))
    if op.traffic.activations or not isinstance(op.shape, PointwiseShape):
        return op
    passes = _passes(op)
    moved = setting.precision.activations.bytes_of(op.shape.values * passes)
    return replace(op, traffic=replace(op.traffic, activations=moved))


def _passes(op: Op) -> int:
    """Values read and written for each of its values: a norm adds and keeps the residual, a gate is read besides."""
    assert isinstance(op.shape, PointwiseShape)
    if op.kind is OpKind.NORM:
        return 4
    if op.kind is OpKind.ACTIVATION:
        return 3 if op.shape.flops_per_value > 4 else 2
    return _READS_AND_WRITES.get(op.kind, 1)
