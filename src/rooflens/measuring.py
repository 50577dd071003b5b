"""One loaded model, run with every batch and prompt that is asked for, each under the ceilings that held meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from rooflens.asked import Asked, loading_of, read_subject
from rooflens.core.hardware import Hardware
from rooflens.core.model import ModelSpec
from rooflens.core.op import DType
from rooflens.core.profile import Finding, Profile
from rooflens.core.scenario import Conventions, Fusion
from rooflens.errors import InputError
from rooflens.live.device import device_of
from rooflens.live.memory import is_out_of_memory
from rooflens.live.probe import Probe, agreed, probe
from rooflens.live.run import Progress
from rooflens.profiler import Work, load_subject, make_folder, profile_subject
from rooflens.workload import LARGEST, checked_conventions


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is run: every batch with every prompt, `output` tokens of each sequence, and how often."""

    batch: tuple[int, ...] = (1,)
    prompt: tuple[int, ...] = (512,)
    output: int = 64
    warmup: int = 1
    repeat: int = 5

    def check(self) -> None:
        """Raises InputError for a size that is no whole number in its range, or for none at all."""
        figures: tuple[tuple[str, Sequence[int], int], ...] = (
            ("batch", self.batch, 1),
            ("prompt", self.prompt, 1),
            ("output", (self.output,), 1),
            ("warmup", (self.warmup,), 0),
            ("repeat", (self.repeat,), 1),
        )
        for name, values, least in figures:
            wrong = [v for v in values if not isinstance(v, int) or isinstance(v, bool) or not least <= v <= LARGEST]
            if wrong or not values:
                shown = repr(wrong[0]) if wrong else "empty"
                raise InputError(f"{name} is {shown}; expected whole numbers from {least} to {LARGEST:,}")


def several(name: str, values: object) -> tuple[Any, ...]:
    """The sizes that a sweep goes through. Raises InputError for what is no sequence of them."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InputError(f"{name} is {str(values)[:40]!r}; expected a sequence of whole numbers, such as (1, 4)")
    return tuple(values)


def as_path(name: str, value: object) -> Path:
    """`value` as a path. Raises InputError for what is none."""
    if not isinstance(value, (str, Path)):
        raise InputError(f"{name} is {str(value)[:40]!r}; expected a path")
    return Path(value)


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Where the roofs come from: `given` by the user, else `measured` of a device (torch's name of it)."""

    given: Hardware | None
    measured: Callable[[str], Hardware]

    def of(self, device: str) -> Hardware:
        """The part that kernels are placed on."""
        return self.measured(device) if self.given is None else self.given

    def settle(self, part: Hardware, dtype: DType) -> Callable[[list[Any]], tuple[Hardware, tuple[Finding, ...]]]:
        """What a run's probes make of `part`: theirs count where they miss a ceiling."""

        def settled(probes: list[Probe]) -> tuple[Hardware, tuple[Finding, ...]]:
            return agreed(part, probes, dtype)

        return settled if self.given is None else lambda _probes: (part, ())


def sweep(
    model: str | Path,
    asked: Asked,
    sizes: Sizes,
    ceilings: Ceilings,
    *,
    conventions: Conventions | None = None,
    keep: Path | None = None,
    progress: Progress | None = None,
) -> Iterator[Profile]:
    """Run `model` with every batch and prompt of `sizes`; a Profile for each as it is done.

    Raises:
        InputError: sizes out of range, no weights, no room in memory, a device that is not there, or a failed run.
        MissingExtraError: torch or transformers is not installed.
    """
    sizes.check()
    counted = Conventions(fusion=Fusion.FRAMEWORK) if conventions is None else checked_conventions(conventions)
    spec, source = read_subject(model, asked)
    longest = max(sizes.prompt) + sizes.output
    _check_positions(spec, longest - 1)
    if keep is not None:
        make_folder(keep)
    device = device_of(asked.device)
    part = ceilings.of(device.name)
    loading = loading_of(asked, part)
    _tell(progress, f"loading {spec.name}", 0.0)
    subject = load_subject(spec, source, loading, longest=longest, batch=max(sizes.batch))
    between = None if ceilings.given is not None else lambda: _probed(device.name, loading.dtype)
    several = len(sizes.batch) * len(sizes.prompt) > 1
    for batch, prompt in product(sizes.batch, sizes.prompt):
        work = Work(
            batch=batch,
            prompt=prompt,
            output=sizes.output,
            warmup=max(sizes.warmup, 2 if loading.compiled else 0),
            repeat=sizes.repeat,
            conventions=counted,
            keep=keep / f"batch-{batch}-prompt-{prompt}" if keep is not None and several else keep,
            progress=progress,
            probe=between,
        )
        yield profile_subject(subject, work, ceilings.settle(part, loading.dtype))


def _check_positions(spec: ModelSpec, tokens: int) -> None:
    """Raises InputError for a sequence of `tokens` that a learned table of positions has no rows for."""
    most = min(spec.positions, spec.max_context or spec.positions)
    if 0 < most < tokens:
        raise InputError(
            f"{spec.name} has a learned table of {most:,} positions, and prompt and output take {tokens:,}; "
            "pass a shorter --prompt or --output"
        )


def _probed(device: str, dtype: DType) -> Probe | None:
    """A probe, or None where the model leaves no memory for one."""
    try:
        return probe(device, dtype)
    except (RuntimeError, MemoryError) as cause:
        if is_out_of_memory(cause):
            return None
        raise


def _tell(progress: Progress | None, what: str, done: float) -> None:
    if progress is not None:
        progress(what, done)
