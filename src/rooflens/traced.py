"""A model that is known by its trace: a ModelSpec without layers of its own, and the conventions of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rooflens.audit.build import build
from rooflens.audit.facts import Facts, facts
from rooflens.audit.trace import PhaseTrace, takes_last_logits, trace_dtype, trace_phase
from rooflens.core.attention import Attention, Span
from rooflens.core.blocks import Block, Linear
from rooflens.core.model import Layer, ModelSpec
from rooflens.core.op import DType
from rooflens.core.profile import Finding
from rooflens.core.recurrent import Recurrent
from rooflens.core.scenario import (
    AttentionFlops,
    Conventions,
    Fusion,
    LatentForm,
    Logits,
    Phase,
    Scenario,
    TrafficModel,
)
from rooflens.errors import InputError, UnitError, UnknownArchitectureError
from rooflens.sources.config import spec_from_config

LARGEST_TRACED = 2**24
"""Largest batch or length that is traced: tensors of the framework have 64-bit sizes."""


class TracedCache(Attention):
    """The caches of all layers at once: what they hold of a token, and no matrices."""

    __slots__ = ()

    @property
    def linears(self) -> tuple[Linear, ...]:
        """None: parameters of a traced model are counted together."""
        return ()


@dataclass(frozen=True, slots=True)
class TracedState(Recurrent):
    """The states of all layers at once: `values` fp32 values of one sequence."""

    values: int

    @property
    def state_values(self) -> int:
        """All of them."""
        return self.values

    @property
    def conv_channels(self) -> int:
        """None: the states of convolutions are among the values."""
        return 0

    @property
    def conv_kernel(self) -> int:
        """None."""
        return 1

    @property
    def scan_width(self) -> int:
        """None: what a scan moves is in the trace."""
        return 0


def traced_spec(name: str, values: Mapping[str, Any], longest: int) -> ModelSpec:
    """The ModelSpec of the config `values`: read where the architecture is known, else from the framework's model.

    The second has the facts that a Profile needs (parameters, tables, what the cache holds up to `longest` tokens),
    and no layers: `active_params` is all parameters.

    Raises:
        MissingExtraError, UnknownArchitectureError, InputError: as the framework's `build` does.
    """
    try:
        return spec_from_config(values, name=name, origin=name)
    except UnknownArchitectureError:
        built = build(values, name)
        return _spec(name, values, built.class_name, facts(built, longest))


def longest(sizes: Mapping[str, Any]) -> int:
    """Tokens of the longest context that a scenario of these sizes asks for.

    Raises:
        InputError: sizes that are no single whole numbers: a trace is of one scenario.
    """
    given = [size for size in sizes.values() if size is not None]
    if not all(isinstance(size, int) and 0 <= size <= LARGEST_TRACED for size in given):
        raise InputError(f"a trace is of one scenario; expected single whole numbers up to {LARGEST_TRACED:,}")
    context = sizes.get("context")
    return int(sizes["prompt"] + sizes["output"] if context is None else context + 1)


def trace_conventions(asked: Conventions, values: Mapping[str, Any], name: str) -> Conventions:
    """The conventions of a trace, which are the framework's; of `asked`, the choice of logits holds if it can.

    Raises:
        InputError: `asked` wants what the framework does not run.
    """
    if asked.traffic is TrafficModel.WEIGHTS or asked.latent is LatentForm.ABSORBED or asked.distinct_experts:
        raise InputError(
            "a trace counts what the framework runs: eager traffic, latents expanded, the experts it picks; "
            "leave out --traffic weights, --latent absorbed and --distinct-experts"
        )
    last = asked.logits is Logits.LAST and takes_last_logits(build(values, name))
    return Conventions(
        AttentionFlops.FULL,
        Logits.LAST if last else Logits.ALL,
        TrafficModel.EAGER,
        Fusion.FRAMEWORK,
        LatentForm.EXPANDED,
    )


def trace_phases(name: str, values: Mapping[str, Any], work: Scenario) -> list[tuple[Phase, PhaseTrace]]:
    """Trace every phase of `work`.

    Raises:
        InputError: a pass that the framework cannot run on the meta device.
    """
    built = build(values, name, trace_dtype(work.precision))
    return [(phase, trace_phase(built, phase, work.precision, work.conventions.logits)) for phase in work.phases]


def trace_findings(traces: list[tuple[Phase, PhaseTrace]]) -> tuple[Finding, ...]:
    """What a reader of a traced profile should know: where its ops come from, and those that were not counted."""
    trace = traces[0][1]
    text = (
        f"kernels are the ops that {trace.class_name} of {trace.framework} runs eagerly, named after modules: bytes as "
        "they read and write, FLOP of products; the cache is read where the framework appends to it, and what "
        "attention reads after that counts as activations"
    )
    found = [Finding("info", "traced", text)]
    if any("expert" in op.name.lower() for op in trace.ops):
        text = "experts run as batched_mm: each token copies the weights of its experts, which no serving engine does"
        found.append(Finding("warning", "traced_experts", text))
    for phase, each in traces:
        if each.uncounted:
            listed = ", ".join(f"{op} ({calls:,} calls)" for op, calls in each.uncounted)
            found.append(Finding("warning", "not_counted", f"{phase.kind}: FLOP of these ops are not known: {listed}"))
    return tuple(found)


def _spec(name: str, values: Mapping[str, Any], class_name: str, found: Facts) -> ModelSpec:
    dtype, stated = _dtype(values)
    tables = found.vocab * found.table_width * (1 if found.tied else 2)
    return ModelSpec(
        name=name,
        architecture=str(values.get("model_type", class_name)),
        hidden=found.hidden,
        vocab=found.vocab,
        layers=(Layer(1, _blocks(found), ()),),
        tied=found.tied,
        weights_dtype=dtype,
        kept_dtype=dtype,
        dtype_stated=stated,
        final_norm=None,
        embedding_width=found.table_width,
        max_context=found.max_context,
        extra_params=found.parameters - tables - _projections(found),
        notes=(
            f"no mapping to layer kinds: parameters, cache and kernels are those of {class_name}; active parameters "
            "are not told apart, and weights count as if they were not quantised",
        ),
        source=f"config of {name}, traced",
    )


def _projections(found: Facts) -> int:
    """What a ModelSpec adds for a table narrower than the model: a projection into it and one out of it."""
    return 0 if found.table_width == found.hidden else 2 * found.table_width * found.hidden


def _blocks(found: Facts) -> tuple[Block, ...]:
    """What the cache holds; a window of W holds W - 1 tokens after a pass of the framework."""
    kept = TracedCache(hidden=found.hidden, heads=1, kv_heads=1, d_k=found.growing, d_v=0)
    window = replace(kept, d_k=found.bounded, span=Span(window=found.held + 1)) if found.bounded else None
    state = TracedState(found.state_bytes // 4) if found.state_bytes else None
    return tuple(block for block in (kept, window, state) if block is not None)


def _dtype(values: Mapping[str, Any]) -> tuple[DType, bool]:
    """The dtype that the config states, 16 bit where it states none, or one that a model does not run in."""
    text = values.get("dtype") or values.get("torch_dtype")
    try:
        dtype = DType.parse(str(text)) if text else DType.BF16
    except UnitError:
        return DType.BF16, False
    return (dtype, bool(text)) if dtype.bits >= 16 else (DType.BF16, False)
