"""A model that runs: a checkpoint, a GGUF file, or a config with random weights, in the framework's own class.

Code of a checkpoint is never run, weights are read from safetensors and GGUF files alone: nothing is unpickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rooflens.core.op import DType
from rooflens.errors import InputError
from rooflens.frameworks import first_line, frameworks, quiet, quiet_stderr
from rooflens.live.device import Device
from rooflens.live.memory import is_out_of_memory

TORCH_DTYPES = {DType.FP32: "float32", DType.BF16: "bfloat16", DType.FP16: "float16"}
"""What a model can be run in."""
AUTO = "auto"
ATTENTION = (AUTO, "sdpa", "eager", "flash_attention_2", "flex_attention")
"""How attention can be run, in the framework's words; AUTO leaves it to the framework, which takes sdpa if it can."""


@dataclass(frozen=True, slots=True)
class Loading:
    """How a model is to be loaded. layers: how many of its first layers; None for all of them."""

    device: Device
    dtype: DType
    attention: str = AUTO
    layers: int | None = None
    compiled: bool = False


def check_dtype(dtype: DType) -> None:
    """Raises InputError for a dtype that no model is run in."""
    if dtype not in TORCH_DTYPES:
        known = ", ".join(TORCH_DTYPES)
        raise InputError(f"a model is run in {known}, and not in {dtype}; pass one of them, or no --dtype")


def load_weights(path: Path, loading: Loading) -> Any:
    """Return the model of the folder or GGUF file at `path`, its weights widened to `loading.dtype`, ready to run.

    Raises:
        InputError: no weights in a form that is read, not enough memory, or the framework refuses them.
        MissingExtraError: torch or transformers is not installed.
    """
    torch, transformers = frameworks("runs of a model", "measure")
    gguf = path.suffix.lower() == ".gguf"
    folder = path.parent if gguf or path.is_file() else path
    if not gguf and not any(folder.glob("*.safetensors")):
        raise InputError(f"{folder} has no .safetensors files; pass --random-weights to run its config without weights")
    options: dict[str, Any] = {
        "dtype": getattr(torch, TORCH_DTYPES[loading.dtype]),
        "attn_implementation": _attention(loading),
        "local_files_only": True,
        "trust_remote_code": False,
    }
    if gguf:
        options |= {"gguf_file": path.name, "quantization_config": transformers.GgufConfig(dequantize=True)}
    else:
        options |= {"use_safetensors": True}
    if loading.layers is not None:
        options |= {"config": _sliced(_own_config(folder, path.name if gguf else None), loading.layers)}
    auto = transformers.AutoModelForCausalLM
    return _ready(lambda: auto.from_pretrained(str(folder), **options), str(path), loading)


def random_weights(values: Mapping[str, Any], origin: str, loading: Loading) -> Any:
    """Return the model of the config `values` with random weights: its shapes and times, not its answers.

    Raises:
        InputError: the framework has no class for the config, or not enough memory.
        MissingExtraError: torch or transformers is not installed.
    """
    torch, transformers = frameworks("runs of a model", "measure")
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind = values.get("model_type")
    if kind not in CONFIG_MAPPING:
        raise InputError(
            f"{origin}: transformers has no class for model_type {kind!r}, and code of others is never run"
        )
    kept = {key: value for key, value in values.items() if key not in ("auto_map", "quantization_config")}

    def made() -> Any:
        config = CONFIG_MAPPING[kind].from_dict(kept).get_text_config()
        config = config if loading.layers is None else _sliced(config, loading.layers)
        dtype = getattr(torch, TORCH_DTYPES[loading.dtype])
        with torch.device(loading.device.name):
            return transformers.AutoModelForCausalLM.from_config(
                config, dtype=dtype, attn_implementation=_attention(loading), trust_remote_code=False
            )

    return _ready(made, origin, loading)


def _attention(loading: Loading) -> str | None:
    return None if loading.attention == AUTO else loading.attention


def _own_config(folder: Path, gguf: str | None) -> Any:
    from transformers import AutoConfig

    extra = {"gguf_file": gguf} if gguf else {}
    return AutoConfig.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False, **extra)


def _sliced(config: Any, layers: int) -> Any:
    """`config` with its first `layers` layers; lists with an entry for each layer are cut with it."""
    depth = config.num_hidden_layers
    if layers > depth:
        raise InputError(f"--layers is {layers:,} and the model has {depth:,} layers; expected at most as many")
    for name, value in list(vars(config).items()):
        if isinstance(value, list) and len(value) == depth:
            setattr(config, name, value[:layers])
    config.num_hidden_layers = layers
    return config


def _ready(make: Any, origin: str, loading: Loading) -> Any:
    """What `make` gives on its device, in evaluation mode; what goes wrong in one sentence."""
    try:
        with quiet(), quiet_stderr():
            model = make().eval().requires_grad_(False).to(loading.device.name)
            if loading.compiled:
                model.forward = _compiled(model.forward)
    except InputError:
        raise
    except Exception as cause:  # the framework raises whatever its code runs into
        if is_out_of_memory(cause):
            raise InputError(
                f"{origin} does not fit into the memory of {loading.device.name}; take a slice of it with --layers"
            ) from cause
        raise InputError(f"{origin} could not be loaded by transformers ({first_line(cause)})") from cause
    return model


def _compiled(forward: Any) -> Any:
    """`forward`, compiled for every length: a cache grows by one token a step."""
    import torch

    return torch.compile(forward, dynamic=True)
