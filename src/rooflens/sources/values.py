"""The fields of a model's config as they are written, for what builds more from them than a ModelSpec."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path
from typing import Any

from rooflens.errors import ConfigError
from rooflens.sources.config import MAX_CONFIG_BYTES
from rooflens.sources.files import parse_json_object, read_bounded
from rooflens.sources.models import bundled_key, load_model

_WHAT = "a config.json, or a folder with one"


def config_values(model: str | Path) -> tuple[str, dict[str, Any]]:
    """Return the name of `model` and the fields of its config.json, or of its bundled record.

    Raises:
        ConfigError: a file that cannot be read as JSON fields, a GGUF file among them.
        RooflensError: whatever `load_model` refuses.
    """
    text = str(model)
    if text.endswith(".gguf"):
        raise ConfigError(f"{text} is a GGUF file, which holds no config; expected {_WHAT}")
    path = Path(text)
    there = os.path.exists(text)
    key = None if there or text.endswith(".json") else bundled_key(text)
    if key:
        record = resources.files("rooflens") / "data" / "models" / f"{key}.json"
        return key, dict(parse_json_object(record.read_bytes(), f"bundled {key}", ConfigError)["config"])
    file = path if there or text.endswith(".json") else _from_hub(text)
    file = file / "config.json" if file.is_dir() else file
    values = parse_json_object(read_bounded(file, MAX_CONFIG_BYTES, ConfigError, _WHAT), str(file), ConfigError)
    name = text if file is not path and not there else _stem(file)
    return name, values


def _from_hub(name: str) -> Path:
    """The file of a Hub id, which reading the model puts into the client's own cache."""
    load_model(name)
    from huggingface_hub import hf_hub_download

    return Path(hf_hub_download(name, "config.json"))


def _stem(file: Path) -> str:
    return file.stem if file.name != "config.json" else file.absolute().parent.name
