"""`rooflens profile` with several batches or prompts: one load, a row for each, and the way along the roof."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rooflens.cli.output import progress_bar, show, write_all
from rooflens.cli.profile import options, stopped
from rooflens.core.profile import Profile
from rooflens.errors import InputError, RooflensError


def run_sweep(
    model: str,
    sizes: tuple[tuple[int, ...], tuple[int, ...]],
    rest: dict[str, Any],
    *,
    as_json: bool,
    as_csv: bool,
    dark: bool,
    wanted: dict[str, Path],
) -> None:
    """Run every batch with every prompt; print a table, or one JSON document (CSV rows) for each.

    A sweep that is interrupted prints the runs that are complete and leaves with status 130; one in which a run fails
    prints those before it, and then fails.

    Raises:
        RooflensError: a run that fails.
        InputError: --html, which shows one run, or the llama.cpp backend, which runs one sequence.
    """
    if "html" in wanted or rest["backend"] != "torch":
        which = "--html shows one run" if "html" in wanted else "llama.cpp runs one size at a time"
        raise InputError(f"{which}, and this is a sweep of several; pass one batch and prompt, or --svg for the chart")
    done: list[Profile] = []
    broken = False
    refused: RooflensError | None = None
    from rooflens.api import profile_sweep

    with progress_bar() as progress:
        try:
            for found in profile_sweep(model, batch=sizes[0], prompt=sizes[1], **options(rest), progress=progress):
                done.append(found)
                if any(finding.code == "interrupted" for finding in found.findings):
                    break
        except KeyboardInterrupt:
            broken = True
        except RooflensError as error:
            refused = error
    if not done:
        raise refused or KeyboardInterrupt
    try:
        _print(done, as_json, as_csv)
    finally:
        _write(done, wanted, dark)
    if refused is not None:
        raise refused
    if broken or stopped(done[-1]):
        raise click.exceptions.Exit(130)


def _write(done: list[Profile], wanted: dict[str, Path], dark: bool) -> None:
    if wanted:
        from rooflens.render import image
        from rooflens.render.sweep import sweep_chart

        chart = sweep_chart(done, dark=dark)
        makers = {
            "svg": lambda: image.svg(chart).encode(),
            "png": lambda: image.png(chart),
            "pdf": lambda: image.pdf(chart),
        }
        write_all({path: makers[kind]() for kind, path in wanted.items()})


def _print(done: list[Profile], as_json: bool, as_csv: bool) -> None:
    from rooflens.cli.rendering import text

    if as_json:
        import json

        documents = [json.loads(text(profile, True, False) or "") for profile in done]
        click.echo(json.dumps(documents, indent=2))
    elif as_csv:
        head, *rows = (text(done[0], False, True) or "").splitlines()
        rows += [line for profile in done[1:] for line in (text(profile, False, True) or "").splitlines()[1:]]
        click.echo("\n".join([head, *rows]))
    else:
        from rooflens.render.sweep import sweep_table

        show(sweep_table(done))
