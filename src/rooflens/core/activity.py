"""Activity: what the counters of one GPU showed over one sampling interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum


class Field(IntEnum):
    """Profiling fields by DCGM's identifiers, which stay where names change.

    Those up to INTEGER and the kinds of tensor pipe are shares in 0..1 of the interval's cycles; TX and RX are byte/s.

    Source: NVIDIA DCGM, field identifiers (dcgm_fields.h), 1001 to 1016.
    """

    GRAPHICS = 1001
    SM = 1002
    OCCUPANCY = 1003
    TENSOR = 1004
    DRAM = 1005
    FP64 = 1006
    FP32 = 1007
    FP16 = 1008
    PCIE_TX = 1009
    PCIE_RX = 1010
    NVLINK_TX = 1011
    NVLINK_RX = 1012
    TENSOR_IMMA = 1013
    TENSOR_HMMA = 1014
    TENSOR_DFMA = 1015
    INTEGER = 1016


@dataclass(frozen=True, slots=True)
class Activity:
    """One sample of one GPU.

    device: as the source names it, such as "GPU 0". seconds: since the first sample of that device; None where the
    source has no time. fields: by DCGM identifier; None was not sampled (N/A, a blank), 0 is zero.
    """

    device: str
    seconds: float | None
    fields: Mapping[int, float | None]

    def get(self, field: Field) -> float | None:
        """The value of `field`, a share in 0..1 or byte/s; None where it is not there or was not sampled."""
        return self.fields.get(field)


@dataclass(frozen=True, slots=True)
class ActivityLog:
    """The samples of a file in its order, and what a reader should know of it, one sentence each."""

    samples: tuple[Activity, ...]
    notes: tuple[str, ...] = ()
