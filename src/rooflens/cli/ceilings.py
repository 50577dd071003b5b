"""`rooflens ceilings`: what this machine itself reaches."""

from __future__ import annotations

from pathlib import Path

import click

from rooflens.cli.output import check_writable, progress_bar, show, write_all


@click.command("ceilings", help="Measure what this machine reaches: peaks, memory and kernels of decode; keep it.")
@click.option("--device", default="cpu", show_default=True, metavar="NAME", help="A device of torch: cpu, cuda, mps.")
@click.option("--dtype", "dtypes", multiple=True, metavar="NAME", help="Measure this dtype alone; repeatable.")
@click.option("--fresh", is_flag=True, help="Measure again, though figures are kept.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON to standard output.")
@click.option("--toml", type=click.Path(path_type=Path), metavar="FILE", help="Write an accelerator file for --gpu.")
def command(device: str, dtypes: tuple[str, ...], fresh: bool, as_json: bool, toml: Path | None) -> None:
    """Measure, or read what is kept; print it."""
    from rooflens.api import ceilings, kept_in
    from rooflens.render.ceilings import ceilings_document, ceilings_table

    if toml is not None:
        check_writable([toml])
    with progress_bar() as progress:
        part = ceilings(device, fresh=fresh, dtypes=dtypes or None, progress=progress)
    file = kept_in(part, device, dtypes or None)
    place = None if file is None else str(file)
    if toml is not None:
        from rooflens.render.hardware_toml import hardware_toml

        write_all({toml: hardware_toml(part).encode()})
    if as_json:
        import json

        click.echo(json.dumps(ceilings_document(part, place), indent=2))
    else:
        show(ceilings_table(part, place))
