"""ModelSpec: a model as layers whose shapes are known, and nothing else.

Every matrix that a layer multiplies by is a `Linear` here, listed once: parameters, weight bytes and
FLOP are all counted from the same list.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rooflens.core.op import DType


@dataclass(frozen=True, slots=True)
class Linear:
    """A projection with weights W[d_in, d_out]; projections of one `group` run as one GEMM in engines."""

    name: str
    d_in: int
    d_out: int
    bias: bool = False
    group: str = ""

    @property
    def params(self) -> int:
        """Number of parameters, bias included."""
        return self.d_in * self.d_out + (self.d_out if self.bias else 0)


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


class Reach(str, Enum):
    """Which earlier tokens a query attends to."""

    FULL = "full"
    WINDOW = "window"


@dataclass(frozen=True, slots=True)
class Attention:
    """Multi-head, grouped-query or multi-query attention (1911.02150, 2305.13245).

    window: a query attends to itself and the `window` - 1 tokens before it; None is full attention.
    fused_qkv: the checkpoint stores q, k and v as one matrix, so that frameworks run one GEMM too.
    rotary: whether q and k are rotated (a kernel of its own).
    """

    hidden: int
    heads: int
    kv_heads: int
    d_k: int
    d_v: int
    window: int | None = None
    qkv_bias: bool = False
    out_bias: bool = False
    fused_qkv: bool = False
    rotary: bool = True
    norms: tuple[Norm, ...] = ()

    @property
    def reach(self) -> Reach:
        """Full or windowed attention."""
        return Reach.FULL if self.window is None else Reach.WINDOW

    @property
    def linears(self) -> tuple[Linear, ...]:
        """q, k, v and output projections; k and v have `kv_heads` heads."""
        q, k, v = self.heads * self.d_k, self.kv_heads * self.d_k, self.kv_heads * self.d_v
        out = Linear("o_proj", self.heads * self.d_v, self.hidden, self.out_bias)
        if self.fused_qkv:
            return Linear("qkv_proj", self.hidden, q + k + v, self.qkv_bias), out
        return (
            Linear("q_proj", self.hidden, q, self.qkv_bias, "qkv_proj"),
            Linear("k_proj", self.hidden, k, self.qkv_bias, "qkv_proj"),
            Linear("v_proj", self.hidden, v, self.qkv_bias, "qkv_proj"),
            out,
        )

    @property
    def values_per_token(self) -> int:
        """Cached values of one token in one layer: K and V of every KV head."""
        return self.kv_heads * (self.d_k + self.d_v)


@dataclass(frozen=True, slots=True)
class Mlp:
    """A dense feed-forward layer: down(act(gate x) * up x) if gated, down(act(up x)) if plain.

    fused: the checkpoint stores gate and up as one matrix.
    """

    hidden: int
    width: int
    gated: bool = True
    up_bias: bool = False
    down_bias: bool = False
    fused: bool = False

    @property
    def linears(self) -> tuple[Linear, ...]:
        """gate, up and down projections, or up and down."""
        down = Linear("down_proj", self.width, self.hidden, self.down_bias)
        if not self.gated:
            return Linear("up_proj", self.hidden, self.width, self.up_bias), down
        if self.fused:
            return Linear("gate_up_proj", self.hidden, 2 * self.width, self.up_bias), down
        return (
            Linear("gate_proj", self.hidden, self.width, self.up_bias, "gate_up_proj"),
            Linear("up_proj", self.hidden, self.width, self.up_bias, "gate_up_proj"),
            down,
        )


@dataclass(frozen=True, slots=True)
class Layer:
    """`count` equal decoder layers: attention and MLP, each added to the residual stream.

    parallel: attention and MLP read the same input and are added at once (GPT-J, GPT-NeoX).
    extra_params: learned values outside matrices and norms (Apertus: two scalars of the activation).
    """

    count: int
    attention: Attention
    mlp: Mlp
    norms: tuple[Norm, ...]
    parallel: bool = False
    extra_params: int = 0

    @property
    def linears(self) -> tuple[Linear, ...]:
        """Every projection of one layer."""
        return self.attention.linears + self.mlp.linears

    @property
    def params(self) -> int:
        """Parameters of one layer."""
        norms = self.norms + self.attention.norms
        return sum(linear.params for linear in self.linears) + sum(norm.params for norm in norms) + self.extra_params


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A decoder-only language model.

    weights_dtype: of the checkpoint's linear layers; `kept_dtype` of what quantisation leaves alone
        (embedding, norms, output head); `dtype_stated` is False where the config names no dtype;
        `weight_only` where quantised weights are multiplied in 16 bit.
    embedding_width: width of the token table where it is not `hidden` (OPT-350m projects in and out of it).
    positions: rows of a learned position table, 0 without one.
    """

    name: str
    architecture: str
    hidden: int
    vocab: int
    layers: tuple[Layer, ...]
    tied: bool
    weights_dtype: DType
    kept_dtype: DType
    dtype_stated: bool
    final_norm: Norm | None
    weight_only: bool = False
    positions: int = 0
    embedding_norm: Norm | None = None
    embedding_width: int = 0
    head_bias: bool = False
    max_context: int | None = None
    notes: tuple[str, ...] = ()
    source: str = ""

    @property
    def depth(self) -> int:
        """Number of decoder layers."""
        return sum(layer.count for layer in self.layers)

    @property
    def head(self) -> Linear:
        """The output head: hidden -> vocabulary, a GEMM also where its table is the embedding's."""
        return Linear("lm_head", self.table_width, self.vocab, self.head_bias)

    @property
    def table_width(self) -> int:
        """Width of the token table; equal to `hidden` unless the model projects in and out of it."""
        return self.embedding_width or self.hidden

    @property
    def table_projections(self) -> tuple[Linear, ...]:
        """Projections from the token table's width to `hidden` and back; none where they are equal."""
        if self.table_width == self.hidden:
            return ()
        return (
            Linear("project_in", self.table_width, self.hidden),
            Linear("project_out", self.hidden, self.table_width),
        )
