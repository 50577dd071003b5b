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
@click.option("--audit", "audited", is_flag=True, help="Compare with the reference framework's model (extra torch).")
@click.option("--json", "as_json", is_flag=True, help="Write JSON to standard output.")
def command(
    model: str | None,
    listed: bool,
    contexts: tuple[int, ...],
    audited: bool,
    as_json: bool,
    **given: str | None,
) -> int:
    """Read the model, then print what is known of it; exit status 1 where an audit finds a difference."""
    from rooflens.sources.models import bundled_names, load_model

    if listed:
        click.echo("\n".join(bundled_names()))
        return 0
    if model is None:
        raise InputError(
            "no model is named; pass a config.json, a folder with one, or a name of `rooflens model --list`"
        )
    if audited:
        return _audit(model, as_json, contexts or any(given.values()))
    from rooflens.precision import storage
    from rooflens.render.document import encode
    from rooflens.render.documents import model_document
    from rooflens.workload import check_contexts

    spec = load_model(model)
    asked = dtypes(given)
    weights, kept, kv = storage(spec, asked)
    lengths = check_contexts(contexts)
    document = model_document(spec, contexts=lengths, weights=weights, kept=kept, kv=kv, state=asked.state)
    if as_json:
        click.echo(encode(document), nl=False)
        return 0
    from rooflens.render.model import model_table

    show(model_table(document))
    return 0


def _audit(model: str, as_json: bool, given: object) -> int:
    """Print both sides; 0 where they agree, 1 where a figure differs."""
    if given:
        raise InputError("--audit counts 512 and 1,024 tokens in bf16; leave out --context and the dtypes")
    from rooflens.api import audit

    report = audit(model)
    if as_json:
        from rooflens.render.audit import audit_document
        from rooflens.render.document import encode

        click.echo(encode(audit_document(report)), nl=False)
    else:
        from rooflens.render.audit_table import audit_table

        show(audit_table(report))
    return 0 if report.agrees else 1
