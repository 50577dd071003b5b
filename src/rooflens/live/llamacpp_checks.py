"""What is looked at before llama.cpp loads a file: the package, the file and its parts, memory and cores."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rooflens.errors import ConfigError, InputError, MissingExtraError
from rooflens.units import binary

_NEEDED = ("llama_model_load_from_file", "llama_init_from_model", "llama_memory_clear", "llama_vocab_get_attr")
"""Functions that older versions of the package lack."""
_PART = re.compile(r"(.*)-\d{5}-of-(\d{5})\.gguf", re.DOTALL)
_MEMINFO, _CGROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup/memory.max")
_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
_CELLS = 256
"""llama.cpp rounds the length of its cache up to a multiple of this (llama_context, GGML_PAD)."""


def load_api() -> Any:
    """The module `llama_cpp`.

    Raises:
        MissingExtraError: it is not installed, cannot be loaded, or is too old.
    """
    try:
        import llama_cpp
    except (ImportError, OSError, RuntimeError) as cause:
        raise MissingExtraError(
            "a run through llama.cpp needs the extra 'llamacpp' "
            f"(pip install 'rooflens[llamacpp]'; {printable(str(cause))})"
        ) from cause
    lacking = [name for name in _NEEDED if not hasattr(llama_cpp, name)]
    if lacking:
        raise MissingExtraError(
            f"llama-cpp-python {getattr(llama_cpp, '__version__', '')} has no {lacking[0]}; "
            "expected the version of the extra 'llamacpp' (pip install --upgrade 'rooflens[llamacpp]')"
        )
    return llama_cpp


def stored_bytes(path: Path) -> int:
    """Bytes of the GGUF file at `path`, with those of the other files that it was split into.

    Raises:
        ConfigError: there is no such file, one of its parts is missing, or it does not start as a GGUF file does.
    """
    try:
        sizes = [part.stat().st_size for part in _parts(path) if _is_gguf(part)]
    except (OSError, ValueError) as cause:
        reason = getattr(cause, "strerror", None) or str(cause)
        raise ConfigError(f"{printable(str(path))} could not be read ({reason}); expected a GGUF file") from cause
    return sum(sizes)


def _parts(path: Path) -> list[Path]:
    match = _PART.fullmatch(path.name)
    if match is None:
        return [path]
    stem, count = match[1], int(match[2])
    return [path.with_name(f"{stem}-{number:05d}-of-{count:05d}.gguf") for number in range(1, count + 1)]


def _is_gguf(path: Path) -> bool:
    """Always true. Raises ConfigError for what is no regular file or starts otherwise."""
    if path.exists() and not path.is_file():
        raise ConfigError(f"{printable(str(path))} is not a regular file; expected a GGUF file")
    with open(path, "rb") as file:
        magic = file.read(4)
    if magic != b"GGUF":
        raise ConfigError(f"{printable(str(path))} starts with {magic!r}; expected a GGUF file")
    return True


def check_memory(path: Path, weights: int, cache: int, available: int | None) -> None:
    """Refuse a file whose weights and cache do not fit in `available` bytes; None is not known and fits.

    Raises:
        InputError: they do not fit.
    """
    if available is not None and weights + cache > available:
        raise InputError(
            f"{printable(str(path))} needs {binary(weights)} for its weights and {binary(cache)} for the cache; "
            f"{binary(available)} of memory are available, expected a smaller file or a shorter prompt"
        )


def cache_bytes(keys: Mapping[str, str], tokens: int) -> int:
    """Bytes of the keys and values of `tokens` tokens in 16 bit, an upper estimate: no window or latent makes it less.

    `keys` are those of the file as llama.cpp prints them, lists of one number per layer included.

    Derivation: 2 bytes x tokens, in whole blocks of 256, x key-value heads of all layers x (d_k + d_v).
    """
    name = keys.get("general.architecture", "")

    def numbers(key: str, default: int) -> list[int]:
        return [int(digits) for digits in re.findall(r"\d+", keys.get(f"{name}.{key}", ""))] or [default]

    layers = max(numbers("block_count", 0))
    heads = max(numbers("attention.head_count", 1))
    per_layer = numbers("attention.head_count_kv", heads)
    kv_heads = sum(per_layer) if len(per_layer) > 1 else layers * per_layer[0]
    width = max(numbers("embedding_length", 0)) // max(heads, 1)
    d_k, d_v = max(numbers("attention.key_length", width)), max(numbers("attention.value_length", width))
    return 2 * (-(-tokens // _CELLS) * _CELLS) * kv_heads * (d_k + d_v)


def available_bytes() -> int | None:
    """Bytes of memory that can be used without swapping; None where the system does not say.

    Source: MemAvailable in proc_meminfo(5); memory.max in the kernel's documentation of cgroup v2.
    """
    try:
        found = re.search(r"^MemAvailable:\s+(\d+) kB", _MEMINFO.read_text(), re.MULTILINE)
    except OSError:
        return None
    if found is None:
        return None
    free = 1024 * int(found[1])
    try:
        limit = _CGROUP.read_text().strip()
    except OSError:
        return free
    return min(free, int(limit)) if limit.isdigit() else free


def physical_cores() -> int:
    """Cores that this process may run on; threads of one core count once where the system names them.

    llama.cpp is usually fastest with one thread per core: its loops wait for the slowest thread.
    """
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    try:
        return len({Path(_SIBLINGS.format(cpu)).read_text() for cpu in usable})
    except OSError:
        return len(usable)


def printable(text: str) -> str:
    """`text` on one line of at most 300 characters; what a file names must not steer a terminal."""
    return "".join(mark if mark.isprintable() else " " for mark in text[:300]).strip()
