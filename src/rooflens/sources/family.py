"""Family: how an architecture's config fields map to layer kinds. A new architecture is one more of these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rooflens.core.attention import EVERYTHING, Span
from rooflens.core.blocks import Block, Linear, Norm, NormKind
from rooflens.sources.fields import Fields

if TYPE_CHECKING:
    from rooflens.sources.reading import Reading

Flag = bool | tuple[str, bool]
"""A constant, or the name of a boolean field with the value that holds where it is absent."""

SpanRule = Callable[[Fields, int], tuple[Span, ...]]
"""What the attention of each layer spans, from the config and the number of layers."""

BlockRule = Callable[["Reading", int], tuple[Block, ...]]
"""The blocks of a layer, by its index."""

NormRule = Callable[["Reading", int], tuple[Norm, ...]]
"""The norms of a layer, by its index."""


def flag(fields: Fields, value: Flag) -> bool:
    """What `value` is for this config."""
    return value if isinstance(value, bool) else fields.flag(*value)


@dataclass(frozen=True, slots=True)
class NormStyle:
    """The norms of an architecture: kind, and which parameters they have."""

    kind: NormKind
    weight: bool = True
    bias: bool = False

    def norm(self, name: str, width: int, *, rows: int = 1, own_rows: bool = False) -> Norm:
        """A norm of this style."""
        return Norm(name, width, self.kind, self.weight, self.bias, rows, own_rows)


RMS = NormStyle(NormKind.RMS)
RMS_BARE = NormStyle(NormKind.RMS, weight=False)
LAYER = NormStyle(NormKind.LAYER, bias=True)
LAYER_UNBIASED = NormStyle(NormKind.LAYER)
LAYER_BARE = NormStyle(NormKind.LAYER, weight=False)


def full(_: Fields, depth: int) -> tuple[Span, ...]:
    """Every layer attends to everything, whatever the config says about windows."""
    return (EVERYTHING,) * depth


@dataclass(frozen=True, slots=True)
class Family:
    """A decoder architecture, as the reference framework's configuration class reads it.

    head_dim: width of a head where the field is absent (0: hidden / heads); `head_dim_read` is False where
        the architecture ignores the field.
    kv_heads: key-value heads where the field is absent (0: as many as heads).
    qk_norm: "" none, "head" one vector shared by all heads, "rows" one for each head, "whole" one over the projection;
        `qk_norm_if` the flag that switches it on, `qk_style` its style.
    block_norms: norms of a layer; a `parallel` layer keeps the first only unless `parallel_norms` is 2.
    gelu_width: the MLP is 4 x hidden where no width is given.
    blocks, norms: what a layer consists of where it is not attention and an MLP with `block_norms`. attends, feeds:
        False where the architecture has no attention heads, or no width of an MLP, to read.
    """

    norm: NormStyle = RMS
    block_norms: tuple[str, ...] = ("input_norm", "post_attention_norm")
    spans: SpanRule = full
    tied: bool = False
    qkv_bias: Flag = False
    out_bias: Flag = False
    up_bias: Flag = False
    down_bias: Flag = False
    gated: bool = True
    fused_qkv: bool = False
    fused_mlp: bool = False
    head_dim: int = 0
    head_dim_read: bool = True
    kv_heads: int = 0
    qk_norm: str = ""
    qk_norm_if: Flag = True
    qk_style: NormStyle | None = None
    parallel: Flag = False
    parallel_norms: int = 1
    gelu_width: bool = False
    positions: Callable[[Fields], int] | None = None
    rotary: bool = True
    embedding_norm: bool = False
    final_norm: Flag = True
    head_bias: Flag = False
    extra_params: int = 0
    adjust: Callable[[Fields], Fields] | None = None
    gate: str = ""
    sinks: bool = False
    blocks: BlockRule | None = None
    norms: NormRule | None = None
    attends: bool = True
    feeds: bool = True
    model_extra: Callable[[Reading], int] | None = None
    inputs: Callable[[Reading], tuple[Linear, ...]] | None = None
