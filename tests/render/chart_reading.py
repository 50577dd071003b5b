"""What the tests of the chart read out of its specification, and the profiles that they draw."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rooflens.core.scenario import Conventions, Fusion, TrafficModel
from rooflens.render.chart_frame import Frame

CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "both bounds": ("llama-3.1-8b", "h100-sxm", {"batch": 64}),
    "short prompt": ("llama-3.1-8b", "h100-sxm", {"prompt": 32}),
    "small part": ("qwen3-0.6b", "t4", {"precision": "fp32"}),
    "two dtypes": ("gemma-2-9b", "h100-sxm", {"batch": 8, "prompt": 2048, "precision": "fp8"}),
    "eager": ("llama-3.1-8b", "a100-sxm-80gb", {"batch": 64, "conventions": Conventions(traffic=TrafficModel.EAGER)}),
    "weights": ("llama-3.1-8b", "a100-sxm-80gb", {"conventions": Conventions(traffic=TrafficModel.WEIGHTS)}),
    "framework": ("llama-3.1-8b", "h20", {"batch": 16, "conventions": Conventions(fusion=Fusion.FRAMEWORK)}),
    "no decode": ("llama-3.1-8b", "mi300x", {"output": 1}),
}


def layers(spec: dict[str, Any], style: str) -> list[dict[str, Any]]:
    return [layer for layer in spec["layer"] if layer["mark"].get("style") == style]


def values(spec: dict[str, Any], style: str) -> list[dict[str, Any]]:
    return [row for layer in layers(spec, style) for row in layer["data"]["values"]]


def kernel_layer(spec: dict[str, Any]) -> dict[str, Any]:
    return next(layer for layer in spec["layer"] if layer["data"].get("name") == "kernels")


def texts(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for style in ("zone-name", "roof-label", "point-label"):
        yield from values(spec, style)


def domains(spec: dict[str, Any]) -> tuple[list[float], list[float]]:
    encoding = kernel_layer(spec)["encoding"]
    return encoding["x"]["scale"]["domain"], encoding["y"]["scale"]["domain"]


def frame(spec: dict[str, Any]) -> Frame:
    """The plot area, empty."""
    x_domain, y_domain = domains(spec)
    return Frame(spec["width"], spec["height"], (x_domain[0], x_domain[1]), (y_domain[0], y_domain[1]))
