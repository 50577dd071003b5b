"""Core nouns to JSON documents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rooflens.core.arrays import is_array
from rooflens.core.hardware import Hardware
from rooflens.core.model import ModelSpec
from rooflens.core.op import DType
from rooflens.core.profile import Bound, PhaseProfile, Point, Profile
from rooflens.core.scenario import Scenario
from rooflens.count.sizes import (
    active_params,
    embedding_params,
    kv_bytes_per_token,
    kv_cache_bytes,
    params,
    parts,
    state_bytes,
    weight_bytes,
)
from rooflens.errors import InputError
from rooflens.metrics import phase_metrics, profile_metrics
from rooflens.render.document import (
    MODEL_SCHEMA,
    PROFILE_SCHEMA,
    ConditionDocument,
    ConventionsDocument,
    FindingDocument,
    HardwareReference,
    MetricsDocument,
    ModelDocument,
    ModelReference,
    OpDocument,
    PeakDocument,
    PhaseDocument,
    ProfileDocument,
    ScenarioDocument,
    ShareDocument,
    SourceDocument,
)
from rooflens.render.layers import layer_document
from rooflens.render.measured_documents import bytes_document, measured_document, number
from rooflens.render.words import convention_notes, roofs, sources
from rooflens.version import __version__


def profile_document(profile: Profile) -> ProfileDocument:
    """Return `profile` as the document that `predict --json` writes.

    Raises:
        InputError: the profile holds arrays of scenarios; a document is of one.
    """
    if any(is_array(phase.floor_s) for phase in profile.phases):
        raise InputError("the profile holds an array of scenarios; a document, table or chart shows one at a time")
    return ProfileDocument(
        schema=PROFILE_SCHEMA,
        version=__version__,
        model=_model_reference(profile),
        hardware=_hardware_reference(profile),
        scenario=_scenario(profile.scenario),
        conventions=_conventions(profile),
        phases=[_phase(phase) for phase in profile.phases],
        metrics=_metrics(profile),
        findings=[FindingDocument(f.level, f.code, f.text) for f in profile.findings],
        conditions=[ConditionDocument(*row) for row in profile.conditions],
        provenance=_provenance(profile),
    )


def model_document(
    model: ModelSpec,
    *,
    contexts: Sequence[int],
    weights: DType,
    kept: DType,
    kv: DType,
    state: DType | None = None,
) -> ModelDocument:
    """Return the facts of `model` as the document that `model --json` writes, KV bytes at each of `contexts`.

    state: dtype of recurrent and convolution states; fp32 and `kept` unless given.
    """
    return ModelDocument(
        schema=MODEL_SCHEMA,
        version=__version__,
        name=model.name,
        architecture=model.architecture,
        params=params(model),
        active_params=active_params(model),
        embedding_params=embedding_params(model),
        parts=dict(parts(model)),
        tied=model.tied,
        hidden=model.hidden,
        vocab=model.vocab,
        weight_bytes=weight_bytes(model, weights, kept),
        weights_dtype=str(weights),
        kv_dtype=str(kv),
        kv_bytes_per_token=kv_bytes_per_token(model, kv, windowed=False),
        kv_bytes_per_token_all_layers=kv_bytes_per_token(model, kv, windowed=True),
        kv_reserved_bytes={str(c): c * kv_bytes_per_token(model, kv, windowed=True) for c in contexts},
        kv_bytes={str(context): int(kv_cache_bytes(model, context, kv)) for context in contexts},
        state_bytes=state_bytes(model, state, kept),
        max_context=model.max_context,
        layers=[layer_document(model, layer, kv=kv, state=state, kept=kept) for layer in model.layers],
        notes=list(model.notes),
        source=model.source,
    )


def _phase(phase: PhaseProfile) -> PhaseDocument:
    rates, batch = phase_metrics(phase), phase.phase.batch
    return PhaseDocument(
        phase=str(phase.phase.kind),
        batch=int(batch.sequences),
        tokens=int(batch.tokens),
        context=int(batch.cached_tokens),
        flops=number(phase.flops),
        model_flops=number(phase.model_flops),
        bytes=bytes_document(phase.traffic),
        compulsory_bytes=number(phase.compulsory_bytes),
        intensity=_finite(phase.intensity),
        ridge_point=phase.ridge_point,
        bound=str(phase.bound),
        bound_share=ShareDocument(**{str(bound): float(phase.bound_share[bound]) for bound in Bound}),
        floor_s=float(phase.floor_s),
        ideal_s=float(phase.ideal_s),
        tokens_per_s=float(rates.tokens_per_s),
        mfu=float(rates.mfu),
        mbu=float(rates.mbu),
        ops=[_op(point, op_seconds(phase)) for point in by_time(phase)],
        measured=measured_document(phase),
    )


def by_time(phase: PhaseProfile) -> list[Point]:
    """The points of a phase, largest share of time first."""
    return sorted(phase.points, key=lambda point: -float(point.time_s))


def op_seconds(phase: PhaseProfile) -> float:
    """Seconds that shares of ops are of: what a phase took that ran with a breakdown, else the sum of its floors."""
    ran = phase.measured is not None and phase.measured.traced is not None
    return float(phase.time_s if ran else phase.floor_s)


def _op(point: Point, total_s: float) -> OpDocument:
    op = point.op
    return OpDocument(
        name=op.name,
        kind=str(op.kind),
        count=op.count,
        dtype=str(point.roof.dtype if point.measured_s is None else op.dtype),
        flops=number(op.flops),
        model_flops=number(op.model_flops),
        bytes=bytes_document(op.traffic),
        intensity=_finite(op.intensity),
        bound=str(point.timing.bound),
        floor_s=float(point.floor_s),
        share=float(point.time_s) / total_s if total_s else 0.0,
        measured_s=point.measured_s,
        roof_share=point.roof_share,
        known=point.known,
    )


def _metrics(profile: Profile) -> MetricsDocument:
    m = profile_metrics(profile)
    return MetricsDocument(
        ttft_s=_known(m.ttft_s),
        tpot_s=_known(m.tpot_s),
        tokens_per_s=_known(m.tokens_per_s),
        prefill_tokens_per_s=_known(m.prefill_tokens_per_s),
        e2e_s=_known(m.e2e_s),
        weight_bytes=m.weight_bytes,
        kv_cache_bytes=number(m.kv_cache_bytes),
        state_bytes=number(m.state_bytes),
        memory_needed_bytes=number(m.memory_needed_bytes),
    )


def _model_reference(profile: Profile) -> ModelReference:
    model, precision = profile.model, profile.scenario.precision
    return ModelReference(
        name=model.name,
        architecture=model.architecture,
        params=params(model),
        active_params=active_params(model),
        weight_bytes=weight_bytes(model, precision.weights, precision.kept),
        kv_bytes_per_token=kv_bytes_per_token(model, precision.kv, windowed=False),
    )


def _hardware_reference(profile: Profile) -> HardwareReference:
    hardware: Hardware = profile.hardware
    assert hardware.memory.bandwidth is not None
    return HardwareReference(
        name=hardware.name,
        title=hardware.title,
        peaks=[PeakDocument(str(roof.dtype), roof.units, roof.peak) for roof in roofs(profile)],
        bandwidth_bytes_per_s=hardware.memory.bandwidth.value,
        memory_bytes=hardware.memory_bytes.value if hardware.memory_bytes else None,
    )


def _scenario(scenario: Scenario) -> ScenarioDocument:
    precision = scenario.precision
    decodes = len(scenario.phases) > 1
    return ScenarioDocument(
        batch=int(scenario.batch),
        prompt=int(scenario.prompt),
        output=int(scenario.output),
        context=int(scenario.decode_context) if decodes else None,
        dtype=str(precision.compute),
        attention_dtype=str(precision.attention),
        activations_dtype=str(precision.activations),
        weights_dtype=str(precision.weights),
        kept_dtype=str(precision.kept),
        kv_dtype=str(precision.kv),
        state_dtype=None if precision.state is None else str(precision.state),
        image_tokens=int(scenario.image_tokens),
    )


def _conventions(profile: Profile) -> ConventionsDocument:
    chosen = profile.scenario.conventions
    return ConventionsDocument(
        attention_flops=chosen.attention_flops.value,
        logits=chosen.logits.value,
        traffic=chosen.traffic.value,
        fusion=chosen.fusion.value,
        latent=chosen.latent.value,
        distinct_experts=chosen.distinct_experts,
        notes=convention_notes(profile),
    )


def _provenance(profile: Profile) -> list[SourceDocument]:
    rows = [
        SourceDocument(figure, value, ceiling.provenance.kind, ceiling.provenance.source, ceiling.provenance.note)
        for figure, value, ceiling in sources(profile)
    ]
    config = SourceDocument("model shape", profile.model.architecture, "config", profile.model.source, "")
    return [*rows, config]


def _known(value: Any) -> float | None:
    return None if value is None else float(value)


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None
