"""One profiler session: a run under Kineto, written as a trace that sources.kineto reads like any file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rooflens.live.device import Device


@contextmanager
def traced(device: Device, path: Path) -> Iterator[Any]:
    """Record everything that runs inside, shapes included, and write it to `path` as Kineto's Chrome trace.

    The profiler is started once before, for a moment, since its first start takes a while and would count as the run's.
    """
    from torch.profiler import profile

    with _quiet_stderr():
        with profile(activities=device.activities()):
            pass
        session = profile(activities=device.activities(), record_shapes=True)
        session.__enter__()
    try:
        yield session
        device.synchronize()
    finally:
        with _quiet_stderr():
            session.__exit__(None, None, None)
    session.export_chrome_trace(str(path))


def phase_range(name: str) -> Any:
    """A range of the trace that is named after a phase."""
    from torch.profiler import record_function

    return record_function(name)


@contextmanager
def _quiet_stderr() -> Iterator[None]:
    """Keep the profiler's own notes, which it writes past Python, off the terminal."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.flush()
    try:
        kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    except OSError:
        yield
        return
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
