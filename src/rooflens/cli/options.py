"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from rooflens.core.op import DType
from rooflens.errors import InputError
from rooflens.precision import Dtypes, preset

F = TypeVar("F", bound=Callable[..., Any])


def dtype_options(function: F) -> F:
    """Add `--dtype`, `--weights-dtype`, `--kv-dtype` and `--precision`."""
    for name, text in (
        ("--precision", "Preset of the three dtypes: bf16, fp16, fp32, tf32, fp8, int8, w8a16, int4, mxfp4, nvfp4."),
        ("--kv-dtype", "Storage of the KV cache; the activations' dtype unless given."),
        ("--weights-dtype", "Storage of the linear layers' weights; the checkpoint's unless given."),
        ("--dtype", "Arithmetic of the linear layers, and activations; the checkpoint's unless given."),
    ):
        function = click.option(name, metavar="NAME", help=text)(function)
    return function


def dtypes(dtype: str | None, weights_dtype: str | None, kv_dtype: str | None, precision: str | None) -> Dtypes:
    """The dtypes asked for: single options win over the preset.

    Raises:
        UnitError: a dtype that is not known. InputError: a preset that is not known.
    """
    single = Dtypes(*(DType.parse(text) if text else None for text in (dtype, weights_dtype, kv_dtype)))
    return preset(precision, single) if precision else single


def one_of(**chosen: object) -> None:
    """Refuse more than one of the options that claim standard output.

    Raises:
        InputError: two or more are set.
    """
    names = [f"--{name}" for name, value in chosen.items() if value]
    if len(names) > 1:
        raise InputError(f"{' and '.join(names)} both write to standard output; choose one")
