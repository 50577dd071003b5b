"""The facts of a model for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rooflens.render.document import ModelDocument
from rooflens.units import binary, si


def model_table(document: ModelDocument) -> RenderableType:
    """Return a model's facts: parameters by part, layers by kind, weight and KV bytes, every figure with its unit."""
    return Group(
        Text(f"{document.name} ({document.architecture})", style="bold"),
        _facts(document),
        Text(),
        _layers(document),
        Text(),
        *_notes(document),
    )


def _facts(document: ModelDocument) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    for label, value in _rows(document):
        table.add_row(label, value)
    return table


def _rows(document: ModelDocument) -> Iterator[tuple[str, str]]:
    yield "parameters", f"{document.params:,}"
    yield "  active for one token", f"{document.active_params:,}"
    for name, size in document.parts.items():
        if size:
            yield f"  {name}", f"{size:,}"
    if document.tied:
        yield "  output head", "shares the embedding table"
    yield "hidden size, vocabulary", f"{document.hidden:,}, {document.vocab:,}"
    yield f"weights in {document.weights_dtype}", _bytes(document.weight_bytes)
    yield f"KV cache per token in {document.kv_dtype}, beyond every window", f"{document.kv_bytes_per_token:,} B"
    if document.kv_bytes_per_token_all_layers != document.kv_bytes_per_token:
        yield "  counting windowed layers as well", f"{document.kv_bytes_per_token_all_layers:,} B"
    for context, size in document.kv_bytes.items():
        yield f"KV cache of one sequence of {int(context):,} tokens", _bytes(size)
    if document.max_context:
        yield "longest context", f"{document.max_context:,} tokens"


def _bytes(size: int) -> str:
    return f"{size:,} B = {si(size, 'B')} = {binary(size)}"


def _layers(document: ModelDocument) -> Table:
    table = Table(box=None, padding=(0, 1))
    table.add_column("layers", justify="right")
    table.add_column("kind")
    for name in ("heads", "KV heads", "head width", "window", "MLP width", "parameters each", "KV B/token"):
        table.add_column(name, justify="right")
    for layer in document.layers:
        table.add_row(
            str(layer.count),
            f"{layer.kind}, {layer.mlp} MLP",
            str(layer.heads),
            str(layer.kv_heads),
            _width(layer.head_dim, layer.value_head_dim),
            "-" if layer.window is None else f"{layer.window:,}",
            f"{layer.intermediate:,}",
            f"{layer.params:,}",
            f"{layer.kv_bytes_per_token:,}",
        )
    return table


def _width(k: int, v: int) -> str:
    return str(k) if k == v else f"{k} (K), {v} (V)"


def _notes(document: ModelDocument) -> Iterator[Text]:
    for note in document.notes:
        yield Text.assemble(("note: ", "bold"), note)
    yield Text(f"Read from {document.source}.", style="dim")
