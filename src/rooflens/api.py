"""The public functions: each puts rooms together and does nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rooflens.audit.report import AuditReport
from rooflens.claims import claims
from rooflens.core.hardware import Hardware
from rooflens.core.model import ModelSpec
from rooflens.core.op import DType
from rooflens.core.profile import Profile
from rooflens.core.scenario import Conventions
from rooflens.count import forward
from rooflens.errors import HardwareError, InputError
from rooflens.findings import findings
from rooflens.precision import Dtypes, requested, settle
from rooflens.roofline import place_phase
from rooflens.sources.config import spec_from_config
from rooflens.sources.hardware import load_hardware, read_hardware
from rooflens.sources.models import load_model
from rooflens.sources.values import config_values
from rooflens.workload import check_experts, check_images, checked_conventions, scenario

if TYPE_CHECKING:
    from rooflens.activity import ActivityReading
    from rooflens.core.profile import Finding
    from rooflens.core.reading import Reading
    from rooflens.session import Session


def predict(
    model: str | Path | ModelSpec,
    gpu: str | Path | Hardware,
    *,
    batch: Any = 1,
    prompt: Any = 512,
    output: Any = 128,
    context: Any = None,
    image_tokens: Any = 0,
    precision: str | Dtypes | None = None,
    conventions: Conventions | None = None,
    trace: bool = False,
) -> Profile:
    """Predict prefill and one decode step of `model` on `gpu`: every kernel under its roof.

    model: a config.json, a folder with one, a bundled name, or a ModelSpec. gpu: a name, a TOML file, or Hardware.
    batch, prompt, output, context: whole numbers (sequences, tokens), or arrays of one shape; every figure of
    the result then has that shape. context is what is cached before the decode step, prompt + output // 2
    unless given. image_tokens: of each sequence, for models with a vision encoder or cross-attention layers.
    precision: a preset such as "fp8", or the dtypes one by one. Times are seconds at the ideal roofline, a lower
    bound; a model that does not fit is a finding, not an error. trace: take the kernels from a run
    of the reference framework's own model on the meta device (extra `torch`), which need not be known here.

    Raises:
        InputError: a size that is not a positive whole number, a preset that is not known, or what cannot be traced.
        MissingExtraError: `trace` without torch or transformers.
        UnknownNameError: a model, part or architecture that is not known.
        UnknownPeakError: a dtype that was asked for and that the part has no peak for.

    Source: Williams, Waterman, Patterson, CACM 52(4), 2009, for the roofline; each count names its own.
    """
    hardware = gpu if isinstance(gpu, Hardware) else load_hardware(gpu)
    dtypes = requested(precision)
    if trace:
        sizes = {"batch": batch, "prompt": prompt, "output": output, "context": context}
        return _predict_traced(model, hardware, sizes, dtypes, checked_conventions(conventions))
    spec = model if isinstance(model, ModelSpec) else load_model(model)
    settled, notes = settle(spec, hardware, dtypes)
    counted = checked_conventions(conventions)
    sizes = {"batch": batch, "prompt": prompt, "output": output, "context": context, "image_tokens": image_tokens}
    work = scenario(**sizes, precision=settled, conventions=counted)
    check_images(spec, work)
    check_experts(spec, counted.distinct_experts, work.batch)
    phases = tuple(
        place_phase(phase, forward(spec, phase, settled, counted), hardware, settled.compute) for phase in work.phases
    )
    profile = Profile(spec, hardware, work, phases)
    return replace(profile, findings=notes + findings(profile))


def _predict_traced(
    model: str | Path | ModelSpec, hardware: Hardware, sizes: Mapping[str, Any], dtypes: Dtypes, asked: Conventions
) -> Profile:
    """The same from a trace: the framework's conventions, and its ops in place of counted kernels."""
    from rooflens import traced

    if isinstance(model, ModelSpec):
        raise InputError("a trace builds the model from its config; pass a path or a name in place of a ModelSpec")
    name, values = config_values(model)
    spec = traced.traced_spec(name, values, traced.longest(sizes))
    settled, notes = settle(spec, hardware, dtypes)
    counted = traced.trace_conventions(asked, values, name)
    work = scenario(**sizes, precision=settled, conventions=counted)
    traces = traced.trace_phases(name, values, work)
    phases = tuple(place_phase(phase, trace.ops, hardware, settled.compute) for phase, trace in traces)
    profile = Profile(spec, hardware, work, phases)
    return replace(profile, findings=(*notes, *traced.trace_findings(traces), *findings(profile)))


def audit(model: str | Path | Mapping[str, Any]) -> AuditReport:
    """Hold what is counted of `model` against the reference framework's own model, built from its config alone.

    model: a config.json, a folder with one, a bundled name, or the fields of a config. Parameters, growth of the KV
    cache (bytes) and FLOP of a prefill of 512 tokens and of the decode step after it stand side by side.

    Raises:
        MissingExtraError: torch or transformers is not installed.
        UnknownNameError: a model that is not known, or an architecture that the framework has no class for.
        InputError: a config that either side refuses.
    """
    from rooflens.audit.audit import audit as audit_config

    name, values = ("config", model) if isinstance(model, Mapping) else config_values(model)
    return audit_config(name, values, claims(spec_from_config(values, name=name, origin=name)))


def profile(model: str | Path, *, batch: int = 1, prompt: int = 512, **options: Any) -> Profile:
    """Run `model` on this machine: prefill and decode measured, beside what is predicted of them.

    model: a folder with config.json and safetensors, a GGUF file, or with `random_weights` any config or bundled name.
    batch, prompt: sequences, and prompt tokens of each. options: the others of `profile_sweep`.

    Phase times are the median of repeats with nothing recorded; the breakdown is of a second run under PyTorch's
    profiler, scaled to the first. FLOP and bytes of what ran come from its shapes; ceilings are this machine's own.

    Raises:
        InputError: what cannot be run: no weights, no room in memory, a device that is not there.
        MissingExtraError: torch or transformers is not installed. RooflensError: whatever reading the model refuses.
    """
    return next(iter(profile_sweep(model, batch=(batch,), prompt=(prompt,), **options)))


def profile_sweep(
    model: str | Path,
    *,
    batch: Sequence[int] = (1,),
    prompt: Sequence[int] = (512,),
    output: int = 64,
    device: str | None = None,
    dtype: str | DType | None = None,
    attention: str = "auto",
    layers: int | None = None,
    compiled: bool = False,
    random_weights: bool = False,
    hardware: str | Path | Hardware | None = None,
    warmup: int = 1,
    repeat: int = 5,
    conventions: Conventions | None = None,
    keep: str | Path | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Iterator[Profile]:
    """Run `model` with every batch and prompt, loaded once: one Profile for each, as each is done.

    output: tokens of each sequence; the first comes out of prefill. device: torch's name, the first GPU or else the
    CPU unless given. dtype: the one that the machine multiplies fastest in unless given. attention: in transformers'
    words. layers: run the first ones of a large model and scale. compiled: through torch.compile. hardware: a part,
    name or TOML file in place of this machine's measured ceilings. warmup, repeat: runs before the timing and in it.
    keep: a folder for the traces. progress: told each step and the share in 0..1 that is done.

    Raises:
        As `profile` does.
    """
    from rooflens.asked import Asked
    from rooflens.measuring import Ceilings, Sizes, as_path, several, sweep

    asked = Asked(device, dtype, attention, layers, compiled, random_weights)
    given = hardware if hardware is None or isinstance(hardware, Hardware) else load_hardware(hardware)
    roofs = Ceilings(given, lambda name: ceilings(name, progress=progress))
    sizes = Sizes(several("batch", batch), several("prompt", prompt), output, warmup, repeat)
    folder = None if keep is None else as_path("keep", keep)
    return sweep(model, asked, sizes, roofs, conventions=conventions, keep=folder, progress=progress)


@contextmanager
def profiling(
    model: Any = None,
    *,
    device: str | None = None,
    hardware: str | Path | Hardware | None = None,
    conventions: Conventions | None = None,
) -> Iterator[Session]:
    """Measure prefill and decode of a loop of one's own, or of a Hugging Face `generate`, which runs inside.

    model: the torch module that is called; its phases are then found without a word, and with a config that is known
    they are predicted too. Without it, name them: `with run.phase("prefill"): ...`. Everything is traced and timed at
    once, unless the loop stands in `for _ in run.passes():`, whose first passes run without the instrument and give
    the times. device, hardware, conventions: as in `profile_sweep`.

    After the block `run.profile` is the Profile, and `print(run)` its verdicts.

    Raises:
        InputError: a device that is not there, or a phase that is neither prefill nor decode.
        MissingExtraError: torch or transformers is not installed.
    """
    from rooflens.live.device import device_of
    from rooflens.session import session

    given = hardware if hardware is None or isinstance(hardware, Hardware) else load_hardware(hardware)
    part = ceilings(device_of(device).name) if given is None else given
    with session(model, part, device=device, conventions=conventions) as run:
        yield run


def profile_llamacpp(
    path: str | Path,
    *,
    prompt: int = 512,
    output: int = 64,
    hardware: str | Path | Hardware | None = None,
    warmup: int = 1,
    repeat: int = 5,
    progress: Callable[[str, float], None] | None = None,
) -> Profile:
    """Run the GGUF file at `path` in llama.cpp on this CPU, one sequence, and place its own counters' times.

    hardware: a part, name or TOML file in place of this machine's measured ceilings. The rest as in `profile_sweep`.

    Raises:
        InputError: no GGUF file, no room in memory, or a run that fails. MissingExtraError: no llama-cpp-python.
    """
    from rooflens.llama_profile import profile_llama

    given = hardware if hardware is None or isinstance(hardware, Hardware) else load_hardware(hardware)
    part = ceilings("cpu", progress=progress) if given is None else given
    sizes = {"prompt": prompt, "output": output, "warmup": warmup, "repeat": repeat}
    return profile_llama(Path(path), part, **sizes, progress=progress)


def load(
    files: Sequence[str | Path],
    *,
    model: str | Path | ModelSpec | None = None,
    gpu: str | Path | Hardware | None = None,
    tp: int = 1,
    max_bytes: int | None = None,
) -> list[Profile]:
    """Read traces of other profilers: a Profile for each file, its phases under the roofs of the part that it ran on.

    A trace of a graph's capture beside those of its replays gives them shapes and has no Profile of its own.

    files: traces of PyTorch's profiler (vLLM, SGLang), exports of Nsight Systems, rocprof's kernel traces; what each is
    is found by its content. model: what ran; kernels without shapes are then matched with those that its pass must
    run, and each phase stands beside its prediction. gpu: the part, where the file does not say it or another is meant.
    tp: ranks of tensor parallelism, each of which runs its part of the model on a device of its own, with collectives.
    max_bytes: how large a file may be, unpacked; 4 GiB unless given.

    Raises:
        InputError: a file that is damaged or of no format that is known, or a model that `tp` does not divide.
        UnknownHardwareError: a file that does not say what it ran on, and no `gpu`.
        UnknownNameError: a model or part that is not known.
    """
    from rooflens.capturing import merged
    from rooflens.importing import Ran, import_recording, part_of, read_recording
    from rooflens.sources.packed import LONGEST

    given = gpu if gpu is None or isinstance(gpu, Hardware) else load_hardware(gpu)
    spec = model if model is None or isinstance(model, ModelSpec) else load_model(model)
    ran = Ran.of(spec, tp)
    limit = LONGEST if max_bytes is None else max_bytes
    recordings = merged([read_recording(Path(file), limit) for file in files])
    return [import_recording(recording, part_of(recording, given), ran) for recording in recordings]


def watch(
    url: str,
    model: str | Path | ModelSpec,
    gpu: str | Path | Hardware,
    *,
    tp: int = 1,
    prompt: int | None = None,
    context: int | None = None,
    precision: str | Dtypes | None = None,
    **options: Any,
) -> Iterator[Reading | Finding]:
    """Poll the /metrics of a server at `url`: a Reading for each interval, a Finding where there is none.

    model, gpu, precision: as in `predict`. tp: GPUs of each replica. prompt, context: tokens, where the server does not
    tell them. options: `dcgm` (address of a dcgm-exporter), `dcgmi` (run it here), `interval` and `timeout` in seconds,
    `count` of readings and `failures` in a row until it ends. Only these addresses are read.

    Raises:
        InputError: an address that cannot be read, answers that fail in a row, no metrics of vLLM or SGLang.
        MissingExtraError: prometheus-client is not installed (extra `watch`). Others as `predict`.
    """
    from rooflens.polling import Polling, poll
    from rooflens.watching import Watched

    names = {"interval": "interval_s", "timeout": "timeout_s"}
    polling = Polling(url, **{names.get(name, name): value for name, value in options.items()})
    hardware = gpu if isinstance(gpu, Hardware) else load_hardware(gpu)
    spec = model if isinstance(model, ModelSpec) else load_model(model)
    settled, notes = settle(spec, hardware, requested(precision))
    watched = Watched(spec, hardware, settled, tp=tp, prompt=prompt, context=context)
    yield from notes
    yield from poll(polling, watched)


def activity_of(
    path: str | Path, gpu: str | Path | Hardware | None = None, *, interval: float | None = None
) -> ActivityReading:
    """Tell prefill from decode in the `dcgmi dmon` log at `path`: the share of each in every sample.

    gpu: the part it was taken on, for byte/s. interval: seconds between two samples, which the log does not hold.

    Raises:
        InputError: no such log, one without samples, or an interval that is not positive. Others as `load_hardware`.
    """
    from rooflens.activity import read_activity
    from rooflens.sources.dcgmi import dcgmi_log

    hardware = gpu if gpu is None or isinstance(gpu, Hardware) else load_hardware(gpu)
    log = dcgmi_log(path, interval_s=interval)
    return read_activity(log.samples, hardware, notes=log.notes)


def ceilings(
    device: str = "cpu",
    *,
    fresh: bool = False,
    dtypes: Sequence[DType | str] | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Hardware:
    """What this machine reaches: peaks by dtype (FLOP/s), every level of memory and kernels of decode (byte/s).

    Measured once for each machine and kept in the user's cache folder (`ceilings_file` says where); `fresh` measures
    again. dtypes: those that are needed, all that torch runs unless given. progress: told each step and the share
    in 0..1 that is done. A kept file that cannot be read, and a folder that cannot be written, are notes.

    Raises:
        InputError: no such device, a dtype that cannot be measured, or memory that ran out.
        MissingExtraError: torch is not installed.
    """
    from rooflens.live.cache import store
    from rooflens.live.ceilings import measurable, measure
    from rooflens.live.vitals import vitals
    from rooflens.render.hardware_toml import hardware_toml

    wanted = None if dtypes is None else measurable([DType.parse(str(dtype)) for dtype in dtypes])
    whole, path = ceilings_file(device), ceilings_file(device, dtypes=wanted)
    notes = []
    for kept in () if fresh else dict.fromkeys((whole, path)):
        found, problem = _kept(kept)
        if found is not None and (kept == path or set(wanted or ()) <= set(found.matrix)):
            return found
        notes += problem
    measured = measure(device, dtypes=wanted, conditions=vitals(device), progress=progress)
    notes += filter(None, [store(path, hardware_toml(measured))])
    return replace(measured, notes=(*measured.notes, *notes))


def ceilings_file(device: str = "cpu", *, dtypes: Sequence[DType | str] | None = None) -> Path:
    """Where the ceilings of this machine are kept, of every dtype or of `dtypes` alone; it may not exist yet.

    Raises:
        InputError: there is no such device. MissingExtraError: torch is not installed.
    """
    from rooflens.live import cache
    from rooflens.live.machine import machine_key

    return cache.ceilings_file(machine_key(device), [DType.parse(str(dtype)) for dtype in dtypes or ()])


def kept_in(measured: Hardware, device: str = "cpu", dtypes: Sequence[DType | str] | None = None) -> Path | None:
    """The file in which `ceilings` found or kept `measured`, or None where it could not be kept.

    Raises:
        InputError: there is no such device. MissingExtraError: torch is not installed.
    """
    for path in (ceilings_file(device), ceilings_file(device, dtypes=dtypes)):
        found, _ = _kept(path)
        if found is not None and replace(found, notes=measured.notes) == measured:
            return path
    return None


def _kept(path: Path) -> tuple[Hardware | None, list[str]]:
    """The ceilings in `path`, or None and why there are none, unless it does not exist."""
    if not os.path.exists(path):
        return None, []
    try:
        return read_hardware(path), []
    except HardwareError as problem:
        return None, [f"measured again, since the kept ceilings cannot be used: {problem}"]
