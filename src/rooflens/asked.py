"""What a profile is asked to run: MODEL and its options, checked and read, before anything is loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rooflens.core.hardware import Hardware
from rooflens.core.model import ModelSpec
from rooflens.core.op import DType
from rooflens.errors import InputError, UnknownPeakError
from rooflens.live.device import device_of
from rooflens.live.load import ATTENTION, AUTO, TORCH_DTYPES, Loading, check_dtype
from rooflens.sources.config import spec_from_config
from rooflens.sources.models import load_model
from rooflens.sources.values import config_values


@dataclass(frozen=True, slots=True)
class Asked:
    """How a model is to be run, as the user says it; None leaves it to the machine."""

    device: str | None = None
    dtype: str | DType | None = None
    attention: str = AUTO
    layers: int | None = None
    compiled: bool = False
    random: bool = False


def read_subject(model: str | Path, asked: Asked) -> tuple[ModelSpec, Path | Mapping[str, Any]]:
    """The spec of `model`, and where its weights lie, or the fields of its config for random ones.

    Raises:
        InputError: a model without weights here and no `random`, or with both.
        RooflensError: whatever reading the model refuses.
    """
    path = Path(str(model))
    if asked.random:
        name, values = config_values(model)
        return spec_from_config(values, name=name, origin=name), values
    if path.suffix.lower() == ".gguf" or os.path.isdir(path):
        return load_model(path), path
    if os.path.isfile(path) and any(path.parent.glob("*.safetensors")):
        return load_model(path), path.parent
    load_model(model)
    raise InputError(
        f"{model} names a config without weights here; pass --random-weights to run it with random ones, or the folder "
        "or GGUF file of a checkpoint"
    )


def loading_of(asked: Asked, hardware: Hardware) -> Loading:
    """How the model is loaded: on the device that was asked for, in the dtype that `hardware` multiplies fastest in.

    Raises:
        InputError: a dtype or a way of attention that no model is run in, or a device that is not there.
        UnknownPeakError: a dtype that no peak was measured of.
    """
    if asked.attention not in ATTENTION:
        raise InputError(
            f"attention {str(asked.attention)[:40]!r} is not known; expected one of {', '.join(ATTENTION)}"
        )
    layers = asked.layers
    if layers is not None and (not isinstance(layers, int) or isinstance(layers, bool) or layers < 1):
        raise InputError(f"--layers is {str(layers)[:40]}; expected a whole number from 1")
    dtype = fastest(hardware) if asked.dtype is None else DType.parse(str(asked.dtype))
    check_dtype(dtype)
    hardware.roof(dtype)
    return Loading(device_of(asked.device), dtype, asked.attention, asked.layers, asked.compiled)


def fastest(hardware: Hardware) -> DType:
    """The dtype that `hardware` has the highest peak in, of those that models are run in.

    Raises:
        UnknownPeakError: it has none of their peaks.
    """
    peaks = {dtype: peak.value for dtype in TORCH_DTYPES if (peak := hardware.peak(dtype)) is not None}
    if not peaks:
        raise UnknownPeakError(f"{hardware.name} has no peak of {', '.join(TORCH_DTYPES)}, which models are run in")
    return max(peaks, key=lambda dtype: peaks[dtype])
