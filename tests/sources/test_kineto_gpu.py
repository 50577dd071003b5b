"""Traces of a GPU, written by hand: which op launched a kernel, and when the GPU was busy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rooflens.core.op import Traffic
from rooflens.core.timed import TimedPhase
from rooflens.sources.kineto import Reference
from tests.sources.kineto_traces import kernel, launch, linear, mm, named, near, op, read, shaped, span

US = 1e-6


def adds_up(phase: TimedPhase) -> bool:
    return phase.busy_s + phase.dispatch_s + phase.gap_s == near(phase.wall_s)


def names(phase: TimedPhase) -> list[str]:
    return [timed.op.name for timed in phase.ops]


def step(start: float, correlation: int) -> list[dict[str, Any]]:
    """linear > matmul > mm of `linear`, whose mm launches a kernel of 30 us that runs 100 us later."""
    return [*linear(start), launch(start + 30, correlation), kernel("gemm_128x128", start + 130, 30, correlation)]


def test_a_kernel_belongs_to_the_op_around_its_launch(tmp_path: Path) -> None:
    """The op on the processor takes 60 us, its kernel 30; the phase lasts until the kernel ends, 50 + 160 us."""
    phase = read(tmp_path, span("decode", 0, 200), *step(50, 7))
    (timed,) = phase.ops
    assert (timed.op.name, timed.op.flops, timed.op.traffic) == ("mm 5 x 4", 120, Traffic(weights=80, activations=108))
    assert timed.seconds == near(30 * US)
    assert (phase.gpu, phase.coverage, phase.dispatch_s) == (True, 1, 0)
    assert (phase.wall_s, phase.busy_s, phase.gap_s) == near((210 * US, 30 * US, 180 * US))


def test_a_memset_belongs_to_its_product(tmp_path: Path) -> None:
    events = [*step(50, 7), launch(22 + 50, 8), kernel("Memset (Device)", 150, 5, 8)]
    events[-1]["cat"] = "gpu_memset"
    (timed,) = read(tmp_path, span("decode", 0, 300), *events).ops
    assert (timed.op.count, timed.op.flops, timed.seconds) == (1, 120, near(35 * US))


def test_external_id_that_is_a_correlation_is_not_joined(tmp_path: Path) -> None:
    """Older files write a kernel's correlation as its External id: 10 is that of silu here, by chance."""
    events = [
        mm(10, 40),
        op("silu", 60, 20, shaped([3, 5])),
        launch(20, 60),
        kernel("gemm", 100, 30, 60, External_id=60),
        launch(65, 10),
        kernel("silu_kernel", 130, 10, 10, External_id=10),
    ]
    phase = read(tmp_path, span("decode", 0, 200), *events)
    assert named(phase, "mm 5 x 4").seconds == near(30 * US)
    assert named(phase, "silu").seconds == near(10 * US)


def test_kernels_of_before_and_after_are_left_out(tmp_path: Path) -> None:
    """One that was launched before runs into the phase; one that the phase launched runs after its range."""
    before = [mm(0, 40), launch(10, 1), kernel("gemm", 60, 50, 1)]
    after = [mm(260, 40), launch(270, 3), kernel("gemm", 400, 50, 3)]
    inside = [mm(110, 40), launch(120, 2), kernel("gemm", 180, 40, 2)]
    phase = read(tmp_path, span("decode", 50, 150), *before, *inside, *after)
    assert (phase.passes, phase.busy_s, phase.op_s) == (1, near(40 * US), near(40 * US))
    assert phase.wall_s == near(170 * US)
    assert named(phase, "mm 5 x 4").op.count == 1
    assert adds_up(phase)


def test_steps_launched_ahead_are_not_counted_twice(tmp_path: Path) -> None:
    """Two ranges of 100 us, each followed by its kernels until 250 and 350: 350 us of wall for two steps."""
    first = [mm(10, 40), launch(20, 1), kernel("gemm", 150, 100, 1)]
    second = [mm(110, 40), launch(120, 2), kernel("gemm", 250, 100, 2)]
    phase = read(tmp_path, span("decode", 0, 100), span("decode", 100, 100), *first, *second)
    assert (phase.passes, phase.wall_s, phase.busy_s) == (2, near(175 * US), near(100 * US))
    assert named(phase, "mm 5 x 4").op.flops == 120
    assert adds_up(phase)


def test_busy_is_the_union_of_kernels_that_overlap(tmp_path: Path) -> None:
    """100..140, 120..160 and 130..135: 60 us busy, 85 us of ops."""
    events = [mm(10, 40)]
    for correlation, (start, duration) in enumerate(((100, 40), (120, 40), (130, 5))):
        events += [launch(20 + correlation, correlation), kernel(f"k{correlation}", start, duration, correlation)]
    phase = read(tmp_path, span("decode", 0, 200), *events)
    assert (phase.busy_s, phase.op_s, phase.wall_s) == near((60 * US, 85 * US, 200 * US))
    assert adds_up(phase)


@pytest.mark.parametrize("name", ["cudaGraphLaunch", "hipGraphLaunch"])
def test_kernels_of_a_graph_keep_their_names(tmp_path: Path, name: str) -> None:
    """Three kernels of one launch, even inside an op that is counted: none is that op's."""
    kernels = [kernel(f"k{n % 2}", 100 + 20 * n, 10, 9) for n in range(3)]
    phase = read(tmp_path, span("decode", 0, 100), mm(10, 40), launch(20, 9, name=name), *kernels)
    assert names(phase) == ["k0", "k1"]
    assert [timed.op.count for timed in phase.ops] == [2, 1]
    assert phase.unknown == (("k0", near(2 / 3)), ("k1", near(1 / 3)))
    assert (phase.coverage, phase.busy_s) == (0, near(30 * US))


def test_kernels_without_a_launch_count_where_they_run(tmp_path: Path) -> None:
    """Without a correlation, or with one that the trace does not have: 120 and 140 are in the phase, 300 is not."""
    events = [kernel("lost", 120, 10), kernel("lost", 140, 10, 99), kernel("lost", 300, 10, 98)]
    phase = read(tmp_path, span("decode", 100, 100), *events)
    assert phase.unknown == (("lost", 1),)
    assert (phase.busy_s, named(phase, "lost").op.count) == (near(20 * US), 2)
    assert adds_up(phase)


def test_kernels_launched_before_the_trace_began_are_left_out(tmp_path: Path) -> None:
    """The GPU runs in order: one without a launch that ran before the phase's own was launched earlier."""
    early = kernel("earlier", 60, 50, 99)
    late = kernel("unclear", 190, 10, 98)
    phase = read(tmp_path, span("decode", 0, 200), *step(0, 7), early, late)
    assert names(phase) == ["mm 5 x 4", "unclear"]
    assert phase.busy_s == near(40 * US)


def test_kernels_that_another_thread_launches(tmp_path: Path) -> None:
    """The range is the main thread's; a product of a worker, launched during it, is counted as the worker's op."""
    other = op("mm", 12, 30, shaped([3, 4], [4, 5]), thread=3)
    events = [other, launch(20, 5, thread=3), kernel("gemm", 100, 10, 5)]
    phase = read(tmp_path, span("decode", 0, 200), *events)
    assert names(phase) == ["mm 5 x 4"]
    assert phase.coverage == 1


def test_a_kernel_without_an_op_is_unknown_by_its_name(tmp_path: Path) -> None:
    events = [*step(50, 7), op("my_op", 160, 20), launch(165, 8), kernel("my_kernel", 215, 10, 8)]
    phase = read(tmp_path, span("decode", 0, 300), *events)
    assert phase.unknown == (("my_kernel", near(0.25)),)
    assert phase.coverage == near(0.75)


def test_references_count_kernels_without_shapes(tmp_path: Path) -> None:
    shaped_once = read(tmp_path, span("decode", 0, 300), *step(50, 7)).ops[0].op
    bare = [op("mm", 50, 40), launch(60, 7), kernel("gemm", 100, 30, 7)]
    references = {"decode": [Reference("mm", "layers.*.mlp.up", shaped_once)]}
    (timed,) = read(tmp_path, span("decode", 0, 300), *bare, references=references).ops
    assert (timed.op.name, timed.module, timed.op.flops) == ("mlp.up", "layers.*.mlp.up", 120)
    (unnamed,) = read(tmp_path, span("decode", 0, 300), *bare).ops
    assert (unnamed.known, unnamed.op.name) == (False, "gemm")
