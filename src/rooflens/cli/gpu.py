"""`rooflens gpu`: the accelerators that are known."""

from __future__ import annotations

import json

import click

from rooflens.cli.output import show


@click.command("gpu", help="List the accelerators, or print NAME (or a TOML file) with each number's source.")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Write JSON to standard output.")
def command(name: str | None, as_json: bool) -> None:
    """Print one part, or the list of all."""
    from rooflens.render import gpu
    from rooflens.sources.hardware import hardware_names, load_hardware

    if name is not None:
        part = load_hardware(name)
        if as_json:
            click.echo(json.dumps(gpu.hardware_document(part), indent=2))
        else:
            show(gpu.hardware_table(part))
        return
    parts = [load_hardware(part) for part in hardware_names()]
    if as_json:
        click.echo(json.dumps(gpu.hardware_list_document(parts), indent=2))
    else:
        show(gpu.hardware_list(parts))
