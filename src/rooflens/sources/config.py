"""config.json to a ModelSpec: find the file, find the architecture, read its fields."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rooflens.core.model import ModelSpec
from rooflens.core.op import DType
from rooflens.errors import ConfigError, UnknownArchitectureError
from rooflens.sources.architectures import ALIASES, FAMILIES
from rooflens.sources.build import build
from rooflens.sources.contradictions import check_dense
from rooflens.sources.families import DENSE
from rooflens.sources.fields import Fields
from rooflens.sources.files import parse_json_object, read_bounded
from rooflens.sources.mtp import mtp_layers
from rooflens.sources.quantization import as_stored, read_storage
from rooflens.sources.quantization_file import with_quantization_file
from rooflens.sources.refusals import NESTED, refuse
from rooflens.sources.safetensors import read_checkpoint, with_checkpoint
from rooflens.sources.vision import read_tower

MAX_CONFIG_BYTES = 16 * 2**20
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
    values = with_quantization_file(parse_json_object(data, str(file), ConfigError), file)
    stem = file.stem if file.name != "config.json" else file.absolute().parent.name
    found = read_checkpoint(path) if path.is_dir() else None
    wide = found.wide if found else {}
    model = spec_from_config(values, name=printable(stem), origin=printable(str(file)), wide=wide)
    return with_checkpoint(model, found)


def printable(text: str) -> str:
    """`text` with control characters, and what is no UTF-8, replaced: names of files reach terminals and pages."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def spec_from_config(
    values: Mapping[str, Any], *, name: str, origin: str, wide: Mapping[str, DType] | None = None
) -> ModelSpec:
    """Return the ModelSpec of the config `values`; `origin` is what errors call it.

    wide: dtypes of single weights, by module, as a checkpoint's headers give them. Nothing that a config names is run:
    `auto_map` is noted, and an architecture is known or refused.

    Raises:
        ConfigError: a config that is incomplete or contradicts itself.
        UnknownArchitectureError: an architecture without a mapping to layer kinds.
    """
    whole = Fields(values, origin)
    refuse(whole)
    fields = language_fields(whole)
    architecture = find_architecture(fields)
    if architecture in DENSE:
        check_dense(fields, architecture)
    storage = as_stored(read_storage(fields), wide or {})
    model = build(fields, FAMILIES[architecture], storage, name=name, architecture=architecture)
    return storage.complete(replace(model, tower=read_tower(whole, model.hidden), mtp_layers=mtp_layers(fields)))


def language_fields(fields: Fields) -> Fields:
    """The fields of the language part: those of a nested text config, and what it inherits from the top."""
    for key in NESTED:
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
    model_type = ALIASES.get(model_type, model_type)
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
    near = difflib.get_close_matches(named.lower(), FAMILIES, n=3, cutoff=0.4)
    known = f"near it are {', '.join(near)}, of " if near else ""
    return (
        f"{fields.origin}: the architecture {named[:80]!r} has no mapping to layer kinds{remote}; "
        f"known are {known}{len(FAMILIES)} architectures (docs/models.md lists them); `predict --trace` takes the "
        "reference framework's own model"
    )
