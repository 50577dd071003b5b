"""Reading small text files safely: regular files alone, of a bounded size, with errors in words."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from rooflens.errors import InputError


def read_bounded(path: Path, limit: int, error: type[InputError], what: str) -> bytes:
    """Return the bytes of `path`, a regular file of at most `limit` bytes.

    Raises:
        error: the path does not exist, is no regular file, is too large or cannot be read.
    """
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise error(f"{path} is not a regular file; expected {what}")
        if status.st_size > limit:
            raise error(f"{path} has {status.st_size:,} bytes; expected {what} of at most {limit:,} bytes")
        with open(path, "rb") as file:
            return file.read(limit + 1)
    except (OSError, ValueError) as cause:
        reason = getattr(cause, "strerror", None) or str(cause)
        raise error(f"{path} could not be read ({reason}); expected {what}") from cause


def parse_json_object(data: bytes, origin: str, error: type[InputError]) -> dict[str, Any]:
    """Return the JSON object in `data`, read from `origin`.

    Raises:
        error: not UTF-8, not JSON (cut short, say), nested too deeply, or JSON that is not an object.
    """
    try:
        value = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as cause:
        raise error(f"{origin} is not UTF-8 text (byte {cause.start}); expected a JSON object") from cause
    except json.JSONDecodeError as cause:
        where = f"line {cause.lineno}, column {cause.colno}"
        raise error(f"{origin} is not complete JSON ({cause.msg} at {where}); expected a JSON object") from cause
    except (RecursionError, ValueError) as cause:
        raise error(
            f"{origin} holds JSON that cannot be read ({type(cause).__name__}); expected a JSON object"
        ) from cause
    if not isinstance(value, dict):
        raise error(f"{origin} holds a JSON {type(value).__name__}; expected an object with the fields of a model")
    return value
