"""What was measured of a phase, as a JSON document."""

from __future__ import annotations

from typing import Any

from rooflens.core.op import Traffic
from rooflens.core.profile import KernelShare, Measurement, PhaseProfile
from rooflens.render.document import (
    BytesDocument,
    KernelShareDocument,
    MeasuredDocument,
    PredictedDocument,
    UnknownDocument,
)


def measured_document(phase: PhaseProfile) -> MeasuredDocument | None:
    """What was measured of `phase`, its breakdown scaled to the time without an instrument; None where nothing ran."""
    measured = phase.measured
    if measured is None:
        return None
    traced, scale = measured.traced, measured.scale
    joules = measured.joules
    return MeasuredDocument(
        time_s=measured.time_s,
        times_s=list(measured.times_s),
        spread=measured.spread,
        instrumented=measured.instrumented,
        instrument_overhead=measured.overhead,
        traced_passes=traced.passes if traced else None,
        busy_s=traced.busy_s * scale if traced else None,
        dispatch_s=traced.dispatch_s * scale if traced else None,
        gap_s=traced.gap_s * scale if traced else None,
        coverage=traced.coverage if traced else None,
        matrix_share=traced.matrix_share if traced else None,
        unknown=_unknown(measured),
        kernel_shares=[_kernel(share) for share in phase.kernel_shares],
        joules=joules,
        joules_per_token=None if joules is None else joules / float(phase.phase.batch.tokens),
        predicted=None if phase.predicted is None else _predicted(phase.predicted),
    )


def _unknown(measured: Measurement) -> list[UnknownDocument]:
    return [UnknownDocument(*row) for row in (measured.traced.unknown if measured.traced else ())]


def _kernel(share: KernelShare) -> KernelShareDocument:
    return KernelShareDocument(
        str(share.shape), str(share.dtype), share.seconds, share.achieved, share.ceiling, share.share
    )


def _predicted(phase: PhaseProfile) -> PredictedDocument:
    return PredictedDocument(
        flops=number(phase.flops),
        model_flops=number(phase.model_flops),
        bytes=bytes_document(phase.traffic),
        floor_s=float(phase.floor_s),
        ideal_s=float(phase.ideal_s),
        bound=str(phase.bound),
    )


def bytes_document(traffic: Traffic) -> BytesDocument:
    """Bytes by kind and their sum."""
    return BytesDocument(*(number(getattr(traffic, kind)) for kind in BytesDocument.__struct_fields__))


def number(value: Any) -> Any:
    """An exact integer where it is one."""
    return value if isinstance(value, int) else float(value)
