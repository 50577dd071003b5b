"""Plan: which kernels a model runs and how often, before any of them is counted.

Layers that differ only in what a kernel does not see (the window of attention, for a projection) share
that kernel, so that a table of kernels stays as short as the model is regular.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from rooflens.core.model import Attention, Layer, Linear, Mlp, ModelSpec, Norm, Reach
from rooflens.core.scenario import Fusion


@dataclass(frozen=True, slots=True)
class Projection:
    """One GEMM: the linears whose outputs it computes together."""

    name: str
    parts: tuple[Linear, ...]


@dataclass(frozen=True, slots=True)
class Attend:
    """Attention over the cache."""

    name: str
    layer: Attention


@dataclass(frozen=True, slots=True)
class Normalise:
    """A norm; `adds_residual` where the residual add is fused into it."""

    norm: Norm
    adds_residual: bool = False


@dataclass(frozen=True, slots=True)
class Rotate:
    """Rotary embedding of q and k: `width` values per token."""

    name: str
    width: int


@dataclass(frozen=True, slots=True)
class Activate:
    """Activation function over `width` values per token."""

    name: str
    width: int
    gated: bool


@dataclass(frozen=True, slots=True)
class AddResidual:
    """Residual add over `width` values per token."""

    name: str
    width: int


@dataclass(frozen=True, slots=True)
class Embed:
    """Lookup of token rows, and of position rows where they are learned."""

    name: str
    width: int
    positions: bool


@dataclass(frozen=True, slots=True)
class Head:
    """The output head."""

    linear: Linear


Step = Projection | Attend | Normalise | Rotate | Activate | AddResidual | Embed | Head


def plan(model: ModelSpec, fusion: Fusion) -> dict[Step, int]:
    """Return each distinct kernel of one forward pass with how often it runs, in order of first use."""
    steps: Counter[Step] = Counter()
    steps[Embed("embed_tokens", model.table_width, bool(model.positions))] += 1
    if model.embedding_norm:
        steps[Normalise(model.embedding_norm)] += 1
    mixed = len({layer.attention.reach for layer in model.layers}) > 1
    for layer in model.layers:
        for step in _layer_steps(layer, fusion, mixed):
            steps[step] += layer.count
    if model.final_norm:
        steps[Normalise(model.final_norm)] += 1
    for linear in model.table_projections:
        steps[Projection(linear.name, (linear,))] += 1
    steps[Head(model.head)] += 1
    return dict(steps)


def _layer_steps(layer: Layer, fusion: Fusion, mixed: bool) -> Iterator[Step]:
    """The kernels of one layer. Engines fuse a residual add into the norm that follows it, if one does."""
    hidden = layer.attention.hidden
    fused = fusion is Fusion.ENGINE and not layer.parallel and len(layer.norms) > 1
    before, after = layer.norms[:1], layer.norms[1:]
    for norm in before:
        yield Normalise(norm, adds_residual=fused)
    yield from _attention_steps(layer.attention, fusion, mixed)
    for norm in after:
        yield Normalise(norm, adds_residual=fused and norm is after[-1])
    yield from _mlp_steps(layer.mlp, fusion)
    if not fused:
        yield AddResidual("residual_add", hidden)
        yield AddResidual("residual_add", hidden)


def _attention_steps(layer: Attention, fusion: Fusion, mixed: bool) -> Iterator[Step]:
    *inputs, out = layer.linears
    yield from projections(tuple(inputs), fusion)
    for norm in layer.norms:
        yield Normalise(norm)
    if layer.rotary:
        yield Rotate("rotary", layer.heads * layer.d_k + layer.kv_heads * layer.d_k)
    reach = "" if not mixed else "_windowed" if layer.reach is Reach.WINDOW else "_full"
    yield Attend(f"attention{reach}", layer)
    yield Projection(out.name, (out,))


def _mlp_steps(layer: Mlp, fusion: Fusion) -> Iterator[Step]:
    *inputs, down = layer.linears
    yield from projections(tuple(inputs), fusion)
    yield Activate("activation", layer.width, layer.gated)
    yield Projection(down.name, (down,))


def projections(linears: tuple[Linear, ...], fusion: Fusion) -> Iterator[Projection]:
    """The GEMMs that compute `linears`: one for each group in an engine, one each in the framework."""
    groups: dict[str, list[Linear]] = {}
    for linear in linears:
        fused = fusion is Fusion.ENGINE and linear.group
        groups.setdefault(linear.group if fused else linear.name, []).append(linear)
    for name, parts in groups.items():
        yield Projection(name, tuple(replace(part, group="") for part in parts))
