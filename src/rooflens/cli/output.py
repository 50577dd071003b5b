"""Writing files so that none is ever half-written, and printing to a terminal."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
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


def _columns() -> int:
    """COLUMNS where it is a sensible number, else 120."""
    stated = os.environ.get("COLUMNS", "")
    return int(stated) if stated.isdigit() and 20 <= int(stated) <= 10_000 else 120


def write_all(files: Mapping[Path, bytes]) -> None:
    """Write every file of `files`, each complete or not at all, and name it on standard error.

    Raises:
        InputError: a path that cannot be written.
    """
    for path, data in files.items():
        _write(path, data)
        click.echo(f"wrote {path}", err=True)


def _write(path: Path, data: bytes) -> None:
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        with _beside(path) as temporary:
            temporary.write_bytes(data)
            temporary.replace(path.resolve() if path.is_symlink() else path)
    except (OSError, ValueError) as cause:
        reason = getattr(cause, "strerror", None) or str(cause)
        raise InputError(f"{path} could not be written ({reason}); nothing of it was kept") from cause


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A temporary file in the folder of `path` that is gone afterwards, whatever happens."""
    target = path.resolve() if path.is_symlink() else path
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=target.parent)
    os.close(descriptor)
    try:
        Path(name).chmod(mode)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
