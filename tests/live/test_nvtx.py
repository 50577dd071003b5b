"""Ranges: opened and closed where a GPU is there, nothing at all where none is."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from rooflens.live import nvtx


def torch(calls: list[str], *, gpu: bool = True, built: bool = True) -> SimpleNamespace:
    def push(name: str) -> None:
        if not built:
            raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")
        calls.append(f"push {name}")

    marks = SimpleNamespace(range_push=push, range_pop=lambda: calls.append("pop"))
    return SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: gpu, nvtx=marks))


def test_range_is_opened_and_closed_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setitem(sys.modules, "torch", torch(calls))
    with nvtx.range("prefill"), nvtx.range("layer 0"):
        calls.append("work")
    assert calls == ["push prefill", "push layer 0", "work", "pop", "pop"]


def test_range_is_closed_when_the_work_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setitem(sys.modules, "torch", torch(calls))
    with pytest.raises(KeyError), nvtx.range("decode"):
        raise KeyError
    assert calls == ["push decode", "pop"]


def test_nothing_happens_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setitem(sys.modules, "torch", torch(calls, gpu=False))
    with nvtx.range("decode"):
        pass
    assert calls == []


def test_torch_is_never_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with nvtx.range("decode"):
        assert "torch" not in sys.modules


def test_torch_without_nvtx_leaves_it_to_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    package = SimpleNamespace(push_range=lambda name: calls.append(name), pop_range=lambda: calls.append("pop"))
    monkeypatch.setitem(sys.modules, "torch", torch(calls, built=False))
    monkeypatch.setitem(sys.modules, "nvtx", package)
    with nvtx.range("decode"):
        pass
    assert calls == ["decode", "pop"]
    monkeypatch.setitem(sys.modules, "nvtx", None)
    with nvtx.range("decode"):
        pass
    assert calls == ["decode", "pop"]
