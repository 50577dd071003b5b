"""`rooflens model`: the facts of a model."""

from __future__ import annotations

import click

from rooflens.cli.options import dtype_options, dtypes
from rooflens.cli.output import show
from rooflens.errors import InputError


@click.command("model", help="Print the facts of MODEL: parameters, layers by kind, weight bytes, KV bytes.")
@click.argument("model", required=False)
@click.option("--list", "listed", is_flag=True, help="List the bundled models.")
@click.option("--context", "contexts", type=int, multiple=True, help="Give the KV cache at this length; repeatable.")
@dtype_options
@click.option("--json", "as_json", is_flag=True, help="Write JSON to standard output.")
def command(
    model: str | None,
    listed: bool,
    contexts: tuple[int, ...],
    dtype: str | None,
    weights_dtype: str | None,
    kv_dtype: str | None,
    precision: str | None,
    as_json: bool,
) -> None:
    """Read the model, then print what is known of it."""
    from rooflens.sources.models import bundled_names, load_model

    if listed:
        click.echo("\n".join(bundled_names()))
        return
    if model is None:
        raise InputError(
            "no model is named; pass a config.json, a folder with one, or a name of `rooflens model --list`"
        )
    from rooflens.precision import storage
    from rooflens.render.document import encode
    from rooflens.render.documents import model_document
    from rooflens.workload import check_contexts

    spec = load_model(model)
    weights, kept, kv = storage(spec, dtypes(dtype, weights_dtype, kv_dtype, precision))
    lengths = check_contexts(contexts)
    document = model_document(spec, contexts=lengths, weights=weights, kept=kept, kv=kv)
    if as_json:
        click.echo(encode(document), nl=False)
        return
    from rooflens.render.model import model_table

    show(model_table(document))
