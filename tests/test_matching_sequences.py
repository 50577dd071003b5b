"""Kernels with names alone against the kernels that a pass must run: sequences by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rooflens.core.op import AttentionShape, DType, GemmShape, Op, OpKind, PointwiseShape, Traffic
from rooflens.core.recording import KernelRun
from rooflens.core.timed import TimedOp
from rooflens.count.sequence import STORE
from rooflens.matching import Matched, match

GEMM, ATTENTION, NORM, COPY = OpKind.GEMM, OpKind.ATTENTION, OpKind.NORM, OpKind.COPY


def product(name: str, flops: int) -> Op:
    return Op(name, GEMM, DType.BF16, flops, flops, Traffic(weights=flops), GemmShape(1, 1, 1))


def attention(flops: int = 30) -> Op:
    shape = AttentionShape(1, 1, 1, 1, 1, 1, 1, 1)
    return Op("attention", ATTENTION, DType.BF16, flops, flops, Traffic(kv_read=2 * flops), shape)


def norm(name: str = "input_norm") -> Op:
    return Op(name, NORM, DType.BF16, 1, 0, Traffic(activations=4), PointwiseShape(1, 1, 1))


def store() -> Op:
    return Op(STORE, COPY, DType.BF16, 0, 0, Traffic(kv_write=2), PointwiseShape(1, 1, 0))


LAYER = [norm(), product("qkv", 10), store(), attention(), product("out", 20)]
HEAD = [product("lm_head", 1000)]


def ran(*kinds: OpKind, names: Sequence[str] = ()) -> list[KernelRun]:
    """One kernel of each kind, called k0, k1, ..., or as `names` say; kernel i takes i + 1 seconds."""
    called = names or [f"k{i}" for i in range(len(kinds))]
    return [KernelRun(name, kind, i + 1.0) for i, (name, kind) in enumerate(zip(called, kinds, strict=True))]


def line(found: Matched, name: str) -> TimedOp:
    (timed,) = (timed for timed in found.ops if timed.op.name == name)
    return timed


def seconds(found: Matched) -> dict[str, float]:
    return {timed.op.name: timed.seconds for timed in found.ops}


def test_exact_pairs() -> None:
    """A norm and a store of the cache have the bytes of their own kind; two layers add up."""
    names = ["norm", "gemm", "reshape_and_cache", "flash", "gemm"] * 2 + ["gemm"]
    kernels = ran(*[NORM, GEMM, COPY, ATTENTION, GEMM] * 2, GEMM, names=names)
    found = match(kernels, [*LAYER, *LAYER, *HEAD])
    assert (found.heavy, found.found) == (7, 7)
    assert seconds(found) == {"input_norm": 1 + 6, "qkv": 2 + 7, STORE: 3 + 8, "attention": 4 + 9, "out": 5 + 10,
                              "lm_head": 11}  # fmt: skip
    assert all(timed.known for timed in found.ops)
    assert {timed.op.name: (timed.op.count, timed.op.flops) for timed in found.ops} == {
        "input_norm": (2, 2), "qkv": (2, 20), STORE: (2, 0), "attention": (2, 60), "out": (2, 40), "lm_head": (1, 1000),
    }  # fmt: skip
    assert line(found, STORE).op.traffic == Traffic(kv_write=4)
    assert line(found, "attention").op.traffic == Traffic(kv_read=120)


def test_an_extra_copy_keeps_its_time_and_has_no_bytes() -> None:
    kernels = ran(NORM, GEMM, COPY, ATTENTION, GEMM, names=["norm", "gemm", "direct_copy", "flash", "gemm"])
    found = match(kernels, LAYER)
    assert found.found == found.heavy == 3
    copied = line(found, "direct_copy")
    assert (copied.known, copied.seconds, copied.op.traffic.total) == (False, 3.0, 0)
    assert STORE not in seconds(found)


def test_a_norm_that_was_fused_away() -> None:
    found = match(ran(GEMM, ATTENTION, GEMM, GEMM), [*LAYER, *HEAD])
    assert (found.heavy, found.found) == (4, 4)
    assert seconds(found) == {"qkv": 1, "attention": 2, "out": 3, "lm_head": 4}


def test_the_sum_of_a_split_product_belongs_to_it() -> None:
    """7 + 8 seconds and the FLOP of one product."""
    kernels = [KernelRun("gemm", GEMM, 7.0), KernelRun("splitKreduce", GEMM, 8.0), KernelRun("flash", ATTENTION, 1.0)]
    found = match(kernels, [product("qkv", 10), attention()])
    assert seconds(found) == {"qkv": 15.0, "attention": 1.0}
    assert line(found, "qkv").op.flops == 10
    assert line(found, "qkv").op.count == 1


def test_the_join_of_split_attention_belongs_to_it() -> None:
    found = match(ran(GEMM, ATTENTION, ATTENTION, GEMM), LAYER[1:])
    assert seconds(found) == {"qkv": 1, "attention": 2 + 3, "out": 4}
    assert line(found, "attention").op.flops == 30


def test_layers_of_two_kinds() -> None:
    """A layer of experts after a dense one: kinds tell which is which."""
    experts = Op("experts", OpKind.EXPERTS, DType.BF16, 70, 70, Traffic(weights=5), GemmShape(1, 1, 1))
    predicted = [*LAYER, product("mlp", 40), *LAYER, experts]
    found = match(ran(GEMM, ATTENTION, GEMM, GEMM, GEMM, ATTENTION, GEMM, OpKind.EXPERTS), predicted)
    assert found.found == found.heavy == 8
    assert seconds(found) == {"qkv": 1 + 5, "attention": 2 + 6, "out": 3 + 7, "mlp": 4, "experts": 8}


def test_a_product_that_did_not_run_is_missing() -> None:
    """One kernel for two products: one of them is not found, and no FLOP are made up for it."""
    found = match(ran(GEMM), [product("qkv", 10), product("out", 20)])
    assert (found.heavy, found.found) == (2, 1)
    assert math.fsum(float(timed.op.flops) for timed in found.ops) in (10.0, 20.0)


def test_classes_that_do_not_meet() -> None:
    found = match(ran(OpKind.COLLECTIVE, OpKind.OTHER), LAYER)
    assert (found.heavy, found.found) == (3, 0)
    assert seconds(found) == {"k0": 1, "k1": 2}
    assert not any(timed.known for timed in found.ops)


def test_kernels_without_a_partner_have_short_names() -> None:
    found = match([KernelRun("void foo<int>(char*)", OpKind.OTHER, 1.0, short="foo")], LAYER)
    assert seconds(found) == {"foo": 1.0}


def test_no_predictions() -> None:
    found = match(ran(GEMM), [])
    assert (found.heavy, found.found, seconds(found)) == (0, 0, {"k0": 1.0})


def test_all_time_is_kept() -> None:
    kernels = ran(COPY, GEMM, GEMM, NORM, ATTENTION, COPY, GEMM, NORM, NORM, OpKind.OTHER)
    found = match(kernels, [*LAYER, *HEAD])
    assert sum(seconds(found).values()) == sum(kernel.seconds for kernel in kernels) > 0
