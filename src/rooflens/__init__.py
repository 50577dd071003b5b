"""rooflens: a roofline profiler for LLM inference.

The public door. Names are imported when they are first used, so that `import rooflens` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from rooflens.version import __version__

_HOMES = {
    "api": ("ceilings", "load", "predict", "profile", "profile_llamacpp", "profile_sweep", "profiling", "watch"),
    "core.hardware": ("Ceiling", "Hardware", "KernelShape", "Link", "MemoryLevel", "Roof"),
    "core.model": ("Attention", "Layer", "Linear", "Mlp", "ModelSpec", "Norm"),
    "core.op": ("DType", "Op", "OpKind", "Provenance", "Traffic"),
    "core.profile": ("Bound", "Finding", "Measurement", "PhaseProfile", "Point", "Profile", "Timing"),
    "core.scenario": (
        "AttentionFlops",
        "Batch",
        "Conventions",
        "Fusion",
        "Logits",
        "Phase",
        "PhaseKind",
        "Precision",
        "Scenario",
        "TrafficModel",
    ),
    "count": ("active_params", "forward", "kv_cache_bytes", "params", "weight_bytes"),
    "errors": ("RooflensError",),
    "metrics": ("Metrics", "PhaseMetrics", "phase_metrics", "profile_metrics"),
    "precision": ("Dtypes",),
    "roofline": ("attainable", "envelope", "place", "ridge_point"),
    "sources.hardware": ("hardware_names", "load_hardware"),
    "sources.models": ("bundled_names", "load_model"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [*sorted(_HOME), "__version__"]

if TYPE_CHECKING:
    from rooflens.api import (
        ceilings as ceilings,
        load as load,
        predict as predict,
        profile as profile,
        profile_llamacpp as profile_llamacpp,
        profile_sweep as profile_sweep,
        profiling as profiling,
        watch as watch,
    )
    from rooflens.core.hardware import (
        Ceiling as Ceiling,
        Hardware as Hardware,
        KernelShape as KernelShape,
        Link as Link,
        MemoryLevel as MemoryLevel,
        Roof as Roof,
    )
    from rooflens.core.model import (
        Attention as Attention,
        Layer as Layer,
        Linear as Linear,
        Mlp as Mlp,
        ModelSpec as ModelSpec,
        Norm as Norm,
    )
    from rooflens.core.op import (
        DType as DType,
        Op as Op,
        OpKind as OpKind,
        Provenance as Provenance,
        Traffic as Traffic,
    )
    from rooflens.core.profile import (
        Bound as Bound,
        Finding as Finding,
        Measurement as Measurement,
        PhaseProfile as PhaseProfile,
        Point as Point,
        Profile as Profile,
        Timing as Timing,
    )
    from rooflens.core.scenario import (
        AttentionFlops as AttentionFlops,
        Batch as Batch,
        Conventions as Conventions,
        Fusion as Fusion,
        Logits as Logits,
        Phase as Phase,
        PhaseKind as PhaseKind,
        Precision as Precision,
        Scenario as Scenario,
        TrafficModel as TrafficModel,
    )
    from rooflens.count import (
        active_params as active_params,
        forward as forward,
        kv_cache_bytes as kv_cache_bytes,
        params as params,
        weight_bytes as weight_bytes,
    )
    from rooflens.errors import RooflensError as RooflensError
    from rooflens.metrics import (
        Metrics as Metrics,
        PhaseMetrics as PhaseMetrics,
        phase_metrics as phase_metrics,
        profile_metrics as profile_metrics,
    )
    from rooflens.precision import Dtypes as Dtypes
    from rooflens.roofline import (
        attainable as attainable,
        envelope as envelope,
        place as place,
        ridge_point as ridge_point,
    )
    from rooflens.sources.hardware import hardware_names as hardware_names, load_hardware as load_hardware
    from rooflens.sources.models import bundled_names as bundled_names, load_model as load_model


def __getattr__(name: str) -> object:
    """Import `name` from the module that defines it."""
    if name not in _HOME:
        raise AttributeError(f"module 'rooflens' has no attribute {name!r}")
    return getattr(import_module(f"rooflens.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
