"""A GGUF file to a ModelSpec: shapes from its keys, dtype and bytes from every tensor."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from rooflens.core.blocks import Block, Linear
from rooflens.core.dtype import DType, Mixed, Stored
from rooflens.core.model import Layer, ModelSpec
from rooflens.count import params, weight_bytes
from rooflens.errors import ConfigError
from rooflens.sources.architectures import FAMILIES
from rooflens.sources.build import build
from rooflens.sources.config import printable
from rooflens.sources.fields import Fields
from rooflens.sources.gguf_fields import Keys, config_of
from rooflens.sources.gguf_header import Header, Tensor, read_gguf_header
from rooflens.sources.quantization import Storage

_TENSORS: dict[str, tuple[str, ...]] = {
    "q_proj": ("attn_q",),
    "k_proj": ("attn_k",),
    "v_proj": ("attn_v",),
    "qkv_proj": ("attn_qkv",),
    "o_proj": ("attn_output",),
    "q_a_proj": ("attn_q_a",),
    "q_b_proj": ("attn_q_b",),
    "kv_a_proj": ("attn_kv_a_mqa",),
    "kv_b_proj": ("attn_kv_b", "attn_k_b", "attn_v_b"),
    "gate_proj": ("ffn_gate",),
    "up_proj": ("ffn_up",),
    "gate_up_proj": ("ffn_up",),
    "down_proj": ("ffn_down",),
    "router": ("ffn_gate_inp",),
    "experts_gate_proj": ("ffn_gate_exps", "ffn_gate.{expert}"),
    "experts_up_proj": ("ffn_up_exps", "ffn_up.{expert}"),
    "experts_down_proj": ("ffn_down_exps", "ffn_down.{expert}"),
    "shared_gate": ("ffn_gate_inp_shexp",),
    "shared_gate_proj": ("ffn_gate_shexp",),
    "shared_up_proj": ("ffn_up_shexp",),
    "shared_down_proj": ("ffn_down_shexp",),
}
"""Tensors of a layer that a projection is stored in: those of them that are there make it up together."""

_TABLES = {"embed_tokens": "token_embd.weight", "lm_head": "output.weight"}
_WIDE = {DType.FP32: DType.FP32, DType.BF16: DType.BF16}


def read_gguf(path: Path) -> ModelSpec:
    """Return the ModelSpec of the GGUF file at `path`, with the dtype of each of its tensors.

    Quantised weights are widened to 16 bit before they are multiplied. Activations and cache are in 16 bit, as
    llama.cpp keeps the cache unless it is told otherwise.

    Raises:
        ConfigError: a file that is no GGUF file, is cut short, or whose tensors do not fit its keys.
        UnknownArchitectureError: an architecture without a translation.
        MissingExtraError: without the `gguf` package.
    """
    header = read_gguf_header(path)
    origin = printable(str(path))
    architecture, values = config_of(Keys(header, origin))
    storage = Tensors(header.tensors, origin).storage()
    family, name = FAMILIES[architecture], printable(path.stem)
    model = build(Fields(values, origin), family, storage, name=name, architecture=architecture)
    return _checked(storage.complete(model), header)


@dataclass(frozen=True, slots=True)
class Tensors:
    """The tensors of a file by name."""

    tensors: dict[str, Tensor]
    origin: str

    def storage(self) -> Storage:
        """How the file stores its model: the dtype of most weights, of tables and vectors, and each projection's own.

        Raises:
            ConfigError: no matrix but the token table.
        """
        matrices, vectors = self._values(matrix=True), self._values(matrix=False)
        if not matrices:
            raise ConfigError(f"{self.origin}: there is no matrix but tables; expected the weights of a model")
        weights = matrices.most_common(1)[0][0]
        kept = _WIDE.get(weights, DType.FP16)
        tables = [(name, self.tensors[tensor].dtype) for name, tensor in _TABLES.items() if tensor in self.tensors]
        return Storage(
            weights,
            kept,
            stated=True,
            weight_only=weights.bits < 16,
            chooser=self.chosen,
            outside=(*tables, *(("vectors", dtype) for dtype, _ in vectors.most_common(1))),
            arithmetic=tuple((dtype, kept) for dtype in matrices if dtype.bits < 16),
        )

    def _values(self, *, matrix: bool) -> Counter[DType]:
        """How many values each dtype stores: of the matrices of layers, or of norms, biases and the like."""
        values: Counter[DType] = Counter()
        for name, tensor in self.tensors.items():
            if name not in _TABLES.values() and (name.endswith(".weight") and len(tensor.shape) > 1) is matrix:
                values[tensor.dtype] += tensor.values
        return values

    def chosen(self, layer: Layer, block: Block, linear: Linear, index: int) -> Stored:
        """How `linear` of layer `index` is stored: in one dtype, or in those of its tensors.

        Raises:
            ConfigError: it is not in the file, or has another size there.
        """
        del layer
        count = getattr(block, "experts", 1) if linear.name.startswith("experts_") else 1
        found = [self.tensors[name] for name in self.names(linear, index, count)]
        held, expected = sum(tensor.values for tensor in found), linear.d_in * linear.d_out * count
        if held != expected:
            raise ConfigError(
                f"{self.origin}: {linear.name} of layer {index} has {held:,} values and its keys give {expected:,}"
            )
        parts: Counter[DType] = Counter()
        for tensor in found:
            parts[tensor.dtype] += tensor.values
        return Mixed(tuple(parts.items())) if len(parts) > 1 else found[0].dtype

    def names(self, linear: Linear, index: int, count: int) -> list[str]:
        """The tensors that `linear` of layer `index` is stored in; older files have one for each of `count` experts.

        Raises:
            ConfigError: there are none.
        """
        found = []
        for stem in _TENSORS.get(linear.name, ()):
            experts = range(count) if "{expert}" in stem else range(1)
            names = (f"blk.{index}.{stem.format(expert=expert)}.weight" for expert in experts)
            found += [name for name in names if name in self.tensors]
        if not found:
            raise ConfigError(
                f"{self.origin}: {linear.name} of layer {index} is missing; expected a tensor of blk.{index}"
            )
        return found


def _checked(model: ModelSpec, header: Header) -> ModelSpec:
    """`model` with the bytes of the file, and a note where the file holds other values than its parameters."""
    size, values = (sum(getattr(t, what) for t in header.tensors.values()) for what in ("size", "values"))
    counted = weight_bytes(model, model.weights_dtype, model.kept_dtype)
    notes = [f"GGUF: {len(header.tensors):,} tensors of {size:,} B; counted: {counted:,} B"]
    if values != params(model):
        notes.append(
            f"the file holds {values:,} values, {values - params(model):+,} to the parameters (buffers, biases)"
        )
    return replace(model, checkpoint_bytes=size, notes=(*model.notes, *notes))
