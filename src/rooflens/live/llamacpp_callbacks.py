"""What llama.cpp calls back: its messages, and the question whether it shall stop."""

from __future__ import annotations

import ctypes
from typing import Any

from rooflens.live.llamacpp_checks import printable

_ERROR = 4
"""GGML_LOG_LEVEL_ERROR."""


class Stop:
    """A request to stop that C code can read: a text that is empty until `set` is called."""

    def __init__(self) -> None:
        self.text = ctypes.create_string_buffer(2)

    def set(self) -> None:
        """Ask for it."""
        self.text.value = b"1"

    def __bool__(self) -> bool:
        return bool(self.text.value)

    def check(self) -> None:
        """Raise KeyboardInterrupt if it was asked for."""
        if self:
            raise KeyboardInterrupt


class Log:
    """llama.cpp's messages, kept off the terminal while it is open; the first error since `clear` is kept."""

    def __init__(self, api: Any) -> None:
        self.api, self.first = api, ""
        self.callback = api.llama_log_callback(self._take)
        self.before, self.data = api._logger.llama_log_callback, ctypes.c_void_p()

    def _take(self, level: int, text: bytes, data: object) -> None:
        del data
        if level == _ERROR and not self.first:
            self.first = printable(text.decode("utf-8", "replace").strip())

    def clear(self) -> None:
        """Forget the error."""
        self.first = ""

    def reason(self) -> str:
        """The error without the function that it comes from."""
        return self.first.partition(": ")[2].strip() or self.first or "no reason given"

    def __enter__(self) -> Log:
        if hasattr(self.api, "llama_log_get"):
            self.before = self.api.llama_log_callback()
            self.api.llama_log_get(ctypes.byref(self.before), ctypes.byref(self.data))
        self.api.llama_log_set(self.callback, None)
        return self

    def __exit__(self, *exception: object) -> None:
        self.api.llama_log_set(self.before, self.data)
