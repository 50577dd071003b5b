"""A framework's pass as ops: what each module runs, with the bytes that eager execution reads and writes."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rooflens.audit.build import Built, build
from rooflens.audit.counter import ACTIVATIONS, Row, Tally, counting, module_paths
from rooflens.audit.kinds import Work
from rooflens.audit.passes import cache_tensors, memory_of, prefill, returned_cache, run
from rooflens.audit.traffic import storage_of
from rooflens.core.op import DType, GemmShape, Op, OpKind, PointwiseShape, Traffic
from rooflens.core.scenario import Logits, Phase, Precision
from rooflens.errors import InputError
from rooflens.frameworks import first_line, quiet

FRAMEWORK_DTYPES = {DType.BF16: "bfloat16", DType.FP16: "float16", DType.FP32: "float32"}
"""Storage between kernels that the framework's model is built in."""

_LAYER = re.compile(r"\.\d+(?=\.|$)")
_KINDS = {
    Work.CONVOLUTION: OpKind.CONVOLUTION,
    Work.POINTWISE: OpKind.ACTIVATION,
    Work.REDUCTION: OpKind.NORM,
    Work.NORM: OpKind.NORM,
    Work.SOFTMAX: OpKind.SOFTMAX,
    Work.SCAN: OpKind.ACTIVATION,
    Work.SELECTION: OpKind.ACTIVATION,
}
"""What tables call an op that is no product; the others copy."""


@dataclass(frozen=True, slots=True)
class PhaseTrace:
    """The ops of one pass of `class_name`. uncounted: (name, calls) of ops that the counter cannot count."""

    ops: tuple[Op, ...]
    uncounted: tuple[tuple[str, int], ...]
    class_name: str
    framework: str


@dataclass(slots=True)
class _Group:
    """Rows of one op in the modules of one pattern."""

    name: str
    op: str
    rows: list[Row] = field(default_factory=list)


def trace_forward(values: Mapping[str, Any], phase: Phase, precision: Precision) -> tuple[Op, ...]:
    """Return the ops of one pass of the framework's model of the config `values`, named after modules.

    Raises:
        MissingExtraError, UnknownArchitectureError, InputError: as `build` and `trace_phase` do.
    """
    built = build(values, "config", trace_dtype(precision))
    return trace_phase(built, phase, precision, Logits.LAST).ops


def trace_dtype(precision: Precision) -> str:
    """The framework's name of the dtype between kernels.

    Raises:
        InputError: one that the framework's models do not run in.
    """
    if precision.activations not in FRAMEWORK_DTYPES:
        known = ", ".join(FRAMEWORK_DTYPES)
        raise InputError(f"a trace runs in {known}, and not with activations in {precision.activations}")
    return FRAMEWORK_DTYPES[precision.activations]


def trace_phase(built: Built, phase: Phase, precision: Precision, logits: Logits) -> PhaseTrace:
    """Trace one pass of `built`: an op for each framework op of each module, layer numbers replaced by `*`.

    Bytes are those that the framework's ops read and write, each operand once: unfused attention, repeated keys and
    values, and gathered experts included. Weights and cache count in the dtypes of `precision`, all else as the
    framework stores it. A cache is read where the framework appends to it and written by what is new; what attention
    reads of the grown cache are activations. FLOP are those of products and convolutions.

    Raises:
        InputError: the framework cannot run the pass on the meta device.
    """
    with quiet():
        try:
            tally = _run(built, phase, logits)
        except Exception as cause:  # the framework raises whatever its code runs into
            raise InputError(
                f"{built.class_name} did not run {phase.kind} on the meta device, which holds no values "
                f"({first_line(cause)}); it cannot be traced"
            ) from cause
    moving = [row for row in tally.rows if row.work is not Work.VIEW]
    head = _head_of(built.model)
    ops = tuple(_op(group, precision, head) for group in _groups(moving))
    missed = ((row.op, row.calls if row.work is Work.UNKNOWN else row.unread) for row in moving)
    uncounted = _summed((name, calls) for name, calls in missed if calls)
    return PhaseTrace(ops, uncounted, built.class_name, built.framework)


def takes_last_logits(built: Built) -> bool:
    """Whether the model can compute logits for the last token of each sequence alone."""
    return "logits_to_keep" in inspect.signature(built.model.forward).parameters


def _run(built: Built, phase: Phase, logits: Logits) -> Tally:
    """Count one pass after an uncounted prefill of what is cached."""
    model, batch = built.model, phase.batch
    sequences, tokens, cached = int(batch.sequences), int(batch.new_tokens), int(batch.cached_tokens)
    last = logits is Logits.LAST and takes_last_logits(built)
    cache = prefill(model, cached, batch=sequences) if cached else None
    before = cache_tensors(cache)  # kept until the pass is over: memory that is freed is given out again
    owners = {**owned_weights(model), **memory_of(before)}
    with module_paths(model) as where, counting(Tally(owners, where)) as tally:
        output = run(model, tokens, batch=sequences, cache=cache, past=cached, last=last)
    tally.claim(memory_of(cache_tensors(cache if cache is not None else returned_cache(output))))
    return tally


def owned_weights(model: Any) -> dict[int, str]:
    """Whose each parameter's memory is: "weights" for the matrices of linear layers, "kept" for all else."""
    tables = (model.get_input_embeddings(), model.get_output_embeddings())
    kept = {id(table.weight) for table in tables if getattr(table, "weight", None) is not None}
    owners = {storage_of(buffer): "kept" for buffer in model.buffers()}
    for parameter in model.parameters():
        matrix = parameter.dim() >= 2 and id(parameter) not in kept
        owners[storage_of(parameter)] = "weights" if matrix else "kept"
    return owners


def _head_of(model: Any) -> str:
    head = model.get_output_embeddings()
    return next((name for name, module in model.named_modules() if module is head), "")


def _groups(rows: Sequence[Row]) -> list[_Group]:
    """Rows by module pattern and op; a module that runs a single op gives it its own name."""
    groups: dict[tuple[str, str], _Group] = {}
    ops: dict[str, set[str]] = {}
    for row in rows:
        pattern = _LAYER.sub(".*", row.module) or "model"
        ops.setdefault(pattern, set()).add(row.op)
        groups.setdefault((pattern, row.op), _Group(pattern, row.op)).rows.append(row)
    for group in groups.values():
        if len(ops[group.name]) > 1:
            group.name = f"{group.name}:{group.op.rpartition('.')[2]}"
    return list(groups.values())


def _op(group: _Group, precision: Precision, head: str) -> Op:
    """One op: totals over the rows of its group."""
    first, flops = group.rows[0], sum(row.flops for row in group.rows)
    kind = _kind(group)
    convolves = kind is OpKind.CONVOLUTION
    rows, columns = first.widths
    each = first.flops // max(first.calls, 1)
    depth = each // max(2 * rows * columns, 1)
    shape = GemmShape(rows, columns, depth) if kind is OpKind.GEMM else PointwiseShape(rows, columns, 0)
    return Op(
        name=group.name,
        kind=kind,
        dtype=_arithmetic(group, kind, precision),
        flops=flops,
        model_flops=0 if convolves else flops,
        traffic=_traffic(group.rows, precision),
        shape=shape,
        count=sum(row.calls for row in group.rows),
        leaving_bytes=sum(row.written[ACTIVATIONS] for row in group.rows if head and row.module == head),
    )


def _kind(group: _Group) -> OpKind:
    """A product of weights is a GEMM, of experts' weights theirs, of activations alone attention's."""
    row = group.rows[0]
    if row.work is not Work.PRODUCT:
        return OpKind.EMBEDDING if row.op == "aten.embedding" else _KINDS.get(row.work, OpKind.COPY)
    if row.op in ("aten.bmm", "aten._grouped_mm") and "expert" in row.module.lower():
        return OpKind.EXPERTS
    return OpKind.GEMM if row.read["weights"] or row.read["kept"] else OpKind.ATTENTION


def _arithmetic(group: _Group, kind: OpKind, precision: Precision) -> DType:
    linear = kind is OpKind.EXPERTS or any(row.read["weights"] for row in group.rows)
    return precision.compute if kind.on_matrix_units and linear else precision.attention


def _traffic(rows: Sequence[Row], precision: Precision) -> Traffic:
    total = _total(rows, lambda row: row.values)
    both = _total(rows, lambda row: row.read), _total(rows, lambda row: row.written)
    return Traffic(
        weights=precision.weights.bytes_of(total["read", "weights"]) + precision.kept.bytes_of(total["read", "kept"]),
        kv_read=precision.kv.bytes_of(total["read", "kv"]),
        kv_write=precision.kv.bytes_of(total["written", "kv"]),
        activations=sum(moved[ACTIVATIONS] for moved in both),
        state=sum(moved["state"] for moved in both),
    )


def _total(rows: Iterable[Row], counts: Callable[[Row], Any]) -> Any:
    """The sum of a counter of every row."""
    total: Counter[Any] = Counter()
    for row in rows:
        total.update(counts(row))
    return total


def _summed(pairs: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    sums: dict[str, int] = {}
    for name, calls in pairs:
        sums[name] = sums.get(name, 0) + calls
    return tuple(sums.items())
