"""Gated recurrences with one value a channel: RG-LRU (Griffin) and RWKV-4."""

from __future__ import annotations

from dataclasses import dataclass

from rooflens.core.blocks import Linear
from rooflens.core.recurrent import Recurrent


@dataclass(frozen=True, slots=True)
class RgLru(Recurrent):
    """Real-gated linear recurrent unit (Griffin, 2402.19427): one state value a channel, gates in `heads` blocks."""

    hidden: int
    width: int
    heads: int
    conv: int

    @property
    def linears(self) -> tuple[Linear, ...]:
        """Two inputs, the block-diagonal gates of input and recurrence, and the output."""
        block = self.width // self.heads
        return (
            Linear("linear_y", self.hidden, self.width, True, "linear_xy"),
            Linear("linear_x", self.hidden, self.width, True, "linear_xy"),
            *(Linear(name, block, self.width, True) for name in ("input_gate", "recurrent_gate")),
            Linear("linear_out", self.width, self.hidden, True),
        )

    @property
    def extra_params(self) -> int:
        """Convolution with bias, and the recurrent parameter."""
        return self.width * (self.conv + 1) + self.width

    @property
    def state_values(self) -> int:
        """One for each channel."""
        return self.width

    @property
    def conv_channels(self) -> int:
        """The channels."""
        return self.width

    @property
    def conv_kernel(self) -> int:
        """Columns of the convolution."""
        return self.conv

    @property
    def scan_width(self) -> int:
        """x, both gates and the output."""
        return 4 * self.width


@dataclass(frozen=True, slots=True)
class Rwkv4(Recurrent):
    """The time mixing of RWKV-4 (2305.13048): numerator, denominator and maximum a channel, and a token shift."""

    hidden: int
    width: int

    @property
    def linears(self) -> tuple[Linear, ...]:
        """Key, value, receptance and output."""
        return (
            *(Linear(f"{name}_proj", self.hidden, self.width) for name in ("key", "value", "receptance")),
            Linear("output_proj", self.width, self.hidden),
        )

    @property
    def extra_params(self) -> int:
        """Decay and bonus of each channel, three mixing vectors."""
        return 2 * self.width + 3 * self.hidden

    @property
    def state_values(self) -> int:
        """Numerator, denominator and maximum."""
        return 3 * self.width

    @property
    def conv_channels(self) -> int:
        """The token shift keeps the last token."""
        return self.hidden

    @property
    def conv_kernel(self) -> int:
        """This token and the one before."""
        return 2

    @property
    def scan_width(self) -> int:
        """Key, value, receptance and the output."""
        return 4 * self.width


@dataclass(frozen=True, slots=True)
class RwkvChannelMix(Recurrent):
    """The channel mixing of RWKV-4 (2305.13048): a plain MLP with squared ReLU, a gate, and a token shift."""

    hidden: int
    width: int

    @property
    def part(self) -> str:
        """The feed-forward part."""
        return "mlp"

    @property
    def linears(self) -> tuple[Linear, ...]:
        """Key, receptance and value."""
        return (
            Linear("ffn_key_proj", self.hidden, self.width),
            Linear("ffn_receptance_proj", self.hidden, self.hidden),
            Linear("ffn_value_proj", self.width, self.hidden),
        )

    @property
    def extra_params(self) -> int:
        """Two mixing vectors."""
        return 2 * self.hidden

    @property
    def state_values(self) -> int:
        """None."""
        return 0

    @property
    def conv_channels(self) -> int:
        """The token shift keeps the last token."""
        return self.hidden

    @property
    def conv_kernel(self) -> int:
        """This token and the one before."""
        return 2

    @property
    def scan_width(self) -> int:
        """Key, receptance and the output."""
        return self.width + 2 * self.hidden
