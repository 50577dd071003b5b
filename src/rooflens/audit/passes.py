"""Passes of a framework's model: inputs, the cache that it returns, and what that cache holds."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from rooflens.audit.traffic import storage_of

_CACHE_FIELDS = ("cache", "past_key_values", "cache_params", "state")
_STATE_WORDS = ("conv", "recurrent", "ssm", "state", "linear_cache", "buffer", "overlap")
_BOOKKEEPING = ("cumulative", "position", "_sliding_window_tensor", "offset")


def run(model: Any, tokens: int, *, batch: int = 1, cache: Any = None, past: int = 0, last: bool = False) -> Any:
    """Run `tokens` new tokens of each of `batch` sequences after `past` cached ones; return what the model returns.

    Logits are computed for every token, or for the `last` alone where the model takes that choice.
    """
    import torch

    accepted = inspect.signature(model.forward).parameters
    ids = torch.zeros(batch, tokens, dtype=torch.long, device="meta")
    positions = torch.arange(past, past + tokens, device="meta").expand(batch, tokens)
    inputs: dict[str, Any] = {"input_ids": ids, "use_cache": True, "position_ids": positions}
    if last:
        inputs["logits_to_keep"] = 1
    if cache is not None:
        inputs[next(name for name in _CACHE_FIELDS if name in accepted)] = cache
    with torch.no_grad():
        return model(**{name: value for name, value in inputs.items() if name in accepted})


def prefill(model: Any, tokens: int, *, batch: int = 1) -> Any:
    """Run a prompt and return the cache."""
    return cache_of(run(model, tokens, batch=batch), model, tokens, batch=batch)


def cache_of(output: Any, model: Any, tokens: int, *, batch: int = 1) -> Any:
    """The cache in the output of a prompt; a model that returns none runs the prompt again with one handed in."""
    cache = returned_cache(output)
    if cache is None:
        from transformers import DynamicCache

        cache = DynamicCache(config=model.config)
        run(model, tokens, batch=batch, cache=cache)
    return cache


def returned_cache(output: Any) -> Any:
    """The cache in what a model returned, whatever it calls it, or None."""
    held = (getattr(output, name, None) for name in _CACHE_FIELDS)
    return next((value for value in held if value is not None), None)


def cache_bytes(cache: Any) -> tuple[int, int]:
    """Bytes that grow with the tokens (keys, values, latents), and bytes of states of fixed size."""
    sizes = {"kv": 0, "state": 0}
    for owner, tensor in _held(cache):
        sizes[owner] += int(tensor.numel() * tensor.element_size())
    return sizes["kv"], sizes["state"]


def cache_tensors(cache: Any) -> tuple[tuple[str, Any], ...]:
    """What a cache holds: (whose, tensor), "kv" for what grows with the tokens and "state" for the rest."""
    return () if cache is None else tuple(_held(cache))


def memory_of(held: tuple[tuple[str, Any], ...]) -> dict[int, str]:
    """Whose each piece of memory of `held` is; it stays so only while those tensors live."""
    return {storage_of(tensor): owner for owner, tensor in held}


def weight_memory(model: Any) -> dict[int, str]:
    """The memory of every parameter and buffer: "weights"."""
    return {storage_of(tensor): "weights" for tensor in (*model.parameters(), *model.buffers())}


def _held(cache: Any) -> Iterator[tuple[str, Any]]:
    """Every tensor of a cache once, with "kv" or "state" by the name that holds it."""
    seen: set[int] = set()
    for name, tensor in _reachable(cache, "state", seen):
        if not any(word in name for word in _BOOKKEEPING):
            yield "state" if any(word in name for word in _STATE_WORDS) else "kv", tensor


def _reachable(value: Any, name: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    if id(value) in seen:
        return
    if hasattr(value, "untyped_storage"):
        seen.add(id(value))
        yield name, value
    elif isinstance(value, dict):
        for key, entry in value.items():
            yield from _reachable(entry, f"{name}.{key}" if isinstance(key, str) else name, seen)
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from _reachable(entry, name, seen)
    elif hasattr(value, "__dict__"):
        seen.add(id(value))
        for key, entry in vars(value).items():
            if key != "config":
                yield from _reachable(entry, key, seen)
