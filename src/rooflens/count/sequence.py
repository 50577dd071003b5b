"""The kernels of one pass one after another, as engines launch them: what a trace without shapes is held against.

`count.forward` merges equal kernels; here every layer has its own. Layers of several kinds come by turns, in
proportion, since a ModelSpec does not keep their order. Inside a layer each block's norm comes first, then what
projects into it, what it does, and what projects out of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rooflens.core.model import Layer, ModelSpec
from rooflens.core.op import DType, Op, OpKind, PointwiseShape, Traffic
from rooflens.core.scenario import Conventions, Phase, Precision
from rooflens.count.forward import count_step
from rooflens.count.plan import (
    Embed,
    Head,
    Normalise,
    Projection,
    Step,
    block_steps,
    is_mixed,
)
from rooflens.count.setting import Setting

_OUT = ("o_proj", "out_proj", "down_proj", "dense_proj")
_READS_AND_WRITES = {OpKind.ROTARY: 2, OpKind.RESIDUAL: 3}


def sequence(model: ModelSpec, phase: Phase, precision: Precision, conventions: Conventions) -> list[Op]:
    """Return every kernel of one pass in order, each as it runs once.

    Norms, rotary embedding, activation functions and the embedding move their own bytes here: as kernels of their own
    they read their inputs and write their outputs.
    """
    setting = Setting(phase, precision, conventions)
    found: list[Op] = []
    for step in _steps(model, setting):
        for op in count_step(step, setting):
            if op.kind is OpKind.ATTENTION and op.traffic.kv_write:
                found.append(_cache_write(op, setting))
            found.append(_alone(op, setting))
    return [*found, _choice(model, setting)]


STORE = "kv_cache_write"
"""The kernel that writes new keys and values into the cache, which comes before attention reads them."""


def _cache_write(attention: Op, setting: Setting) -> Op:
    """New K and V are read and written: attention itself then writes none."""
    written = attention.traffic.kv_write
    moved = Traffic(kv_write=written, activations=written)
    return Op(STORE, OpKind.COPY, setting.precision.kv, 0, 0, moved, PointwiseShape(setting.tokens, 1, 0))


def _choice(model: ModelSpec, setting: Setting) -> Op:
    """Choosing a token reads the logits of each sequence, in fp32 as engines widen them."""
    read = DType.FP32.bytes_of(setting.logit_tokens * model.vocab)
    shape = PointwiseShape(setting.logit_tokens, model.vocab, 1)
    flops = setting.logit_tokens * model.vocab
    return Op("choose_token", OpKind.SAMPLING, DType.FP32, flops, 0, Traffic(activations=read), shape)


def _steps(model: ModelSpec, setting: Setting) -> Iterator[Step]:
    yield Embed("embed_tokens", model.table_width, bool(model.positions))
    if model.embedding_norm:
        yield Normalise(model.embedding_norm)
    yield from (Projection(linear.name, (linear,)) for linear in (*model.inputs, *model.table_projections))
    mixed = is_mixed(model)
    for layer in by_turns(model.layers):
        yield from _layer(layer, setting, mixed)
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


def _layer(layer: Layer, setting: Setting, mixed: bool) -> Iterator[Step]:
    norms = list(layer.norms)
    for block in layer.blocks:
        if norms:
            yield Normalise(norms.pop(0), adds_residual=True)
        steps = list(block_steps(block, layer, setting.conventions.fusion, mixed))
        first = [s for s in steps if isinstance(s, Projection) and not _leaves(s)]
        last = [s for s in steps if _leaves(s)]
        yield from first
        yield from (s for s in steps if s not in first and s not in last)
        yield from last
    yield from (Normalise(norm, adds_residual=True) for norm in norms)


def _leaves(step: Step) -> bool:
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
