"""Writing files so that none is ever half-written, and printing to a terminal."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rooflens.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType


def show(renderable: RenderableType) -> None:
    """Print `renderable` as wide as the terminal, or 120 columns where there is none."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_columns(), no_color=True)
    console.print(renderable)


def narrow() -> bool:
    """Whether a table of eleven columns has no room."""
    from rich.console import Console

    console = Console()
    return (console.width if console.is_terminal else _columns()) < _ROOMY


_ROOMY = 110


def _columns() -> int:
    """COLUMNS where it is a sensible number, else 120."""
    stated = os.environ.get("COLUMNS", "")
    return int(stated) if stated.isdigit() and 20 <= int(stated) <= 10_000 else 120


def check_targets(targets: Mapping[str, Path], inputs: Mapping[str, str]) -> None:
    """Refuse two outputs to one file, and an output to a file that was read.

    Raises:
        InputError: names both.
    """
    seen = {name: _resolved(Path(text)) for name, text in inputs.items()}
    for name, path in targets.items():
        target = _resolved(path)
        other = next((known for known, taken in seen.items() if taken == target), None)
        if other is not None:
            raise InputError(f"--{name} and {other} name the same file {path}; give each its own")
        seen[f"--{name}"] = target


def write_all(files: Mapping[Path, bytes]) -> None:
    """Write every file of `files`, or none: all are complete beside their places before the first takes its own.

    Raises:
        InputError: a path that cannot be written.
    """
    with contextlib.ExitStack() as stack:
        ready = []
        for path, data in files.items():
            with _named(path):
                ready.append((path, stack.enter_context(_beside(path, data))))
        for path, temporary in ready:
            with _named(path):
                temporary.replace(_resolved(path))
            click.echo(f"wrote {path}", err=True)


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Turn what can go wrong with `path` into one sentence."""
    try:
        yield
    except (OSError, ValueError, RuntimeError) as cause:
        reason = getattr(cause, "strerror", None) or str(cause)
        raise InputError(f"{path} could not be written ({reason}); nothing of it was kept") from cause


@contextlib.contextmanager
def _beside(path: Path, data: bytes) -> Iterator[Path]:
    """A temporary file with `data` in the folder of `path` that is gone afterwards, whatever happens."""
    target = path.resolve() if path.is_symlink() else path
    if target.exists() and not target.is_file():
        raise ValueError("it is no regular file")
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
    descriptor, name = tempfile.mkstemp(prefix=".rooflens.", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.chmod(mode)
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _resolved(path: Path) -> Path:
    """Where `path` really lies; itself where that cannot be told (a loop of links)."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):
        return path


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[str, float], None]]:
    """A bar on standard error that follows the steps; nothing is shown where that is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("measuring", total=1.0)
        yield lambda step, done: bar.update(task, description=step, completed=done)
