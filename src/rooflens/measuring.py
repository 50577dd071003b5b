"""One loaded model, run with every batch and prompt that is asked for, each under the ceilings that held meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from rooflens.asked import Asked, loading_of, read_subject
from rooflens.core.hardware import Hardware
from rooflens.core.op import DType
from rooflens.core.profile import Finding, Profile
from rooflens.core.scenario import Conventions, Fusion
from rooflens.errors import InputError
from rooflens.live.device import device_of
from rooflens.live.memory import is_out_of_memory
from rooflens.live.probe import Probe, agreed, probe
from rooflens.live.run import Progress
from rooflens.profiler import Work, load_subject, profile_subject
from rooflens.workload import LARGEST


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
    spec, source = read_subject(model, asked)
    device = device_of(asked.device)
    part = ceilings.of(device.name)
    loading = loading_of(asked, part)
    _tell(progress, f"loading {spec.name}", 0.0)
    longest = max(sizes.prompt) + sizes.output
    subject = load_subject(spec, source, loading, longest=longest, batch=max(sizes.batch))
    between = None if ceilings.given is not None else lambda: _probed(device.name, loading.dtype)
    for batch, prompt in product(sizes.batch, sizes.prompt):
        work = Work(
            batch=batch,
            prompt=prompt,
            output=sizes.output,
            warmup=max(sizes.warmup, 2 if loading.compiled else 0),
            repeat=sizes.repeat,
            conventions=conventions or Conventions(fusion=Fusion.FRAMEWORK),
            keep=keep,
            progress=progress,
            probe=between,
        )
        yield profile_subject(subject, work, ceilings.settle(part, loading.dtype))


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
