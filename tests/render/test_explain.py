"""Every formula that an explanation prints is evaluated here, and held against the op that it explains."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rooflens.core.hardware import Ceiling, Hardware
from rooflens.core.model import Attention, Layer, Mlp, ModelSpec, Norm, NormKind
from rooflens.core.op import AttentionShape, DType, Op
from rooflens.core.profile import PhaseProfile, Point, Profile
from rooflens.core.scenario import AttentionFlops, Conventions, Fusion, Logits, Precision, TrafficModel
from rooflens.count import forward
from rooflens.errors import InputError, RooflensError
from rooflens.metrics import phase_metrics, profile_metrics
from rooflens.render.explain import explain_profile, serving_formulas
from rooflens.render.explain_flops import views
from rooflens.render.explain_formula import Formula
from rooflens.render.explain_phase import kernel_formulas, phase_formulas
from rooflens.roofline import place_phase
from rooflens.sources.config import read_config
from rooflens.sources.models import bundled_names, load_model
from rooflens.workload import scenario
from tests.conftest import SOURCE, part, precision, tiny_model
from tests.render.formula_text import check_line, evaluate

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT.parent / "shared" / "data" / "configs"

RECORD: dict[str, Callable[[Op], Any]] = {
    "FLOP": lambda op: op.flops,
    "model FLOP": lambda op: op.model_flops,
    "weights": lambda op: op.traffic.weights,
    "KV read": lambda op: op.traffic.kv_read,
    "KV written": lambda op: op.traffic.kv_write,
    "activations": lambda op: op.traffic.activations,
    "bytes": lambda op: op.traffic.memory,
    "pairs": lambda op: op.shape.pairs if isinstance(op.shape, AttentionShape) else None,
}
"""What each label of a kernel's formulas stands for in its Op."""


def check_kernel(formulas: list[Formula], point: Point) -> None:
    """Numbers as printed give the op's own value, and no figure that is not 0 goes unexplained."""
    labels = [formula.label for formula in formulas]
    assert len(set(labels)) == len(labels)
    for formula in formulas:
        if formula.label in RECORD:
            want = RECORD[formula.label](point.op)
            assert formula.value == want
            assert evaluate(formula.numbers) == want, str(formula)
    for label in ("FLOP", "weights", "KV read", "KV written", "activations"):
        assert (label in labels) == bool(RECORD[label](point.op)), (label, point.op)
    times = {formula.label: formula for formula in formulas}
    for label, want in (("compute time", point.timing.compute_s), ("memory time", point.timing.memory_s)):
        if want:
            assert times[label].value == want
            assert float(evaluate(times[label].numbers)) == pytest.approx(want, rel=1e-11)
    assert times["floor"].value == point.floor_s
    if "intensity" in times:
        assert float(evaluate(times["intensity"].numbers)) == point.op.intensity


def check_profile(profile: Profile) -> None:
    """Every kernel, every sum and every line of the text."""
    for phase in profile.phases:
        for view, point in zip(views(profile, phase), phase.points, strict=True):
            check_kernel(list(kernel_formulas(view, point)), point)
        check_sums(phase)
    text = explain_profile(profile)
    assert text.endswith("\n")
    for line in text.splitlines():
        if " = " in line:
            check_line(line)
    check_sections(text, profile)
    check_serving(profile)


def check_sums(phase: PhaseProfile) -> None:
    formulas = {formula.label: formula for formula in phase_formulas(phase)}
    rates = phase_metrics(phase)
    assert evaluate(formulas["bytes"].numbers) == phase.traffic.memory
    assert evaluate(formulas["compulsory"].numbers) == phase.compulsory_bytes
    assert float(evaluate(formulas["intensity"].numbers)) == phase.intensity
    assert float(evaluate(formulas["ridge point"].numbers)) == pytest.approx(phase.ridge_point, rel=1e-11)
    assert float(evaluate(formulas["ideal time"].numbers)) == pytest.approx(float(phase.ideal_s), rel=1e-11)
    assert (formulas["MFU"].value, formulas["MBU"].value) == (rates.mfu, rates.mbu)
    assert formulas["tokens/s"].value == rates.tokens_per_s


def check_serving(profile: Profile) -> None:
    metrics, formulas = profile_metrics(profile), {f.label: f for f in serving_formulas(profile)}
    assert evaluate(formulas["KV cache"].numbers) == metrics.kv_cache_bytes
    assert evaluate(formulas["memory"].numbers) == metrics.memory_needed_bytes
    if metrics.tpot_s is not None:
        assert formulas["end to end"].value == metrics.e2e_s


def check_sections(text: str, profile: Profile) -> None:
    """The printed table of kernels adds up, and the printed sections come in the order of the points."""
    points = [point for phase in profile.phases for point in phase.points]
    found = re.findall(r"^(\S+): .*; runs ([\d,]+) x ", text, re.MULTILINE)
    assert found == [(point.op.name, f"{point.op.count:,}") for point in points]
    rows = re.findall(r"^(all kernels|\S+) +([\d,]+)  +([\d,]+)  +\S+ [pnµm]?s", text, re.MULTILINE)
    sums = [0, 0]
    for name, flops, moved in rows:
        figures = [int(figure.replace(",", "")) for figure in (flops, moved)]
        if name == "all kernels":
            assert figures == sums
            sums = [0, 0]
        else:
            sums = [a + b for a, b in zip(sums, figures, strict=True)]
    assert len(rows) == len(points) + len(profile.phases)


def wide_part() -> Hardware:
    """A part with a peak for every dtype that the cases compute in."""
    peaks = {"bf16": 100e12, "fp16": 98.3e12, "fp8": 197.9e12, "fp4": 400e12, "int8": 201e12, "fp32": 10e12}
    return part(matrix={DType(name): Ceiling(peak, SOURCE) for name, peak in peaks.items()})


def predicted(
    model: ModelSpec, dtypes: Precision, counted: Conventions, work: tuple[int, int, int, int | None]
) -> Profile:
    batch, prompt, output, context = work
    run = scenario(batch=batch, prompt=prompt, output=output, context=context, precision=dtypes, conventions=counted)
    phases = tuple(
        place_phase(phase, forward(model, phase, dtypes, counted), wide_part(), dtypes.compute) for phase in run.phases
    )
    return Profile(model, wide_part(), run, phases)


def _layer(count: int = 2, **changed: Any) -> Layer:
    attention = {"hidden": 6, "heads": 4, "kv_heads": 2, "d_k": 3, "d_v": 3, **changed.pop("attention", {})}
    mlp = {"hidden": 6, "width": 10, **changed.pop("mlp", {})}
    norms = changed.pop("norms", (Norm("input_norm", 6), Norm("post_attention_norm", 6)))
    return Layer(count, Attention(**attention), Mlp(**mlp), norms, **changed)


def _model(*layers: Layer, **changed: Any) -> ModelSpec:
    return replace(tiny_model(), hidden=6, vocab=11, layers=layers, final_norm=Norm("final_norm", 6), **changed)


_BIASED = _layer(attention={"qkv_bias": True, "out_bias": True}, mlp={"up_bias": True, "down_bias": True})
_QK = (Norm("q_norm", 3, rows=4), Norm("k_norm", 3, NormKind.LAYER, bias=True, rows=2, own_rows=True))
_PLAIN_MLP = _layer(mlp={"gated": False}, parallel=True, norms=(Norm("input_norm", 6, NormKind.LAYER, bias=True),))
SMALL = {
    "tiny": tiny_model(),
    "biases": _model(_BIASED),
    "qk norms": _model(_layer(attention={"norms": _QK})),
    "window": _model(_layer(attention={"window": 3})),
    "mixed windows": _model(
        _layer(1, attention={"window": 3}), _layer(3), _layer(1, attention={"window": 2, "d_v": 5})
    ),
    "tied head": _model(_layer(), tied=True, head_bias=True),
    "gpt": _model(_PLAIN_MLP, positions=16, embedding_norm=Norm("embedding_norm", 6, NormKind.LAYER, weight=False)),
    "narrow table": _model(_layer(), embedding_width=4),
    "fused matrices": _model(_layer(attention={"fused_qkv": True, "rotary": False}, mlp={"fused": True})),
    "multi-query": replace(_model(_layer(attention={"kv_heads": 1, "d_k": 5})), final_norm=None),
}
DTYPES = {
    "bf16": precision(),
    "fp8": precision(compute=DType.FP8, weights=DType.FP8, kv=DType.FP8),
    "int4": precision(weights=DType.INT4),
    "nvfp4": precision(compute=DType.FP4, weights=DType.NVFP4, kv=DType.NVFP4),
    "fp32": precision(DType.FP32),
}
WORK = [(1, 1, 1, None), (3, 7, 5, None), (2, 5, 1, 0), (1, 2, 8, 2), (5, 4, 2, 9)]
CHOICES = [
    Conventions(attention, list(Logits)[index % 2], traffic, fusion)
    for index, (attention, fusion, traffic) in enumerate(product(AttentionFlops, Fusion, TrafficModel))
]


@pytest.mark.parametrize("counted", CHOICES, ids=lambda c: "-".join(v.value for v in (c.traffic, c.fusion, c.logits)))
@pytest.mark.parametrize("name", SMALL)
def test_formulas_give_the_counts_of_small_models(name: str, counted: Conventions) -> None:
    turn = (CHOICES.index(counted) + list(SMALL).index(name)) % len(WORK)
    for dtypes, work in zip(DTYPES.values(), WORK[turn:] + WORK[:turn], strict=True):
        check_profile(predicted(SMALL[name], dtypes, counted, work))


def _dense() -> Iterator[tuple[str, ModelSpec]]:
    for name in bundled_names():
        yield name, load_model(name)
    for path in sorted(CONFIGS.glob("*.json")):
        try:
            yield path.name, read_config(path)
        except RooflensError:  # not a dense decoder
            continue


@pytest.mark.parametrize("model", [pytest.param(model, id=name) for name, model in _dense()])
def test_formulas_give_the_counts_of_real_models(model: ModelSpec) -> None:
    check_profile(predicted(model, DTYPES["bf16"], Conventions(), (64, 512, 128, None)))
    unfused = Conventions(traffic=TrafficModel.EAGER, fusion=Fusion.FRAMEWORK)
    check_profile(predicted(model, DTYPES["fp8"], unfused, (1, 6000, 2, 5000)))


def test_a_wrong_count_does_not_pass() -> None:
    """One FLOP or one byte more in an op, and its formula no longer gives it."""
    profile = predicted(SMALL["biases"], DTYPES["bf16"], Conventions(), WORK[1])
    phase = profile.phases[0]
    for index, point in enumerate(phase.points):
        for changed in (
            replace(point.op, flops=point.op.flops + 1, model_flops=point.op.model_flops + 1),
            replace(point.op, traffic=replace(point.op.traffic, activations=point.op.traffic.activations + 1)),
        ):
            wrong = replace(point, op=changed)
            points = (*phase.points[:index], wrong, *phase.points[index + 1 :])
            view = views(profile, replace(phase, points=points))[index]
            with pytest.raises(AssertionError):
                check_kernel(list(kernel_formulas(view, wrong)), wrong)


def test_the_window_is_named_and_its_pairs_explained() -> None:
    """Window 3, prompt 7: queries 1 to 3 see 1, 2 and 3 keys, the other four see 3: 6 + 12 pairs."""
    text = explain_profile(predicted(SMALL["window"], DTYPES["bf16"], Conventions(), (1, 7, 1, 9)))
    assert "window W 3" in text
    assert "g x (g + 1) / 2 + (S - g) x W = 3 x (3 + 1) / 2 + (7 - 3) x 3 = 18" in text
    assert "min(cached + 1, W) = min(9 + 1, 3) = 3" in text


def test_a_window_longer_than_the_context_keeps_its_name() -> None:
    model = _model(_layer(1, attention={"window": 100}), _layer(1))
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
    wide = Layer(1, Attention(4096, 2, 2, 4, 4), Mlp(4096, 4096), (Norm("a", 4096), Norm("b", 4096)))
    model = replace(tiny_model(), hidden=4096, vocab=4096, layers=(wide,), final_norm=None)
    text = explain_profile(predicted(model, DTYPES["bf16"], Conventions(), (5000, 1, 2, None)))
    assert "decode is compute-bound" in text
    assert "shares each weight among so many tokens" in text


def test_arrays_are_refused() -> None:
    work: Any = (np.array([1, 2]), 4, 4, None)
    with pytest.raises(InputError, match="one batch"):
        explain_profile(predicted(tiny_model(), DTYPES["bf16"], Conventions(), work))
