"""The quantisation methods of published checkpoints, by `quant_method`: each reads its fields to a Scheme.

Source: the configuration classes of the reference framework and of compressed-tensors, the export format of ModelOpt,
and published checkpoints. Matching follows each method: names and globs of modules, ends of names (reference
framework, AWQ), regular expressions ("re:").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rooflens.core.op import DType
from rooflens.sources.fields import Fields, show
from rooflens.sources.quantization_groups import cache_dtype, compressed_tensors, integer, modelopt, quantized_layers
from rooflens.sources.quantization_match import Matcher, matcher
from rooflens.sources.quantization_scheme import Format, Scheme

_SKIPPED = ("modules_to_not_convert", "ignored_layers")
_BLOCK = [128, 128]


def read_scheme(fields: Fields) -> Scheme:
    """The formats of a `quantization_config`, with the dtype of the cache where it says it.

    Raises:
        ConfigError: a method, or a size of groups or blocks, that is not known; a field of the wrong kind.
    """
    method = _method(fields)
    reader = METHODS.get(method)
    if reader is None:
        known = ", ".join(sorted(METHODS))
        raise fields.fail(f"the method {show(method)} is not known; known are {known}, or leave the field out")
    scheme = reader(fields)
    kv = cache_dtype(fields)
    return replace(scheme, kv=kv, notes=scheme.notes + ((f"KV cache in {kv}, as the checkpoint says",) if kv else ()))


def with_expert_dtype(scheme: Scheme, config: Fields) -> Scheme:
    """`scheme` with the experts of a config whose `expert_dtype` is fp4 (DeepSeek-V4): 32 values and an 8-bit scale."""
    if config.text("expert_dtype", "") != "fp4" or any(form for _, form in scheme.rules):
        return scheme
    experts = matcher(config, ("*.experts.*",))
    note = "expert_dtype is fp4: experts are counted in mxfp4"
    rules = (*scheme.rules, (experts, Format(DType.MXFP4, DType.FP8)))
    return replace(scheme, rules=rules, notes=(*scheme.notes, note))


def _method(fields: Fields) -> str:
    """The name of the method; a config without one is ModelOpt's or compressed-tensors' by the fields that it has."""
    method = fields.text("quant_method", "").lower().replace("_", "-")
    if method:
        return method
    return "modelopt" if fields.has("quant_algo") else "compressed-tensors" if fields.has("config_groups") else ""


def _skipped(fields: Fields, *names: str) -> Matcher:
    """What a config leaves alone, as the reference framework matches it: modules, globs, and ends of names."""
    listed = [pattern for name in names or _SKIPPED for pattern in fields.strings(name) or ()]
    return matcher(fields, listed, suffixes=True)


def _fp8(fields: Fields) -> Scheme:
    """fp8 in squares of 128 x 128 (DeepSeek-V3), or with one scale a matrix.

    A `quantized_layers` beside it names layers that were quantised further (DeepSeek-V4 in NVFP4).
    """
    block = fields.values.get("weight_block_size")
    if block is not None and block != _BLOCK:
        raise fields.fail(f"weight_block_size is {show(block)}; expected {_BLOCK}, or none for one scale a matrix")
    name = "fp8_block" if block else "fp8_tensor" if fields.has("activation_scheme") else "fp8"
    rules = [(_skipped(fields), None), *quantized_layers(fields)]
    return Scheme(tuple(rules), Format.native(name))


def _fbgemm(fields: Fields) -> Scheme:
    """fp8 with an fp32 scale of each output channel (Llama-3.1-405B-FP8)."""
    return Scheme(((_skipped(fields), None),), Format.native("fp8_row"))


def _mxfp4(fields: Fields) -> Scheme:
    """gpt-oss: what is not named is in mxfp4."""
    return Scheme(((_skipped(fields), None),), Format.native("mxfp4"))


def _awq(fields: Fields) -> Scheme:
    """AWQ: groups with zero points unless `zero_point` is off.

    Its quantiser leaves alone every module whose name contains a text. Here the text is whole parts of a name: a
    "gate" is the router that it means, and no gate_proj, which Mixtral spells w1.
    """
    form = _grouped(fields, zero=fields.flag("zero_point", True), names=("bits", "w_bit"))
    return Scheme(((_skipped(fields), None),), form)


def _gptq(fields: Fields) -> Scheme:
    """GPTQ: zero points are stored in every case, symmetric or not; `dynamic` has other bits for some modules.

    The order of activations (`desc_act`) costs 4 bytes for each input, which engines drop once it is applied: not
    counted.
    """
    form = _grouped(fields, zero=True, names=("bits",))
    rules: list[tuple[Matcher, Format | None]] = [(_skipped(fields), None)]
    for pattern, changed in fields.nested("dynamic").items():
        rules.append(_dynamic(fields, pattern, changed))
    inside = fields.values.get("modules_in_block_to_quantize")
    listed = _flat(fields, inside)
    if listed:
        return Scheme((*rules, (matcher(fields, listed, suffixes=True), form)), None)
    return Scheme(tuple(rules), form, head=fields.flag("lm_head", False))


def _dynamic(fields: Fields, pattern: str, changed: object) -> tuple[Matcher, Format | None]:
    """One entry of `dynamic`: "-:regex" leaves modules alone, "+:regex" or "regex" overrides fields."""
    rule = matcher(fields, ("re:" + pattern.removeprefix("-:").removeprefix("+:"),))
    if pattern.startswith("-:"):
        return rule, None
    if not isinstance(changed, dict):
        raise fields.fail(f"dynamic, {show(pattern)} is {show(changed)}; expected an object")
    return rule, _grouped(Fields({**fields.values, **changed}, fields.origin), zero=True, names=("bits",))


def _flat(fields: Fields, listed: object) -> list[str]:
    """`modules_in_block_to_quantize`: a list of names, or of lists of names."""
    if listed is None:
        return []
    names = [name for part in listed for name in (part if isinstance(part, list) else [part])] if isinstance(
        listed, list
    ) else [None]  # fmt: skip
    if not all(isinstance(name, str) for name in names):
        raise fields.fail(f"modules_in_block_to_quantize is {show(listed)}; expected lists of strings")
    return [str(name) for name in names]


def _grouped(fields: Fields, *, zero: bool, names: tuple[str, ...]) -> Format:
    """Weight-only integers; without a stated size of groups plain int4 or int8."""
    bits = fields.agreed("heads", *names, default=4)
    if bits not in (2, 3, 4, 8):
        raise fields.fail(f"bits is {bits}; expected 2, 3, 4 or 8")
    stated = next((name for name in ("group_size", "q_group_size") if fields.has(name)), None)
    if stated is None:
        return Format.widened(f"int{bits}" if bits in (4, 8) else f"int{bits}_g128_zp")
    return Format(integer(fields, bits, fields.values[stated], zero=zero), None)


def _bitsandbytes(fields: Fields) -> Scheme:
    """bitsandbytes: nf4 or fp4 with an absmax for 64 values (QLoRA, 2305.14314, section 3), or int8 with row scales.

    The absmax is itself in 8 bit where `bnb_4bit_use_double_quant` is set.
    """
    skipped = _skipped(fields, "llm_int8_skip_modules")
    if fields.flag("load_in_8bit", False):
        return Scheme(((skipped, None),), Format.native("int8_row"))
    if not fields.flag("load_in_4bit", False):
        raise fields.fail("neither load_in_4bit nor load_in_8bit is true; expected one of them")
    kind = fields.text("bnb_4bit_quant_type", "fp4")
    if kind not in ("nf4", "fp4"):
        raise fields.fail(f"bnb_4bit_quant_type is {show(kind)}; expected nf4 or fp4")
    name = "nf4" if kind == "nf4" else "bnb_fp4"
    double = fields.flag("bnb_4bit_use_double_quant", False)
    return Scheme(((skipped, None),), Format.widened(f"{name}_dq" if double else name))


def _eetq(fields: Fields) -> Scheme:
    """EETQ: weight-only int8 with a 16-bit scale of each output channel."""
    return Scheme(((_skipped(fields), None),), Format.widened("int8_channel"))


def _auto_round(fields: Fields) -> Scheme:
    """AutoRound in the packing of GPTQ or AWQ; `extra_config` has other bits for single layers.

    Raises:
        ConfigError: another packing, or another kind of data than integers.
    """
    packing = fields.text("packing_format", fields.text("backend", ""))
    kind = fields.text("data_type", "int")
    if kind != "int" or not ("gptq" in packing or "awq" in packing):
        raise fields.fail(f"{show(kind)} packed as {show(packing)} is not known; expected int packed as gptq or awq")
    form = _grouped(fields, zero=True, names=("bits",))
    rules = [_extra(fields, name, changed) for name, changed in fields.nested("extra_config").items()]
    return Scheme(tuple(rules), form)


def _extra(fields: Fields, name: str, changed: Any) -> tuple[Matcher, Format | None]:
    if not isinstance(changed, dict):
        raise fields.fail(f"extra_config, {show(name)} is {show(changed)}; expected an object")
    own = Fields({**fields.values, **changed}, fields.origin)
    rule = matcher(fields, (name,))
    return rule, None if own.size("heads", "bits", default=4) >= 16 else _grouped(own, zero=True, names=("bits",))


METHODS: Mapping[str, Callable[[Fields], Scheme]] = {
    "auto-round": _auto_round,
    "awq": _awq,
    "bitsandbytes": _bitsandbytes,
    "compressed-tensors": compressed_tensors,
    "eetq": _eetq,
    "fbgemm-fp8": _fbgemm,
    "fp8": _fp8,
    "gptq": _gptq,
    "intel/auto-round": _auto_round,
    "modelopt": modelopt,
    "modelopt-fp4": modelopt,
    "mxfp4": _mxfp4,
    "nvfp4": lambda fields: Scheme(((_skipped(fields), None),), Format.native("nvfp4")),
}
"""Methods that are known. Others (HQQ, Quark, TorchAO, AQLM, ...) are refused: what they store is not certain."""
