"""torch and transformers, imported so that they download nothing, run no code of others and keep quiet."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rooflens.errors import InputError, MissingExtraError


def frameworks(purpose: str = "counts of the reference framework", extra: str = "torch") -> tuple[Any, Any]:
    """The modules torch and transformers; neither downloads anything from here on.

    purpose, extra: what needs them, and the extra of rooflens that brings what else that needs.

    Raises:
        MissingExtraError: one of them is not installed.
    """
    offline = {"HF_HUB_OFFLINE": "1", "USE_HUB_KERNELS": "NO", "TRANSFORMERS_VERBOSITY": "error"}
    before = {name: os.environ.get(name) for name in offline}
    os.environ.update(offline)
    try:
        import torch
        import transformers
        import transformers.integrations.hub_kernels
        import transformers.models.auto.modeling_auto
    except ImportError as cause:
        raise MissingExtraError(
            f"{purpose} need the extra {extra!r} (pip install 'rooflens[{extra}]'; {cause})"
        ) from cause
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    kernels = sys.modules["transformers.integrations.hub_kernels"]
    if getattr(kernels, "_kernels_enabled", False):
        raise InputError("transformers was imported with kernels of the Hub enabled; set USE_HUB_KERNELS=NO first")
    return torch, transformers


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the framework's warnings off the terminal."""
    logger = logging.getLogger("transformers")
    level = logger.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            logger.setLevel(level)


def first_line(cause: BaseException) -> str:
    """The kind of an error of the framework, and how what it says begins."""
    lines = str(cause).strip().splitlines()
    text = lines[0] if lines else "no reason given"
    return f"{type(cause).__name__}: {text[:120]}{'...' if len(text) > 120 else ''}"


@contextmanager
def quiet_stderr() -> Iterator[None]:
    """Keep off the terminal what a framework writes to standard error past Python, and its own bars."""
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
