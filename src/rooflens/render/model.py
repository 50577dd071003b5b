"""The facts of a model for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rooflens.render.document import ModelDocument
from rooflens.render.document_layers import BlockDocument
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
        yield "  reserved where every layer is paged alike", f"{document.kv_bytes_per_token_all_layers:,} B"
    for context, size in document.kv_bytes.items():
        yield f"KV cache of one sequence of {int(context):,} tokens", _bytes(size)
        if document.kv_reserved_bytes[context] != size:
            yield "  reserved where every layer is paged alike", _bytes(document.kv_reserved_bytes[context])
    if document.state_bytes:
        yield "state of one sequence, whatever its length", _bytes(document.state_bytes)
    if document.max_context:
        yield "longest context", f"{document.max_context:,} tokens"


def _bytes(size: int) -> str:
    return f"{size:,} B = {si(size, 'B')} = {binary(size)}"


def _layers(document: ModelDocument) -> Table:
    """A row for each block of each kind of layer; bytes columns only where a layer has any."""
    table = Table(box=None, padding=(0, 1))
    table.add_column("layers", justify="right")
    table.add_column("block")
    table.add_column("shape", ratio=1)
    columns = [(name, cell) for name, cell in _COLUMNS if any(cell(block) for block in _blocks(document))]
    for name, _ in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for layer in document.layers:
        for index, block in enumerate(layer.blocks):
            count = "" if index else f"{layer.count:,}"
            table.add_row(count, block.kind, ", ".join(_shape(block)), *(cell(block) or "-" for _, cell in columns))
    return table


def _blocks(document: ModelDocument) -> list[BlockDocument]:
    return [block for layer in document.layers for block in layer.blocks]


def _count(value: int | None) -> str:
    return f"{value:,}" if value else ""


_COLUMNS: tuple[tuple[str, Callable[[BlockDocument], str]], ...] = (
    ("parameters each", lambda block: _count(block.params)),
    ("KV B/token", lambda block: _count(block.kv_bytes_per_token)),
    ("state B", lambda block: _count(block.state_bytes)),
)


def _shape(block: BlockDocument) -> Iterator[str]:
    """The figures of a block, each with its word."""
    if block.heads and block.head_dim:
        yield f"{block.heads:,} heads of {_width(block.head_dim, block.value_head_dim)}"
    if block.kv_heads:
        yield f"{block.kv_heads:,} KV head{'s' if block.kv_heads > 1 else ''}"
    if block.kv_rank:
        yield f"latent {block.kv_rank:,} + {block.rope_dim:,}"
    yield from _limits(block)
    if block.experts:
        yield f"{block.top_k:,} of {block.experts:,} taken, width {block.expert_width:,}"
    for word, value in (
        ("width", block.width), ("shared width", block.shared_width), ("latent width", block.latent_width),
        ("streams", block.streams), ("state values", block.state_values),
    ):  # fmt: skip
        if value:
            yield f"{word} {value:,}"
    if block.conv_channels:
        yield f"convolution of {block.conv_channels:,} x {block.conv_kernel}"


def _limits(block: BlockDocument) -> Iterator[str]:
    """How many earlier tokens a query sees at most, and of what kind the limit is."""
    if block.window:
        yield f"window {block.window:,}"
    if block.chunk:
        yield f"chunks of {block.chunk:,}"
    if block.entry_tokens:
        yield f"entries of {block.entry_tokens:,} tokens"
    if block.top_k and not block.experts:
        yield f"top {block.top_k:,}"
    if block.indexer_heads:
        yield f"indexer of {block.indexer_heads:,} x {block.indexer_width:,}"


def _width(k: int, v: int | None) -> str:
    return f"{k:,}" if k == v else f"{k:,} (K) and {v:,} (V)"


def _notes(document: ModelDocument) -> Iterator[Text]:
    for note in document.notes:
        yield Text.assemble(("note: ", "bold"), note)
    yield Text(f"Read from {document.source}.", style="dim")
