"""`rooflens import`: what another profiler recorded, as the same profile as a run here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rooflens.cli.output import check_targets, show, write_all
from rooflens.cli.rendering import files, text
from rooflens.core.profile import Profile
from rooflens.errors import InputError
from rooflens.units import parse_amount

_FILE = click.Path(path_type=Path, dir_okay=False)
_TARGETS = ("html", "svg", "png", "pdf")
_STRICT = 3


@click.command("import", help="Read traces of other profilers (FILE...) into profiles: phases, FLOP, bytes, bounds.")
@click.argument("paths", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option("--model", help="What ran: kernels without shapes are matched with those that its pass must run.")
@click.option(
    "--tp", type=click.IntRange(1, 4096), default=1, metavar="N", help="Tensor-parallel ranks, each with its part."
)
@click.option("--gpu", metavar="NAME|FILE", help="The part it ran on, where the file does not say it.")
@click.option(
    "--strict", type=click.IntRange(1, 100), metavar="PERCENT", help="Fail where less of the time is modelled."
)
@click.option("--max-bytes", metavar="SIZE", help="How large a file may be, unpacked (default 4 GiB).")
@click.option("--json", "as_json", is_flag=True, help="Write everything as JSON to standard output.")
@click.option("--csv", "as_csv", is_flag=True, help="Write the kernels as CSV to standard output.")
@click.option("--html", type=_FILE, help="Write a page with the interactive chart, readable offline.")
@click.option("--svg", type=_FILE, help="Write the roofline chart as SVG.")
@click.option("--png", type=_FILE, help="Write the roofline chart as PNG.")
@click.option("--pdf", type=_FILE, help="Write the roofline chart as PDF.")
@click.option("--dark", is_flag=True, help="Draw on a dark ground; a page follows the reader's system without it.")
@click.pass_context
def command(
    context: click.Context,
    /,
    paths: tuple[Path, ...],
    model: str | None,
    gpu: str | None,
    tp: int,
    strict: int | None,
    max_bytes: str | None,
    as_json: bool,
    as_csv: bool,
    dark: bool,
    **rest: Any,
) -> None:
    """Read, then print and write what was asked for; `--strict` leaves with status 3 below its threshold."""
    if as_json and as_csv:
        raise InputError("--json and --csv both write to standard output; pass one")
    wanted = {kind: rest[kind] for kind in _TARGETS if rest[kind]}
    check_targets(wanted, {"--gpu": gpu or "", **{str(path): str(path) for path in paths}})
    from rooflens.api import load

    most = None if max_bytes is None else int(parse_amount(max_bytes, "B", name="--max-bytes"))
    found = load(paths, model=model, gpu=gpu, tp=tp, max_bytes=most)
    if wanted and len(found) > 1:
        raise InputError(f"--{next(iter(wanted))} is of one profile, and {len(found)} were read; pass one at a time")
    made = files(found[0], dark, wanted)
    write_all(made)
    _print(found, as_json, as_csv)
    least = min(coverage(profile) for profile in found)
    if strict is not None and least < strict / 100:
        click.echo(f"rooflens: {100 * least:.1f} % of the time is modelled, less than --strict {strict}", err=True)
        context.exit(_STRICT)


def coverage(profile: Profile) -> float:
    """Share of the kernels' time of `profile`, 0..1, whose bytes are known."""
    phases = [phase.measured.traced for phase in profile.phases if phase.measured and phase.measured.traced]
    total = sum(traced.op_s for traced in phases)
    return sum(traced.op_s * traced.coverage for traced in phases) / total if total else 0.0


def _print(found: list[Profile], as_json: bool, as_csv: bool) -> None:
    if as_json:
        import json

        documents = [json.loads(text(profile, True, False) or "") for profile in found]
        click.echo(json.dumps(documents[0] if len(documents) == 1 else documents, indent=2))
    elif as_csv:
        head, *rows = (text(found[0], False, True) or "").splitlines()
        rows += [line for profile in found[1:] for line in (text(profile, False, True) or "").splitlines()[1:]]
        click.echo("\n".join([head, *rows]))
    else:
        from rooflens.render.table import profile_table

        for profile in found:
            show(profile_table(profile))
