"""Plan: which kernels a model runs and how often, before any of them is counted.

Layers that differ only in what a kernel does not see (the window of attention, for a projection) share
that kernel, so that a table of kernels stays as short as the model is regular.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from rooflens.core.attention import Attention, LatentAttention, Reach
from rooflens.core.blocks import Block, Linear, Mlp, Norm
from rooflens.core.compressed import CompressedAttention, HyperConnection
from rooflens.core.cross import CrossAttention
from rooflens.core.experts import Moe
from rooflens.core.indexers import BlockIndexer
from rooflens.core.model import Layer, ModelSpec
from rooflens.core.recurrent import Recurrent
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
class AttendLatent:
    """Latent attention with the projection that expands its latents."""

    name: str
    layer: LatentAttention
    expansion: Linear


@dataclass(frozen=True, slots=True)
class AttendCompressed:
    """Attention over a window and compressed entries, with the grouped projection after it."""

    name: str
    layer: CompressedAttention
    grouped: Linear


@dataclass(frozen=True, slots=True)
class ScoreBlocks:
    """Scores of every token by which an indexer picks blocks of keys."""

    name: str
    layer: BlockIndexer


@dataclass(frozen=True, slots=True)
class ImageProjection:
    """K and V of image tokens."""

    name: str
    parts: tuple[Linear, ...]


@dataclass(frozen=True, slots=True)
class AttendImages:
    """Cross-attention over image tokens."""

    name: str
    layer: CrossAttention


@dataclass(frozen=True, slots=True)
class Mix:
    """Residual streams mixed among themselves and with a block's output."""

    name: str
    layer: HyperConnection


@dataclass(frozen=True, slots=True)
class Experts:
    """One grouped GEMM over the experts."""

    name: str
    layer: Moe
    parts: tuple[Linear, ...]


@dataclass(frozen=True, slots=True)
class Convolve:
    """The causal convolution of a recurrent layer."""

    name: str
    layer: Recurrent


@dataclass(frozen=True, slots=True)
class Scan:
    """The recurrence of a recurrent layer."""

    name: str
    layer: Recurrent


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
    """Residual add, or weighted sum, over `width` values per token."""

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


Step = (
    Projection
    | Attend
    | AttendLatent
    | AttendCompressed
    | ScoreBlocks
    | ImageProjection
    | AttendImages
    | Mix
    | Experts
    | Convolve
    | Scan
    | Normalise
    | Rotate
    | Activate
    | AddResidual
    | Embed
    | Head
)


def plan(model: ModelSpec, fusion: Fusion, *, images: bool = False) -> dict[Step, int]:
    """Return each distinct kernel of one forward pass with how often it runs, in order of first use.

    Without `images`, layers with cross-attention do not run.
    """
    steps: Counter[Step] = Counter()
    steps[Embed("embed_tokens", model.table_width, bool(model.positions))] += 1
    if model.embedding_norm:
        steps[Normalise(model.embedding_norm)] += 1
    for linear in (*model.inputs, *model.table_projections):
        steps[Projection(linear.name, (linear,))] += 1
    mixed = is_mixed(model)
    for layer in model.layers:
        if not images and any(isinstance(block, CrossAttention) for block in layer.blocks):
            continue
        for step in layer_steps(layer, model.hidden, fusion, mixed):
            steps[step] += layer.count
    if model.final_norm:
        steps[Normalise(model.final_norm)] += 1
    steps[Head(model.head)] += 1
    return dict(steps)


def is_mixed(model: ModelSpec) -> bool:
    """Whether the attention of `model` has several reaches, which tables then name."""
    return len(_reaches(model)) > 1


def _reaches(model: ModelSpec) -> set[Reach]:
    blocks = [block for layer in model.layers for block in layer.blocks]
    compressed = {block.reach for block in blocks if isinstance(block, CompressedAttention)}
    return compressed | {block.span.reach for block in blocks if isinstance(block, (Attention, LatentAttention))}


def layer_steps(layer: Layer, hidden: int, fusion: Fusion, mixed: bool) -> Iterator[Step]:
    """The kernels of one layer. Engines fuse a residual add into the norm that follows it, if one does."""
    adds = len(layer.blocks)
    streams = any(isinstance(block, HyperConnection) for block in layer.blocks)
    fused = fusion is Fusion.ENGINE and not layer.parallel and not streams and len(layer.norms) >= adds
    before, after = layer.norms[:1], layer.norms[1:]
    for norm in before:
        yield Normalise(norm, adds_residual=fused)
    for norm in after:
        yield Normalise(norm, adds_residual=fused and norm is after[-1])
    for block in layer.blocks:
        yield from block_steps(block, layer, fusion, mixed)
        if not fused and not streams:
            yield AddResidual("residual_add", hidden)


def block_steps(block: Block, layer: Layer, fusion: Fusion, mixed: bool) -> Iterator[Step]:
    """The kernels of one block of `layer`; `mixed` where the model's attention has several reaches."""
    yield from projections(layer.stored(block.linears), fusion)
    for norm in block.norms:
        yield Normalise(norm)
    match block:
        case Attention():
            yield from _attention_steps(block, mixed)
        case LatentAttention():
            yield from _latent_steps(block, layer, mixed)
        case CrossAttention():
            for made in projections(layer.stored(block.image_linears), fusion):
                yield ImageProjection(made.name, made.parts)
            yield AttendImages("cross_attention", block)
        case CompressedAttention():
            yield from _compressed_steps(block, layer, mixed)
        case HyperConnection():
            yield Mix("hyper_mix", block)
        case Mlp():
            yield Activate("activation", block.width, block.gated)
        case Moe():
            yield from _expert_steps(block, layer, fusion)
        case Recurrent():
            if block.conv_kernel > 1:
                yield Convolve("convolution", block)
            yield Scan("scan", block)


def _attention_steps(block: Attention, mixed: bool) -> Iterator[Step]:
    if block.rotary:
        keys = block.kv_heads if block.owns_cache else 0
        yield Rotate("rotary", (block.heads + keys) * block.d_k)
    if block.gate:
        yield Activate("output_gate", block.heads * block.d_v, gated=True)
    if block.indexer:
        yield ScoreBlocks("indexer_scores", block.indexer)
    yield Attend(_named(block.span.reach, mixed), block)


def _latent_steps(block: LatentAttention, layer: Layer, mixed: bool) -> Iterator[Step]:
    if block.rotary:
        yield Rotate("rotary", (block.heads + 1) * block.rope)
    (expansion,) = layer.stored((block.expansion,))
    yield AttendLatent(_named(block.span.reach, mixed), block, expansion)


def _compressed_steps(block: CompressedAttention, layer: Layer, mixed: bool) -> Iterator[Step]:
    """Queries, the key and (backwards, since the key is the value) the outputs are rotated."""
    yield Rotate("rotary", (2 * block.heads + 1) * block.rope)
    (grouped,) = layer.stored((block.grouped,))
    yield AttendCompressed(_named(block.reach, mixed), block, grouped)


def _expert_steps(block: Moe, layer: Layer, fusion: Fusion) -> Iterator[Step]:
    """Grouped GEMMs, the experts' activation on every routed row, and the weighted sum of their outputs."""
    for projection in projections(layer.stored(block.expert_linears), fusion):
        yield Experts(projection.name, block, projection.parts)
    yield Activate("experts_activation", block.top_k * block.expert.width, block.expert.gated)
    yield AddResidual("experts_sum", block.top_k * block.expert.hidden)
    if block.shared:
        yield Activate("shared_activation", block.shared.width, block.shared.gated)


def _named(reach: Reach, mixed: bool) -> str:
    """Attention as a table calls it: with its reach where a model mixes several."""
    return f"attention_{_SUFFIXES[reach]}" if mixed else "attention"


_SUFFIXES = {
    Reach.FULL: "full",
    Reach.WINDOW: "windowed",
    Reach.CHUNK: "chunked",
    Reach.SPARSE: "sparse",
    Reach.COMPRESSED: "compressed",
}


def projections(linears: tuple[Linear, ...], fusion: Fusion) -> Iterator[Projection]:
    """The GEMMs that compute `linears`: one for each group in an engine, one each in the framework.

    Projections of a group that are stored in different dtypes stay apart.
    """
    groups: dict[tuple[str, object], list[Linear]] = {}
    for linear in linears:
        fused = fusion is Fusion.ENGINE and linear.group
        groups.setdefault((linear.group if fused else linear.name, linear.stored), []).append(linear)
    for (name, _), parts in groups.items():
        label = name if len(parts) > 1 or not parts[0].group else parts[0].name
        yield Projection(label, tuple(replace(part, group="") for part in parts))
