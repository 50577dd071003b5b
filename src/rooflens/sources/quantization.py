"""How a checkpoint stores its weights: `torch_dtype` or `dtype`, and `quantization_config`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from rooflens.core.blocks import Block, Linear
from rooflens.core.dtype import DType, Stored
from rooflens.core.model import Layer, ModelSpec
from rooflens.errors import UnitError
from rooflens.sources.fields import Fields
from rooflens.sources.quantization_methods import read_scheme, with_expert_dtype
from rooflens.sources.quantization_names import HEAD_NAMES, linears_of, module_names
from rooflens.sources.quantization_scheme import Scheme

_DTYPE_FIELDS = ("torch_dtype", "dtype")
_OUTSIDE = ("embed_tokens", "lm_head")

Chooser = Callable[[Layer, Block, Linear, int], Stored | None]
"""How a checkpoint stores a projection of layer number `index`; None where it is as the model's own."""


@dataclass(frozen=True, slots=True)
class Storage:
    """Dtypes of a checkpoint: of its linear layers, and of what quantisation leaves alone.

    chooser: gives the dtype of single projections. outside, arithmetic, kv: `storage`, `arithmetic` and `kv_dtype` of
    the ModelSpec.
    """

    weights: DType
    kept: DType
    stated: bool
    weight_only: bool = False
    notes: tuple[str, ...] = ()
    chooser: Chooser | None = None
    outside: tuple[tuple[str, DType], ...] = ()
    arithmetic: tuple[tuple[DType, DType], ...] = ()
    kv: DType | None = None

    def apply(self, layer: Layer, index: int) -> Layer:
        """`layer` number `index` with what it stores otherwise than the model's linear layers."""
        if self.chooser is None:
            return layer
        found: dict[str, Stored] = {}
        for block, linear, _ in linears_of(layer):
            dtype = self.chooser(layer, block, linear, index)
            if dtype is not None and (dtype is not self.weights or linear.precise):
                found[linear.name] = dtype
        return replace(layer, storage=tuple(found.items()))

    def complete(self, model: ModelSpec) -> ModelSpec:
        """`model` with what lies outside its layers; a tied head is the token table."""
        outside = tuple(entry for entry in self.outside if not (model.tied and entry[0] == "lm_head"))
        return replace(model, storage=outside, arithmetic=self.arithmetic, kv_dtype=self.kv)


def read_storage(fields: Fields) -> Storage:
    """Return how the checkpoint stores its weights; bf16 where the config names no dtype (and that is noted).

    Raises:
        ConfigError: a dtype or a quantisation method that is not known, or fields of it that contradict each other.
    """
    own, stated = _stored_dtype(fields)
    kept = own if own.bits >= 16 else DType.BF16
    notes = () if stated else ("the config names no dtype: it counts as bf16 unless an option says otherwise",)
    quantization = fields.nested("quantization_config")
    if not quantization:
        return Storage(own, kept, stated, notes=notes)
    scheme = with_expert_dtype(read_scheme(Fields(quantization, f"{fields.origin}, quantization_config")), fields)
    return _quantised(scheme, Storage(kept, kept, stated, notes=notes + scheme.notes, kv=scheme.kv))


def as_stored(storage: Storage, wide: Mapping[str, DType]) -> Storage:
    """`storage` with the dtypes that a checkpoint's own headers give to weights of 16 bit or more.

    wide: dtype by the name of a module. What is narrower keeps the format of the config's quantisation.
    """
    if not wide:
        return storage
    chosen = storage.chooser

    def choose(layer: Layer, block: Block, linear: Linear, index: int) -> Stored | None:
        own = next((wide[name] for name in module_names(layer, block, linear, index) if name in wide), None)
        if own is None or (linear.precise and own is storage.kept):
            return chosen(layer, block, linear, index) if chosen else None
        return own

    tables = tuple((name, wide[name]) for name in _OUTSIDE if wide.get(name, storage.kept) is not storage.kept)
    return replace(storage, chooser=choose, outside=(*storage.outside, *tables))


def _quantised(scheme: Scheme, plain: Storage) -> Storage:
    """`plain` with the formats of `scheme`."""
    main, kept = scheme.main, plain.kept
    if main is None:
        return plain

    def choose(layer: Layer, block: Block, linear: Linear, index: int) -> DType | None:
        if linear.precise:
            return None
        form = scheme.format_of(module_names(layer, block, linear, index))
        return form.dtype if form else kept

    head = scheme.format_of(HEAD_NAMES) if scheme.head else None
    return replace(
        plain,
        weights=main.dtype,
        weight_only=main.compute is None,
        chooser=choose,
        outside=(("lm_head", head.dtype),) if head else (),
        arithmetic=tuple((stored, used or kept) for stored, used in scheme.arithmetic),
    )


def _stored_dtype(fields: Fields) -> tuple[DType, bool]:
    """The dtype that the config names, and whether it does; "auto" names none."""
    named = {name: _parse(fields, name) for name in _DTYPE_FIELDS if fields.text(name, "auto") != "auto"}
    if len(set(named.values())) > 1:
        told = " and ".join(f"{name} {dtype}" for name, dtype in named.items())
        raise fields.fail(f"{told} contradict each other; expected one dtype")
    return next(iter(named.values()), DType.BF16), bool(named)


def _parse(fields: Fields, name: str) -> DType:
    text = fields.text(name, "")
    try:
        return DType.parse(text)
    except UnitError as cause:
        raise fields.fail(f"{name}: {cause}") from cause
