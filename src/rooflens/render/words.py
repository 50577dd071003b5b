"""Sentences and labels that table, page and JSON share: the verdict, the conventions, the sources."""

from __future__ import annotations

from rooflens.core.attention import LatentAttention
from rooflens.core.blocks import Block
from rooflens.core.experts import Moe
from rooflens.core.hardware import Ceiling, Hardware, KernelShape, Roof
from rooflens.core.model import ModelSpec
from rooflens.core.op import DType
from rooflens.core.profile import Bound, PhaseProfile, Profile
from rooflens.core.recurrent import Recurrent
from rooflens.core.scenario import AttentionFlops, Fusion, LatentForm, Logits, Precision, TrafficModel
from rooflens.render.figures import figure, percent
from rooflens.render.measured_words import SHAPES, measured_verdict
from rooflens.units import si

_WAITS = {
    Bound.COMPUTE: "the compute units",
    Bound.MEMORY: "device memory",
    Bound.LINK: "the link between devices",
    Bound.OVERHEAD: "the framework",
}
_CHOICES: dict[object, str] = {
    AttentionFlops.CAUSAL: "attention is causal: query i sees min(i + 1, window) positions",
    AttentionFlops.FULL: "attention counts every pair of positions (a dense mask), windows included",
    Logits.LAST: "logits are computed for the last token of each sequence in prefill",
    Logits.ALL: "logits are computed for every token in prefill",
    TrafficModel.FUSED: "traffic: GEMM and attention kernels read inputs and write outputs once, the rest is fused",
    TrafficModel.WEIGHTS: "traffic: weights alone move bytes (the textbook model)",
    TrafficModel.EAGER: "traffic: every framework op reads and writes, unfused attention included",
    LatentForm.AUTO: "latent attention is expanded in prefill and absorbed in decode",
    LatentForm.EXPANDED: "latent attention is expanded: keys and values of every head, from all latents in each pass",
    LatentForm.ABSORBED: "latent attention is absorbed: every head attends to the latents themselves",
    Fusion.ENGINE: "q, k and v are one GEMM, gate and up another, as serving engines run them",
    Fusion.FRAMEWORK: "every projection is a GEMM of its own, as the framework runs them",
}


def verdict(phase: PhaseProfile) -> str:
    """One sentence that says what limits `phase` and how much of its time that bound holds."""
    if phase.measured is not None:
        return measured_verdict(phase)
    bound: Bound = phase.bound
    return (
        f"{phase.phase.kind} is {bound}-bound: {percent(phase.bound_share[bound])} of its "
        f"{si(float(phase.floor_s), 's')} floor goes to {_WAITS[bound]}; it has {figure(phase.intensity)} FLOP/byte, "
        f"the ridge point is at {figure(phase.ridge_point)}{_despite(phase, bound)}"
    )


def _despite(phase: PhaseProfile, bound: Bound) -> str:
    """Why a phase is bound otherwise than its total intensity suggests: time is summed kernel by kernel."""
    below = phase.intensity < phase.ridge_point
    if below is (bound is Bound.MEMORY) or bound not in (Bound.COMPUTE, Bound.MEMORY):
        return ""
    if below:
        return " (its memory-bound kernels move many bytes in little of the time)"
    return " (its compute-bound kernels do much of the work in little of the time)"


def convention_notes(profile: Profile) -> list[str]:
    """What the counts mean, a line each: the choices that concern the model, what always holds, and what times are."""
    conventions, model = profile.scenario.conventions, profile.model
    ran = any(phase.measured for phase in profile.phases)
    choices = (conventions.attention_flops, conventions.logits, conventions.traffic, conventions.fusion)
    return [
        *(_CHOICES[choice] for choice in choices),
        *([_CHOICES[conventions.latent]] if has_block(model, LatentAttention) else []),
        *([_experts(conventions.distinct_experts)] if has_block(model, Moe) else []),
        "one multiply-add is 2 FLOP; peaks are dense; 1 GB is 1e9 bytes",
        *(_RAN if ran else _PREDICTED),
    ]


_PREDICTED = ("times are floors: ideal kernels one after another, no launch or framework overhead, no queue",)
_RAN = (
    "bytes of what ran: each framework op reads its operands and writes its result once; those of the traffic model "
    "are the prediction's",
    "times are of runs without an instrument, no queue; those of ops are scaled to them",
)


def _experts(distinct: float | None) -> str:
    if distinct is not None:
        return f"a pass reads {distinct:,g} experts of a layer, as measured"
    return "a pass reads the distinct experts that uniform routing is expected to reach"


def has_block(model: ModelSpec, kind: type[Block]) -> bool:
    """Whether a layer of `model` has a block of `kind`."""
    return any(isinstance(block, kind) for layer in model.layers for block in layer.blocks)


def precision_line(precision: Precision, model: ModelSpec) -> str:
    """The dtypes of a run of `model` in one line."""
    state = f", state {precision.state or DType.FP32}" if has_block(model, Recurrent) else ""
    return (
        f"compute {precision.compute}, weights {precision.weights}, KV cache {precision.kv}, "
        f"activations {precision.activations}, attention {precision.attention}, "
        f"embedding and output head {precision.kept}{state}"
    )


def roofs(profile: Profile) -> list[Roof]:
    """The distinct roofs that the profile's kernels were placed under, in order of first use."""
    seen: dict[tuple[object, str], Roof] = {}
    for phase in profile.phases:
        seen.setdefault((phase.roof.dtype, phase.roof.units), phase.roof)
        for point in phase.points:
            seen.setdefault((point.roof.dtype, point.roof.units), point.roof)
    return list(seen.values())


def sources(profile: Profile) -> list[tuple[str, str, Ceiling]]:
    """(figure, value with its unit, ceiling) of every figure of the part that the profile used."""
    hardware = profile.hardware
    rows = [(f"{r.dtype} peak, {r.units} units", si(r.peak, "FLOP/s"), _ceiling(hardware, r)) for r in roofs(profile)]
    assert hardware.memory.bandwidth is not None
    rows.append(
        (f"{hardware.memory.name} bandwidth", si(hardware.memory.bandwidth.value, "B/s"), hardware.memory.bandwidth)
    )
    for (shape, dtype), ceiling in used_kernels(profile).items():
        rows.append((f"{SHAPES[shape]} kernels, {dtype}", si(ceiling.value, "B/s"), ceiling))
    if hardware.memory_bytes is not None:
        rows.append(("memory size", si(hardware.memory_bytes.value, "B"), hardware.memory_bytes))
    return rows


def used_kernels(profile: Profile) -> dict[tuple[KernelShape, DType], Ceiling]:
    """Ceilings of kernels of one shape that the profile holds kernels against."""
    shares = (share for phase in profile.phases for share in phase.kernel_shares)
    return {(s.shape, s.dtype): profile.hardware.kernels[s.shape, s.dtype] for s in shares}


def _ceiling(hardware: Hardware, roof: Roof) -> Ceiling:
    return (hardware.matrix if roof.units == "matrix" else hardware.vector)[roof.dtype]
