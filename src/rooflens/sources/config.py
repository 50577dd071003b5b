"""config.json to a ModelSpec: find the file, find the architecture, read its fields."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rooflens.core.model import ModelSpec
from rooflens.errors import ConfigError, UnknownArchitectureError
from rooflens.sources.dense import build
from rooflens.sources.families import FAMILIES
from rooflens.sources.fields import Fields
from rooflens.sources.files import parse_json_object, read_bounded
from rooflens.sources.quantization import read_storage

MAX_CONFIG_BYTES = 16 * 2**20
_NESTED = ("text_config", "llm_config", "language_config")
_INHERITED = ("torch_dtype", "dtype", "tie_word_embeddings", "quantization_config", "auto_map")
_WHAT = "a config.json, or a folder with one"


def read_config(path: Path) -> ModelSpec:
    """Read the config.json at `path`, or in the folder `path`.

    Raises:
        ConfigError: no such file, or a config that is unreadable, incomplete or contradicts itself.
        UnknownArchitectureError: an architecture without a mapping to layer kinds.
    """
    try:
        file = path / "config.json" if path.is_dir() else path
    except OSError as cause:
        raise ConfigError(f"{path} could not be read ({cause.strerror}); expected {_WHAT}") from cause
    data = read_bounded(file, MAX_CONFIG_BYTES, ConfigError, _WHAT)
    values = parse_json_object(data, str(file), ConfigError)
    stem = file.stem if file.name != "config.json" else file.absolute().parent.name
    return spec_from_config(values, name=stem, origin=str(file))


def spec_from_config(values: Mapping[str, Any], *, name: str, origin: str) -> ModelSpec:
    """Return the ModelSpec of the config `values`; `origin` is what errors call it.

    Nothing that a config names is ever run: `auto_map` is noted, and an architecture is known or refused.

    Raises:
        ConfigError: a config that is incomplete or contradicts itself.
        UnknownArchitectureError: an architecture without a mapping to layer kinds.
    """
    fields = language_fields(Fields(values, origin))
    architecture = find_architecture(fields)
    return build(fields, FAMILIES[architecture], read_storage(fields), name=name, architecture=architecture)


def language_fields(fields: Fields) -> Fields:
    """The fields of the language part: those of a nested text config, and what it inherits from the top."""
    for key in _NESTED:
        nested = fields.nested(key)
        if nested:
            inherited = {k: fields.values[k] for k in (*_INHERITED, "architectures") if k in fields.values}
            kind = nested.get("model_type", fields.values.get("model_type"))
            return Fields({**inherited, **nested, "model_type": kind}, f"{fields.origin}, {key}")
    return fields


def find_architecture(fields: Fields) -> str:
    """The key of the architecture: `model_type`, else the class name in `architectures`.

    Raises:
        UnknownArchitectureError: neither is known; says which, and that remote code is never run.
    """
    model_type = fields.text("model_type", "")
    if model_type in FAMILIES:
        return model_type
    classes = fields.strings("architectures") or ()
    if not model_type:
        for name in classes:
            key = _key_of_class(name)
            if key:
                return key
    raise UnknownArchitectureError(_unknown(fields, model_type, classes))


def _key_of_class(name: str) -> str | None:
    stem = name.removesuffix("ForCausalLM").removesuffix("LMHeadModel").removesuffix("ForConditionalGeneration").lower()
    return next((key for key in FAMILIES if key.replace("_", "") == stem), None)


def _unknown(fields: Fields, model_type: str, classes: Any) -> str:
    named = model_type or ", ".join(classes)
    if not named:
        return f"{fields.origin}: neither model_type nor architectures is given; expected a decoder such as llama"
    remote = "; its own code (auto_map) is never run" if fields.has("auto_map") else ""
    known = ", ".join(sorted(FAMILIES))
    return f"{fields.origin}: the architecture {named!r} has no mapping to layer kinds{remote}; known are {known}"
