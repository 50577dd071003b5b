"""The public functions: each puts rooms together and does nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from rooflens.core.hardware import Hardware
from rooflens.core.model import ModelSpec
from rooflens.core.profile import Profile
from rooflens.core.scenario import Conventions
from rooflens.count import forward
from rooflens.findings import findings
from rooflens.precision import Dtypes, preset, settle
from rooflens.roofline import place_phase
from rooflens.sources.hardware import load_hardware
from rooflens.sources.models import load_model
from rooflens.workload import scenario


def predict(
    model: str | Path | ModelSpec,
    gpu: str | Path | Hardware,
    *,
    batch: Any = 1,
    prompt: Any = 512,
    output: Any = 128,
    context: Any = None,
    precision: str | Dtypes | None = None,
    conventions: Conventions | None = None,
) -> Profile:
    """Predict prefill and one decode step of `model` on `gpu`: every kernel under its roof.

    model: a config.json, a folder with one, a bundled name, or a ModelSpec. gpu: a name, a TOML file, or Hardware.
    batch, prompt, output, context: whole numbers (sequences, tokens), or arrays of one shape; every figure of
    the result then has that shape. context is what is cached before the decode step, prompt + output // 2
    unless given. precision: a preset such as "fp8", or the dtypes one by one. Times are seconds at the ideal
    roofline, a lower bound; a model that does not fit is a finding, not an error.

    Raises:
        InputError: a size that is not a positive whole number, or a preset that is not known.
        UnknownNameError: a model, part or architecture that is not known.
        UnknownPeakError: a dtype that was asked for and that the part has no peak for.

    Source: Williams, Waterman, Patterson, CACM 52(4), 2009, for the roofline; each count names its own.
    """
    spec = model if isinstance(model, ModelSpec) else load_model(model)
    hardware = gpu if isinstance(gpu, Hardware) else load_hardware(gpu)
    dtypes = preset(precision, Dtypes()) if isinstance(precision, str) else precision or Dtypes()
    settled, notes = settle(spec, hardware, dtypes)
    counted = conventions or Conventions()
    work = scenario(batch=batch, prompt=prompt, output=output, context=context, precision=settled, conventions=counted)
    phases = tuple(
        place_phase(phase, forward(spec, phase, settled, counted), hardware, settled.compute) for phase in work.phases
    )
    profile = Profile(spec, hardware, work, phases)
    return replace(profile, findings=notes + findings(profile))
