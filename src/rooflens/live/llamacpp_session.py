"""A model and a context in llama.cpp, on the CPU: passes, counters, and nothing left behind."""

from __future__ import annotations

import ctypes
import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rooflens.errors import ConfigError, InputError
from rooflens.live.llamacpp_callbacks import Log, Stop
from rooflens.live.llamacpp_checks import available_bytes, cache_bytes, check_memory, printable, stored_bytes

_F16 = 1
"""GGML_TYPE_F16: the type of keys and values that llama.cpp takes unless it is told otherwise."""
_NORMAL = 4
"""LLAMA_TOKEN_ATTR_NORMAL: neither a control token nor unused, unknown or a single byte."""
_NO_VOCABULARY = 0
"""LLAMA_VOCAB_TYPE_NONE."""
_UBATCH = 2048
"""Most tokens of one pass: llama.cpp's own default of the batch, and a bound on its buffers."""
_VALUE_BYTES = 4096
"""Most of a key's value that is read: lists of one number per layer fit."""
_ABORTED = 2
"""What llama_decode returns when its abort callback said so."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How a file is run: tokens of the prompt, tokens of the output, threads."""

    prompt: int
    output: int
    threads: int


@dataclass(frozen=True, slots=True)
class Session:
    """A model with an empty cache. `vocabulary` is its number of tokens, `size` the bytes of its files."""

    api: Any
    model: Any
    context: Any
    setting: Setting
    stop: Stop
    log: Log
    size: int
    vocabulary: int

    def prompt(self) -> list[int]:
        """Token ids of the prompt: normal tokens of the vocabulary, drawn with a fixed seed.

        Raises:
            ConfigError: no token is normal.
        """
        vocab = self.api.llama_model_get_vocab(self.model)
        normal = [
            token
            for token in range(self.vocabulary)
            if self.api.llama_vocab_get_attr(vocab, token) & _NORMAL and not self.api.llama_vocab_is_eog(vocab, token)
        ]
        if not normal:
            raise ConfigError("the file's vocabulary has no normal token; expected a model of text")
        return random.Random(0).choices(normal, k=self.setting.prompt)

    def clear(self) -> None:
        """Empty the cache, and set the counters to zero."""
        self.api.llama_memory_clear(self.api.llama_get_memory(self.context), False)
        self.reset()

    def reset(self) -> None:
        """Set the counters to zero."""
        self.api.llama_perf_context_reset(self.context)

    def push(self, tokens: Sequence[int]) -> None:
        """Run `tokens` after those that are cached, with logits of the last one alone, and wait for the end.

        Raises:
            InputError: llama.cpp could not.
            KeyboardInterrupt: a stop was asked for.
        """
        self.stop.check()
        self.log.clear()
        ids = (self.api.llama_token * len(tokens))(*tokens)
        status = self.api.llama_decode(self.context, self.api.llama_batch_get_one(ids, len(tokens)))
        self.api.llama_synchronize(self.context)
        if status == _ABORTED:
            self.stop.check()
        if status != 0:
            raise InputError(f"llama.cpp could not run {len(tokens):,} tokens (status {status}: {self.log.reason()})")

    def greedy(self) -> int:
        """The token with the largest logit after the last pass."""
        import numpy as np

        logits = self.api.llama_get_logits_ith(self.context, -1)
        if not logits:
            raise InputError("llama.cpp returned no logits; expected a model that generates tokens")
        return int(np.ctypeslib.as_array(logits, shape=(self.vocabulary,)).argmax())

    def counted_s(self, tokens: int, *, single: bool) -> float:
        """Seconds since `reset` that llama.cpp counted for `tokens` tokens.

        It adds a pass of one token to t_eval and any other to t_p_eval, from the call to the end of the computation.

        Raises:
            InputError: it counted other tokens.
        """
        data = self.api.llama_perf_context(self.context)
        count, ms = (data.n_eval, data.t_eval_ms) if single else (data.n_p_eval, data.t_p_eval_ms)
        if count != tokens:
            raise InputError(f"llama.cpp counted {count:,} tokens; expected the {tokens:,} that were run")
        return float(ms) / 1e3


@contextmanager
def opened(api: Any, path: Path, setting: Setting, stop: Stop) -> Iterator[Session]:
    """A Session on the file at `path`; model and context are freed at the end, whatever happens.

    Raises:
        ConfigError: a damaged file, an architecture that llama.cpp does not know, a model that does not generate.
        InputError: too little memory.
        KeyboardInterrupt: a stop was asked for.
    """
    size = stored_bytes(path)
    with Log(api) as log:
        api.llama_backend_init()
        opener = _Opener(api, path, setting, stop, log)
        cache = cache_bytes(opener.keys(), setting.prompt + setting.output)
        check_memory(path, size, cache, available_bytes())
        with opener.model() as model, opener.context(model) as context:
            vocabulary = int(api.llama_vocab_n_tokens(api.llama_model_get_vocab(model)))
            yield Session(api, model, context, setting, stop, log, size, vocabulary)


@dataclass(frozen=True, slots=True)
class _Opener:
    """A file that is about to be loaded."""

    api: Any
    path: Path
    setting: Setting
    stop: Stop
    log: Log

    def refused(self, text: str) -> ConfigError:
        return ConfigError(f"{printable(str(self.path))} {text}")

    @contextmanager
    def model(self, *, vocab_only: bool = False) -> Iterator[Any]:
        """The model on the CPU, or its keys and vocabulary alone."""
        self.log.clear()
        nothing = (ctypes.c_void_p * 1)(None)
        going_on = self.api.llama_progress_callback(lambda *_: not self.stop)
        params = self.api.llama_model_default_params()
        params.n_gpu_layers, params.vocab_only, params.progress_callback = 0, vocab_only, going_on
        params.devices = ctypes.addressof(nothing)
        model = self.api.llama_model_load_from_file(os.fsencode(self.path), params)
        if not model:
            self.stop.check()
            raise self.refused(f"cannot be loaded by llama.cpp ({self.log.reason()}); expected a model it knows")
        try:
            yield model
        finally:
            self.api.llama_model_free(model)

    def keys(self) -> dict[str, str]:
        """The file's keys with their values as text; no weight is read."""
        found, text = {}, ctypes.create_string_buffer(_VALUE_BYTES)
        with self.model(vocab_only=True) as model:
            for index in range(self.api.llama_model_meta_count(model)):
                self.api.llama_model_meta_key_by_index(model, index, text, _VALUE_BYTES)
                key = text.value.decode("utf-8", "replace")
                self.api.llama_model_meta_val_str_by_index(model, index, text, _VALUE_BYTES)
                found[key] = text.value.decode("utf-8", "replace")
        return found

    @contextmanager
    def context(self, model: Any) -> Iterator[Any]:
        """A context with an empty cache for a model that generates text."""
        api = self.api
        if api.llama_model_has_encoder(model):
            raise self.refused("has an encoder; expected a model that is a decoder alone")
        if api.llama_vocab_type(api.llama_model_get_vocab(model)) == _NO_VOCABULARY:
            raise self.refused("has no vocabulary; expected a model of text with its tokens")
        self.log.clear()
        context = api.llama_init_from_model(model, self.params())
        if not context:
            raise InputError(
                f"{printable(str(self.path))}: llama.cpp cannot set up a context ({self.log.reason()}); "
                "expected a shorter prompt or more memory"
            )
        try:
            if not api.llama_get_memory(context):
                raise self.refused("keeps no cache; expected a model that generates tokens")
            yield context
        finally:
            api.llama_free(context)

    def params(self) -> Any:
        """The context's: a prompt in one pass up to 2,048 tokens, counters on, cache in 16 bit, no device."""
        setting, params = self.setting, self.api.llama_context_default_params()
        params.n_ctx = setting.prompt + setting.output
        params.n_batch, params.n_ubatch = setting.prompt, min(setting.prompt, _UBATCH)
        params.n_threads = params.n_threads_batch = setting.threads
        params.type_k = params.type_v = _F16
        params.no_perf, params.offload_kqv, params.op_offload = False, False, False
        if os.name == "posix":
            # Asked before every op of a pass, so it must not be Python: strlen of the text that `Stop.set` fills.
            params.abort_callback = ctypes.cast(ctypes.CDLL(None).strlen, self.api.ggml_abort_callback)
            params.abort_callback_data = ctypes.addressof(self.stop.text)
        return params
