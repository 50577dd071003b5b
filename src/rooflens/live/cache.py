"""Where ceilings of a machine are kept: one file for each machine in the user's cache folder, written whole or not."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rooflens.core.op import DType


def cache_folder() -> Path:
    """The folder for caches: ROOFLENS_CACHE, else the system's own for this user, with `rooflens` in it."""
    stated = os.environ.get("ROOFLENS_CACHE")
    return Path(stated) if stated else _users() / "rooflens"


def _users() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    stated = os.environ.get("XDG_CACHE_HOME", "")
    return Path(stated) if os.path.isabs(stated) else Path.home() / ".cache"


def ceilings_file(key: str, dtypes: Sequence[DType] | None = None) -> Path:
    """The file for the ceilings of the machine `key`: of every dtype, or of `dtypes` alone."""
    alone = "".join(f"-{dtype}" for dtype in sorted(dtypes or (), key=str))
    return cache_folder() / "ceilings" / f"{key}{alone}.toml"


def store(path: Path, text: str) -> str:
    """Write `text` to `path`, whole or not at all; return "", or one sentence where it could not be written."""
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=".ceilings.", dir=path.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except (OSError, ValueError) as cause:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        reason = getattr(cause, "strerror", None) or str(cause)
        return f"the ceilings could not be kept in {path} ({reason}): they hold for this run alone"
    return ""
