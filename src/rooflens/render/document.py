"""The JSON documents: their fields, as typed structs; docs/json.md describes each of them."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from rooflens.render.document_layers import LayerDocument

PROFILE_SCHEMA = "rooflens.profile/1"
MODEL_SCHEMA = "rooflens.model/1"


class BytesDocument(msgspec.Struct, frozen=True):
    """Bytes by kind; `total` is their sum."""

    weights: float
    kv_read: float
    kv_write: float
    activations: float
    state: float
    link: float
    total: float


class ShareDocument(msgspec.Struct, frozen=True):
    """Share of the time (of the floor where nothing ran) that each bound holds, in 0..1."""

    compute: float
    memory: float
    link: float
    overhead: float


class OpDocument(msgspec.Struct, frozen=True):
    """One kind of kernel; flops, bytes and floor_s are totals over `count`. intensity is null without bytes.

    measured_s: what it took, null where it did not run; roof_share is its floor over that. known is false for an op
    that no formula counts. share: of the time where the phase ran, else of the floor.
    """

    name: str
    kind: str
    count: int
    dtype: str
    flops: float
    model_flops: float
    bytes: BytesDocument
    intensity: float | None
    bound: str
    floor_s: float
    share: float
    measured_s: float | None = None
    roof_share: float | None = None
    known: bool = True


class UnknownDocument(msgspec.Struct, frozen=True):
    """An op that no formula counts, and its share of the ops' time, in 0..1."""

    name: str
    share: float


class KernelShareDocument(msgspec.Struct, frozen=True):
    """How near kernels of one shape came to what such kernels reach on the machine, in byte/s."""

    shape: str
    dtype: str
    seconds: float
    achieved_bytes_per_s: float
    ceiling_bytes_per_s: float
    share: float


class PredictedDocument(msgspec.Struct, frozen=True):
    """What the counts say of the same phase: FLOP, bytes, and its floors in seconds."""

    flops: float
    model_flops: float
    bytes: BytesDocument
    floor_s: float
    ideal_s: float
    bound: str


class MeasuredDocument(msgspec.Struct, frozen=True):
    """What one pass of a phase took. Null where there was no instrumented run, or no energy counter.

    time_s: median of times_s, without an instrument. instrument_overhead: what the instrument added, as a share.
    busy_s, dispatch_s, gap_s: time in ops that work, in ops of the framework that only call others, and in neither,
    scaled so that they add up to time_s. coverage: share of the ops' time whose bytes are known; matrix_share: of it
    in GEMM and attention. joules: of one pass.
    """

    time_s: float
    times_s: list[float]
    spread: float
    instrumented: bool
    instrument_overhead: float | None
    traced_passes: int | None
    busy_s: float | None
    dispatch_s: float | None
    gap_s: float | None
    coverage: float | None
    matrix_share: float | None
    unknown: list[UnknownDocument]
    kernel_shares: list[KernelShareDocument]
    joules: float | None
    joules_per_token: float | None
    predicted: PredictedDocument | None


class PhaseDocument(msgspec.Struct, frozen=True):
    """A phase: sums over its ops. `context` is what was cached before it, in tokens."""

    phase: str
    batch: int
    tokens: int
    context: int
    flops: float
    model_flops: float
    bytes: BytesDocument
    compulsory_bytes: float
    intensity: float | None
    ridge_point: float
    bound: str
    bound_share: ShareDocument
    floor_s: float
    ideal_s: float
    tokens_per_s: float
    mfu: float
    mbu: float
    ops: list[OpDocument]
    measured: MeasuredDocument | None = None


class MetricsDocument(msgspec.Struct, frozen=True):
    """Serving metrics: measured, or at the floor where nothing ran; null where there is no decode phase."""

    ttft_s: float | None
    tpot_s: float | None
    tokens_per_s: float | None
    prefill_tokens_per_s: float | None
    e2e_s: float | None
    weight_bytes: int
    kv_cache_bytes: float
    state_bytes: float
    memory_needed_bytes: float


class ModelReference(msgspec.Struct, frozen=True):
    """Which model was counted."""

    name: str
    architecture: str
    params: int
    active_params: int
    weight_bytes: int
    kv_bytes_per_token: int


class PeakDocument(msgspec.Struct, frozen=True):
    """A peak that the profile used: FLOP/s, and the units that reach it (matrix or vector)."""

    dtype: str
    units: str
    flops_per_s: float


class HardwareReference(msgspec.Struct, frozen=True):
    """Which part the model was placed on; memory_bytes is null where it is not known."""

    name: str
    title: str
    peaks: list[PeakDocument]
    bandwidth_bytes_per_s: float
    memory_bytes: float | None


class ScenarioDocument(msgspec.Struct, frozen=True):
    """Workload and dtypes. `context` is null without a decode phase.

    state_dtype is null where recurrent states are fp32 and convolution states in the activations' dtype.
    """

    batch: int
    prompt: int
    output: int
    context: int | None
    dtype: str
    attention_dtype: str
    activations_dtype: str
    weights_dtype: str
    kept_dtype: str
    kv_dtype: str
    state_dtype: str | None
    image_tokens: int


class ConventionsDocument(msgspec.Struct, frozen=True):
    """How things were counted: the choices, and what always holds in words.

    distinct_experts is null where the expectation under uniform routing is taken.
    """

    attention_flops: str
    logits: str
    traffic: str
    fusion: str
    latent: str
    distinct_experts: float | None
    notes: list[str]


class FindingDocument(msgspec.Struct, frozen=True):
    """Something the reader should know; `level` is info or warning."""

    level: str
    code: str
    text: str


class ConditionDocument(msgspec.Struct, frozen=True):
    """Something that held while a model ran: its name, and what it was."""

    name: str
    text: str


class SourceDocument(msgspec.Struct, frozen=True):
    """Where one figure comes from."""

    figure: str
    value: str
    kind: str
    source: str
    note: str


class ProfileDocument(msgspec.Struct, frozen=True):
    """What `predict --json` and `profile --json` write."""

    schema: str
    version: str
    model: ModelReference
    hardware: HardwareReference
    scenario: ScenarioDocument
    conventions: ConventionsDocument
    phases: list[PhaseDocument]
    metrics: MetricsDocument
    findings: list[FindingDocument]
    conditions: list[ConditionDocument]
    provenance: list[SourceDocument]


class ModelDocument(msgspec.Struct, frozen=True):
    """What `model --json` writes.

    kv_bytes_per_token is the growth beyond every window; kv_bytes_per_token_all_layers what an engine reserves
    that pages every layer alike. kv_bytes maps each context to the bytes of one sequence, kv_reserved_bytes to
    what an engine reserves for it that pages windowed layers like the others. state_bytes are of one
    sequence, whatever its context.
    """

    schema: str
    version: str
    name: str
    architecture: str
    params: int
    active_params: int
    embedding_params: int
    parts: dict[str, int]
    tied: bool
    hidden: int
    vocab: int
    weight_bytes: int
    weights_dtype: str
    kv_dtype: str
    kv_bytes_per_token: int
    kv_bytes_per_token_all_layers: int
    kv_bytes: dict[str, int]
    kv_reserved_bytes: dict[str, int]
    state_bytes: int
    max_context: int | None
    layers: list[LayerDocument]
    notes: list[str]
    source: str


def encode(document: msgspec.Struct) -> str:
    """`document` as indented JSON text ending in a line feed; integers exact however large."""
    return json.dumps(msgspec.to_builtins(document), indent=2, allow_nan=False) + "\n"


def schema(document: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of a document type."""
    return msgspec.json.schema(document)
