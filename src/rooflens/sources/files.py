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


class _TwiceError(Exception):
    """A field that an object names twice."""


_JSON_NAMES: dict[type, str] = {list: "a list", str: "a string", bool: "true or false", type(None): "null"}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of `pairs`, refused where a field is named twice: which of the two would hold is anybody's guess."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        raise _TwiceError(next(name for name in names if names.count(name) > 1))
    return fields


def parse_json_object(data: bytes, origin: str, error: type[InputError]) -> dict[str, Any]:
    """Return the JSON object in `data`, read from `origin`.

    Raises:
        error: not UTF-8, not JSON (cut short, say), nested too deeply, or JSON that is not an object.
    """
    try:
        value = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_once)
    except UnicodeDecodeError as cause:
        raise error(f"{origin} is not UTF-8 text (byte {cause.start}); expected a JSON object") from cause
    except _TwiceError as cause:
        raise error(f"{origin} names the field {str(cause)[:60]!r} twice; expected each field once") from cause
    except json.JSONDecodeError as cause:
        where = f"line {cause.lineno}, column {cause.colno}"
        raise error(f"{origin} is not complete JSON ({cause.msg} at {where}); expected a JSON object") from cause
    except RecursionError as cause:
        raise error(f"{origin} is nested too deeply to be read; expected the fields of a model") from cause
    except ValueError as cause:
        raise error(f"{origin} holds a number of thousands of digits; expected the fields of a model") from cause
    if not isinstance(value, dict):
        held = _JSON_NAMES.get(type(value), "a number")
        raise error(f"{origin} holds {held} and no object; expected one with the fields of a model")
    return value
