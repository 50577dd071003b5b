"""MODEL, as users write it: a path, a bundled name, or a Hub id where the `hub` extra is installed."""

from __future__ import annotations

import difflib
import os
import re
from functools import cache
from importlib import resources
from pathlib import Path

from rooflens.core.model import ModelSpec
from rooflens.errors import ConfigError, MissingExtraError, UnknownModelError
from rooflens.sources.config import read_config, spec_from_config
from rooflens.sources.files import parse_json_object

_HUB_ID = re.compile(r"^[\w.-]+/[\w.-]+$")
_OWNERS = (
    "allenai bigcode databricks deepseek-ai eleutherai google huggingfacetb meta-llama microsoft minimaxai mistralai "
    "moonshotai nvidia openai openai-community qwen thudm tinyllama xiaomimimo zai-org"
)
"""Who publishes the bundled models on the Hub."""
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_SEPARATORS = re.compile(r"[\s_]+")


def load_model(name: str | Path) -> ModelSpec:
    """Return the model that `name` stands for: a config.json, a folder, a GGUF file, a bundled name, a Hub id.

    A path that exists wins over a bundled name, a bundled name over a Hub id.

    Raises:
        ConfigError: a config that is unreadable, incomplete or contradicts itself.
        UnknownArchitectureError: an architecture without a mapping to layer kinds.
        UnknownModelError: neither a path nor a bundled name; names the nearest ones.
        MissingExtraError: a Hub id without the `hub` extra, a GGUF file without the `gguf` extra.
    """
    text = str(name)
    if isinstance(name, Path) or _is_path(text):
        return _from_path(Path(text))
    key = bundled_key(text)
    if key:
        return _bundled(key)
    if _HUB_ID.match(text):
        return _from_hub(text)
    raise UnknownModelError(_unknown(text))


def _from_path(path: Path) -> ModelSpec:
    """A GGUF file, a config.json, or a folder with one and perhaps with the headers of its weights."""
    kind = path.suffix.lower()
    if kind == ".gguf":
        from rooflens.sources.gguf import read_gguf

        return read_gguf(path)
    if kind in _PICKLES and not os.path.isdir(path):
        raise ConfigError(f"{path} holds pickled weights, which are never opened; expected the folder of a config.json")
    if kind == ".safetensors":
        raise ConfigError(f"{path} holds weights without a model's shape; expected the folder of its config.json")
    return read_config(path)


def bundled_names() -> tuple[str, ...]:
    """Names of the bundled models, sorted."""
    return tuple(sorted(f.name.removesuffix(".json") for f in _folder().iterdir() if f.name.endswith(".json")))


def bundled_key(text: str) -> str | None:
    """The bundled name that `text` spells, or None; case, spaces, underscores and the publisher's name do not count."""
    word = _SEPARATORS.sub("-", text.strip().lower())
    names = bundled_names()
    if word in names:
        return word
    owner, _, short = word.rpartition("/")
    if owner and f" {owner} " not in f" {_OWNERS} ":
        return None
    short = short.removeprefix("meta-").removesuffix("-hf").removesuffix("-it").removesuffix("-instruct")
    return short if short in names else None


def _is_path(text: str) -> bool:
    if text.endswith((".json", ".gguf", "/")) or text.startswith((".", "/", "~")):
        return True
    try:
        return Path(text).exists() or Path(text).is_symlink()
    except (OSError, ValueError):
        return True


def _bundled(key: str) -> ModelSpec:
    origin = f"bundled {key}"
    data = (_folder() / f"{key}.json").read_bytes()
    record = parse_json_object(data, origin, ConfigError)
    return spec_from_config(record["config"], name=key, origin=f"{origin} ({record['source']})")


def _from_hub(name: str) -> ModelSpec:
    """The config.json of a Hub id, through the client's own cache; nothing else is downloaded."""
    try:
        from huggingface_hub import hf_hub_download
    except ImportError as cause:
        near = _nearest(name)
        raise MissingExtraError(
            f"{name} looks like a Hub id, which needs the extra 'hub' (pip install 'rooflens[hub]'); "
            f"or pass the path of its config.json{near}"
        ) from cause
    try:
        path = hf_hub_download(name, "config.json")
    except Exception as cause:  # the client raises its own, requests' and the operating system's errors
        first = str(cause).strip().splitlines()[0] if str(cause).strip() else type(cause).__name__
        raise UnknownModelError(
            f"the config.json of {name} could not be fetched from the Hub ({first[:160]}); "
            "offline, pass the path of a config.json that you have"
        ) from cause
    model = read_config(Path(path))
    return _renamed(model, name)


def _renamed(model: ModelSpec, name: str) -> ModelSpec:
    from dataclasses import replace

    return replace(model, name=name, source=f"Hub, {name}")


def _unknown(text: str) -> str:
    return (
        f"model {text!r} is neither a path nor bundled; pass a config.json, a folder with one, or a name from "
        f"`rooflens model --list`{_nearest(text)}"
    )


def _nearest(text: str) -> str:
    near = difflib.get_close_matches(text.lower().rpartition("/")[2], bundled_names(), n=3, cutoff=0.5)
    return f"; near it: {', '.join(near)}" if near else ""


@cache
def _folder() -> Path:
    return Path(str(resources.files("rooflens") / "data" / "models"))
