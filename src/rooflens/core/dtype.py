"""DType: how values are stored and multiplied."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from rooflens.core.arrays import Count
from rooflens.units import DTYPES, dtype_name


def _add_rows(members: dict[str, object]) -> None:
    """Make every other row of the table a member: no second list of them."""
    for name in DTYPES:
        if name.upper() not in members:
            members[name.upper()] = name


class DType(str, Enum):
    """A storage and compute dtype; sizes and spellings stand in `units.DTYPES`, of which every row is a member."""

    FP64 = "fp64"
    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    FP8_DS_MLA = "fp8_ds_mla"
    INT8 = "int8"
    FP4 = "fp4"
    MXFP4 = "mxfp4"
    NVFP4 = "nvfp4"
    INT4 = "int4"
    _add_rows(vars())

    def __str__(self) -> str:
        return self.value

    @classmethod
    def parse(cls, text: str) -> DType:
        """Return the dtype written as `text`. Raises UnitError for one that is not known."""
        return cls(dtype_name(text))

    @property
    def bits(self) -> float:
        """Bits per value, scales of blocks included (mxfp4 4.25, nvfp4 4.5, int4 in groups of 128 4.125)."""
        row = DTYPES[self.value]
        return 8 * row.block_bytes / row.block_values

    @property
    def arithmetic(self) -> DType:
        """The dtype whose peak holds when both operands are stored so (mxfp4 multiplies as fp4)."""
        return DType(DTYPES[self.value].compute)

    def bytes_of(self, values: Count) -> Count:
        """Bytes that `values` values take, in whole blocks."""
        row = DTYPES[self.value]
        if row.block_values == 1:
            return values * row.block_bytes
        return -(-values // row.block_values) * row.block_bytes

    def matrix_bytes(self, d_in: int, d_out: int) -> int:
        """Bytes of the weights W[d_in, d_out]: whole blocks, and what each output channel and the matrix have besides.

        Squares at the edge of the matrix have a whole scale (DeepSeek-V3: ceil(576 / 128) x 56 scales for 576 x 7,168).
        """
        row, values = DTYPES[self.value], d_in * d_out
        if row.tile:
            squares = -(-d_in // row.tile) * -(-d_out // row.tile)
            return values + squares * (row.block_bytes - row.block_values)
        return int(self.bytes_of(values)) + -(-d_out * row.channel_bits // 8) + row.tensor_bytes


@dataclass(frozen=True, slots=True)
class Mixed:
    """Weights that a checkpoint stores in several dtypes: (dtype, values) in the order of its tensors.

    GGUF files have them: the two halves of a latent expansion, and old ones a tensor for each expert. Of experts the
    parts are those of all of them, and one expert has its share.
    """

    parts: tuple[tuple[DType, int], ...]

    def __str__(self) -> str:
        return " and ".join(dtype.value for dtype, _ in self.parts)

    @property
    def bits(self) -> float:
        """Bits per value, scales included, over all parts."""
        return 8 * float(self._bytes_per_value)

    @property
    def lead(self) -> DType:
        """The dtype of most bytes."""
        return max(self.parts, key=lambda part: part[0].bytes_of(part[1]))[0]

    def matrix_bytes(self, d_in: int, d_out: int) -> int | Fraction:
        """Bytes of the weights W[d_in, d_out]; of one expert the mean over all of them, which need not be whole."""
        size = d_in * d_out * self._bytes_per_value
        return int(size) if size.denominator == 1 else size

    @property
    def _bytes_per_value(self) -> Fraction:
        size = sum(int(dtype.bytes_of(values)) for dtype, values in self.parts)
        return Fraction(size, sum(values for _, values in self.parts))


Stored = DType | Mixed
"""How weights are stored: in one dtype or, in parts, in several."""


def dtypes_of(stored: Stored) -> tuple[DType, ...]:
    """The dtypes that `stored` has, each once, in order."""
    return tuple(dict.fromkeys(dtype for dtype, _ in stored.parts)) if isinstance(stored, Mixed) else (stored,)
