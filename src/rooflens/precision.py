"""Which dtypes a run uses: what the user asked for, what the checkpoint stores, what the part can do."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rooflens.core.attention import LatentAttention
from rooflens.core.dtype import dtypes_of
from rooflens.core.hardware import Hardware
from rooflens.core.model import ModelSpec
from rooflens.core.op import DType
from rooflens.core.profile import Finding
from rooflens.core.scenario import Precision
from rooflens.errors import InputError

_NOTHING: tuple[Finding, ...] = ()
_FALLBACKS = (DType.BF16, DType.FP16, DType.FP32)


@dataclass(frozen=True, slots=True)
class Dtypes:
    """The dtypes that a user asked for; None leaves one to the checkpoint.

    dtype: compute and activations. weights: storage of the linear layers. kv: of the cache. state: of recurrent
    and convolution states.
    """

    dtype: DType | None = None
    weights: DType | None = None
    kv: DType | None = None
    state: DType | None = None

    def __post_init__(self) -> None:
        """Take the spellings of dtypes as well. Raises UnitError for one that is not known."""
        for name in ("dtype", "weights", "kv", "state"):
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, DType.parse(str(given)))


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
    return Dtypes(
        request.dtype or base.dtype, request.weights or base.weights, request.kv or base.kv, request.state or base.state
    )


def requested(precision: object) -> Dtypes:
    """What `precision` asks for: the name of a preset, dtypes one by one, or None for the checkpoint's own.

    Raises:
        InputError: something else, or a preset that is not known.
    """
    if isinstance(precision, str):
        return preset(precision, Dtypes())
    if precision is None or isinstance(precision, Dtypes):
        return precision or Dtypes()
    raise InputError(f"precision is {precision!r}; expected the name of a preset, or Dtypes")


def settle(model: ModelSpec, hardware: Hardware, request: Dtypes) -> tuple[Precision, tuple[Finding, ...]]:
    """Settle the dtypes of a run of `model` on `hardware`, and say what does not run as the checkpoint has it.

    Operands of a GEMM share a dtype, so that weights which are not quantised follow `request.dtype`.
    Quantised weights leave embedding, norms, biases, output head and attention in 16 bit. Storage does not
    depend on the part; arithmetic that it has no peak for falls back to another dtype.

    Raises:
        UnknownPeakError: the user asked for a dtype that `hardware` has no peak for, or it has none at all.
    """
    weights, kept, kv = storage(model, request)
    _check_layout(model, kv)
    between = activations(model, request)
    compute, found = _arithmetic(model, hardware, request)
    attention, more = (compute, _NOTHING) if compute.bits >= 16 else _supported(between, hardware)
    settled = Precision(compute, attention, between, weights, kept, kv, request.state)
    own = request.dtype is None and request.weights is None
    arithmetic = _mixed(model, hardware, settled) if own else ()
    return replace(settled, overridden=weights is not model.weights_dtype, arithmetic=arithmetic), found + more


def _mixed(model: ModelSpec, hardware: Hardware, settled: Precision) -> tuple[tuple[DType, DType], ...]:
    """What layers multiply in that a checkpoint stores in another narrow dtype than most, where that is not `compute`.

    Their own arithmetic if the part has it, else 16 bit; a checkpoint that says otherwise (weight-only) is believed.
    """
    kept = (dtype for layer in model.layers for _, stored in layer.storage for dtype in dtypes_of(stored))
    stored = {dtype for dtype in kept if dtype.bits < 16}
    found = {}
    for dtype in sorted(stored - {model.weights_dtype}):
        own = _declared(model, dtype)
        native = own.bits < 16 and hardware.peak(own) is not None
        found[dtype] = own if native else settled.attention
    return tuple((dtype, used) for dtype, used in found.items() if used is not settled.compute)


def _declared(model: ModelSpec, stored: DType) -> DType:
    """What the checkpoint multiplies weights in that are stored so; the stored dtype's own unless it is weight-only."""
    return dict(model.arithmetic).get(stored, model.kept_dtype if model.weight_only else stored.arithmetic)


def _check_layout(model: ModelSpec, kv: DType) -> None:
    """Refuse the packed layout of latent caches for a model that has none."""
    latent = any(isinstance(block, LatentAttention) for layer in model.layers for block in layer.blocks)
    if kv is DType.FP8_DS_MLA and not latent:
        raise InputError(
            f"fp8_ds_mla is a layout of latent caches and {model.name} has none; expected a dtype such as fp8"
        )


def _arithmetic(model: ModelSpec, hardware: Hardware, request: Dtypes) -> tuple[DType, tuple[Finding, ...]]:
    """The dtype that is asked for, refused where the part has no peak for it, or the checkpoint's own."""
    if request.dtype is None:
        return _own_arithmetic(model, hardware, request)
    compute = request.dtype.arithmetic
    hardware.roof(compute)
    return compute, _NOTHING


def _own_arithmetic(model: ModelSpec, hardware: Hardware, request: Dtypes) -> tuple[DType, tuple[Finding, ...]]:
    """What a checkpoint multiplies in: its own narrow dtype where it is no weight-only one, else 16 or 32 bit."""
    wide, found = _supported(model.kept_dtype, hardware)
    if model.weights_dtype is model.kept_dtype or request.weights is not None or model.weight_only:
        return wide, found
    native, more = _native(model, wide, hardware)
    return native, found + more


def storage(model: ModelSpec, request: Dtypes) -> tuple[DType, DType, DType]:
    """How weights, what quantisation leaves alone, and the KV cache are stored, whatever part they run on.

    A wide `request.dtype`, or wide weights that are asked for, hold for all of them; a narrow one for the weights.
    """
    quantised = model.weights_dtype is not model.kept_dtype
    own = model.weights_dtype if quantised or request.dtype is None else request.dtype
    weights, between = stored_as(request.weights or own), activations(model, request)
    wide = weights if weights.bits >= 16 and request.weights is not None else between
    return weights, wide, request.kv or model.kv_dtype or between


def activations(model: ModelSpec, request: Dtypes) -> DType:
    """Storage between kernels: the compute dtype that is asked for, 16 bit of the checkpoint beside a narrow one."""
    asked = request.dtype
    return stored_as(asked) if asked is not None and asked.bits >= 16 else model.kept_dtype


def stored_as(dtype: DType) -> DType:
    """How values of a compute dtype lie in memory: tf32 as fp32."""
    return DType.FP32 if dtype is DType.TF32 else dtype


def _supported(dtype: DType, hardware: Hardware) -> tuple[DType, tuple[Finding, ...]]:
    """Arithmetic for a wide dtype: its own, the nearest of bf16, fp16 and fp32 that the part has, or its fastest."""
    if hardware.peak(dtype):
        return dtype, ()
    for other in sorted(_FALLBACKS, key=lambda other: abs(other.bits - dtype.bits)):
        if hardware.peak(other):
            return other, (_replaced(dtype, other, hardware),)
    known = [(ceiling.value, other) for other in hardware.dtypes() if (ceiling := hardware.peak(other))]
    if not known:
        hardware.roof(dtype)
    other = max(known)[1]
    text = (
        f"{hardware.name} has no published peak in 16 or 32 bit: products count at its {other} peak, which they cannot "
        "reach, so that compute times are too short"
    )
    return other, (Finding("warning", "compute_dtype", text),)


def _native(model: ModelSpec, wide: DType, hardware: Hardware) -> tuple[DType, tuple[Finding, ...]]:
    """Arithmetic of a quantised checkpoint: its own where the part has it, else weight-only in 16 bit."""
    stored = model.weights_dtype
    own = _declared(model, stored)
    if hardware.peak(own):
        return own, ()
    part = hardware.name
    text = f"{part} has no {own} peak: {stored} weights are read as they are and multiplied in {wide}"
    return wide, (Finding("info", "weight_only", text),)


def _replaced(dtype: DType, other: DType, hardware: Hardware) -> Finding:
    why = "does not have" if dtype in hardware.absent else "has no published peak for"
    text = f"{hardware.name} {why} {dtype}, which the model is stored in: multiplied in {other}"
    if other is DType.FP32:
        text += "; a 16-bit peak that is not published may be higher, so that compute times are no floor"
        return Finding("warning", "compute_dtype", text)
    return Finding("info", "compute_dtype", text)
