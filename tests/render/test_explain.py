"""Every formula that an explanation prints is evaluated here, and held against the op that it explains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rooflens.core.model import Attention, LatentAttention, Layer, Mlp, ModelSpec, Norm, Span
from rooflens.core.op import DType
from rooflens.core.scenario import AttentionFlops, Conventions, Fusion, LatentForm, Logits, TrafficModel
from rooflens.errors import InputError, RooflensError
from rooflens.render.explain import explain_profile
from rooflens.render.explain_phase import kernel_formulas
from rooflens.render.explain_view import views
from rooflens.sources.config import read_config
from rooflens.sources.models import bundled_names, load_model
from tests.conftest import precision, tiny_model
from tests.render.explanations import check_kernel, check_profile, predicted
from tests.render.small_models import SMALL, blocks, layer, model_of

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT.parent / "shared" / "data" / "configs"

DTYPES = {
    "bf16": precision(),
    "fp8": precision(compute=DType.FP8, weights=DType.FP8, kv=DType.FP8),
    "int4": precision(weights=DType.INT4),
    "packed": replace(precision(weights=DType.FP8, kv=DType.FP8_DS_MLA), state=DType.BF16),
    "squares": precision(compute=DType.FP8, weights=DType("fp8_block"), kv=DType.FP8),
    "rows": precision(compute=DType.FP8, weights=DType("fp8_row")),
    "zero points": precision(weights=DType("int4_channel_zp")),
    "tensors": precision(compute=DType.FP8, weights=DType("fp8_tensor"), kv=DType.FP8),
    "groups": precision(weights=DType("int3_g32_zp")),
    "gguf": precision(weights=DType("q4_k")),
    "nvfp4": precision(compute=DType.FP4, weights=DType.NVFP4, kv=DType.NVFP4),
    "fp32": precision(DType.FP32),
}
WORK = [(1, 1, 1, None), (3, 7, 5, None), (2, 5, 1, 0), (1, 2, 8, 2), (5, 4, 2, 9)]
CHOICES = [
    Conventions(
        attention,
        list(Logits)[index % 2],
        traffic,
        fusion,
        list(LatentForm)[(index + index // 3) % 3],
        3.5 if index % 4 == 1 else None,
    )
    for index, (attention, fusion, traffic) in enumerate(product(AttentionFlops, Fusion, TrafficModel))
]


@pytest.mark.parametrize("name", SMALL)
def test_formulas_give_the_counts_of_small_models(name: str) -> None:
    """Every choice of a convention for half of the models, each with other dtypes and another workload."""
    turn, dtypes = list(SMALL).index(name), list(DTYPES.values())
    for index, counted in enumerate(CHOICES):
        at = index + turn
        if (index + index // 3 + turn) % 2:
            check_profile(predicted(SMALL[name], dtypes[at % len(dtypes)], counted, WORK[3 * at % len(WORK)], at % 3))


def _real() -> Iterator[tuple[str, ModelSpec]]:
    """Every bundled model, and those of the shared configs that are not among them."""
    seen = set()
    for name in bundled_names():
        model = load_model(name)
        seen.add(model.layers)
        yield name, model
    for path in sorted(CONFIGS.glob("*.json")):
        try:
            model = read_config(path)
        except RooflensError:  # not a decoder that is known
            continue
        if model.layers not in seen:
            yield path.name, model


REAL = dict(_real())


@pytest.mark.parametrize("name", REAL)
def test_formulas_give_the_counts_of_real_models(name: str) -> None:
    """As it is usually run; and every third with other dtypes and every other choice."""
    check_profile(predicted(REAL[name], DTYPES["bf16"], Conventions(), (64, 512, 128, None), 1601))
    if not list(REAL).index(name) % 3:
        other = Conventions(
            traffic=TrafficModel.EAGER, fusion=Fusion.FRAMEWORK, latent=LatentForm.EXPANDED, distinct_experts=2
        )
        check_profile(predicted(REAL[name], DTYPES["fp8"], other, (1, 6000, 2, 5000)))


WATCHED = (
    "biases", "shared experts", "latent", "sparse", "compressed", "chunked", "block indexer", "images",
    "vision encoder", "mamba2", "delta net", "lightning", "rwkv",
)  # fmt: skip


@pytest.mark.parametrize("name", WATCHED)
def test_a_wrong_count_does_not_pass(name: str) -> None:
    """One FLOP or one byte more in an op, and its formula no longer gives it."""
    profile = predicted(SMALL[name], DTYPES["bf16"], Conventions(), WORK[1], 5)
    for phase in profile.phases:
        for view, point in zip(views(profile, phase), phase.points, strict=True):
            op, traffic = point.op, point.op.traffic
            for changed in (
                replace(op, flops=op.flops + 1, model_flops=op.model_flops + 1),
                replace(op, traffic=replace(traffic, activations=traffic.activations + 1)),
                replace(op, traffic=replace(traffic, kv_read=traffic.kv_read + 1)),
                replace(op, traffic=replace(traffic, state=traffic.state + 1)),
            ):
                wrong = replace(point, op=changed)
                with pytest.raises(AssertionError):
                    check_kernel(list(kernel_formulas(replace(view, op=changed), wrong)), wrong)


def test_distinct_experts_are_explained() -> None:
    """4 tokens that take 2 of 5: 5 (1 - 0.6^4) = 4.352 experts; a measured count takes the place of that."""
    text = explain_profile(predicted(SMALL["experts"], DTYPES["bf16"], Conventions(), (4, 1, 2, None)))
    assert "E x (1 - (1 - top_k / E)^tokens) = 5 x (1 - (1 - 2 / 5)^4) = 4.352 of 5 experts" in text
    assert "need 2.5 times the tokens of a dense layer" in text
    assert "Experts are the exception to shared weights" in text
    measured = Conventions(distinct_experts=3)
    text = explain_profile(predicted(SMALL["experts"], DTYPES["bf16"], measured, (4, 1, 2, None)))
    assert "experts read   measured = 3 = 3 of 5 experts" in text


def test_both_forms_of_latent_attention_are_explained() -> None:
    work = (2, 3, 4, 5)
    text = explain_profile(predicted(SMALL["latent"], DTYPES["bf16"], Conventions(), work))
    assert "m              sequences x (new + cached tokens) = 2 x (3 + 0) = 6 tokens" in text
    assert (
        "sequences x cached tokens x (latent + rotated key) x bytes x count = 2 x 5 x (8 + 2) x 2 x 4 = 800 B" in text
    )
    assert "even a decode step can be compute-bound" in text
    expanded = Conventions(latent=LatentForm.EXPANDED)
    text = explain_profile(predicted(SMALL["latent"], DTYPES["bf16"], expanded, work))
    assert "m              sequences x (new + cached tokens) = 2 x (1 + 5) = 12 tokens" in text
    assert "absorb" not in text.partition("DECODE")[2]


def test_the_packed_latent_cache_is_656_bytes_a_token() -> None:
    """512 fp8 values with 4 scales, and 64 values of bf16."""
    wide = LatentAttention(6, heads=2, q_rank=None, kv_rank=512, nope=3, rope=64, d_v=4)
    model = model_of(blocks(wide, Mlp(6, 10), count=1))
    text = explain_profile(predicted(model, DTYPES["packed"], Conventions(), (1, 1, 1, 9)))
    assert "1 x 9 x (512 x 132 / 128 + 64 x 2) x 1 = 5,904 B" in text


def test_a_step_of_a_recurrent_layer_does_not_grow_with_the_context() -> None:
    short, long = (predicted(SMALL["delta net"], DTYPES["bf16"], Conventions(), (2, 1, 1, c)) for c in (4, 4000))
    found = [[p for p in profile.phases[1].points if p.op.name == "scan"] for profile in (short, long)]
    assert found[0] == found[1]
    assert "a longer context costs them nothing" in explain_profile(long)
    assert "in chunks of Q 4 tokens" in explain_profile(long)


def test_ops_of_a_trace_are_taken_as_they_are() -> None:
    """Names that no count gives: their figures stand without a formula, and sums and times still hold."""
    profile = predicted(SMALL["shared experts"], DTYPES["bf16"], Conventions(), WORK[1])
    phases = tuple(
        replace(phase, points=tuple(replace(p, op=replace(p.op, name=f"model.{p.op.name}")) for p in phase.points))
        for phase in profile.phases
    )
    traced = replace(profile, phases=phases)
    check_profile(traced)
    assert "FLOP           as traced = " in explain_profile(traced)


def test_every_choice_that_concerns_the_model_is_named() -> None:
    text = explain_profile(predicted(SMALL["latent"], DTYPES["bf16"], Conventions(), WORK[1]))
    assert "latent attention is expanded in prefill and absorbed in decode" in text
    assert "latent attention" not in explain_profile(predicted(SMALL["tiny"], DTYPES["bf16"], Conventions(), WORK[1]))


def test_the_window_is_named_and_its_pairs_explained() -> None:
    """Window 3, prompt 7: queries 1 to 3 see 1, 2 and 3 keys, the other four see 3: 6 + 12 pairs."""
    text = explain_profile(predicted(SMALL["window"], DTYPES["bf16"], Conventions(), (1, 7, 1, 9)))
    assert "window W 3" in text
    assert "g x (g + 1) / 2 + (S - g) x W = 3 x (3 + 1) / 2 + (7 - 3) x 3 = 18" in text
    assert "min(cached + 1, W) = min(9 + 1, 3) = 3" in text


def test_a_window_longer_than_the_context_keeps_its_name() -> None:
    model = model_of(layer(1, attention={"span": Span(window=100)}), layer(1))
    text = explain_profile(predicted(model, DTYPES["bf16"], Conventions(), (1, 4, 2, None)))
    assert text.count("window W 100") == 2


def test_short_prefill_is_said_to_be_memory_bound_against_the_textbook() -> None:
    """The part's ridge point is 100 FLOP/byte; a prompt of 7 tokens has less than 7."""
    profile = predicted(SMALL["tiny"], DTYPES["bf16"], Conventions(), (1, 7, 1, None))
    text = explain_profile(profile)
    assert "prefill is memory-bound" in text
    assert "too few tokens" in text
    assert "DECODE" not in text


def test_large_batch_decode_is_said_to_be_compute_bound_against_the_textbook() -> None:
    wide = Layer(1, (Attention(4096, 2, 2, 4, 4), Mlp(4096, 4096)), (Norm("a", 4096), Norm("b", 4096)))
    model = replace(tiny_model(), hidden=4096, vocab=4096, layers=(wide,), final_norm=None)
    text = explain_profile(predicted(model, DTYPES["bf16"], Conventions(), (5000, 1, 2, None)))
    assert "decode is compute-bound" in text
    assert "shares each weight among so many tokens" in text


def test_arrays_are_refused() -> None:
    work: Any = (np.array([1, 2]), 4, 4, None)
    with pytest.raises(InputError, match="one batch"):
        explain_profile(predicted(tiny_model(), DTYPES["bf16"], Conventions(), work))
