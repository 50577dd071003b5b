"""hf_quant_config.json: how ModelOpt quantised a checkpoint, in a file beside its config.json."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rooflens.errors import ConfigError
from rooflens.sources.files import parse_json_object, read_bounded

NAME = "hf_quant_config.json"
_MAX_BYTES = 16 * 2**20
_PARTS = ("text_config", "llm_config", "language_config")


def with_quantization_file(values: Mapping[str, Any], config: Path) -> Mapping[str, Any]:
    """The fields `values` of the config.json `config`, with what the file beside it says of quantisation.

    A `quantization_config` of the config itself wins. Only a file named config.json has one beside it.

    Raises:
        ConfigError: a file that is there and cannot be read, or holds no object.
    """
    beside = config.with_name(NAME)
    if config.name != "config.json" or _stated(values) or not beside.exists():
        return values
    found = parse_json_object(read_bounded(beside, _MAX_BYTES, ConfigError, NAME), str(beside), ConfigError)
    inner = found.get("quantization", found)
    if not isinstance(inner, dict):
        raise ConfigError(f"{beside}: quantization is a {type(inner).__name__}; expected an object")
    return {**values, "quantization_config": {"quant_method": "modelopt", **inner}}


def _stated(values: Mapping[str, Any]) -> bool:
    nested = (values.get(part) for part in _PARTS)
    return any(isinstance(part, dict) and part.get("quantization_config") for part in (values, *nested))
