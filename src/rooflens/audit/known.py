"""Where the reference framework does what no engine does: such a figure is shown with its reason and not held."""

from __future__ import annotations

_FALCON = "the framework's Falcon caches K and V once for every query head instead of once for every KV head"
_GPT_NEO = "the framework's GPT-Neo keeps every token in its local layers, whose window is smaller"
_MIMO = "the framework's MiMo-V2 windows are one token wider than the config says"

_REASONS = {
    ("falcon", "kv_growth_bytes"): _FALCON,
    ("gpt_neo", "kv_growth_bytes"): _GPT_NEO,
    ("gpt_neo", "decode_flops"): _GPT_NEO,
    ("mimo_v2_flash", "kv_growth_bytes"): _MIMO,
    ("mimo_v2_flash", "decode_flops"): _MIMO,
}


def known_difference(model_type: str, figure: str) -> str:
    """Why `figure` of the framework's `model_type` differs from what engines do, "" where it should not."""
    return _REASONS.get((model_type, figure), "")
