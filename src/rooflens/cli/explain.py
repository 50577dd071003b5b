"""`rooflens explain`: the revision, the glossary, and what the KV cache saves."""

from __future__ import annotations

import click


@click.command("explain", help="Print the 30-second revision, or explain TOPIC; `--list` names the topics.")
@click.argument("topic", required=False)
@click.option("--list", "listed", is_flag=True, help="List the topics.")
@click.option("--model", default="llama-3.1-8b", show_default=True, help="Model whose KV cache is counted (kv-cache).")
@click.option("--context", type=int, default=2048, show_default=True, help="Tokens in that cache (kv-cache).")
def command(topic: str | None, listed: bool, model: str, context: int) -> None:
    """Print what was asked for."""
    from rooflens.render import glossary

    if listed:
        click.echo("\n".join(glossary.topics()))
    elif topic is None:
        click.echo(glossary.revision(), nl=False)
    else:
        entry = glossary.topic(topic)
        savings = f"\n{_savings(model, context)}" if entry.name == "kv-cache" else ""
        click.echo(f"{entry}{savings}", nl=False)


def _savings(model: str, context: int) -> str:
    from rooflens.render.explain_kv import kv_savings, kv_savings_text
    from rooflens.sources.models import load_model

    return kv_savings_text(kv_savings(load_model(model), context))
