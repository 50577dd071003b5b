"""Findings: what a reader of a prediction should know beside its numbers."""

from __future__ import annotations

from collections.abc import Iterator

from rooflens.core.arrays import is_array
from rooflens.core.profile import Bound, Finding, PhaseProfile, Profile
from rooflens.core.scenario import PhaseKind
from rooflens.measured_findings import measured_findings
from rooflens.metrics import profile_metrics
from rooflens.units import binary, si

LAUNCH_S = 5e-6
"""Order of magnitude of one kernel launch: floors below it per kernel are hidden behind launches."""


def findings(profile: Profile) -> tuple[Finding, ...]:
    """What stands out in `profile`; nothing for arrays of scenarios beyond what the model itself notes."""
    found = [Finding("info", "model", note) for note in profile.model.notes]
    if not _swept(profile):
        found += [*_memory(profile), *_context(profile)]
        for phase in profile.phases:
            ran = phase.measured is not None
            found += _unusual_bound(phase)
            found += measured_findings(phase, profile.hardware) if ran else _launches(phase)
    return tuple(found)


def _swept(profile: Profile) -> bool:
    """Whether the profile holds arrays of scenarios."""
    work = profile.scenario
    return any(is_array(figure) for figure in (work.batch, work.prompt, work.output, work.decode_context))


def _memory(profile: Profile) -> Iterator[Finding]:
    if not profile.model.layers:
        return
    held, needed = profile.hardware.memory_bytes, profile_metrics(profile)
    if held is None:
        yield Finding("info", "memory", f"the memory size of {profile.hardware.name} is not known: fit is not checked")
        return
    size = f"{si(held.value, 'B')} ({binary(held.value)}, {held.provenance.source})"
    parts = f"weights {si(needed.weight_bytes, 'B')} and KV cache {si(float(needed.kv_cache_bytes), 'B')}"
    if needed.state_bytes:
        parts += f" and state {si(float(needed.state_bytes), 'B')}"
    if needed.memory_needed_bytes > held.value:
        yield Finding("warning", "does_not_fit", f"{parts} do not fit {size} of {profile.hardware.name}")
    else:
        share = 100 * needed.memory_needed_bytes / held.value
        much = f"{share:.1f} %" if share >= 0.1 else "less than 0.1 %"
        text = f"{parts} take {much} of {size}, activations and framework not counted"
        yield Finding("info", "fits", text)


def _context(profile: Profile) -> Iterator[Finding]:
    longest, asked = profile.model.max_context, profile.scenario.longest_context
    if longest is not None and asked > longest:
        text = f"{asked:,} tokens are more than the {longest:,} positions that {profile.model.name} is made for"
        yield Finding("warning", "context", text)


def _unusual_bound(phase: PhaseProfile) -> Iterator[Finding]:
    """Where the textbook's tendency does not hold."""
    kind, tokens, bound = phase.phase.kind, phase.phase.batch.tokens, phase.bound
    share = f"{100 * float(phase.bound_share[bound]):.1f} % of its time"
    against = f"{tokens:,} tokens against a ridge point of {phase.ridge_point:,.0f} FLOP/byte"
    if kind is PhaseKind.PREFILL and bound is Bound.MEMORY:
        yield Finding("info", "memory_bound_prefill", f"prefill is memory-bound for {share}: {against}")
    if kind is PhaseKind.DECODE and bound is Bound.COMPUTE:
        yield Finding("info", "compute_bound_decode", f"decode is compute-bound for {share}: {against}")


def _launches(phase: PhaseProfile) -> Iterator[Finding]:
    kernels, floor_s = sum(point.op.count for point in phase.points), float(phase.floor_s)
    if floor_s / kernels < LAUNCH_S:
        each = si(floor_s / kernels, "s")
        text = (
            f"{phase.phase.kind}: {kernels:,} kernels in {si(floor_s, 's')} are {each} each, about what a launch "
            "costs: without CUDA graphs or the like, overhead is likely the bound"
        )
        yield Finding("warning", "overhead_likely", text)
