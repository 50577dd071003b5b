"""compressed-tensors and ModelOpt: checkpoints that say layer by layer how they are stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rooflens.core.op import DType
from rooflens.sources.fields import Fields, show
from rooflens.sources.quantization_match import EVERYTHING, Matcher, matcher
from rooflens.sources.quantization_scheme import Format, Scheme

_GROUPS = (16, 32, 64, 128, 256)
_CLASSES = frozenset(("Linear", "FusedMoE", "LinearBase"))
_CACHE: dict[str, DType] = {"fp8": DType.FP8, "int8": DType.INT8, "nvfp4": DType.NVFP4}
_ALGORITHMS: dict[str, tuple[str, str]] = {
    "FP8": ("fp8_tensor", "fp8"),
    "FP8_PER_CHANNEL_PER_TOKEN": ("fp8_row", "fp8"),
    "FP8_PB_REAL": ("fp8_block", "fp8"),
    "FP8_PB_WO": ("fp8_block", ""),
    "MXFP8": ("mxfp8", "fp8"),
    "MXFP4": ("mxfp4", "fp4"),
    "W4A8_MXFP4_FP8": ("mxfp4", "fp8"),
    "NVFP4": ("nvfp4", "fp4"),
    "NVFP4_AWQ": ("nvfp4", "fp4"),
    "W4A16_NVFP4": ("nvfp4", ""),
    "W4A8_NVFP4_FP8": ("nvfp4", "fp8"),
    "W8A8_SQ_PER_CHANNEL": ("int8_row", "int8"),
    "INT8": ("int8", ""),
    "W8A16": ("int8_row", ""),
}
"""Storage and arithmetic ("" is 16 bit) of ModelOpt's algorithms. Source: its export format and checkpoints."""
_BLOCKS = {"nvfp4": 16, "mxfp4": 32, "mxfp8": 32}
"""Values that share a scale. Source: Open Compute Project, Microscaling Formats 1.0, 5.2; NVIDIA for NVFP4."""
_AWQ = {"W4A16_AWQ": None, "INT4_AWQ": None, "W4A8_AWQ": DType.FP8}


def integer(fields: Fields, bits: int, group: object, *, zero: bool) -> DType:
    """Integers of `bits` in groups of `group` inputs, -1 for whole rows.

    Raises:
        ConfigError: another size of groups than 16 to 256, or whole rows of 2 or 3 bits.
    """
    end = "_zp" if zero else ""
    if group == -1 and bits in (4, 8):
        return DType("int8_channel" if bits == 8 else f"int4_channel{end}")
    if isinstance(group, bool) or not isinstance(group, int) or group not in _GROUPS:
        raise fields.fail(
            f"group_size is {show(group)} for {bits} bit; expected one of {_GROUPS}, or -1 for 4 or 8 bit"
        )
    return DType.INT4 if (bits, group, zero) == (4, 128, False) else DType(f"int{bits}_g{group}{end}")


def cache_dtype(fields: Fields) -> DType | None:
    """The dtype of the KV cache that `kv_cache_scheme` or `kv_cache_quant_algo` names; None where none does.

    Raises:
        ConfigError: a dtype other than fp8, int8 and nvfp4.
    """
    for name in ("kv_cache_quant_algo", "kv_cache_scheme"):
        value = fields.values.get(name)
        if isinstance(value, dict):
            value = _cache_word(Fields(value, f"{fields.origin}, {name}"))
        if value is None or str(value).lower() in ("none", "auto", ""):
            continue
        found = _CACHE.get(str(value).lower())
        if found is None:
            raise fields.fail(f"{name} is {show(value)}; expected FP8, INT8 or NVFP4")
        return found
    return None


def _cache_word(scheme: Fields) -> str:
    bits, kind = scheme.size("heads", "num_bits", default=8), scheme.text("type", "float")
    return {(8, "float"): "fp8", (8, "int"): "int8", (4, "float"): "nvfp4"}.get((bits, kind), f"{kind}{bits}")


def compressed_tensors(fields: Fields) -> Scheme:
    """compressed-tensors: `config_groups` with their targets, less what `ignore` names.

    A group that names modules goes before one that names the class of all projections.
    """
    if fields.text("format", "") == "dense":
        return Scheme((), None, notes=("the checkpoint is not compressed: its weights count as they are",))
    groups = _groups(fields)
    named = [(rule, form) for rule, form in groups if not rule.everything]
    general = [(rule, form) for rule, form in groups if rule.everything]
    ignored = matcher(fields, fields.strings("ignore") or ())
    return Scheme(((ignored, None), *named, *general), None, head=True)


def _groups(fields: Fields) -> list[tuple[Matcher, Format | None]]:
    found: list[tuple[Matcher, Format | None]] = []
    for name, value in fields.nested("config_groups").items():
        if not isinstance(value, dict):
            raise fields.fail(f"config_groups, {show(name)} is {show(value)}; expected an object")
        group = Fields(value, f"{fields.origin}, {str(name)[:40]}")
        targets = group.strings("targets") or ("Linear",)
        named = [target for target in targets if target not in _CLASSES]
        rule = EVERYTHING if len(named) < len(targets) else matcher(group, named)
        found.append((rule, _format(group)))
    if not found:
        raise fields.fail("config_groups is missing or empty; expected at least one group")
    return found


def _format(group: Fields) -> Format:
    """The format of a group: of its weights, and arithmetic as wide as its activations are stored."""
    weights = group.child("weights")
    if not weights.values:
        raise group.fail("weights is missing; expected the format of the weights")
    bits, kind = weights.size("heads", "num_bits", default=8), weights.text("type", "int")
    stored = _float(weights, bits) if kind == "float" else _integer(weights, bits, kind)
    return Format(stored, _activations(group.child("input_activations")))


def _float(weights: Fields, bits: int) -> DType:
    group, strategy = weights.values.get("group_size"), weights.text("strategy", "")
    if bits == 8 and strategy == "block":
        return _square(weights)
    plain = {"": "fp8_tensor", "tensor": "fp8_tensor", "channel": "fp8_channel"}
    name = plain.get(strategy) if bits == 8 and not group else None
    grouped = {(8, 32): "mxfp8", (4, 16): "nvfp4", (4, 32): "mxfp4"}
    name = name or (grouped.get((bits, group)) if isinstance(group, int) else None)
    if name is None:
        raise weights.fail(
            f"float of {bits} bit, strategy {show(strategy)}, group_size {show(group)} is not known; expected 8 bit a "
            "tensor, channel, block or group of 32, or 4 bit in groups of 16 or 32"
        )
    return DType(name)


def _square(weights: Fields) -> DType:
    structure = weights.values.get("block_structure")
    if structure not in ([128, 128], "128x128"):
        raise weights.fail(f"block_structure is {show(structure)}; expected [128, 128]")
    return DType("fp8_block16")


def _integer(weights: Fields, bits: int, kind: str) -> DType:
    strategy, zero = weights.text("strategy", ""), not weights.flag("symmetric", True)
    if kind != "int" or bits not in (2, 3, 4, 8):
        raise weights.fail(f"{show(kind)} of {bits} bit is not known; expected int of 2, 3, 4 or 8, or float of 4 or 8")
    if bits == 8 and strategy in ("", "tensor") and not weights.has("group_size"):
        return DType.INT8
    return integer(weights, bits, -1 if strategy == "channel" else weights.values.get("group_size", 128), zero=zero)


def _activations(inputs: Fields) -> DType | None:
    """The arithmetic of quantised activations; None where they stay in 16 bit."""
    if not inputs.values:
        return None
    bits, kind = inputs.size("heads", "num_bits", default=8), inputs.text("type", "int")
    known = {(8, "float"): DType.FP8, (4, "float"): DType.FP4, (8, "int"): DType.INT8, (4, "int"): DType.INT4}
    if (bits, kind) not in known:
        raise inputs.fail(f"{show(kind)} of {bits} bit is not known; expected float or int of 4 or 8 bit")
    return known[bits, kind]


def modelopt(fields: Fields) -> Scheme:
    """ModelOpt: one algorithm for all layers but those excluded, or `quantized_layers` one by one."""
    patterns = [*(fields.strings("exclude_modules") or ()), *(fields.strings("ignore") or ())]
    excluded = matcher(fields, patterns)
    name = fields.text("quant_algo", "FP8").upper()
    if name == "MIXED_PRECISION":
        rules = list(quantized_layers(fields))
        if not rules:
            raise fields.fail("quant_algo is MIXED_PRECISION and quantized_layers is empty; expected its layers")
        return Scheme(((excluded, None), *rules), None, head=True)
    return Scheme(((excluded, None),), _algorithm(fields, name))


def quantized_layers(fields: Fields) -> Iterator[tuple[Matcher, Format | None]]:
    """The rules of `quantized_layers`: one for each algorithm, of all layers that it names."""
    by_format: dict[tuple[str, Any], list[str]] = {}
    for layer, value in fields.nested("quantized_layers").items():
        if not isinstance(value, dict):
            raise fields.fail(f"quantized_layers, {show(layer)} is {show(value)}; expected an object")
        own = Fields(value, f"{fields.origin}, quantized_layers")
        group = own.size("window", "group_size", default=0) or None
        by_format.setdefault((own.text("quant_algo", "").upper(), group), []).append(layer)
    for (name, group), layers in by_format.items():
        yield matcher(fields, layers), _algorithm(Fields({"group_size": group}, fields.origin), name)


def _algorithm(fields: Fields, name: str) -> Format:
    if name in _AWQ:
        zero = fields.flag("has_zero_point", False)
        group = fields.values.get("group_size")
        return Format(integer(fields, 4, 128 if group is None else group, zero=zero), _AWQ[name])
    if name not in _ALGORITHMS:
        known = ", ".join((*_ALGORITHMS, *_AWQ))
        raise fields.fail(f"quant_algo is {show(name)}; known are {known} and MIXED_PRECISION")
    stored, compute = _ALGORITHMS[name]
    group = _BLOCKS.get(stored, 0)
    if group and fields.size("window", "group_size", default=group) != group:
        raise fields.fail(f"quant_algo is {name}, group_size is {show(fields.values['group_size'])}; expected {group}")
    return Format(DType(stored), DType(compute) if compute else None)
