"""The command that samples the counters which tell prefill from decode."""

from __future__ import annotations

from rooflens.core.activity import Field
from rooflens.errors import InputError

FIELDS = (Field.GRAPHICS, Field.SM, Field.OCCUPANCY, Field.TENSOR, Field.DRAM)
"""What is sampled: 1004 and 1005 tell the phases apart; 1002 alone is not sampled on some parts (DCGM issue 244)."""


def dcgmi_command(interval_ms: int = 100) -> list[str]:
    """The words of a `dcgmi dmon` that samples `FIELDS` every `interval_ms` milliseconds, for ever.

    Raises:
        InputError: an interval below 1 ms.

    Source: NVIDIA DCGM user guide, "dcgmi dmon": -e takes field identifiers, -d a delay in milliseconds.
    """
    if interval_ms < 1:
        raise InputError(f"the interval is {interval_ms} ms; expected a whole number of milliseconds from 1")
    fields = ",".join(str(int(field)) for field in FIELDS)
    return ["dcgmi", "dmon", "-e", fields, "-d", str(interval_ms)]
