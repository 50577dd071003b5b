"""Names of DCGM's profiling fields: the short ones of `dcgmi dmon`, and both generations of long ones."""

from __future__ import annotations

import math

from rooflens.core.activity import Field

_PREFIX = "DCGM_FI_PROF_"
_NAMES: dict[Field, tuple[str, ...]] = {
    Field.GRAPHICS: ("GRACT", "GR_ENGINE_ACTIVE", "GR_ENGINE_UTIL_RATIO"),
    Field.SM: ("SMACT", "SM_ACTIVE", "SM_UTIL_RATIO"),
    Field.OCCUPANCY: ("SMOCC", "SM_OCCUPANCY", "SM_OCCUPANCY_RATIO"),
    Field.TENSOR: ("TENSO", "PIPE_TENSOR_ACTIVE", "TENSOR_UTIL_RATIO"),
    Field.DRAM: ("DRAMA", "DRAM_ACTIVE", "DRAM_UTIL_RATIO"),
    Field.FP64: ("FP64A", "PIPE_FP64_ACTIVE", "FP64_UTIL_RATIO"),
    Field.FP32: ("FP32A", "PIPE_FP32_ACTIVE", "FP32_UTIL_RATIO"),
    Field.FP16: ("FP16A", "PIPE_FP16_ACTIVE", "FP16_UTIL_RATIO"),
    Field.PCIE_TX: ("PCITX", "PCIE_TX_BYTES"),
    Field.PCIE_RX: ("PCIRX", "PCIE_RX_BYTES"),
    Field.NVLINK_TX: ("NVLTX", "NVLINK_TX_BYTES"),
    Field.NVLINK_RX: ("NVLRX", "NVLINK_RX_BYTES"),
    Field.TENSOR_IMMA: ("TIMMA", "PIPE_TENSOR_IMMA_ACTIVE", "IMMA_UTIL_RATIO"),
    Field.TENSOR_HMMA: ("THMMA", "PIPE_TENSOR_HMMA_ACTIVE", "HMMA_UTIL_RATIO"),
    Field.TENSOR_DFMA: ("TDFMA", "PIPE_TENSOR_DFMA_ACTIVE", "DFMA_UTIL_RATIO"),
    Field.INTEGER: ("INTAC", "PIPE_INT_ACTIVE", "INT_UTIL_RATIO"),
}
"""Every name of a field: of `dcgmi dmon`, then without its prefix as DCGM up to 4.5 and from 4.6 on calls it.

Source: dcgm_fields.h of both generations; dcgm-exporter still writes the older names.
"""

_FIELDS = {name: int(field) for field, names in _NAMES.items() for name in names}
_INT64_BLANK, _FP64_BLANK, _INT32_BLANK = 2**63 - 16, 2**47, 2**31 - 16
_KINDS_OF_BLANK = 16
"""DCGM marks what it has not by values from a blank on: not found, not supported, not permitted.

Source: dcgm_structs.h, DCGM_INT64_BLANK, DCGM_FP64_BLANK and DCGM_INT32_BLANK; each blank of 64 bit is one double.
"""


def field_of(name: str) -> int | None:
    """The identifier of the field that `name` stands for: a short or long name, or the identifier; None if unknown."""
    word = name.upper().removeprefix(_PREFIX)
    if word in _FIELDS:
        return _FIELDS[word]
    return int(word) if word.isdecimal() and word in {str(int(field)) for field in Field} else None


def sampled(value: float) -> float | None:
    """`value` where it was sampled; None for a blank of DCGM, for what is no number, and below 0."""
    if not math.isfinite(value) or value < 0 or value >= float(_INT64_BLANK):
        return None
    blank = any(start <= value < start + _KINDS_OF_BLANK for start in (_FP64_BLANK, _INT32_BLANK))
    return None if blank else value
