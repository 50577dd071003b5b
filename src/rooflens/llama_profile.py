"""A GGUF file in llama.cpp -> Profile: times by its own counters, bytes by the file's tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rooflens.core.hardware import Hardware
from rooflens.core.op import DType
from rooflens.core.profile import Finding, Measurement, Profile
from rooflens.core.scenario import Conventions, Fusion, Precision
from rooflens.count import forward
from rooflens.errors import InputError
from rooflens.findings import findings
from rooflens.live.llamacpp import LlamaRun, run_gguf
from rooflens.live.vitals import vitals
from rooflens.measured import place_measured
from rooflens.precision import Dtypes, settle
from rooflens.roofline import place_phase
from rooflens.sources.models import load_model
from rooflens.workload import scenario


def profile_llama(
    path: Path,
    hardware: Hardware,
    *,
    prompt: int,
    output: int,
    warmup: int,
    repeat: int,
    progress: Callable[[str, float], None] | None = None,
) -> Profile:
    """Run the GGUF file at `path` in llama.cpp on the CPU and place what its counters say under `hardware`.

    There is no breakdown: llama.cpp counts phases. Weights move as the file stores them, the cache is fp16.

    Raises:
        InputError: no GGUF file, no room in memory, or a run that fails. MissingExtraError: no llama-cpp-python.
    """
    if path.suffix.lower() != ".gguf":
        raise InputError(f"{path} is no GGUF file, which is what llama.cpp runs; leave out --backend llamacpp")
    spec = load_model(path)
    steps = (lambda step: progress(step, 0.0)) if progress is not None else None
    run = run_gguf(path, prompt=prompt, output=output, repeat=repeat, warmup=warmup, progress=steps)
    settled, notes = settle(spec, hardware, Dtypes())
    precision, said = _on_cpu(settled, hardware)
    counted = Conventions(fusion=Fusion.FRAMEWORK)
    context = prompt + max(0, output - 2) // 2
    work = scenario(batch=1, prompt=prompt, output=output, context=context, precision=precision, conventions=counted)
    work = replace(work, ran=True)
    phases = []
    for phase, seconds in zip(work.phases, (run.prefill_s, run.decode_s), strict=False):
        predicted = place_phase(phase, forward(spec, phase, precision, counted), hardware, precision.compute)
        placed = place_measured(phase, Measurement(seconds), hardware, precision.compute, predicted=predicted)
        phases.append(placed)
    profile = Profile(spec, hardware, work, tuple(phases), conditions=_conditions(run))
    own = tuple(Finding("warning", "llamacpp", note) for note in run.notes)
    return replace(profile, findings=(*said, *own, *notes, *findings(profile)))


def _on_cpu(settled: Precision, hardware: Hardware) -> tuple[Precision, tuple[Finding, ...]]:
    """What llama.cpp multiplies in on a CPU: quantised weights by activations in 8 bit, all else in fp32.

    Source: ggml, the CPU backend's type traits: `vec_dot_type` of every quantised type is q8_0, q8_1 or q8_K.
    """
    wide = DType.FP32
    if settled.weights.bits >= 16:
        return replace(settled, compute=wide, attention=wide, arithmetic=()), ()
    narrow = DType.INT8 if hardware.peak(DType.INT8) is not None else wide
    text = (
        "llama.cpp quantises activations to 8 bit and multiplies quantised weights in integers on a CPU: they stand "
        f"under the {narrow} roof, everything else under that of {wide}"
    )
    return replace(settled, compute=narrow, attention=wide, arithmetic=()), (Finding("info", "llamacpp", text),)


def _conditions(run: LlamaRun) -> tuple[tuple[str, str], ...]:
    passes = f"prompt in {run.passes} pass{'es' if run.passes > 1 else ''}"
    return (
        ("device", "cpu"),
        ("framework", f"llama-cpp-python {run.version}, {passes}, KV cache {run.kv}"),
        ("threads", f"{run.threads} of llama.cpp"),
        ("built with", run.system),
        *vitals("cpu"),
    )
