"""Passes of a real model: prefill of a prompt, then decode steps, each a call of the framework's own forward."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from rooflens.core.timed import MODULE_RANGE
from rooflens.live.device import Device

State = tuple[Any, Any, Any]
"""The next token of each sequence [batch, 1], the cache, and the output: a loop that keeps it frees it a pass later."""


@dataclass(frozen=True, slots=True)
class Runner:
    """A model with the tokens that it is run on.

    batch, prompt: sequences, tokens of each. last: compute the logits of the last token alone, where the model can.
    """

    model: Any
    device: Device
    batch: int
    prompt: int
    last: bool = True
    _parameters: frozenset[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_parameters", frozenset(inspect.signature(self.model.forward).parameters))

    def tokens(self) -> Any:
        """Random token numbers [batch, prompt], the same each time: times do not depend on them, experts' loads may."""
        import torch

        generator = torch.Generator().manual_seed(0)
        vocab = self.model.config.get_text_config().vocab_size
        return torch.randint(0, vocab, (self.batch, self.prompt), generator=generator).to(self.device.name)

    def prefill(self, tokens: Any) -> State:
        """One pass over `tokens`."""
        output = self.model(input_ids=tokens, use_cache=True, **self._options)
        return _next(output), _cache(output), output

    def step(self, token: Any, cache: Any, _before: Any = None) -> State:
        """One decode step of every sequence, after what a pass returned."""
        output = self.model(input_ids=token, use_cache=True, **{self._cache_name: cache})
        return _next(output), _cache(output) or cache, output

    @property
    def takes_last(self) -> bool:
        """Whether the model can compute the logits of the last token alone."""
        return "logits_to_keep" in self._parameters

    @property
    def _options(self) -> dict[str, int]:
        return {"logits_to_keep": 1} if self.last and self.takes_last else {}

    @property
    def _cache_name(self) -> str:
        return next(
            (n for n in ("cache", "past_key_values", "cache_params") if n in self._parameters), "past_key_values"
        )


def _next(output: Any) -> Any:
    return output.logits[:, -1:].argmax(-1)


def _cache(output: Any) -> Any:
    for name in ("past_key_values", "cache", "cache_params", "state"):
        found = getattr(output, name, None)
        if found is not None:
            return found
    return None


@contextmanager
def inference() -> Iterator[None]:
    """Without gradients."""
    import torch

    with torch.inference_mode():
        yield


def timed(device: Device, function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that `function` takes until the device is done, and what it returns."""
    device.synchronize()
    start = perf_counter()
    result = function()
    device.synchronize()
    return perf_counter() - start, result


@contextmanager
def module_ranges(model: Any) -> Iterator[None]:
    """Open a range for every module of `model` while it runs; it slows the run, and is for names alone."""
    import torch
    from torch.nn.modules import module as hooks

    names = {id(part): _short(name) for name, part in model.named_modules() if name}
    opened: list[Any] = []

    def enter(part: Any, _inputs: Any) -> None:
        range_ = torch.profiler.record_function(f"{MODULE_RANGE}{names.get(id(part), '')}")
        range_.__enter__()
        opened.append(range_)

    def leave(_part: Any, _inputs: Any, _outputs: Any) -> None:
        opened.pop().__exit__(None, None, None)

    handles = (
        hooks.register_module_forward_pre_hook(enter),
        hooks.register_module_forward_hook(leave, always_call=True),
    )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _short(name: str) -> str:
    """A module's path without what all share, layer numbers as `*`: "layers.*.mlp.down_proj"."""
    words = ["*" if word.isdigit() else word for word in name.split(".")]
    return ".".join(
        words[1:] if words[0] in ("model", "transformer", "backbone", "gpt_neox") and len(words) > 1 else words
    )
