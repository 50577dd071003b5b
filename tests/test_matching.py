"""Kernels matched with what a pass must run, in small sequences."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from rooflens.core.op import DType, ExpertShape, GemmShape, Op, OpKind, PointwiseShape, Traffic
from rooflens.core.recording import KernelRun, RecordedPhase
from rooflens.core.scenario import PhaseKind
from rooflens.core.timed import TimedOp, TimedPhase
from rooflens.matching import match, with_groups

GEMM, NORM, EXPERTS = OpKind.GEMM, OpKind.NORM, OpKind.EXPERTS


def product(name: str, n: int, m: int = 2, k: int = 3) -> Op:
    return Op(name, GEMM, DType.BF16, 2 * m * n * k, 2 * m * n * k, Traffic(weights=2 * n * k), GemmShape(m, n, k))


def light(name: str, kind: OpKind, flops: int = 1) -> Op:
    return Op(name, kind, DType.BF16, flops, 0, Traffic(activations=4), PointwiseShape(1, 1, 1))


def run(name: str, kind: OpKind, seconds: float = 1.0, op: Op | None = None) -> KernelRun:
    return KernelRun(name, kind, seconds, op)


def names(found) -> dict[str, float]:
    return {timed.op.name: timed.seconds for timed in found.ops}


def test_kernels_with_shapes_keep_them_and_take_the_place_of_what_is_predicted():
    a, b = product("a", 4), product("b", 5)
    shaped = replace(a, name="mm 4 x 3")
    found = match([run("gemm", GEMM, op=shaped), run("gemm", GEMM, 2.0)], [a, b])
    assert names(found) == {"b": 2.0}
    assert (found.found, found.heavy, found.left) == (2, 2, 0)


def test_a_product_whose_shapes_are_others_takes_no_place():
    other = product("mm", 7)
    found = match([run("gemm", GEMM, op=other), run("gemm", GEMM)], [product("a", 4)])
    assert names(found) == {"a": 1.0}


def test_a_kernel_that_fits_nothing_in_its_order_is_left_out_and_counted():
    found = match([run("gemm", GEMM), run("norm", NORM), run("gemm", GEMM)], [product("a", 4), light("n", NORM)])
    assert found.left == 1
    assert {timed.op.name: timed.known for timed in found.ops} == {"a": True, "n": True, "gemm": False}


def test_kernels_of_experts_are_told_apart_by_their_names():
    shape = ExpertShape(2, 3, 4, 2)
    up, down = (Op(name, EXPERTS, DType.BF16, 8, 8, Traffic(weights=8), shape) for name in ("up", "down"))
    predicted = [light("experts_routing", EXPERTS), up, down, light("experts_sum", OpKind.RESIDUAL)]
    kernels = [
        run("routingHistogram", EXPERTS, 1),
        run("routingOffsets", EXPERTS, 2),
        run("bmm_x_dynBatch", EXPERTS, 10),
        run("bmm_y_dynBatch", EXPERTS, 20),
        run("finalizeKernel", EXPERTS, 4),
    ]
    assert names(match(kernels, predicted)) == {"experts_routing": 3, "up": 10, "down": 20, "experts_sum": 4}


def test_a_norm_belongs_to_the_all_reduce_that_computes_it():
    reduce = Op("all_reduce", OpKind.COLLECTIVE, DType.BF16, 5, 0, Traffic(link=8), PointwiseShape(1, 1, 1))
    predicted = [reduce, light("norm", NORM, 7), product("a", 4)]
    fused = match([run("allreduce_fusion_kernel", OpKind.COLLECTIVE), run("gemm", GEMM)], predicted)
    assert fused.ops[0].op.flops == 12
    assert fused.ops[0].op.traffic == Traffic(link=8, activations=4)
    apart = match([run("allreduce_fusion_kernel", OpKind.COLLECTIVE), run("rms_norm", NORM)], predicted)
    assert [timed.op.flops for timed in apart.ops] == [5, 7]


def test_a_kernel_of_another_dtype_gives_way():
    odd = KernelRun("sgemm", GEMM, 1.0, None, DType.FP32)
    plain = KernelRun("gemm_bf16", GEMM, 2.0, None, DType.BF16)
    assert names(match([odd, plain], [product("a", 4)])) == {"sgemm": 1.0, "a": 2.0}


def test_groups_of_the_first_pass_are_scaled_to_the_mean():
    known, unknown = (TimedOp(light(name, NORM), 3.0, known=name == "k") for name in ("k", "u"))
    timed = TimedPhase("decode", 2, 10.0, (known, unknown), 0.0, 6.0, gpu=True)
    whole = with_groups(RecordedPhase(PhaseKind.DECODE, timed), [TimedOp(product("a", 4), 2.0)])
    assert {one.op.name: one.seconds for one in whole.ops} == {"k": 3.0, "a": 3.0}


def test_too_many_to_align_is_none(monkeypatch):
    monkeypatch.setattr("rooflens.alignment.MOST_CELLS", 3)
    assert match([run("gemm", GEMM)] * 2, [product("a", 4)]) is None


@pytest.mark.parametrize("many", [0, 1])
def test_nothing_on_one_side(many):
    found = match([run("gemm", GEMM)] * many, [])
    assert (found.heavy, found.found, len(found.ops)) == (0, 0, many)


def test_five_thousand_kernels_are_matched_in_seconds():
    """15 million cells, of kernels of 700 names."""
    predicted = [product("a", 4), light("n", NORM), product("b", 5)] * 1000
    kernels = [run(f"k{i % 700}", GEMM if i % 5 in (0, 3) else NORM) for i in range(5000)]
    start = time.perf_counter()
    found = match(kernels, predicted)
    assert time.perf_counter() - start < 5
    assert found.found == 2000
