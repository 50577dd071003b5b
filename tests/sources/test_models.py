"""MODEL as users write it."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import pytest

from rooflens.count import params
from rooflens.errors import MissingExtraError, RooflensError, UnknownModelError
from rooflens.sources.models import bundled_key, bundled_names, load_model
from tests.sources.test_config import LLAMA

PUBLISHED = {
    "chatglm3-6b": 6_243_584_000,
    "gpt-j-6b": 6_050_882_784,
    "gpt2": 124_439_808,
    "llama-2-7b": 6_738_415_616,
    "llama-3.1-405b": 405_853_388_800,
    "llama-3.1-8b": 8_030_261_248,
    "qwen2.5-0.5b": 494_032_768,
    "smollm2-135m": 134_515_008,
    "tinyllama-1.1b": 1_100_048_384,
}
"""Parameter counts that the models' own pages state."""


def test_at_least_twenty_models_are_bundled_and_load() -> None:
    assert len(bundled_names()) >= 20
    for name in bundled_names():
        model = load_model(name)
        assert model.name == name
        assert model.source.startswith(f"bundled {name} (")


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_the_published_ones(name: str) -> None:
    assert params(load_model(name)) == PUBLISHED[name]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("Llama-3.1-8B", "llama-3.1-8b"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("meta-llama/Meta-Llama-3.1-8B", "llama-3.1-8b"),
        ("Qwen/Qwen3_8B", "qwen3-8b"),
        ("llama 3.1 8b", "llama-3.1-8b"),
        ("google/gemma-2-9b-it", "gemma-2-9b"),
        ("llama", None),
    ],
)
def test_spellings(text: str, key: str | None) -> None:
    assert bundled_key(text) == key


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownModelError, match=r"neither a path nor bundled.*near it: .*llama-3.1-8b"):
        load_model("lama-3.1-8b")


def test_a_path_wins_over_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpt2").mkdir()
    (tmp_path / "gpt2" / "config.json").write_text(json.dumps(LLAMA))
    assert load_model("gpt2").architecture == "llama"


def test_paths_that_do_not_exist_are_no_names() -> None:
    for text in ("./gpt2", "/nowhere/config.json", "gpt2.json", "a" * 5000, "nul\0byte"):
        with pytest.raises(RooflensError):
            load_model(text)


def test_a_hub_id_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "huggingface_hub":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError, match=r"extra 'hub'.*or pass the path of its config.json"):
        load_model("someone/some-model")
