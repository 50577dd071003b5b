"""How a checkpoint stores its weights: `torch_dtype` or `dtype`, and `quantization_config`."""

from __future__ import annotations

from dataclasses import dataclass

from rooflens.core.op import DType
from rooflens.errors import UnitError
from rooflens.sources.fields import Fields, show

_DTYPE_FIELDS = ("torch_dtype", "dtype")


@dataclass(frozen=True, slots=True)
class Storage:
    """Dtypes of a checkpoint: of its linear layers, and of what quantisation leaves alone."""

    weights: DType
    kept: DType
    stated: bool
    weight_only: bool = False
    notes: tuple[str, ...] = ()


def read_storage(fields: Fields) -> Storage:
    """Return how the checkpoint stores its weights; bf16 where the config names no dtype (and that is noted).

    Raises:
        ConfigError: a dtype or a quantisation method that is not known.
    """
    kept, stated = _stored_dtype(fields)
    notes = () if stated else ("the config names no dtype: it counts as bf16 unless an option says otherwise",)
    quantization = fields.nested("quantization_config")
    if not quantization:
        return Storage(kept, kept, stated, notes=notes)
    weights, weight_only = _method(Fields(quantization, f"{fields.origin}, quantization_config"))
    return Storage(weights, kept, stated, weight_only, notes)


def _stored_dtype(fields: Fields) -> tuple[DType, bool]:
    for name in _DTYPE_FIELDS:
        if fields.has(name):
            return _parse(fields, name), True
    return DType.BF16, False


def _parse(fields: Fields, name: str) -> DType:
    text = fields.text(name, "")
    try:
        return DType.parse(text)
    except UnitError as cause:
        raise fields.fail(f"{name}: {cause}") from cause


def _method(fields: Fields) -> tuple[DType, bool]:
    """The weights' dtype and whether they are widened to 16 bit before they are multiplied."""
    method = fields.text("quant_method", fields.text("quant_algo", "")).lower()
    algorithm = fields.text("quant_algo", "").lower()
    if method == "modelopt":
        method = algorithm or "fp8"
    if method in ("fp8", "fbgemm_fp8"):
        return DType.FP8, False
    if method in ("mxfp4", "nvfp4"):
        return DType(method), False
    if method in ("awq", "gptq"):
        return {4: DType.INT4, 8: DType.INT8}[_bits(fields)], True
    raise fields.fail(f"the method {show(method)} is not known; known are awq, fp8, gptq, modelopt, mxfp4 and nvfp4")


def _bits(fields: Fields) -> int:
    bits = fields.size("heads", "bits", "w_bit", default=4)
    if bits not in (4, 8):
        raise fields.fail(f"bits is {bits}; expected 4 or 8")
    return bits
