"""Files that are no traces, and traces that lie: one sentence, or a phase that holds together."""

from __future__ import annotations

import gzip
import json
from math import isnan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rooflens.core.scenario import AttentionFlops
from rooflens.errors import InputError
from rooflens.sources.kineto import read_kineto, read_references
from rooflens.sources.kineto_file import read_events, read_trace
from tests.sources.kineto_traces import kernel, launch, mm, near, op, read, shaped, span, written

GOOD = json.dumps({"traceEvents": [span("decode", 0, 100), mm(10, 40)]}).encode()

BROKEN: dict[str, bytes] = {
    "empty": b"",
    "blank": b" \n",
    "cut": GOOD[:-20],
    "no JSON": b"ModelRunner: 12 ms",
    "binary": bytes(range(256)),
    "list": b"[]",
    "number": b"7",
    "null": b"null",
    "no events": b'{"schemaVersion": 1}',
    "events of null": b'{"traceEvents": null}',
    "events of numbers": b'{"traceEvents": [1, 2]}',
    "name that is a number": b'{"traceEvents": [{"ph": "X", "name": 1}]}',
    "time that is a word": b'{"traceEvents": [{"ph": "X", "ts": "now"}]}',
    "args that are a list": b'{"traceEvents": [{"ph": "X", "args": []}]}',
    "correlation that is a word": b'{"traceEvents": [{"ph": "X", "args": {"correlation": "x"}}]}',
    "not a number": b'{"traceEvents": [{"ph": "X", "ts": NaN}]}',
    "infinity": b'{"traceEvents": [{"ph": "X", "dur": Infinity}]}',
    "beyond a double": b'{"traceEvents": [{"ph": "X", "dur": 1e999}]}',
    "no UTF-8": b'{"traceEvents": [{"ph": "X", "name": "\xff"}]}',
    "100,000 lists": b'{"traceEvents": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "cut gzip": gzip.compress(GOOD)[:-12],
    "gzip of nothing": gzip.compress(b""),
    "gzip of noise": b"\x1f\x8b" + bytes(100),
    "two bytes of gzip": b"\x1f\x8b",
    "broken gzip": gzip.compress(GOOD)[:20] + b"\x00\xff" * 40,
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_one_sentence(tmp_path: Path, name: str) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(BROKEN[name])
    for reading in (
        lambda: read_events(path),
        lambda: read_kineto(path, ["decode"]),
        lambda: read_references(path, "decode", convention=AttentionFlops.CAUSAL),
    ):
        with pytest.raises(InputError) as caught:
            reading()
        message = str(caught.value)
        assert str(path) in message
        assert "expected" in message
        assert "\n" not in message


def test_what_is_no_file(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.json"):
        with pytest.raises(InputError, match="could not be read"):
            read_events(path)


def test_gzip_is_known_by_its_bytes_not_its_name(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.compress(GOOD))
    (phase,) = read_kineto(path, ["decode"])
    assert phase.busy_s == near(40e-6)


def test_a_trace_of_more_than_the_limit(tmp_path: Path) -> None:
    for data in (GOOD, gzip.compress(GOOD)):
        path = tmp_path / "trace.json"
        path.write_bytes(data)
        assert read_trace(path, len(GOOD)).dropped == 0
        with pytest.raises(InputError, match="more than"):
            read_trace(path, len(GOOD) - 1)


def test_only_complete_events_are_read(tmp_path: Path) -> None:
    """Metadata, flows, counters and events of negative length are not."""
    others = [{**mm(10, 40), "ph": phase} for phase in ("M", "s", "f", "i", "C", "B", "")]
    path = written(tmp_path, [*others, mm(10, -1), {"ph": "X"}, mm(50, 20)])
    assert [event.name for event in read_events(path)] == ["", "aten::mm"]


def test_events_that_lack_everything(tmp_path: Path) -> None:
    bare: dict[str, Any] = {"ph": "X", "cat": "cpu_op"}
    phase = read(tmp_path, span("decode", 0, 100), bare, {"ph": "X", "cat": "kernel"}, {"ph": "X"}, mm(10, 40))
    assert phase.passes == 1


@pytest.mark.parametrize("levels", [5_000, 100_000])
def test_deep_nesting(tmp_path: Path, levels: int) -> None:
    """Each event inside the last; the innermost is a product, all others dispatch."""
    events = [op("linear", n, 2 * levels - 2 * n) for n in range(levels)]
    innermost = mm(levels, 0.5)
    phase = read(tmp_path, span("decode", 0, 2 * levels), *events, innermost)
    assert phase.busy_s == near(0.5e-6)
    assert phase.busy_s + phase.dispatch_s + phase.gap_s == near(phase.wall_s)


def test_deep_nesting_of_launches(tmp_path: Path) -> None:
    events = [op("my_op", n, 10_000 - n) for n in range(5_000)]
    phase = read(tmp_path, span("decode", 0, 10_000), *events, launch(5_001, 1), kernel("k", 5_003, 7, 1))
    assert phase.unknown == (("k", 1),)


@pytest.mark.parametrize("huge", [1e18, 1e300, 1.7e308])
def test_huge_times(tmp_path: Path, huge: float) -> None:
    events = [span("decode", 0, huge), mm(10, huge), mm(huge, huge), launch(5, 1), kernel("k", huge, huge, 1)]
    for found in (events, events[:3]):
        phase = read(tmp_path, *found)
        assert phase.wall_s >= 0
        assert phase.gap_s >= 0


LYING: dict[str, dict[str, Any]] = {
    "dims of words": {"Input Dims": ["a", "b"], "Input type": ["float", "float"]},
    "dims of fractions": {"Input Dims": [[1.5], [2]], "Input type": ["float", "float"]},
    "negative dims": {"Input Dims": [[-3, 4], [4, 5]], "Input type": ["float", "float"]},
    "dims that are true": {"Input Dims": [[True, 4], [4, 5]], "Input type": ["float", "float"]},
    "dims of null": {"Input Dims": None, "Input type": None},
    "dims of an object": {"Input Dims": {"0": [3, 4]}, "Input type": ["float"]},
    "fewer types": {"Input Dims": [[3, 4], [4, 5]], "Input type": ["float"]},
    "types of numbers": {"Input Dims": [[3, 4], [4, 5]], "Input type": [1, {}]},
    "types unheard of": {"Input Dims": [[3, 4], [4, 5]], "Input type": ["c10::quint4x2", "float"]},
    "lists of lists of lists": {"Input Dims": [[[[3]]], [[4]]], "Input type": ["TensorList", "TensorList"]},
    "no operands": {"Input Dims": [], "Input type": []},
}


@pytest.mark.parametrize("name", LYING)
def test_shapes_that_lie_are_not_counted(tmp_path: Path, name: str) -> None:
    phase = read(tmp_path, span("decode", 0, 100), op("mm", 10, 40, LYING[name]))
    assert phase.unknown == (("mm", 1),)


STRIDES = [None, "x", [1], [[1]], [[1, 2, 3], [1]], [1, 2], [["a"], {}], [[0, -1], [1, 1]]]


@pytest.mark.parametrize("strides", STRIDES, ids=str)
def test_strides_that_lie_are_not_used(tmp_path: Path, strides: object) -> None:
    args = {**shaped([3, 4], [4, 5]), "Input Strides": strides}
    listed = {"Input Dims": [[[3, 4], [2, 4]]], "Input type": ["TensorList"], "Input Strides": [strides]}
    events = [span("decode", 0, 100), op("mm", 10, 40, args), op("cat", 60, 10, listed)]
    phase = read(tmp_path, *events)
    assert phase.coverage == 1
    assert [timed.op.traffic.total for timed in phase.ops] == [4 * 47, 2 * 4 * 20]


def test_texts_that_lie(tmp_path: Path) -> None:
    """The causal flag of attention is no word: all pairs are multiplied."""
    lies: list[object] = [None, 7, [1, 2], [None] * 6, [[]] * 6, {"is_causal": True}]
    for texts in lies:
        args = {**shaped(*[[1, 1, 4, 8]] * 3, [], [], []), "Concrete Inputs": texts}
        phase = read(tmp_path, span("decode", 0, 100), op("scaled_dot_product_attention", 10, 40, args))
        assert phase.ops[0].op.model_flops == 16 * 32


_numbers = st.integers(0, 60) | st.floats(0, 60) | st.integers(0, 2**70)
_categories = st.sampled_from(["cpu_op", "user_annotation", "kernel", "cuda_runtime", "gpu_memcpy", "python_function"])
_names = st.sampled_from(["aten::mm", "aten::copy_", "aten::view", "decode", "aten::linear", "x", "", "::"])
_args = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "correlation": st.none() | st.integers(-(2**63), 2**63),
        "External id": st.integers(0, 9),
        "Input Dims": st.recursive(st.integers(-1, 4) | st.text(max_size=2), st.lists, max_leaves=8),
        "Input type": st.lists(st.sampled_from(["float", "long int", "", "TensorList"]), max_size=3),
        "Input Strides": st.recursive(st.integers(-1, 4), st.lists, max_leaves=8),
        "Concrete Inputs": st.lists(st.text(max_size=3), max_size=3),
    },
)
_events = st.fixed_dictionaries(
    {"ph": st.just("X"), "cat": _categories, "name": _names, "ts": _numbers, "dur": _numbers, "args": _args},
    optional={"pid": st.integers(0, 1) | st.text(max_size=2), "tid": st.none() | st.integers(0, 1)},
)


@given(st.lists(_events, max_size=12))
def test_any_events_hold_together(tmp_path_factory: pytest.TempPathFactory, events: list[dict[str, Any]]) -> None:
    path = written(tmp_path_factory.mktemp("any"), [*events, span("decode", 0, 30)])
    (phase,) = read_kineto(path, ["decode"])
    assert 0 <= phase.coverage <= 1 + 1e-9
    assert phase.wall_s >= 0
    assert phase.gap_s >= 0
    assert phase.busy_s >= 0
    assert not isnan(phase.op_s)
    assert all(timed.seconds >= 0 for timed in phase.ops)
