"""The keys of a GGUF file as the fields of a config.json, so that one reader knows each architecture.

Source: the keys that llama.cpp's converter writes for each architecture (names in the `gguf` package, constants.Keys).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rooflens.errors import ConfigError, UnknownArchitectureError
from rooflens.sources.fields import show
from rooflens.sources.gguf_header import Header

Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of a file, those of its architecture by their bare names."""

    header: Header
    origin: str

    @property
    def architecture(self) -> str:
        """`general.architecture`. Raises ConfigError where it is missing."""
        name = self.header.keys.get("general.architecture")
        if not isinstance(name, str):
            raise ConfigError(f"{self.origin}: general.architecture is {show(name)}; expected a name such as llama")
        return name

    def get(self, name: str) -> int | None:
        """The whole number under `name`; of a list with one for each layer, the one that all of them share.

        Raises:
            ConfigError: no whole number, or one that differs from layer to layer.
        """
        key = f"{self.architecture}.{name}"
        value = self.header.keys.get(key)
        if isinstance(value, list) and value:
            if len(set(value)) > 1:
                raise ConfigError(f"{self.origin}: {key} differs from layer to layer; expected one number for all")
            value = value[0]
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise ConfigError(f"{self.origin}: {key} is {show(value)}; expected a whole number")
        return value

    def flag(self, name: str, default: bool) -> bool:
        """The boolean under `name`."""
        value = self.header.keys.get(f"{self.architecture}.{name}", default)
        if not isinstance(value, bool):
            raise ConfigError(f"{self.origin}: {self.architecture}.{name} is {show(value)}; expected true or false")
        return value

    def has(self, tensor: str) -> bool:
        """Whether the file has `tensor`."""
        return tensor in self.header.tensors


def config_of(keys: Keys) -> tuple[str, Values]:
    """Return the architecture as a config spells it, and the fields of that config.

    Raises:
        ConfigError: a key that is missing or is no whole number.
        UnknownArchitectureError: an architecture without a translation.
    """
    reader = ARCHITECTURES.get(keys.architecture)
    if reader is None:
        near = difflib.get_close_matches(keys.architecture, ARCHITECTURES, n=1)
        hint = f"near it is {near[0]}, of " if near else ""
        raise UnknownArchitectureError(
            f"{keys.origin}: GGUF files of the architecture {show(keys.architecture)} are not read; known are {hint}"
            f"{', '.join(ARCHITECTURES)}"
        )
    model_type, values = reader(keys)
    return model_type, {**_common(keys), **values}


def _common(keys: Keys) -> Values:
    table = keys.header.tensors.get("token_embd.weight")
    if table is None or len(table.shape) != 2:
        raise ConfigError(f"{keys.origin}: the tensor token_embd.weight is missing; expected a table of token rows")
    hidden, heads = keys.get("embedding_length"), keys.get("attention.head_count")
    own = hidden // heads if hidden and heads and hidden % heads == 0 else None
    layers, drafts = keys.get("block_count"), keys.get("nextn_predict_layers") or 0
    return {
        "hidden_size": hidden,
        "num_hidden_layers": layers - drafts if layers else layers,
        "intermediate_size": keys.get("feed_forward_length"),
        "num_attention_heads": heads,
        "num_key_value_heads": keys.get("attention.head_count_kv") or heads,
        "head_dim": keys.get("attention.key_length") or own,
        "max_position_embeddings": keys.get("context_length"),
        "vocab_size": table.shape[1],
        "tie_word_embeddings": not keys.has("output.weight"),
        "sliding_window": None,
    }


def _plain(model_type: str, **fields: Any) -> Callable[[Keys], tuple[str, Values]]:
    """An architecture that the common keys describe."""
    return lambda _: (model_type, dict(fields))


def _windowed(model_type: str) -> Callable[[Keys], tuple[str, Values]]:
    """One with windowed layers, which of them being a matter of the architecture."""
    return lambda keys: (model_type, {"sliding_window": keys.get("attention.sliding_window")})


def _experts(keys: Keys) -> Values:
    return {
        "num_experts": keys.get("expert_count"),
        "num_experts_per_tok": keys.get("expert_used_count"),
        "moe_intermediate_size": keys.get("expert_feed_forward_length"),
    }


def _llama(keys: Keys) -> tuple[str, Values]:
    """Llama and Mistral, and Mixtral where there are experts."""
    biases = {"attention_bias": keys.has("blk.0.attn_q.bias"), "mlp_bias": keys.has("blk.0.ffn_up.bias")}
    if keys.get("expert_count"):
        return "mixtral", {"num_local_experts": keys.get("expert_count"), **_experts(keys), "num_experts": None}
    return "llama", biases


def _qwen2_moe(keys: Keys) -> tuple[str, Values]:
    shared = keys.get("expert_shared_feed_forward_length")
    return "qwen2_moe", {**_experts(keys), "shared_expert_intermediate_size": shared}


def _qwen3_moe(keys: Keys) -> tuple[str, Values]:
    return "qwen3_moe", _experts(keys)


def _gpt_oss(keys: Keys) -> tuple[str, Values]:
    width = keys.get("expert_feed_forward_length") or keys.get("feed_forward_length")
    return "gpt_oss", {
        "num_local_experts": keys.get("expert_count"),
        "num_experts_per_tok": keys.get("expert_used_count"),
        "intermediate_size": width,
        "sliding_window": keys.get("attention.sliding_window"),
    }


def _deepseek(keys: Keys) -> tuple[str, Values]:
    """DeepSeek V2 and V3. Newer files give the widths of expanded heads under keys of their own (`_mla`)."""
    rope = keys.get("rope.dimension_count") or 0
    key = keys.get("attention.key_length_mla") or keys.get("attention.key_length") or 0
    value = keys.get("attention.value_length_mla") or keys.get("attention.value_length")
    if key <= rope:
        raise ConfigError(f"{keys.origin}: a key of {key:,} values has {rope:,} rotated ones; expected fewer")
    return "deepseek_v3", {
        **_experts(keys),
        "n_routed_experts": keys.get("expert_count"),
        "num_experts": None,
        "num_key_value_heads": keys.get("attention.head_count"),
        "head_dim": None,
        "n_shared_experts": keys.get("expert_shared_count") or 0,
        "first_k_dense_replace": keys.get("leading_dense_block_count") or 0,
        "q_lora_rank": keys.get("attention.q_lora_rank"),
        "kv_lora_rank": keys.get("attention.kv_lora_rank"),
        "qk_nope_head_dim": key - rope,
        "qk_rope_head_dim": rope,
        "v_head_dim": value,
    }


def _falcon(keys: Keys) -> tuple[str, Values]:
    kv = keys.get("attention.head_count_kv") or 1
    return "falcon", {
        "new_decoder_architecture": keys.has("blk.0.attn_norm_2.weight"),
        "num_kv_heads": kv,
        "multi_query": kv == 1,
        "bias": keys.has("blk.0.attn_qkv.bias"),
    }


def _mpt(keys: Keys) -> tuple[str, Values]:
    kv = keys.get("attention.head_count_kv") or keys.get("attention.head_count")
    return "mpt", {"d_model": keys.get("embedding_length"), "attn_config": {"kv_n_heads": kv}}


def _neox(keys: Keys) -> tuple[str, Values]:
    return "gpt_neox", {"use_parallel_residual": keys.flag("use_parallel_residual", True)}


ARCHITECTURES: dict[str, Callable[[Keys], tuple[str, Values]]] = {
    "bloom": _plain("bloom"),
    "deepseek2": _deepseek,
    "falcon": _falcon,
    "gemma": _plain("gemma"),
    "gemma2": _windowed("gemma2"),
    "gemma3": _windowed("gemma3_text"),
    "gpt-oss": _gpt_oss,
    "gptneox": _neox,
    "llama": _llama,
    "mpt": _mpt,
    "olmo2": _plain("olmo2"),
    "phi3": _windowed("phi3"),
    "qwen2": _plain("qwen2"),
    "qwen2moe": _qwen2_moe,
    "qwen3": _plain("qwen3"),
    "qwen3moe": _qwen3_moe,
    "starcoder2": _plain("starcoder2"),
}
"""Architectures of GGUF files that are read."""
