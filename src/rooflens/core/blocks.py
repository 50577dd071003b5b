"""Blocks: the parts of a layer, each with the matrices that it multiplies by.

Every matrix is a `Linear` here, listed once: parameters, weight bytes and FLOP are all counted from the same list.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rooflens.core.dtype import DType, Stored


@dataclass(frozen=True, slots=True)
class Linear:
    """A projection with weights W[d_in, d_out]; projections of one `group` run as one GEMM in engines.

    stored: how its weights are stored where it is not that of the model's linear layers. precise: quantisation leaves
    it alone (a router).
    """

    name: str
    d_in: int
    d_out: int
    bias: bool = False
    group: str = ""
    stored: Stored | None = None
    precise: bool = False

    @property
    def params(self) -> int:
        """Number of parameters, bias included."""
        return self.d_in * self.d_out + (self.d_out if self.bias else 0)

    def dtype(self, weights: DType, kept: DType, *, overridden: bool = False) -> Stored:
        """The dtype of its weights: what the checkpoint stores, else `weights`, or `kept` beside quantised ones.

        overridden: the user asked for `weights`, which then take the place of every quantised dtype of what is not
        `precise`, and of every dtype if they have 16 bit or more.
        """
        narrow = self.stored is not None and self.stored.bits < 16 and not self.precise
        if self.stored is not None and not (overridden and (narrow or weights.bits >= 16)):
            return self.stored
        return kept if self.precise and weights.bits < 16 else weights


class NormKind(str, Enum):
    """RMSNorm has a weight; LayerNorm a weight and maybe a bias; some have no parameters at all."""

    RMS = "rmsnorm"
    LAYER = "layernorm"


@dataclass(frozen=True, slots=True)
class Norm:
    """A normalisation over `width` values; `rows` of them share its parameters for each token (heads)."""

    name: str
    width: int
    kind: NormKind = NormKind.RMS
    weight: bool = True
    bias: bool = False
    rows: int = 1
    own_rows: bool = False

    @property
    def params(self) -> int:
        """Number of parameters: weight and bias, one set unless every row has its own."""
        sets = self.rows if self.own_rows else 1
        return self.width * sets * (int(self.weight) + int(self.bias))


class Block:
    """A part of a layer. Subclasses are frozen dataclasses.

    part: what tables call it ("attention", "recurrent", "mlp", "experts").
    linears: projections that every token passes through. norms: norms inside the block.
    extra_params: learned values that are in neither.
    """

    __slots__ = ()

    @property
    def part(self) -> str:
        """The name of the part of the model that the block belongs to."""
        raise NotImplementedError

    @property
    def linears(self) -> tuple[Linear, ...]:
        """Projections that every token passes through."""
        return ()

    @property
    def norms(self) -> tuple[Norm, ...]:
        """Norms inside the block."""
        return ()

    @property
    def extra_params(self) -> int:
        """Learned values outside projections and norms."""
        return 0

    @property
    def params(self) -> int:
        """Number of parameters."""
        return params_of(self.linears) + sum(norm.params for norm in self.norms) + self.extra_params


def params_of(linears: tuple[Linear, ...]) -> int:
    """Number of parameters of `linears`, biases included."""
    return sum(linear.params for linear in linears)


@dataclass(frozen=True, slots=True)
class Mlp(Block):
    """A dense feed-forward layer: down(act(gate x) * up x) if gated, down(act(up x)) if plain.

    fused: the checkpoint stores gate and up as one matrix. name: what the names of its projections start with.
    inner_norm: a norm before the down projection (BitNet).
    """

    hidden: int
    width: int
    gated: bool = True
    up_bias: bool = False
    down_bias: bool = False
    fused: bool = False
    name: str = ""
    inner_norm: bool = False

    @property
    def part(self) -> str:
        """The dense feed-forward part."""
        return "mlp"

    @property
    def norms(self) -> tuple[Norm, ...]:
        """A norm before the down projection (BitNet)."""
        return (Norm("ffn_norm", self.width),) if self.inner_norm else ()

    @property
    def linears(self) -> tuple[Linear, ...]:
        """gate, up and down projections, or up and down."""
        return feed_forward(self, self.name)


@dataclass(frozen=True, slots=True)
class Dense(Block):
    """One projection in place of attention or an MLP (Nemotron NAS), whose `role` it has in tables."""

    hidden: int
    width: int
    role: str
    bias: bool = False
    name: str = "proj"

    @property
    def part(self) -> str:
        """The part that it stands in for."""
        return self.role

    @property
    def linears(self) -> tuple[Linear, ...]:
        """The projection."""
        return (Linear(self.name, self.hidden, self.width, self.bias),)


def feed_forward(mlp: Mlp, prefix: str) -> tuple[Linear, ...]:
    """The projections of `mlp`, their names starting with `prefix`."""
    wide, group = mlp.width, f"{prefix}gate_up_proj"
    down = Linear(f"{prefix}down_proj", wide, mlp.hidden, mlp.down_bias)
    if not mlp.gated:
        return Linear(f"{prefix}up_proj", mlp.hidden, wide, mlp.up_bias), down
    if mlp.fused:
        return Linear(group, mlp.hidden, 2 * wide, mlp.up_bias), down
    return (
        Linear(f"{prefix}gate_proj", mlp.hidden, wide, mlp.up_bias, group),
        Linear(f"{prefix}up_proj", mlp.hidden, wide, mlp.up_bias, group),
        down,
    )
