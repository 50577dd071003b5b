"""vision_config to a Tower: Qwen-VL's encoders and SigLIP.

Shapes follow the reference framework's classes (transformers 5.24): Qwen3VLVisionModel, SiglipVisionModel and
Gemma3MultiModalProjector.
"""

from __future__ import annotations

from collections.abc import Callable

from rooflens.core.attention import Attention
from rooflens.core.blocks import Linear, Mlp, Norm, NormKind
from rooflens.core.model import Layer
from rooflens.core.tower import Tower
from rooflens.sources.fields import Fields


def read_tower(fields: Fields, hidden: int) -> Tower | None:
    """The vision encoder that `vision_config` describes for a language model of `hidden`, None where none is known.

    Raises:
        ConfigError: sizes that are missing, out of range, or contradict each other.
    """
    vision = fields.nested("vision_config")
    if not vision:
        return None
    inner = Fields(vision, f"{fields.origin}, vision_config")
    kind = inner.text("model_type", fields.text("model_type", ""))
    read = _TOWERS.get(kind)
    return read(fields, inner, hidden) if read else None


def _qwen(_outer: Fields, fields: Fields, hidden: int) -> Tower:
    """Qwen3-VL and Qwen3.5: patches of space and time, a learned position table, mergers of merge x merge patches."""
    width, merge = (
        fields.size("hidden", "hidden_size", default=1152),
        fields.size("layers", "spatial_merge_size", default=2),
    )
    side, frames = (
        fields.size("window", "patch_size", default=16),
        fields.size("layers", "temporal_patch_size", default=2),
    )
    patch = Linear("patch_embed", fields.size("layers", "in_channels", default=3) * frames * side * side, width, True)
    patches, out = merge * merge, fields.size("hidden", "out_hidden_size", default=hidden)
    deep = len(fields.numbers("deepstack_visual_indexes"))
    wide = width * patches
    merger = (Linear("merger_fc1", wide, wide, True), Linear("merger_fc2", wide, out, True))
    norms = (_norm("merger_norm", width), *(_norm("deepstack_norm", wide) for _ in range(deep)))
    table = fields.size("positions", "num_position_embeddings", default=2304) * width
    layers = (_layer(fields, width, "num_heads", "depth"),)
    return Tower(patch, patches, layers, merger * (1 + deep), norms, table)


def _siglip(outer: Fields, fields: Fields, hidden: int) -> Tower:
    """SigLIP as Gemma 3 uses it: whole images, pooled to `mm_tokens_per_image` tokens and projected."""
    width = fields.size("hidden", "hidden_size", default=768)
    side, image = fields.size("window", "patch_size", default=16), fields.size("window", "image_size", default=224)
    count = (image // side) ** 2
    tokens = outer.size("window", "mm_tokens_per_image", default=256)
    if not count or count % tokens:
        raise fields.fail(f"{count:,} patches of an image are no multiple of mm_tokens_per_image {tokens:,}")
    return Tower(
        patch=Linear("patch_embed", 3 * side * side, width, True),
        patches=count // tokens,
        layers=(_layer(fields, width, "num_attention_heads", "num_hidden_layers"),),
        mergers=(Linear("mm_projector", width, hidden),),
        norms=(_norm("post_norm", width), Norm("mm_norm", width, NormKind.RMS)),
        extra_params=count * width,
    )


def _layer(fields: Fields, width: int, heads_name: str, depth_name: str) -> Layer:
    heads = fields.size("heads", heads_name, default=16)
    if width % heads:
        raise fields.fail(f"hidden size {width:,} is no multiple of {heads} heads")
    attention = Attention(
        hidden=width,
        heads=heads,
        kv_heads=heads,
        d_k=width // heads,
        d_v=width // heads,
        qkv_bias=True,
        out_bias=True,
        rotary=False,
    )
    wide = fields.size("intermediate", "intermediate_size", default=4 * width)
    mlp = Mlp(width, wide, gated=False, up_bias=True, down_bias=True)
    norms = (_norm("norm1", width), _norm("norm2", width))
    return Layer(fields.size("layers", depth_name), (attention, mlp), norms)


def _norm(name: str, width: int) -> Norm:
    return Norm(name, width, NormKind.LAYER, bias=True)


_TOWERS: dict[str, Callable[[Fields, Fields, int], Tower]] = {
    "qwen3_vl": _qwen,
    "qwen3_vl_moe": _qwen,
    "qwen3_5": _qwen,
    "qwen3_5_moe": _qwen,
    "siglip_vision_model": _siglip,
}
"""Vision encoders that are known, by `model_type` of the vision config."""
