"""A model on the meta device, from its config, with the reference framework's own class and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rooflens.errors import InputError, UnknownArchitectureError
from rooflens.frameworks import first_line, frameworks, quiet

MAX_LAYERS = 1024
"""Layers above which a config is refused: no published model comes near, and each costs time to build."""

_NESTED = ("text_config", "llm_config", "language_config")
_STRIPPED = frozenset(
    {
        *("auto_map", "_name_or_path", "name_or_path", "kernel_config", "use_kernels"),
        *("quantization_config", "torch_dtype", "dtype"),
        *("attn_implementation", "_attn_implementation", "_attn_implementation_internal"),
        *("experts_implementation", "_experts_implementation", "_experts_implementation_internal"),
    }
)
"""Fields that name code, kernels or storage; shapes depend on none of them."""


@dataclass(frozen=True, slots=True)
class Built:
    """A model without weights. parameters: number of learned values, of the language part where there is more."""

    model: Any
    parameters: int
    class_name: str
    model_type: str
    framework: str
    notes: tuple[str, ...] = ()


def build(values: Mapping[str, Any], origin: str, dtype: str = "bfloat16") -> Built:
    """Build the model that the config `values` describes on the meta device, in `dtype`, with eager attention.

    Its class is one that transformers itself has: code that a config names (`auto_map`) is never run, and no kernel is
    fetched. Experts run as `batched_mm` where the class can. The language part alone is counted.

    Raises:
        MissingExtraError: torch or transformers is not installed.
        UnknownArchitectureError: transformers has no class for the config.
        InputError: transformers refuses the config, or it has more than `MAX_LAYERS` layers.
    """
    torch, transformers = frameworks()
    framework = f"transformers {transformers.__version__}, torch {torch.__version__}"
    with quiet():
        try:
            whole, notes = _config(values, origin, framework)
            config = whole.get_text_config()
            _check_depth(config, origin)
            model, parameters = _model(whole, config, getattr(torch, dtype))
            if model is None:
                raise UnknownArchitectureError(_no_class(origin, framework, config.model_type))
        except (InputError, UnknownArchitectureError):
            raise
        except Exception as cause:  # the framework raises whatever its code runs into
            raise InputError(f"{origin}: {framework} cannot build this config ({first_line(cause)})") from cause
    return Built(model, parameters, type(model).__name__, config.model_type, framework, notes)


def _config(values: Mapping[str, Any], origin: str, framework: str) -> tuple[Any, tuple[str, ...]]:
    """The framework's config object, of the whole model if there is more than a language part, and what to say."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CLASSES

    plain = _inherit(_plain(values))
    kind = plain.get("model_type")
    if kind in CONFIG_MAPPING:
        return CONFIG_MAPPING[kind].from_dict(plain), ()
    nested = next((plain[key] for key in _NESTED if isinstance(plain.get(key), dict)), None)
    if nested and nested.get("model_type") in CONFIG_MAPPING:
        return CONFIG_MAPPING[nested["model_type"]].from_dict(nested), ()
    for name in plain.get("architectures") or ():
        key = next((key for key, classes in CLASSES.items() if name in classes), None)
        if key:
            note = f"{framework} has no model_type {kind!r}: built as {name}, which the config's architectures name"
            return CONFIG_MAPPING[key].from_dict({**plain, "model_type": key}), (note,)
    raise UnknownArchitectureError(_no_class(origin, framework, kind))


def _no_class(origin: str, framework: str, model_type: Any) -> str:
    return (
        f"{origin}: {framework} has no class of a language model for model_type {model_type!r}, and code that a config "
        "names is never run; there is nothing to compare with"
    )


def _plain(values: Any) -> Any:
    """A copy without the fields that name code or storage, at any depth."""
    if isinstance(values, Mapping):
        return {key: _plain(value) for key, value in values.items() if key not in _STRIPPED}
    return json.loads(json.dumps(values))


def _inherit(plain: dict[str, Any]) -> dict[str, Any]:
    """Tied embeddings hold for the language part too where only the whole model's config says so."""
    tied = plain.get("tie_word_embeddings")
    for key in _NESTED:
        nested = plain.get(key)
        if isinstance(nested, dict) and tied is not None:
            nested.setdefault("tie_word_embeddings", tied)
    return plain


def _check_depth(config: Any, origin: str) -> None:
    depth = getattr(config, "num_hidden_layers", None)
    if isinstance(depth, int) and depth > MAX_LAYERS:
        raise InputError(f"{origin}: {depth:,} layers; the framework's model is built for at most {MAX_LAYERS:,}")


def _model(whole: Any, text: Any, dtype: Any) -> tuple[Any, int]:
    """The model and its number of parameters; (None, 0) where the framework has no class.

    A language model of its own if there is one, else the language part of the whole model: decoder and output head.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    options = {"attn_implementation": "eager", "dtype": dtype, "trust_remote_code": False}
    choices = ((AutoModelForCausalLM, text), (AutoModelForCausalLM, whole), (AutoModelForImageTextToText, whole))
    for auto, config in (*choices, (AutoModelForImageTextToText, _around(text))):
        if type(config) in auto._model_mapping:
            with torch.device("meta"):
                model = _from_config(auto, config, options).eval().requires_grad_(False)
            alone = isinstance(model.config, type(text))
            parts = [model] if alone else [model.get_decoder(), model.get_output_embeddings()]
            unique = {id(p): p for part in parts for p in part.parameters()}
            return model, sum(int(p.numel()) for p in unique.values())
    return None, 0


def _around(text: Any) -> Any:
    """The config of the vision-language model around a text config that stands alone, or None."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind = text.model_type.removesuffix("_text")
    if kind == text.model_type or kind not in CONFIG_MAPPING:
        return None
    tied = bool(getattr(text, "tie_word_embeddings", False))
    return CONFIG_MAPPING[kind].from_dict({"text_config": text.to_dict(), "tie_word_embeddings": tied})


def _from_config(auto: Any, config: Any, options: Mapping[str, Any]) -> Any:
    """Experts as `batched_mm`, or as the class runs them where it cannot choose."""
    try:
        return auto.from_config(config, experts_implementation="batched_mm", **options)
    except (TypeError, ValueError):
        return auto.from_config(config, **options)
