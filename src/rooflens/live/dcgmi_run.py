"""A running `dcgmi dmon`, whose lines are taken as they come."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator

from rooflens.errors import InputError
from rooflens.live.dcgmi_command import dcgmi_command

_MOST = 1 << 20


class DcgmiRun:
    """Lines of a `dcgmi dmon` that runs until it is stopped."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self._process, self._out, self._rest = process, process.stdout, b""
        os.set_blocking(self._out.fileno(), False)

    def lines(self) -> list[str]:
        """The lines since the last call; none where nothing came."""
        data = self._rest
        while len(data) < _MOST and (piece := self._out.read(65536)):
            data += piece
        whole, _, self._rest = data.rpartition(b"\n")
        return whole.decode("utf-8", errors="replace").split("\n") if whole else []

    @property
    def ended(self) -> int | None:
        """Its exit status once it ended; None while it runs."""
        return self._process.poll()

    def stop(self) -> None:
        """End it, and wait for its end."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._out.close()


@contextlib.contextmanager
def dcgmi_run(interval_ms: int = 100) -> Iterator[DcgmiRun]:
    """A `dcgmi dmon` for as long as the block lasts.

    Raises:
        InputError: dcgmi is not installed, or cannot be started.
    """
    command = dcgmi_command(interval_ms)
    found = shutil.which(command[0])
    if found is None:
        raise InputError(
            "dcgmi is not on this machine; install NVIDIA DCGM (datacenter-gpu-manager), or leave --dcgmi out"
        )
    try:
        process = subprocess.Popen(
            [found, *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
    except OSError as cause:
        raise InputError(f"{found} could not be started ({cause.strerror}); leave --dcgmi out") from cause
    run = DcgmiRun(process)
    try:
        yield run
    finally:
        run.stop()
