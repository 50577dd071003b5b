"""Small models and parts whose counts fit on a sheet of paper."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from rooflens.core.hardware import Ceiling, Hardware, MemoryLevel
from rooflens.core.model import Attention, Layer, Mlp, ModelSpec, Norm, NormKind, Span
from rooflens.core.op import DType, Provenance
from rooflens.core.scenario import Precision

settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")
"""A busy machine is no failure: nothing in the tests depends on how long they take."""

SOURCE = Provenance("user", "a test")


def tiny_model(window: int | None = None) -> ModelSpec:
    """Two layers, width 4: 2 heads of 2, one KV head, MLP of 6, vocabulary of 10, untied, no biases."""
    layer = Layer(
        count=2,
        blocks=(
            Attention(hidden=4, heads=2, kv_heads=1, d_k=2, d_v=2, span=Span(window=window)),
            Mlp(hidden=4, width=6),
        ),
        norms=(Norm("input_norm", 4), Norm("post_attention_norm", 4)),
    )
    return ModelSpec(
        name="tiny",
        architecture="llama",
        hidden=4,
        vocab=10,
        layers=(layer,),
        tied=False,
        weights_dtype=DType.BF16,
        kept_dtype=DType.BF16,
        dtype_stated=True,
        final_norm=Norm("final_norm", 4, NormKind.RMS),
        source="a test",
    )


def precision(dtype: DType = DType.BF16, **changed: DType) -> Precision:
    """Every dtype the same, but for those that are `changed`."""
    names = ("compute", "attention", "activations", "weights", "kept", "kv")
    return Precision(*[changed.get(name, dtype) for name in names])


def part(**changed: object) -> Hardware:
    """A part of round numbers: 100 TFLOP/s bf16, 10 TFLOP/s fp32, 1 TB/s, 16 GB."""

    def figure(value: float) -> Ceiling:
        return Ceiling(value, SOURCE)

    fields: dict[str, object] = {
        "name": "round",
        "title": "Round part",
        "vendor": "none",
        "architecture": "none",
        "memory": MemoryLevel("memory", figure(1e12)),
        "matrix": {DType.BF16: figure(100e12), DType.FP8: figure(200e12)},
        "vector": {DType.FP32: figure(10e12)},
        "memory_label": figure(16e9),
    }
    return Hardware(**{**fields, **changed})  # type: ignore[arg-type]


@pytest.fixture
def tiny() -> ModelSpec:
    return tiny_model()


@pytest.fixture
def round_part() -> Hardware:
    return part()
