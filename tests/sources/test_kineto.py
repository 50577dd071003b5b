"""Traces of a processor, written by hand: what is counted, once, and whose time is whose."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.core.op import DType, OpKind, Traffic
from rooflens.core.scenario import AttentionFlops
from rooflens.core.timed import TimedPhase
from rooflens.errors import InputError
from rooflens.sources.kineto import read_kineto, read_references
from tests.sources.kineto_traces import linear, mm, named, near, op, read, shaped, span, written

US = 1e-6


def adds_up(phase: TimedPhase) -> bool:
    return phase.busy_s + phase.dispatch_s + phase.gap_s == near(phase.wall_s)


def test_composite_ops_count_once_at_the_innermost_product(tmp_path: Path) -> None:
    """FLOP 2 x 3 x 4 x 5 = 120, not three times that; 60 us are mm's, 100 - 60 dispatch, 200 - 100 neither."""
    phase = read(tmp_path, span("decode", 0, 200), *linear(50))
    (timed,) = phase.ops
    assert (timed.op.flops, timed.op.model_flops, timed.op.count) == (120, 120, 1)
    assert timed.op.traffic == Traffic(weights=4 * 20, activations=4 * (12 + 15))
    assert timed.op.dtype is DType.FP32
    assert timed.seconds == near(60 * US)
    assert (phase.wall_s, phase.busy_s) == near((200 * US, 60 * US))
    assert phase.dispatch_s == near(40 * US)
    assert phase.gap_s == near(100 * US)
    assert (phase.coverage, phase.matrix_share, phase.unknown, phase.gpu) == (1, 1, (), False)


def test_a_product_that_copies_keeps_its_own_time(tmp_path: Path) -> None:
    """addmm of 50 us with a copy of 10: both are counted, 40 and 10 us."""
    events = [op("addmm", 10, 50, shaped([5], [3, 4], [4, 5])), op("copy_", 20, 10, shaped([3, 5], [3, 5], []))]
    phase = read(tmp_path, span("decode", 0, 100), *events)
    assert named(phase, "addmm 5 x 4").seconds == near(40 * US)
    assert named(phase, "copy_").seconds == near(10 * US)
    assert named(phase, "copy_").op.traffic == Traffic(activations=2 * 60)
    assert phase.matrix_share == near(0.8)
    assert adds_up(phase)


def test_attention_that_fills_is_still_attention(tmp_path: Path) -> None:
    """The op that calls the kernel has no count; the kernel does, and so has the fill inside it."""
    q = [1, 2, 4, 8]
    events = [
        op("scaled_dot_product_attention", 10, 80, shaped(q, q, q, [], [], [], texts=["", "", "", "", "0", "True"])),
        op(
            "_scaled_dot_product_flash_attention_for_cpu",
            20,
            60,
            shaped(q, q, q, [], [], texts=["", "", "", "0", "True"]),
        ),
        op("fill_", 30, 10, shaped([1, 2, 4, 8], [])),
    ]
    phase = read(tmp_path, span("prefill", 0, 100), *events, phase="prefill")
    attention = named(phase, "attention")
    assert attention.op.model_flops == 2 * 10 * 32
    assert attention.seconds == near(50 * US)
    assert named(phase, "fill_").seconds == near(10 * US)
    assert phase.dispatch_s == near(20 * US)
    full = read(tmp_path, span("prefill", 0, 100), *events, phase="prefill", convention=AttentionFlops.FULL)
    assert named(full, "attention").op.model_flops == 2 * 16 * 32


HELPED = {
    "add that turns a number into a tensor": ("add", [[3, 4], [], []], "copy_"),
    "sum that starts at 0": ("sum", [[3, 4], []], "fill_"),
    "sort that numbers": ("sort", [[12], [], []], "arange"),
    "cumsum that converts": ("cumsum", [[12], [], []], "copy_"),
}


@pytest.mark.parametrize("name", HELPED)
def test_an_op_with_a_helper_does_its_own_work(tmp_path: Path, name: str) -> None:
    """Of 50 us, 10 in the helper: 40 are the op's, none are dispatch."""
    outer, dims, inner = HELPED[name]
    events = [op(outer, 10, 50, shaped(*dims)), op(inner, 20, 10, shaped([1], [1]))]
    phase = read(tmp_path, span("decode", 0, 100), *events)
    assert named(phase, outer).seconds == near(40 * US)
    assert named(phase, inner).seconds == near(10 * US)
    assert phase.dispatch_s == 0
    assert adds_up(phase)


MADE_OF = {
    "mean": ("sum", "div_"),
    "clone": ("empty_like", "copy_"),
    "cat": ("narrow", "copy_"),
    "softmax": ("to", "_softmax"),
    "embedding": ("reshape", "index_select"),
    "masked_fill": ("clone", "masked_fill_"),
    "zero_": ("view", "fill_"),
    "index_put_": ("view", "_index_put_impl_"),
    "arange": ("empty", "arange"),
}


@pytest.mark.parametrize("outer", MADE_OF)
def test_an_op_made_of_others_is_dispatch(tmp_path: Path, outer: str) -> None:
    events = [
        op(outer, 10, 50, shaped([3, 4])),
        *(op(inner, 20 + 20 * i, 10) for i, inner in enumerate(MADE_OF[outer])),
    ]
    phase = read(tmp_path, span("decode", 0, 100), *events)
    assert MADE_OF[outer][1] in {timed.op.name for timed in phase.ops}
    assert sum(timed.seconds for timed in phase.ops) == near(phase.busy_s)
    assert phase.dispatch_s >= 30 * US - 1e-12
    assert adds_up(phase)


def test_an_unknown_leaf_lowers_the_coverage(tmp_path: Path) -> None:
    """mm 60 us, an op without a formula 20 us: a quarter of 80 us."""
    phase = read(tmp_path, span("decode", 0, 200), *linear(10), op("my_op", 120, 20, shaped([3, 4])))
    assert phase.unknown == (("my_op", near(0.25)),)
    assert phase.coverage == near(0.75)
    unknown = named(phase, "my_op")
    assert (unknown.known, unknown.op.flops, unknown.op.traffic, unknown.op.kind) == (False, 0, Traffic(), OpKind.OTHER)
    assert adds_up(phase)


def test_an_unknown_op_that_takes_memory_is_unknown_too(tmp_path: Path) -> None:
    phase = read(tmp_path, span("decode", 0, 100), op("my_op", 10, 50), op("empty", 20, 5))
    assert [(name, share) for name, share in phase.unknown] == [("my_op", 1)]
    assert phase.busy_s == near(45 * US)


def test_an_unknown_op_that_calls_one_that_works_is_dispatch(tmp_path: Path) -> None:
    phase = read(tmp_path, span("decode", 0, 100), op("my_op", 10, 50), mm(20, 30))
    assert phase.unknown == ()
    assert phase.dispatch_s == near(20 * US)


def test_the_longest_unknown_comes_first(tmp_path: Path) -> None:
    events = [op("a_op", 10, 10), op("b_op", 30, 20), op("a_op", 60, 15)]
    phase = read(tmp_path, span("decode", 0, 100), *events)
    assert [name for name, _ in phase.unknown] == ["a_op", "b_op"]
    assert [share for _, share in phase.unknown] == near([25 / 45, 20 / 45])


def test_an_unknown_part_of_a_product_is_its_own(tmp_path: Path) -> None:
    """A product of 60 us whose kernel of 40 has a name of its own: 60 us are the product's."""
    phase = read(tmp_path, span("decode", 0, 100), mm(10, 60), op("my_gemm_kernel", 20, 40))
    assert phase.unknown == ()
    assert named(phase, "mm 5 x 4").seconds == near(60 * US)


def test_views_are_dispatch(tmp_path: Path) -> None:
    phase = read(tmp_path, span("decode", 0, 100), op("view", 10, 5), op("transpose", 20, 5), op("empty", 30, 10))
    assert (phase.ops, phase.coverage, phase.unknown) == ((), 0, ())
    assert phase.dispatch_s == near(20 * US)
    assert adds_up(phase)


def test_ranges_of_one_phase_are_averaged(tmp_path: Path) -> None:
    """Steps of 100 and 200 us with mm of 40 and 60: a pass is 150 us with one mm of 50."""
    events = [span("decode", 0, 100), mm(10, 40), span("decode", 300, 200), mm(310, 60)]
    phase = read(tmp_path, *events)
    assert (phase.passes, phase.wall_s) == (2, near(150 * US))
    timed = named(phase, "mm 5 x 4")
    assert (timed.op.count, timed.op.flops, timed.seconds) == (1, 120, near(50 * US))
    assert adds_up(phase)


def test_flops_of_passes_that_differ_are_a_mean(tmp_path: Path) -> None:
    """A step with two of 120 FLOP and one with one: 180 a pass, 1.5 calls."""
    events = [span("decode", 0, 100), mm(10, 20), mm(40, 20), span("decode", 200, 100), mm(210, 20)]
    timed = named(read(tmp_path, *events), "mm 5 x 4")
    assert timed.op.flops == 180
    assert timed.seconds == near(30 * US)


def test_a_range_inside_one_of_its_name_is_part_of_it(tmp_path: Path) -> None:
    phase = read(tmp_path, span("decode", 0, 100), span("decode", 10, 80), mm(20, 40))
    assert (phase.passes, phase.wall_s) == (1, near(100 * US))
    assert phase.busy_s == near(40 * US)


def test_what_runs_outside_the_phase_is_left_out(tmp_path: Path) -> None:
    phase = read(tmp_path, mm(0, 40), span("decode", 50, 100), mm(60, 20), mm(160, 40))
    assert phase.busy_s == near(20 * US)
    assert named(phase, "mm 5 x 4").op.count == 1


def test_each_thread_nests_by_itself(tmp_path: Path) -> None:
    """An op of another thread is neither inside the range nor inside the op whose time it shares."""
    other = op("mm", 12, 30, shaped([3, 4], [4, 5]), thread=3)
    phase = read(tmp_path, span("decode", 0, 100), mm(10, 40), other)
    assert phase.busy_s == near(40 * US)
    assert adds_up(phase)


def test_a_phase_on_two_threads_is_two_passes(tmp_path: Path) -> None:
    other = op("mm", 10, 30, shaped([3, 4], [4, 5]), thread=3)
    phase = read(tmp_path, span("decode", 0, 100), mm(10, 50), span("decode", 0, 60, thread=3), other)
    assert (phase.passes, phase.wall_s, phase.busy_s) == (2, near(80 * US), near(40 * US))


def test_numbers_of_processes_and_threads_may_be_words(tmp_path: Path) -> None:
    events = [span("decode", 0, 100), mm(10, 40)]
    for made in events:
        made.update(pid="python 12", tid="thread 2 (python)")
    assert read(tmp_path, *events).busy_s == near(40 * US)


def test_events_out_of_order(tmp_path: Path) -> None:
    events = [span("decode", 0, 200), *linear(50)]
    assert read(tmp_path, *reversed(events)) == read(tmp_path, *events)


def test_of_events_with_the_same_times_the_first_numbered_is_outside(tmp_path: Path) -> None:
    """linear, matmul and mm of 100 us each, in whole microseconds: the file may have the innermost first."""
    names = ("linear", "matmul", "mm")
    dims = (shaped([3, 4], [5, 4]), shaped([3, 4], [4, 5]), shaped([3, 4], [4, 5]))
    events = [op(name, 50, 100, made) for name, made in zip(names, dims, strict=True)]
    for number, made in enumerate(events):
        made["args"]["External id"] = 10 + number
    phase = read(tmp_path, *reversed(events), span("decode", 0, 200))
    assert [timed.op.name for timed in phase.ops] == ["mm 5 x 4"]
    assert (phase.busy_s, phase.dispatch_s) == near((100 * US, 0))


def test_events_without_length_and_events_that_touch(tmp_path: Path) -> None:
    """A view of no time, and three products end to end: none lies inside another."""
    events = [op("view", 10, 0), mm(10, 20), mm(30, 20), op("view", 50, 0), mm(50, 20)]
    phase = read(tmp_path, span("decode", 0, 100), *events)
    assert named(phase, "mm 5 x 4").op.count == 3
    assert phase.busy_s == near(60 * US)
    assert adds_up(phase)


def test_an_event_that_ends_after_the_one_around_it(tmp_path: Path) -> None:
    """Rounded times: mm starts inside linear and ends 1 us later; linear keeps what is before it."""
    phase = read(tmp_path, span("decode", 0, 200), op("linear", 50, 100), mm(60, 91))
    assert phase.busy_s == near(91 * US)
    assert phase.dispatch_s == near(10 * US)


def test_phases_that_are_not_there(tmp_path: Path) -> None:
    path = written(tmp_path, [span("prefill", 0, 100), span("step", 200, 100)])
    assert [phase.name for phase in read_kineto(path, ["decode", "prefill"])] == ["prefill"]
    with pytest.raises(InputError, match="no range named decode or verify; its ranges are prefill, step"):
        read_kineto(path, (name for name in ("decode", "verify")))
    with pytest.raises(InputError, match="it has no ranges"):
        read_kineto(written(tmp_path, [mm(0, 10)]), ["decode"])
    assert read_references(path, "decode", convention=AttentionFlops.CAUSAL) == []


def test_a_phase_without_length(tmp_path: Path) -> None:
    phase = read(tmp_path, span("decode", 10, 0), mm(10, 20))
    assert (phase.wall_s, phase.gap_s, phase.coverage) == (0, 0, 0)
