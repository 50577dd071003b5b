"""The parts of `model --json` that describe layers; docs/json.md describes each field."""

from __future__ import annotations

import msgspec


class BlockDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """One block of a layer, with the fields that its kind has; the others are left out.

    top_k: experts that a token takes, or tokens (entries, with `entry_tokens`) that a sparse query reads.
    """

    part: str
    kind: str
    params: int
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    value_head_dim: int | None = None
    window: int | None = None
    chunk: int | None = None
    top_k: int | None = None
    q_rank: int | None = None
    kv_rank: int | None = None
    rope_dim: int | None = None
    indexer_heads: int | None = None
    indexer_width: int | None = None
    entry_tokens: int | None = None
    gated: bool | None = None
    width: int | None = None
    experts: int | None = None
    expert_width: int | None = None
    shared_width: int | None = None
    latent_width: int | None = None
    state_values: int | None = None
    conv_channels: int | None = None
    conv_kernel: int | None = None
    streams: int | None = None
    kv_bytes_per_token: int | None = None
    state_bytes: int | None = None


class LayerDocument(msgspec.Struct, frozen=True):
    """`count` equal layers; params and bytes are of one of them.

    heads to window are those of its attention, mlp and intermediate those of its dense MLP: null where it has none.
    """

    kind: str
    count: int
    params: int
    heads: int | None
    kv_heads: int | None
    head_dim: int | None
    value_head_dim: int | None
    window: int | None
    mlp: str | None
    intermediate: int | None
    kv_bytes_per_token: int
    state_bytes: int
    blocks: list[BlockDocument]
