"""Small traces written by hand; times in microseconds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rooflens.core.timed import TimedOp, TimedPhase
from rooflens.sources.kineto import read_kineto

Json = dict[str, Any]


def near(value: Any, **tolerance: float) -> Any:
    """`pytest.approx`, which inside a tuple compares with anything."""
    return pytest.approx(value, **tolerance)


def event(category: str, name: str, start: float, duration: float, **args: Any) -> Json:
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 1,
        "tid": 2,
        "ts": start,
        "dur": duration,
        "args": {key.replace("_", " "): value for key, value in args.items()},
    }


def shaped(*dims: Any, types: Iterable[str] = (), texts: Iterable[str] = ()) -> Json:
    """The shapes of a call, fp32 unless `types` says otherwise."""
    kinds = list(types) or ["float" if dim else "Scalar" for dim in dims]
    args: Json = {"Input Dims": list(dims), "Input type": kinds}
    return {**args, "Concrete Inputs": list(texts) or [""] * len(dims)}


def op(name: str, start: float, duration: float, shapes: Mapping[str, Any] | None = None, thread: object = 2) -> Json:
    """An op of the framework; `shapes` as `shaped` gives them."""
    made = event("cpu_op", f"aten::{name}", start, duration)
    return {**made, "tid": thread, "args": {"External id": int(start), **(shapes or {})}}


def span(name: str, start: float, duration: float, thread: object = 2) -> Json:
    return {**event("user_annotation", name, start, duration), "tid": thread}


def launch(start: float, correlation: int, *, name: str = "cudaLaunchKernel", thread: object = 2) -> Json:
    return {**event("cuda_runtime", name, start, 1, correlation=correlation), "tid": thread}


def kernel(name: str, start: float, duration: float, correlation: int | None = None, **args: Any) -> Json:
    more = {} if correlation is None else {"correlation": correlation}
    return {**event("kernel", name, start, duration, **more, **args), "pid": 0, "tid": 7}


def mm(start: float, duration: float, m: int = 3, k: int = 4, n: int = 5) -> Json:
    """x[m, k] W[k, n] in fp32: 2 m k n FLOP."""
    return op("mm", start, duration, shaped([m, k], [k, n]))


def linear(start: float) -> list[Json]:
    """linear of 100 us > matmul of 80 > mm of 60, all with shapes."""
    return [
        op("linear", start, 100, shaped([3, 4], [5, 4], [])),
        op("t", start + 1, 5),
        op("matmul", start + 10, 80, shaped([3, 4], [4, 5])),
        mm(start + 20, 60),
    ]


def written(folder: Path, events: Iterable[Json]) -> Path:
    path = folder / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": list(events)}))
    return path


def read(folder: Path, *events: Json, phase: str = "decode", **options: Any) -> TimedPhase:
    (found,) = read_kineto(written(folder, events), [phase], **options)
    return found


def named(phase: TimedPhase, name: str) -> TimedOp:
    (found,) = (timed for timed in phase.ops if timed.op.name == name)
    return found
