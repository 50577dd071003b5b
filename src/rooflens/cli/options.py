"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from rooflens.core.model import ModelSpec
from rooflens.core.op import DType
from rooflens.errors import InputError
from rooflens.precision import Dtypes, preset

F = TypeVar("F", bound=Callable[..., Any])


def dtype_options(function: F) -> F:
    """Add `--dtype`, `--weights-dtype`, `--kv-dtype`, `--state-dtype` and `--precision`."""
    for name, text in (
        ("--precision", "Preset of the three dtypes: bf16, fp16, fp32, tf32, fp8, int8, w8a16, int4, mxfp4, nvfp4."),
        ("--state-dtype", "Storage of recurrent and convolution states; fp32 and the activations' dtype unless given."),
        ("--kv-dtype", "Storage of the KV cache; the activations' dtype unless given."),
        ("--weights-dtype", "Storage of the linear layers' weights; the checkpoint's unless given."),
        ("--dtype", "Arithmetic of the linear layers, and activations; the checkpoint's unless given."),
    ):
        function = click.option(name, metavar="NAME", help=text)(function)
    return function


def dtypes(given: dict[str, str | None]) -> Dtypes:
    """The dtypes asked for by the options of `dtype_options`: single options win over the preset.

    Raises:
        UnitError: a dtype that is not known. InputError: a preset that is not known.
    """
    names = ("dtype", "weights_dtype", "kv_dtype", "state_dtype")
    single = Dtypes(*(DType.parse(text) if (text := given[name]) else None for name in names))
    return preset(given["precision"], single) if given["precision"] else single


def one_of(**chosen: object) -> None:
    """Refuse more than one of the options that claim standard output.

    Raises:
        InputError: two or more are set.
    """
    names = [f"--{name}" for name, value in chosen.items() if value]
    if len(names) > 1:
        raise InputError(f"{' and '.join(names)} both write to standard output; choose one")


def checked_experts(count: float | None) -> float | None:
    """A measured number of distinct experts. Raises InputError for one that is not positive and finite."""
    if count is not None and not 0 < count < 1e6:
        raise InputError(f"--distinct-experts is {count:g}; expected the measured number of experts, above 0")
    return count


def load(model: str, *, mtp: bool) -> ModelSpec:
    """The model that `model` stands for, or its prediction modules. Raises what `load_model` and `mtp_model` do."""
    from rooflens.sources.models import load_model
    from rooflens.sources.mtp import mtp_model

    spec = load_model(model)
    return mtp_model(spec) if mtp else spec


TARGETS = ("html", "svg", "png", "pdf")
"""Files that a profile is written to, by the option that names one."""


def output_options(function: F) -> F:
    """Add `--json`, `--csv`, `--html`, `--svg`, `--png`, `--pdf` and `--dark`."""
    file = click.Path(path_type=Path, dir_okay=False)
    dark = "Draw on a dark ground; a page follows the reader's system without it."
    function = click.option("--dark", is_flag=True, help=dark)(function)
    for name in reversed(TARGETS[1:]):
        function = click.option(f"--{name}", type=file, help=f"Write the roofline chart as {name.upper()}.")(function)
    page = "Write a page with the interactive chart, readable offline."
    function = click.option("--html", type=file, help=page)(function)
    rows = "Write the kernels as CSV to standard output."
    function = click.option("--csv", "as_csv", is_flag=True, help=rows)(function)
    return click.option("--json", "as_json", is_flag=True, help="Write everything as JSON to standard output.")(
        function
    )
