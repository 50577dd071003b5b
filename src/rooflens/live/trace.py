"""One profiler session: a run under Kineto, written as a trace that sources.kineto reads like any file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rooflens.errors import InputError
from rooflens.frameworks import quiet_stderr
from rooflens.live.device import Device


@contextmanager
def traced(device: Device, path: Path, *, shapes: bool = True) -> Iterator[Any]:
    """Record everything that runs inside, with `shapes` or without, and write it to `path` as Kineto's Chrome trace.

    The profiler is started once before, for a moment, since its first start takes a while and would count as the run's.
    What was given to the device before has ended when the recording begins.

    Raises:
        InputError: the profiler records something else.
    """
    from torch.profiler import profile

    check_free()
    with quiet_stderr():
        with profile(activities=device.activities()):
            pass
        device.synchronize()
        session = profile(activities=device.activities(), record_shapes=shapes)
        session.__enter__()
    try:
        yield session
        device.synchronize()
    finally:
        with quiet_stderr():
            session.__exit__(None, None, None)
    with quiet_stderr():
        session.export_chrome_trace(str(path))


def check_free() -> None:
    """Raises InputError where PyTorch's profiler records already: a second recording ends the process."""
    import torch

    if torch.autograd._profiler_enabled():
        raise InputError("PyTorch's profiler is on already, and records one thing at a time; end its block first")


def phase_range(name: str) -> Any:
    """A range of the trace that is named after a phase."""
    from torch.profiler import record_function

    return record_function(name)
