"""Recurrent and linear-attention layers: a state of fixed size in place of a cache that grows."""

from __future__ import annotations

from dataclasses import dataclass

from rooflens.core.blocks import Block, Linear, Norm


class Recurrent(Block):
    """A layer with a recurrent state (fp32 in engines) and a causal convolution before it.

    state_values: values of the recurrent state of one sequence. conv_channels, conv_kernel: of the depthwise
    convolution; its state is the last conv_kernel - 1 columns. scan_width: values that the scan writes a token.
    """

    __slots__ = ()

    @property
    def part(self) -> str:
        """The recurrent part."""
        return "recurrent"

    @property
    def state_values(self) -> int:
        """Values of the recurrent state of one sequence."""
        raise NotImplementedError

    @property
    def conv_channels(self) -> int:
        """Channels of the depthwise convolution."""
        raise NotImplementedError

    @property
    def conv_kernel(self) -> int:
        """Columns of the depthwise convolution; 1 where there is none."""
        raise NotImplementedError

    @property
    def conv_values(self) -> int:
        """Values of the convolution's state of one sequence."""
        return self.conv_channels * (self.conv_kernel - 1)

    @property
    def scan_width(self) -> int:
        """Values that the scan reads and writes for one token."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Mamba(Recurrent):
    """Selective state space (2312.00752): `inner` channels with a state of `state` values each."""

    hidden: int
    inner: int
    state: int
    conv: int
    rank: int
    proj_bias: bool = False
    conv_bias: bool = True
    inner_norms: bool = False

    @property
    def linears(self) -> tuple[Linear, ...]:
        """Input and gate, the selection (dt, B, C), the step size, and the output."""
        return (
            Linear("in_proj", self.hidden, 2 * self.inner, self.proj_bias),
            Linear("x_proj", self.inner, self.rank + 2 * self.state),
            Linear("dt_proj", self.rank, self.inner, True),
            Linear("out_proj", self.inner, self.hidden, self.proj_bias),
        )

    @property
    def norms(self) -> tuple[Norm, ...]:
        """Norms of dt, B and C (Jamba)."""
        widths = (("dt_norm", self.rank), ("b_norm", self.state), ("c_norm", self.state))
        return tuple(Norm(name, width) for name, width in widths) if self.inner_norms else ()

    @property
    def extra_params(self) -> int:
        """Convolution, A and D."""
        return self.inner * (self.conv + int(self.conv_bias)) + self.inner * (self.state + 1)

    @property
    def state_values(self) -> int:
        """One state for each channel."""
        return self.inner * self.state

    @property
    def conv_channels(self) -> int:
        """The channels."""
        return self.inner

    @property
    def conv_kernel(self) -> int:
        """Columns of the convolution."""
        return self.conv

    @property
    def scan_width(self) -> int:
        """x, dt, gate and output of every channel, B and C."""
        return 4 * self.inner + 2 * self.state


@dataclass(frozen=True, slots=True)
class Mamba2(Recurrent):
    """State space duality (2405.21060): `heads` of `head_dim` channels, B and C shared by `groups` of heads."""

    hidden: int
    heads: int
    head_dim: int
    groups: int
    state: int
    conv: int
    chunk: int
    proj_bias: bool = False
    conv_bias: bool = True
    gated_norm: bool = True

    @property
    def inner(self) -> int:
        """Channels of all heads."""
        return self.heads * self.head_dim

    @property
    def linears(self) -> tuple[Linear, ...]:
        """Gate, x, B, C and dt at once, and the output."""
        width = 2 * self.inner + 2 * self.groups * self.state + self.heads
        return (
            Linear("in_proj", self.hidden, width, self.proj_bias),
            Linear("out_proj", self.inner, self.hidden, self.proj_bias),
        )

    @property
    def norms(self) -> tuple[Norm, ...]:
        """The gated norm of the output."""
        return (Norm("gated_norm", self.inner),) if self.gated_norm else ()

    @property
    def extra_params(self) -> int:
        """Convolution, and bias of dt, A and D of each head."""
        return self.conv_channels * (self.conv + int(self.conv_bias)) + 3 * self.heads

    @property
    def state_values(self) -> int:
        """A matrix head_dim x state for each head."""
        return self.inner * self.state

    @property
    def conv_channels(self) -> int:
        """x, B and C."""
        return self.inner + 2 * self.groups * self.state

    @property
    def conv_kernel(self) -> int:
        """Columns of the convolution."""
        return self.conv

    @property
    def scan_width(self) -> int:
        """x, gate, B, C, dt and the output."""
        return 3 * self.inner + 2 * self.groups * self.state + self.heads
