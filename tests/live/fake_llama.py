"""A stand-in for the package llama_cpp: it counts as llama.cpp does, 2 ms a token of a prompt and 10 ms a step."""

from __future__ import annotations

import ctypes
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

KEYS = {
    "general.architecture": "llama",
    "llama.block_count": "30",
    "llama.embedding_length": "576",
    "llama.attention.head_count": "9",
    "llama.attention.head_count_kv": "3",
}
VOCABULARY = 12
NORMAL, CONTROL = 4, 8


class FakeLlama(ModuleType):
    """Functions that the backend calls; `said` lists what it did, in order."""

    __version__ = "0.3.99"
    llama_token = ctypes.c_int32
    llama_log_callback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
    llama_progress_callback = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_float, ctypes.c_void_p)
    ggml_abort_callback = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)

    def __init__(self) -> None:
        super().__init__("llama_cpp")
        self.said: list[Any] = []
        self.now, self.drift, self.status, self.error = 0.0, 0.0, 0, b""
        self.keys, self.encoder, self.memory, self.vocab_type, self.trained = dict(KEYS), False, 7, 1, 8192
        self._logger = SimpleNamespace(llama_log_callback=self.llama_log_callback())
        self.logger: Any = self._logger.llama_log_callback
        self.llama_perf_context_reset(None)
        self.said.clear()

    def clock(self) -> float:
        return self.now

    def llama_log_get(self, callback: Any, data: Any) -> None:
        self.said.append("log get")

    def llama_log_set(self, callback: Any, data: Any) -> None:
        self.logger = callback
        self.said.append("log set")

    def llama_backend_init(self) -> None: ...

    def llama_model_default_params(self) -> Any:
        return SimpleNamespace()

    def llama_context_default_params(self) -> Any:
        return SimpleNamespace(no_perf=True)

    def llama_model_load_from_file(self, path: bytes, params: Any) -> int | None:
        if self.error:
            self.logger(2, b"llama_model_loader: an ordinary line\n", None)
            self.logger(4, b"llama_model_load: error: " + self.error + b"\n", None)
            self.logger(4, b"llama_model_load: failed\n", None)
            return None
        self.said.append("keys" if params.vocab_only else "load")
        return 1

    def llama_model_free(self, model: int) -> None:
        self.said.append("free model")

    def llama_free(self, context: int) -> None:
        self.said.append("free context")

    def llama_model_meta_count(self, model: int) -> int:
        return len(self.keys)

    def llama_model_meta_key_by_index(self, model: int, index: int, text: Any, size: int) -> None:
        text.value = list(self.keys)[index].encode()

    def llama_model_meta_val_str_by_index(self, model: int, index: int, text: Any, size: int) -> None:
        text.value = list(self.keys.values())[index].encode()

    def llama_model_has_encoder(self, model: int) -> bool:
        return self.encoder

    def llama_model_get_vocab(self, model: int) -> int:
        return 3

    def llama_vocab_type(self, vocab: int) -> int:
        return self.vocab_type

    def llama_vocab_n_tokens(self, vocab: int) -> int:
        return VOCABULARY

    def llama_vocab_get_attr(self, vocab: int, token: int) -> int:
        return CONTROL if token < 3 else NORMAL

    def llama_vocab_is_eog(self, vocab: int, token: int) -> bool:
        return token == 3

    def llama_init_from_model(self, model: int, params: Any) -> int:
        self.params = params
        return 2

    def llama_get_memory(self, context: int) -> int:
        return self.memory

    def llama_memory_clear(self, memory: int, data: bool) -> None:
        self.said.append("clear")

    def llama_perf_context_reset(self, context: Any) -> None:
        self.perf = SimpleNamespace(t_p_eval_ms=0.0, n_p_eval=0, t_eval_ms=0.0, n_eval=0)
        self.said.append("reset")

    def llama_perf_context(self, context: int) -> Any:
        return self.perf

    def llama_batch_get_one(self, ids: Any, count: int) -> list[int]:
        return list(ids)

    def llama_decode(self, context: int, batch: list[int]) -> int:
        self.said.append(batch)
        if self.status:
            self.logger(4, b"decode: no room\n", None)
            return self.status
        if len(batch) == 1:
            self.perf.t_eval_ms, self.perf.n_eval = self.perf.t_eval_ms + 10.0, self.perf.n_eval + 1
        else:
            self.perf.t_p_eval_ms += 2.0 * len(batch)
            self.perf.n_p_eval += len(batch)
        self.now += (0.010 if len(batch) == 1 else 0.002 * len(batch)) * (1 + self.drift)
        return 0

    def llama_synchronize(self, context: int) -> None: ...

    def llama_get_logits_ith(self, context: int, index: int) -> Any:
        self.logits = np.zeros(VOCABULARY, dtype=np.float32)
        self.logits[5] = 1.0
        return self.logits.ctypes.data_as(ctypes.POINTER(ctypes.c_float))

    def llama_n_threads(self, context: int) -> int:
        return int(self.params.n_threads)

    def llama_n_batch(self, context: int) -> int:
        return int(self.params.n_batch)

    def llama_n_ubatch(self, context: int) -> int:
        return int(self.params.n_ubatch)

    def llama_n_ctx(self, context: int) -> int:
        return int(self.params.n_ctx)

    def llama_model_n_ctx_train(self, model: int) -> int:
        return self.trained

    def llama_print_system_info(self) -> bytes:
        return b"CPU : AVX2 = 1"
