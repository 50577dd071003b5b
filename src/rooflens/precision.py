"""Which dtypes a run uses: what the user asked for, what the checkpoint stores, what the part can do."""

from __future__ import annotations

from dataclasses import dataclass

from rooflens.core.hardware import Hardware
from rooflens.core.model import ModelSpec
from rooflens.core.op import DType
from rooflens.core.profile import Finding
from rooflens.core.scenario import Precision
from rooflens.errors import InputError, UnknownPeakError

_FALLBACKS = (DType.BF16, DType.FP16, DType.FP32)


@dataclass(frozen=True, slots=True)
class Dtypes:
    """The dtypes that a user asked for; None leaves one to the checkpoint.

    dtype: compute and activations. weights: storage of the linear layers. kv: of the cache.
    """

    dtype: DType | None = None
    weights: DType | None = None
    kv: DType | None = None


PRESETS: dict[str, Dtypes] = {
    "fp32": Dtypes(DType.FP32, DType.FP32, DType.FP32),
    "tf32": Dtypes(DType.TF32, DType.FP32, DType.FP32),
    "bf16": Dtypes(DType.BF16, DType.BF16, DType.BF16),
    "fp16": Dtypes(DType.FP16, DType.FP16, DType.FP16),
    "fp8": Dtypes(DType.FP8, DType.FP8, DType.FP8),
    "int8": Dtypes(DType.INT8, DType.INT8, None),
    "w8a16": Dtypes(None, DType.INT8, None),
    "int4": Dtypes(None, DType.INT4, None),
    "mxfp4": Dtypes(DType.FP4, DType.MXFP4, None),
    "nvfp4": Dtypes(DType.FP4, DType.NVFP4, DType.FP8),
}
"""What each `--precision` sets; None is 16 bit: int4 and w8a16 are weight-only."""


def preset(name: str, request: Dtypes) -> Dtypes:
    """The dtypes of `--precision name`, with those that `request` sets taking their place.

    Raises:
        InputError: a preset that is not known.
    """
    base = PRESETS.get(name.lower())
    if base is None:
        raise InputError(f"precision {name!r} is not known; known are {', '.join(PRESETS)}")
    return Dtypes(request.dtype or base.dtype, request.weights or base.weights, request.kv or base.kv)


def settle(model: ModelSpec, hardware: Hardware, request: Dtypes) -> tuple[Precision, tuple[Finding, ...]]:
    """Settle the dtypes of a run of `model` on `hardware`, and say what was not as the checkpoint has it.

    Operands of a GEMM share a dtype, so that weights which are not quantised follow `request.dtype`.
    Quantised weights leave embedding, norms, biases, output head and attention in 16 bit.

    Raises:
        UnknownPeakError: the user asked for a dtype that `hardware` has no peak for, or it has none at all.
    """
    if request.dtype is not None:
        return _asked(model, hardware, request, request.dtype), ()
    kept, findings = _supported(model.kept_dtype, hardware)
    quantised = model.weights_dtype is not model.kept_dtype
    stored = model.weights_dtype if quantised else kept
    weights = request.weights or stored
    compute = kept
    if quantised and request.weights is None and not model.weight_only:
        compute, more = _native(stored, kept, hardware)
        findings += more
    return _precision(compute, kept, weights, request.kv, hardware), findings


def storage(model: ModelSpec, request: Dtypes) -> tuple[DType, DType, DType]:
    """How weights, what quantisation leaves alone, and the KV cache are stored, whatever part they run on."""
    asked = stored_as(request.dtype) if request.dtype else None
    wide = asked if asked is not None and asked.bits >= 16 else None
    quantised = model.weights_dtype is not model.kept_dtype
    weights = request.weights or (model.weights_dtype if quantised else asked or model.weights_dtype)
    kept = wide or (stored_as(weights) if weights.bits >= 16 else model.kept_dtype)
    return weights, kept, request.kv or kept


def _asked(model: ModelSpec, hardware: Hardware, request: Dtypes, dtype: DType) -> Precision:
    """The user's own compute dtype: refused where the part has no peak for it."""
    compute = dtype.arithmetic
    hardware.roof(compute)
    if dtype.bits >= 16:
        kept, follow = stored_as(dtype), stored_as(dtype)
    else:
        kept, follow = _supported(model.kept_dtype, hardware)[0], dtype
    quantised = model.weights_dtype is not model.kept_dtype
    weights = request.weights or (model.weights_dtype if quantised else follow)
    return _precision(compute, kept, weights, request.kv, hardware)


def stored_as(dtype: DType) -> DType:
    """How values of a compute dtype lie in memory: tf32 as fp32."""
    return DType.FP32 if dtype is DType.TF32 else dtype


def _precision(compute: DType, kept: DType, weights: DType, kv: DType | None, hardware: Hardware) -> Precision:
    attention = compute if compute.bits >= 16 else _supported(kept, hardware)[0]
    return Precision(
        compute=compute,
        attention=attention,
        activations=kept,
        weights=weights if weights.bits < 16 else stored_as(weights),
        kept=kept if weights.bits < 16 else stored_as(weights),
        kv=kv or kept,
    )


def _supported(dtype: DType, hardware: Hardware) -> tuple[DType, tuple[Finding, ...]]:
    """The checkpoint's 16- or 32-bit dtype, or the first of bf16, fp16 and fp32 that the part has a peak for."""
    if hardware.peak(dtype):
        return dtype, ()
    for other in _FALLBACKS:
        if hardware.peak(other):
            return other, (_replaced(dtype, other, hardware),)
    hardware.roof(dtype)
    raise UnknownPeakError(f"{hardware.name} has no published peak in 16 or 32 bit")


def _native(stored: DType, wide: DType, hardware: Hardware) -> tuple[DType, tuple[Finding, ...]]:
    """Arithmetic of a quantised checkpoint: its own where the part has it, else weight-only in 16 bit."""
    if hardware.peak(stored.arithmetic):
        return stored.arithmetic, ()
    part = hardware.name
    text = f"{part} has no {stored.arithmetic} peak: {stored} weights are read as they are and multiplied in {wide}"
    return wide, (Finding("info", "weight_only", text),)


def _replaced(dtype: DType, other: DType, hardware: Hardware) -> Finding:
    why = "does not have" if dtype in hardware.absent else "has no published peak for"
    text = f"{hardware.name} {why} {dtype}, which the checkpoint is stored in: counted in {other}"
    if other is DType.FP32:
        text += "; a 16-bit peak that is not published may be higher, so that compute times are no floor"
        return Finding("warning", "compute_dtype", text)
    return Finding("info", "compute_dtype", text)
