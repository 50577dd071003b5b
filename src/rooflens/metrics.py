"""Serving metrics, measured where a phase ran and else at the floor: latencies, throughput, utilisation, memory."""

from __future__ import annotations

from dataclasses import dataclass

from rooflens.core.arrays import Count, is_array
from rooflens.core.profile import PhaseProfile, Profile
from rooflens.core.scenario import PhaseKind
from rooflens.count import kv_cache_bytes, state_bytes, weight_bytes


@dataclass(frozen=True, slots=True)
class PhaseMetrics:
    """Rates of one phase over the time that it took, or over its floor where nothing ran.

    tokens_per_s: tokens that pass through it per second. mfu: model_flops / (time x peak), each FLOP
    against the peak of its own dtype. mbu: compulsory
    bytes (weights, KV, state, logits) / (time x bandwidth). Both in 0..1.
    """

    tokens_per_s: Count
    mfu: Count
    mbu: Count


@dataclass(frozen=True, slots=True)
class Metrics:
    """Of a whole scenario: seconds, tokens per second, bytes; None where the phase that it is of did not run.

    ttft_s: time of prefill, measured or at the floor (service time: no queue). tpot_s: of the decode step.
    tokens_per_s: generated tokens per second of that step. e2e_s: prefill and output - 1 such steps.
    state_bytes: recurrent and convolution states of the batch. memory_needed_bytes: weights, states, and the KV cache
    of the batch at its longest.
    """

    ttft_s: Count | None
    tpot_s: Count | None
    tokens_per_s: Count | None
    prefill_tokens_per_s: Count | None
    e2e_s: Count | None
    weight_bytes: int
    kv_cache_bytes: Count
    state_bytes: Count
    memory_needed_bytes: Count


def phase_metrics(phase: PhaseProfile) -> PhaseMetrics:
    """Rates of `phase` over its time: measured, or at the serial floor.

    Source: MFU, Chowdhery et al., 2204.02311, appendix B; MBU, Databricks, "LLM Inference Performance
    Engineering: Best Practices" (achieved bandwidth over peak, weights and KV cache read once).
    """
    return PhaseMetrics(
        tokens_per_s=phase.phase.batch.tokens / phase.time_s,
        mfu=phase.matrix_s / phase.time_s,
        mbu=phase.compulsory_bytes / (phase.time_s * phase.roof.bandwidth),
    )


def profile_metrics(profile: Profile) -> Metrics:
    """Metrics of the scenario of `profile`: over measured times, or all at the serial floor."""
    prefill = _phase(profile, PhaseKind.PREFILL)
    decode = _phase(profile, PhaseKind.DECODE)
    scenario, precision = profile.scenario, profile.scenario.precision
    tpot = decode.time_s if decode else None
    held = scenario.longest_context
    images = scenario.image_tokens
    cache = scenario.batch * kv_cache_bytes(profile.model, held, precision.kv, image_tokens=images)
    states = scenario.batch * state_bytes(profile.model, precision.state, precision.activations)
    weights = weight_bytes(profile.model, precision.weights, precision.kept)
    if profile.model.tower is not None and (is_array(images) or images):
        weights += int(precision.kept.bytes_of(profile.model.tower.params))
    return Metrics(
        ttft_s=None if prefill is None else prefill.time_s,
        tpot_s=tpot,
        tokens_per_s=scenario.batch / tpot if tpot is not None else None,
        prefill_tokens_per_s=None if prefill is None else phase_metrics(prefill).tokens_per_s,
        e2e_s=None if prefill is None else prefill.time_s + (scenario.output - 1) * (0.0 if tpot is None else tpot),
        weight_bytes=weights,
        kv_cache_bytes=cache,
        state_bytes=states,
        memory_needed_bytes=weights + cache + states,
    )


def _phase(profile: Profile, kind: PhaseKind) -> PhaseProfile | None:
    return next((phase for phase in profile.phases if phase.phase.kind is kind), None)
