"""`rooflens command`: the line that records a run with a vendor's profiler, printed or run."""

from __future__ import annotations

import shlex

import click

from rooflens.live.commands import TOOLS, Tool, Version, installed_version, run_line


@click.command("command", help="Print the line that records PROGRAM with TOOL, and why each flag is there; or run it.")
@click.argument("tool", type=click.Choice(list(TOOLS)))
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--run", "runs", is_flag=True, help="Run the line; the exit status is the tool's.")
@click.option("--output", metavar="PATH", help="Where the tool writes, without suffix; rooflens-TOOL unless given.")
@click.option("--no-metrics", is_flag=True, help="Leave out the GPU's counters, which need a right of their own.")
@click.pass_context
def command(
    context: click.Context, /, tool: str, program: tuple[str, ...], runs: bool, output: str | None, no_metrics: bool
) -> None:
    """Build the line for the version that is installed."""
    row = TOOLS[tool]
    found = installed_version(row)
    version = found or row.newest
    target = output or f"rooflens-{tool}"
    line = row.line(program, version=version, output=target)
    flags = row.flags(version, target)
    if no_metrics:
        line = [word for word in line if not word.startswith("--gpu-metrics")]
        flags = tuple(flag for flag in flags if not flag.text.startswith("--gpu-metrics"))
    if runs:
        context.exit(run_line(line))
    click.echo(shlex.join(line))
    for flag in flags:
        click.echo(f"# {shlex.quote(flag.text)}: {flag.why}".replace("\n", " "))
    click.echo(f"# {_of(row, found, version)}")


def _of(tool: Tool, found: Version | None, version: Version) -> str:
    """Which version the line is for."""
    number = ".".join(map(str, version))
    if found is not None:
        return f"for {tool.title} {number}, which is installed"
    return f"{tool.program} is not installed here, or does not tell its version: for {tool.title} {number}"
