"""Documentation that cannot drift: every command, option, field and column is described, every example runs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rooflens.cli import COMMANDS, module_of
from rooflens.render.audit import AuditDocument
from rooflens.render.csv import columns
from rooflens.render.document import ModelDocument, ProfileDocument
from rooflens.render.hierarchy import HierarchyDocument
from rooflens.sources.architectures import FAMILIES
from tests.live.kept import keep
from tests.metrics_server import served, vllm
from tests.sources.replays import replayed, trace

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_described(name: str) -> None:
    page = (DOCS / "commands" / f"{name}.md").read_text(encoding="utf-8")
    command = import_module(module_of(name)).command
    for parameter in command.params:
        for spelling in parameter.opts:
            if spelling.startswith("-"):
                assert f"`{spelling}" in page, f"docs/commands/{name}.md does not describe {spelling}"


def fields(kind: Any) -> set[str]:
    """Names of every field of a document type, nested ones included."""
    schema = msgspec.json.schema(kind)
    return {name for part in schema["$defs"].values() for name in part.get("properties", {})}


@pytest.mark.parametrize("kind", [ProfileDocument, ModelDocument, AuditDocument, HierarchyDocument])
def test_every_json_field_is_described(kind: Any) -> None:
    page = text("docs/json.md")
    missing = [name for name in sorted(fields(kind)) if not re.search(rf"`{name}(\[\])?`", page)]
    assert not missing


def test_every_column_is_described() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    assert not [name for name in columns() if f"`{name}`" not in pages]


def test_every_architecture_is_named() -> None:
    page = text("docs/models.md")
    assert not [name for name in FAMILIES if f"`{name}`" not in page]


def examples() -> list[str]:
    """Commands in the code blocks of README and documentation that start with `rooflens`."""
    pages = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    blocks = [
        block for page in pages for block in re.findall(r"```.*?```", page.read_text(encoding="utf-8"), re.DOTALL)
    ]
    lines = [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]
    found = [line for line in lines if re.match(r"rooflens [a-z]", line) and "[OPTIONS]" not in line]
    return list(dict.fromkeys(found))


REFUSED = {"rooflens gpu h100"}
"""Examples that show what a refusal looks like."""

EXTRA = {"--audit", "--trace"}
"""Options that need the extra `torch`: refused in one sentence where it is not installed."""

CONFIG = '{"model_type": "llama", "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2, ' \
         '"num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 100}'  # fmt: skip
CARD = """
name = "my-card"
[matrix]
bf16 = "120 TFLOP/s"
fp8 = "240 TFLOP/s"
[memory]
bandwidth = "1.5 TB/s"
size = "24 GB"
"""


@pytest.mark.parametrize("line", examples())
def test_every_example_runs(line: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(CONFIG)
    (tmp_path / "my-model").mkdir()
    (tmp_path / "my-model" / "config.json").write_text(CONFIG)
    (tmp_path / "my-card.toml").write_text(CARD)
    trace(tmp_path / "trace.json", replayed())
    command, _, _ = line.partition(" > ")
    args = shlex.split(command.partition("  #")[0].partition(" | ")[0])[1:]
    if "ceilings" in args and find_spec("torch"):
        keep(tmp_path / "cache")
    env = {**os.environ, "ROOFLENS_CACHE": str(tmp_path / "cache")}
    with served(vllm(0), vllm(1)) as server:
        args = [server.url if word.startswith("http://") else word for word in args]
        command_line = [sys.executable, "-m", "rooflens", *args]
        result = subprocess.run(
            command_line, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240, check=False
        )
    refused = line in REFUSED or (EXTRA & set(args) and not find_spec("transformers"))
    refused = refused or ("ceilings" in args and not find_spec("torch"))
    refused = refused or ("watch" in args and not find_spec("prometheus_client"))
    expected = 2 if refused else 0
    assert result.returncode == expected, f"{line}: {result.stderr}"


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_verdict_shown_is_the_one_printed(page: str) -> None:
    args = ["predict", "llama-3.1-8b", "--gpu", "h100-sxm", "--batch", "64", "--prompt", "512", "--output", "128"]
    printed = subprocess.run(
        [sys.executable, "-m", "rooflens", *args], capture_output=True, text=True, check=True
    ).stdout
    shown = re.search(r"```\w*\n(Prefill is [^`]* floor goes [^`]*)```", text(page))
    assert shown
    assert " ".join(shown[1].split()) in " ".join(printed.split())
