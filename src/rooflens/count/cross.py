"""Cross-attention over image tokens: K and V are computed with the prompt and read in every step after it.

Source: Llama 3, 2407.21783, section 7. Every text token attends to every image token.
"""

from __future__ import annotations

from collections.abc import Iterator

from rooflens.core.blocks import Linear
from rooflens.core.cross import CrossAttention
from rooflens.core.op import AttentionShape, Op, Traffic
from rooflens.core.scenario import PhaseKind
from rooflens.count.attention import fused
from rooflens.count.gemm import linear
from rooflens.count.setting import Setting


def image_projection(name: str, parts: tuple[Linear, ...], setting: Setting) -> Iterator[Op]:
    """Count the projection of image tokens to K and V: in the pass over the prompt, and not again."""
    if setting.phase.kind is PhaseKind.PREFILL:
        yield linear(name, setting.batch.sequences * setting.batch.image_tokens, parts, setting)


def cross_attention(name: str, layer: CrossAttention, setting: Setting) -> Op:
    """Count one fused kernel: text queries against the keys and values of all image tokens, without a mask.

    In a prefill K and V were just computed: they are activations, and are written to the cache.
    """
    batch, precision = setting.batch, setting.precision
    fresh = setting.phase.kind is PhaseKind.PREFILL
    shape = AttentionShape(
        sequences=batch.sequences,
        q_tokens=batch.new_tokens,
        kv_tokens=0 if fresh else batch.image_tokens,
        pairs=batch.new_tokens * batch.image_tokens,
        heads=layer.heads,
        kv_heads=layer.kv_heads,
        d_k=layer.head_dim,
        d_v=layer.head_dim,
    )
    cached = batch.sequences * batch.image_tokens * layer.values_per_token
    values = setting.tokens * (2 * layer.heads * layer.head_dim)
    moved = Traffic(
        kv_read=0 if fresh else precision.kv.bytes_of(cached),
        kv_write=precision.kv.bytes_of(cached) if fresh else 0,
        activations=precision.activations.bytes_of(values + (cached if fresh else 0)),
    )
    return fused(name, shape, moved, setting)
