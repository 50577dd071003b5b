"""rooflens: a roofline profiler for LLM inference.

The public door. Names are imported when they are first used, so that `import rooflens` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from rooflens.version import __version__

_HOMES = {
    "api": ("predict",),
    "core.hardware": ("Ceiling", "Hardware", "Link", "MemoryLevel", "Roof"),
    "core.model": ("Attention", "Layer", "Linear", "Mlp", "ModelSpec", "Norm"),
    "core.op": ("DType", "Op", "OpKind", "Provenance", "Traffic"),
    "core.profile": ("Bound", "Finding", "PhaseProfile", "Point", "Profile", "Timing"),
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
    from rooflens.api import predict as predict


def __getattr__(name: str) -> object:
    """Import `name` from the module that defines it."""
    if name not in _HOME:
        raise AttributeError(f"module 'rooflens' has no attribute {name!r}")
    return getattr(import_module(f"rooflens.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
