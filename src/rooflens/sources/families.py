"""The dense decoder architectures that are known, by `model_type`.

Defaults are those of the reference framework's configuration classes (transformers 5.24) for fields that
a config.json leaves out; tests/data/reference_dense.jsonl holds its counts for each of them.
"""

from __future__ import annotations

from dataclasses import replace

from rooflens.core.blocks import Block, Norm
from rooflens.sources.adjust import bloom, chatglm, falcon, gpt_bigcode, gpt_neo, mpt
from rooflens.sources.family import (
    LAYER,
    LAYER_BARE,
    LAYER_UNBIASED,
    RMS_BARE,
    Family,
)
from rooflens.sources.fields import Fields
from rooflens.sources.reading import Reading
from rooflens.sources.windows import alternating, every_layer, from_layer, local, smollm3

_ATTENTION = ("attention_bias", False)
_MLP = ("mlp_bias", False)
_GEMMA_NORMS = ("input_norm", "post_attention_norm", "pre_feedforward_norm", "post_feedforward_norm")
_POST_NORMS = ("post_attention_norm", "post_feedforward_norm")


def _learned_positions(default: int, offset: int = 0) -> Family:
    """GPT-2's family: LayerNorm, biases everywhere, a plain MLP and a learned position table."""

    def rows(fields: Fields) -> int:
        names = ("n_positions", "max_position_embeddings", "n_ctx")
        return fields.size("positions", *names, default=default) + offset

    return Family(
        norm=LAYER,
        tied=True,
        qkv_bias=True,
        out_bias=True,
        up_bias=True,
        down_bias=True,
        gated=False,
        gelu_width=True,
        head_dim_read=False,
        positions=rows,
        rotary=False,
    )


_LLAMA = Family(qkv_bias=_ATTENTION, out_bias=_ATTENTION, up_bias=_MLP, down_bias=_MLP)
_PLAIN = Family(qkv_bias=_ATTENTION, out_bias=_ATTENTION)
_GPT2 = replace(_learned_positions(1024), fused_qkv=True)
_GEMMA = replace(_PLAIN, tied=True, head_dim=256)
_GEMMA2 = replace(_GEMMA, kv_heads=4, block_norms=_GEMMA_NORMS, spans=alternating(4096, 2))
_GEMMA3 = replace(_GEMMA2, qk_norm="head", spans=alternating(4096, 6))
_GPTJ = Family(
    norm=LAYER,
    parallel=True,
    up_bias=True,
    down_bias=True,
    gated=False,
    gelu_width=True,
    head_dim_read=False,
    head_bias=True,
)
_QWEN3 = replace(_PLAIN, head_dim=128, kv_heads=32, qk_norm="head", spans=from_layer)
_OPT = replace(
    _learned_positions(2048, offset=2),
    qkv_bias=("enable_bias", True),
    out_bias=("enable_bias", True),
    up_bias=("enable_bias", True),
    down_bias=("enable_bias", True),
    gelu_width=False,
    final_norm=("do_layer_norm_before", True),
)
_BLOOM = replace(_GPT2, positions=None, embedding_norm=True, adjust=bloom)


def _bitnet(reading: Reading, index: int) -> tuple[Block, ...]:
    """BitNet: a norm before the output projection, and one before the down projection."""
    return reading.attention(index, out_norm=True), reading.mlp(inner_norm=True)


def _hyperclovax_norms(reading: Reading, _index: int) -> tuple[Norm, ...]:
    """HyperCLOVA X: two norms after the blocks as well, unless `use_post_norm` is off."""
    after = ("post_norm_1", "post_norm_2") if reading.fields.flag("use_post_norm", True) else ()
    return reading.norms("input_norm", "post_attention_norm", *after)


DENSE: dict[str, Family] = {
    "apertus": replace(_PLAIN, gated=False, qk_norm="head", extra_params=2),
    "arcee": replace(_LLAMA, gated=False),
    "bitnet": replace(_PLAIN, kv_heads=5, blocks=_bitnet),
    "biogpt": replace(_learned_positions(1024, offset=2), gelu_width=False),
    "bloom": _BLOOM,
    "chatglm": Family(
        qkv_bias=("add_qkv_bias", False),
        out_bias=("add_bias_linear", False),
        up_bias=("add_bias_linear", False),
        down_bias=("add_bias_linear", False),
        fused_qkv=True,
        fused_mlp=True,
        adjust=chatglm,
    ),
    "codegen": replace(_GPTJ, fused_qkv=True),
    "cohere": replace(
        _PLAIN,
        norm=LAYER_UNBIASED,
        tied=True,
        parallel=True,
        qk_norm="rows",
        qk_norm_if=("use_qk_norm", False),
    ),
    "cohere2": replace(_PLAIN, norm=LAYER_UNBIASED, tied=True, parallel=True, spans=alternating(4096, 4)),
    "cwm": Family(up_bias=_MLP, down_bias=_MLP, head_dim=128, kv_heads=8, spans=alternating(8192, 4, full_first=True)),
    "ernie4_5": Family(
        tied=True,
        qkv_bias=("use_bias", False),
        out_bias=("use_bias", False),
        up_bias=("use_bias", False),
        down_bias=("use_bias", False),
        head_dim=128,
        kv_heads=2,
    ),
    "exaone": replace(_LLAMA, kv_heads=8),
    "exaone4": Family(block_norms=_POST_NORMS, kv_heads=32, qk_norm="head", spans=alternating(4096, 4)),
    "falcon": Family(
        norm=LAYER,
        tied=True,
        qkv_bias=("bias", False),
        out_bias=("bias", False),
        up_bias=("bias", False),
        down_bias=("bias", False),
        gated=False,
        gelu_width=True,
        fused_qkv=True,
        head_dim_read=False,
        parallel=("parallel_attn", True),
        adjust=falcon,
    ),
    "gemma": replace(_GEMMA, kv_heads=16),
    "gemma2": _GEMMA2,
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "glm": Family(qkv_bias=("attention_bias", True), fused_mlp=True, head_dim=128, kv_heads=2),
    "glm4": Family(
        qkv_bias=("attention_bias", True), fused_mlp=True, head_dim=128, kv_heads=2, block_norms=_GEMMA_NORMS
    ),
    "gpt2": _GPT2,
    "gpt_bigcode": replace(_GPT2, adjust=gpt_bigcode),
    "gpt_neo": replace(_learned_positions(2048), qkv_bias=False, spans=local, adjust=gpt_neo),
    "gpt_neox": Family(
        norm=LAYER,
        qkv_bias=("attention_bias", True),
        out_bias=("attention_bias", True),
        up_bias=True,
        down_bias=True,
        gated=False,
        fused_qkv=True,
        head_dim_read=False,
        parallel=("use_parallel_residual", True),
        parallel_norms=2,
    ),
    "gptj": _GPTJ,
    "granite": _LLAMA,
    "granite_swa": replace(_LLAMA, tied=True, kv_heads=4, sinks=True, spans=alternating(128, 4, full_first=True)),
    "helium": Family(qkv_bias=_ATTENTION, up_bias=_MLP, down_bias=_MLP, head_dim=128, kv_heads=20),
    "hunyuan_v1_dense": replace(_PLAIN, qk_norm="head"),
    "hyperclovax": replace(_LLAMA, norms=_hyperclovax_norms),
    "internlm3": Family(
        qkv_bias=("qkv_bias", False),
        out_bias=("qkv_bias", False),
        up_bias=("bias", False),
        down_bias=("bias", False),
        head_dim=128,
        kv_heads=2,
    ),
    "jais2": Family(
        norm=LAYER,
        qkv_bias=("attention_bias", True),
        out_bias=("attention_bias", True),
        up_bias=("mlp_bias", True),
        down_bias=("mlp_bias", True),
        gated=False,
    ),
    "llama": _LLAMA,
    "mimo": Family(qkv_bias=("attention_bias", True), spans=from_layer),
    "ministral": Family(kv_heads=8, spans=alternating(4096, 2**14)),
    "ministral3": Family(head_dim=128, kv_heads=8, spans=every_layer(None)),
    "mistral": Family(kv_heads=8, spans=every_layer(4096)),
    "mpt": Family(
        norm=LAYER_UNBIASED,
        tied=True,
        gated=False,
        gelu_width=True,
        fused_qkv=True,
        head_dim_read=False,
        rotary=False,
        adjust=mpt,
    ),
    "nanochat": replace(_PLAIN, norm=RMS_BARE, gated=False, qk_norm="head"),
    "nemotron": replace(_LLAMA, norm=LAYER, gated=False),
    "olmo": replace(_PLAIN, norm=LAYER_BARE),
    "olmo2": replace(_PLAIN, block_norms=_POST_NORMS, qk_norm="whole"),
    "olmo3": replace(_PLAIN, block_norms=_POST_NORMS, qk_norm="whole", spans=alternating(4096, 4)),
    "opt": _OPT,
    "persimmon": Family(
        norm=LAYER,
        qkv_bias=True,
        out_bias=True,
        up_bias=True,
        down_bias=True,
        gated=False,
        fused_qkv=True,
        head_dim_read=False,
        qk_norm="head",
        qk_norm_if=("qk_layernorm", True),
    ),
    "phi": Family(
        norm=LAYER,
        qkv_bias=True,
        out_bias=True,
        up_bias=True,
        down_bias=True,
        gated=False,
        parallel=True,
        head_bias=True,
        qk_norm="head",
        qk_norm_if=("qk_layernorm", False),
    ),
    "phi3": Family(fused_qkv=True, fused_mlp=True, spans=every_layer(None)),
    "qwen2": Family(qkv_bias=True, kv_heads=32, spans=from_layer),
    "qwen3": _QWEN3,
    "qwen3_vl_text": _QWEN3,
    "seed_oss": Family(
        qkv_bias=("attention_bias", True),
        out_bias=("attention_out_bias", False),
        up_bias=_MLP,
        down_bias=_MLP,
        head_dim=128,
        kv_heads=8,
    ),
    "smollm3": replace(_LLAMA, tied=True, kv_heads=4, spans=smollm3),
    "stablelm": Family(
        norm=LAYER,
        qkv_bias=("use_qkv_bias", False),
        kv_heads=32,
        head_dim_read=False,
        parallel=("use_parallel_residual", False),
        qk_norm="rows",
        qk_norm_if=("qk_layernorm", False),
        qk_style=LAYER_UNBIASED,
    ),
    "starcoder2": Family(
        norm=LAYER,
        tied=True,
        qkv_bias=("use_bias", True),
        out_bias=("use_bias", True),
        up_bias=("use_bias", True),
        down_bias=("use_bias", True),
        gated=False,
        kv_heads=2,
        spans=every_layer(None),
    ),
    "vaultgemma": replace(_GEMMA2, block_norms=("input_norm", "pre_feedforward_norm")),
}
"""Every dense architecture that is known."""
