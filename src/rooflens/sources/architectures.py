"""Every architecture that is known, by `model_type`."""

from __future__ import annotations

from rooflens.sources.families import DENSE
from rooflens.sources.families_compressed import COMPRESSED
from rooflens.sources.families_latent import LATENT
from rooflens.sources.families_layered import LAYERED
from rooflens.sources.families_moe import MOE
from rooflens.sources.families_recurrent import RECURRENT
from rooflens.sources.family import Family

FAMILIES: dict[str, Family] = {**DENSE, **MOE, **LATENT, **RECURRENT, **LAYERED, **COMPRESSED}
"""Every architecture that is known."""

ALIASES: dict[str, str] = {
    "deepseek_ref": "deepseek_v4",
    "gemma4": "gemma4_text",
    "kimi_k25": "deepseek_v3",
    "llama4": "llama4_text",
    "minimax_m3": "minimax_m3_vl_text",
    "minimax_m3_vl": "minimax_m3_vl_text",
    "mllama": "mllama_text_model",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
    "step3p7": "step3p5",
}
"""Other names of the same architecture: of a published config, or of the whole whose text part it is."""
