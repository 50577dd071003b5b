"""`rooflens place`: any FLOP and byte count under a roof."""

from __future__ import annotations

import json
from typing import Any

import click

from rooflens.cli.output import show
from rooflens.core.op import DType
from rooflens.errors import InputError


@click.command("place", help="Put FLOP and bytes (of a kernel, a phase, anything) under the roof of a part.")
@click.option("--flops", required=True, help="Operations, such as 100 or 2.5TFLOP.")
@click.option("--bytes", "moved", required=True, help="Bytes moved, such as 10 or 16GB.")
@click.option("--seconds", help="Time that it took, such as 12ms: gives the share of the roof.")
@click.option("--gpu", metavar="NAME|FILE", help="Accelerator: a name of `rooflens gpu`, or a TOML file.")
@click.option(
    "--dtype", default="bf16", show_default=True, metavar="NAME", help="Arithmetic, selects the peak of --gpu."
)
@click.option("--peak", help="Peak instead of --gpu's, such as 120TFLOP/s.")
@click.option("--bandwidth", help="Bandwidth instead of --gpu's, such as 1.5TB/s.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON to standard output.")
def command(as_json: bool, **given: Any) -> None:
    """Place one figure, print it."""
    from rooflens.render.placement import place_figure, placement_table
    from rooflens.units import parse_amount

    flops = parse_amount(given["flops"], "FLOP", name="--flops", zero=True)
    moved = parse_amount(given["moved"], "B", name="--bytes", zero=True)
    seconds = parse_amount(given["seconds"], "s", name="--seconds") if given["seconds"] else None
    if not flops and not moved:
        raise InputError("--flops and --bytes are both 0; expected at least one of them")
    peak, bandwidth, roof_name = _roof(given)
    placed = place_figure(flops, moved, peak=peak, bandwidth=bandwidth, seconds=seconds, roof=roof_name)
    if as_json:
        click.echo(json.dumps(placed, indent=2, allow_nan=False))
    else:
        show(placement_table(placed))


def _roof(given: dict[str, Any]) -> tuple[float, float, str]:
    """Peak in FLOP/s, bandwidth in byte/s and the name of the roof: of --gpu, --peak and --bandwidth winning."""
    from rooflens.units import parse_amount

    peak = parse_amount(given["peak"], "FLOP/s", name="--peak") if given["peak"] else None
    bandwidth = parse_amount(given["bandwidth"], "B/s", name="--bandwidth") if given["bandwidth"] else None
    name = "user"
    if given["gpu"]:
        from rooflens.sources.hardware import load_hardware

        part = load_hardware(given["gpu"])
        name = part.name if peak is None or bandwidth is None else "user"
        roof = part.roof(DType.parse(given["dtype"]).arithmetic) if peak is None else None
        peak = roof.peak if roof else peak
        if bandwidth is None and part.memory.bandwidth is not None:
            bandwidth = part.memory.bandwidth.value
    if peak is None or bandwidth is None:
        raise InputError("no roof is named; pass --gpu NAME, or both --peak and --bandwidth")
    return peak, bandwidth, name
