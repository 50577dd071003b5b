"""`rooflens watch`: a running server under the roofs of its parts, from its own metrics."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import click

from rooflens.cli.options import dtype_options, dtypes
from rooflens.core.profile import Finding
from rooflens.core.reading import Reading
from rooflens.errors import InputError


@click.command("watch", help="Watch a server (vLLM, SGLang) by its metrics at URL: where it sits under the roofs now.")
@click.argument("url", metavar="URL")
@click.option("--model", required=True, metavar="MODEL", help="What is served: config.json, GGUF file or bundled name.")
@click.option("--gpu", required=True, metavar="NAME|FILE", help="What it runs on: a name of `rooflens gpu`, or TOML.")
@click.option("--tp", type=int, default=1, show_default=True, help="GPUs that share each replica.")
@click.option("--prompt", type=int, help="Tokens of a prompt, where the server does not tell.")
@click.option("--context", type=int, help="Tokens that a sequence holds, where the server does not tell.")
@click.option("--dcgm", metavar="URL", help="Read the GPUs' counters from a dcgm-exporter, too.")
@click.option("--dcgmi", is_flag=True, help="Read the GPUs' counters by running dcgmi on this machine, too.")
@click.option("--interval", type=float, default=2.0, show_default=True, help="Seconds between two reads.")
@click.option("--count", type=int, help="Readings until it ends; for ever unless given.")
@click.option("--timeout", type=float, default=5.0, show_default=True, help="Seconds that an answer may take.")
@click.option("--failures", type=int, default=5, show_default=True, help="Failures in a row that end it.")
@dtype_options
@click.option("--json", "as_json", is_flag=True, help="Write a line of JSON for each reading to standard output.")
@click.option("--full", is_flag=True, help="Print every reading in full, where there is no terminal as well.")
def command(url: str, model: str, gpu: str, as_json: bool, full: bool, **rest: Any) -> None:
    """Poll and print until it is stopped; Ctrl-C is an end like any other."""
    if rest["dcgm"] and rest["dcgmi"]:
        raise InputError("--dcgm and --dcgmi both tell of the GPUs; pass one")
    if as_json and full:
        raise InputError("--json and --full both write to standard output; choose one")
    from rooflens.api import watch

    seen = watch(
        url,
        model,
        gpu,
        tp=rest["tp"],
        prompt=rest["prompt"],
        context=rest["context"],
        precision=dtypes(rest),
        dcgm=rest["dcgm"],
        dcgmi=rest["dcgmi"],
        interval=rest["interval"],
        count=rest["count"],
        timeout=rest["timeout"],
        failures=rest["failures"],
    )
    _print(seen, as_json, full)


def _print(seen: Iterator[Reading | Finding], as_json: bool, full: bool) -> None:
    """A view that stays in place on a terminal, else a line or a document for each reading."""
    if not as_json and not full and sys.stdout.isatty():
        _live(seen)
        return
    said: set[str] = set()
    try:
        for one in seen:
            if isinstance(one, Finding):
                _tell(one)
            else:
                _one(one, as_json, full, said)
    except KeyboardInterrupt:
        click.echo("rooflens: stopped", err=True)


def _one(reading: Reading, as_json: bool, full: bool, said: set[str]) -> None:
    """One reading; a note is said when it first holds."""
    from rooflens.render.reading import reading_document, reading_line, reading_view

    if as_json:
        click.echo(json.dumps(reading_document(reading), allow_nan=False))
    elif full:
        from rooflens.cli.output import show

        show(reading_view(reading))
        click.echo()
    else:
        click.echo(reading_line(reading))
        for note in (note for note in reading.notes if note not in said):
            click.echo(f"rooflens: {note}", err=True)
        said.update(reading.notes)
    sys.stdout.flush()


def _tell(finding: Finding) -> None:
    click.echo(f"rooflens: {''.join(c if c.isprintable() else '?' for c in finding.text)}", err=True)


def _live(seen: Iterator[Reading | Finding]) -> None:
    """The last reading in place, with the last problem below it; the last view stays when it ends."""
    from rich.console import Console, Group, RenderableType
    from rich.live import Live
    from rich.text import Text

    from rooflens.render.reading import reading_view

    view: RenderableType = Text("waiting for the second snapshot ...")
    problem: RenderableType = Text()
    with Live(view, console=Console(highlight=False), auto_refresh=False) as live:
        try:
            for one in seen:
                if isinstance(one, Finding):
                    problem = Text(f"{one.level}: {one.text}", style="yellow" if one.level == "warning" else "")
                else:
                    view, problem = reading_view(one), Text()
                live.update(Group(view, problem), refresh=True)
        except KeyboardInterrupt:
            live.update(Group(view, Text("Stopped.", style="dim")), refresh=True)
