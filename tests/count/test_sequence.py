"""The kernels of a pass in order: their order by hand, their sums those of `forward`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rooflens.core.model import ModelSpec
from rooflens.core.op import Op, OpKind
from rooflens.core.scenario import Batch, Conventions, Phase, PhaseKind
from rooflens.count import forward
from rooflens.count.sequence import ROUTE, STORE, by_turns, sequence
from tests.conftest import precision, tiny_model
from tests.render.small_models import SMALL, layer, model_of

DECODE = Phase(PhaseKind.DECODE, Batch(3, 1, 7))
PREFILL = Phase(PhaseKind.PREFILL, Batch(2, 5, 0))
MODELS = {name: model for name, model in SMALL.items() if name != "images"}
"""A pass without images, which cross-attention layers are counted apart in."""

MATRIX = (OpKind.GEMM, OpKind.EXPERTS, OpKind.ATTENTION)


def kernels(model: ModelSpec, phase: Phase = DECODE) -> list[Op]:
    return sequence(model, phase, precision(), Conventions())


def test_the_order_of_a_tiny_model() -> None:
    """Norm, q/k/v, rotary embedding, write of the cache, attention, output; norm, gate and up, activation, down."""
    kinds = [op.kind for op in kernels(tiny_model())]
    one = [OpKind.NORM, OpKind.GEMM, OpKind.ROTARY, OpKind.COPY, OpKind.ATTENTION, OpKind.GEMM,
           OpKind.NORM, OpKind.GEMM, OpKind.ACTIVATION, OpKind.GEMM]  # fmt: skip
    assert kinds == [OpKind.EMBEDDING, *one, *one, OpKind.NORM, OpKind.GEMM, OpKind.SAMPLING]
    products = [op.name for op in kernels(tiny_model()) if op.kind is OpKind.GEMM]
    assert products == ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"] * 2 + ["lm_head"]


@pytest.mark.parametrize("phase", [DECODE, PREFILL], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_sums_are_those_of_the_counts(name: str, phase: Phase) -> None:
    """FLOP of products and attention, weights and cache, each kernel once; what routes tokens is beside the counts."""
    model = MODELS[name]
    alone = [op for op in kernels(model, phase) if op.name != ROUTE]
    merged = forward(model, phase, precision(), Conventions())
    for kind in MATRIX:
        for figure in ("flops", "model_flops"):
            sums = [sum(getattr(op, figure) for op in ops if op.kind is kind) for ops in (alone, merged)]
            assert sums[0] == pytest.approx(sums[1], rel=1e-12), (kind, figure)
    for part in ("weights", "kv_read", "kv_write", "state"):
        sums = [sum(getattr(op.traffic, part) for op in ops) for ops in (alone, merged)]
        assert sums[0] == pytest.approx(sums[1], rel=1e-12), part
    assert all(op.count == 1 for op in alone)
    assert len([op for op in alone if op.kind in MATRIX]) == sum(op.count for op in merged if op.kind in MATRIX)


def test_the_cache_is_written_before_it_is_read() -> None:
    ops = kernels(tiny_model())
    for index, op in enumerate(ops):
        if op.kind is OpKind.ATTENTION:
            assert ops[index - 1].name == STORE
            assert op.traffic.kv_write == 0
    one = next(op for op in ops if op.name == STORE)
    assert one.traffic.kv_write == one.traffic.activations > 0


def test_layers_of_two_kinds_take_turns() -> None:
    few, many = layer(2), layer(4, mlp={"width": 12})
    assert [one is few for one in by_turns((few, many))] == [False, True, False, False, True, False]
    model = model_of(few, many)
    widths = [op.shape.n for op in kernels(model) if op.name == "gate_up_proj"]
    assert sorted(widths) == [20, 20, 24, 24, 24, 24]
    assert widths != sorted(widths)


def test_kernels_of_their_own_move_bytes() -> None:
    assert all(op.traffic.memory > 0 for op in kernels(tiny_model()))


def test_choosing_a_token_reads_the_logits_in_fp32() -> None:
    """3 sequences x 10 words x 4 bytes."""
    (last,) = kernels(replace(tiny_model()))[-1:]
    assert (last.kind, last.traffic.memory) == (OpKind.SAMPLING, 120)
