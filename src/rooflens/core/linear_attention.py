"""Linear attention: gated delta rule, lightning attention, short convolutions."""

from __future__ import annotations

from dataclasses import dataclass

from rooflens.core.blocks import Linear, Norm
from rooflens.core.recurrent import Recurrent


@dataclass(frozen=True, slots=True)
class DeltaNet(Recurrent):
    """Gated delta rule (2412.06464): `v_heads` states of d_k x d_v, keys shared by groups of value heads.

    low_rank: width of low-rank forget and output gates (Kimi Linear), None for full ones.
    """

    hidden: int
    k_heads: int
    d_k: int
    v_heads: int
    d_v: int
    conv: int
    chunk: int = 64
    low_rank: int | None = None

    @property
    def key_width(self) -> int:
        """Channels of the keys, and of the queries."""
        return self.k_heads * self.d_k

    @property
    def value_width(self) -> int:
        """Channels of the values."""
        return self.v_heads * self.d_v

    @property
    def linears(self) -> tuple[Linear, ...]:
        """q, k, v and gate; step and decay of each head; the output."""
        qkv = Linear("linear_qkv_proj", self.hidden, 2 * self.key_width + self.value_width, group="linear_in_proj")
        step = Linear("linear_b_proj", self.hidden, self.v_heads, group="linear_ba_proj")
        out = Linear("linear_out_proj", self.value_width, self.hidden)
        if self.low_rank is None:
            gate = Linear("linear_z_proj", self.hidden, self.value_width, group="linear_in_proj")
            return qkv, gate, step, Linear("linear_a_proj", self.hidden, self.v_heads, group="linear_ba_proj"), out
        rank = self.low_rank
        return (
            qkv,
            Linear("linear_f_a_proj", self.hidden, rank),
            Linear("linear_f_b_proj", rank, self.key_width),
            step,
            Linear("linear_g_a_proj", self.hidden, rank),
            Linear("linear_g_b_proj", rank, self.value_width),
            out,
        )

    @property
    def norms(self) -> tuple[Norm, ...]:
        """The gated norm over each head's values."""
        return (Norm("gated_norm", self.d_v, rows=self.v_heads),)

    @property
    def extra_params(self) -> int:
        """Convolution without bias; bias of the decay, and A, of each head (Kimi: the bias of each channel)."""
        decay = self.v_heads if self.low_rank is None else self.key_width
        return self.conv_channels * self.conv + decay + self.v_heads

    @property
    def state_values(self) -> int:
        """A matrix d_k x d_v for each value head."""
        return self.v_heads * self.d_k * self.d_v

    @property
    def conv_channels(self) -> int:
        """Queries, keys and values."""
        return 2 * self.key_width + self.value_width

    @property
    def conv_kernel(self) -> int:
        """Columns of the convolution."""
        return self.conv

    @property
    def scan_width(self) -> int:
        """q, k, v, gate, step and decay, and the output."""
        return 2 * self.key_width + 3 * self.value_width + 2 * self.v_heads


@dataclass(frozen=True, slots=True)
class ShortConv(Recurrent):
    """A gated short convolution (LFM2): no state but the convolution's."""

    hidden: int
    conv: int
    bias: bool = False

    @property
    def linears(self) -> tuple[Linear, ...]:
        """Two gates and the input at once, and the output."""
        return (
            Linear("conv_in_proj", self.hidden, 3 * self.hidden, self.bias),
            Linear("conv_out_proj", self.hidden, self.hidden, self.bias),
        )

    @property
    def extra_params(self) -> int:
        """The convolution."""
        return self.hidden * (self.conv + int(self.bias))

    @property
    def state_values(self) -> int:
        """None."""
        return 0

    @property
    def conv_channels(self) -> int:
        """The hidden size."""
        return self.hidden

    @property
    def conv_kernel(self) -> int:
        """Columns of the convolution."""
        return self.conv

    @property
    def scan_width(self) -> int:
        """Both gates, the input and the output."""
        return 4 * self.hidden


@dataclass(frozen=True, slots=True)
class LightningAttention(Recurrent):
    """Linear attention with a decay for each head, in blocks (2401.04658, MiniMax-01): a d x d state a head."""

    hidden: int
    heads: int
    head_dim: int
    chunk: int

    @property
    def width(self) -> int:
        """Channels of all heads."""
        return self.heads * self.head_dim

    @property
    def linears(self) -> tuple[Linear, ...]:
        """q, k and v at once, the output gate, and the output."""
        return (
            Linear("linear_qkv_proj", self.hidden, 3 * self.width),
            Linear("linear_gate_proj", self.hidden, self.width),
            Linear("linear_out_proj", self.width, self.hidden),
        )

    @property
    def norms(self) -> tuple[Norm, ...]:
        """A norm of the output."""
        return (Norm("linear_norm", self.width),)

    @property
    def state_values(self) -> int:
        """A matrix head_dim x head_dim for each head."""
        return self.heads * self.head_dim**2

    @property
    def conv_channels(self) -> int:
        """None."""
        return 0

    @property
    def conv_kernel(self) -> int:
        """None."""
        return 1

    @property
    def scan_width(self) -> int:
        """q, k, v and the output."""
        return 4 * self.width
