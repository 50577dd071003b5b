"""`rooflens predict`: prefill and decode of a model on an accelerator."""

from __future__ import annotations

from typing import Any

import click

from rooflens.cli.options import TARGETS, checked_experts, dtype_options, dtypes, load, one_of, output_options
from rooflens.cli.output import check_targets, show, write_all
from rooflens.cli.rendering import files, text
from rooflens.core.scenario import AttentionFlops, Conventions, Fusion, LatentForm, Logits, TrafficModel
from rooflens.errors import InputError


def _choice(kind: Any) -> click.Choice[str]:
    return click.Choice([member.value for member in kind])


@click.command("predict", help="Predict prefill and one decode step of MODEL, every kernel under its roof.")
@click.argument("model")
@click.option("--gpu", metavar="NAME|FILE", help="Accelerator: a name of `rooflens gpu`, or a TOML file.")
@click.option("--batch", type=int, default=1, show_default=True, help="Sequences in the batch.")
@click.option("--prompt", type=int, default=512, show_default=True, help="Prompt tokens of each sequence.")
@click.option("--output", type=int, default=128, show_default=True, help="Output tokens; 1 has no decode phase.")
@click.option("--context", type=int, help="Tokens cached before the decode step; prompt + output // 2 unless given.")
@click.option(
    "--image-tokens", type=int, default=0, show_default=True, help="Image tokens in each prompt (vision models)."
)
@click.option(
    "--mtp", is_flag=True, help="Predict the multi-token-prediction modules of MODEL, as a model of their own."
)
@dtype_options
@click.option("--attention-flops", type=_choice(AttentionFlops), default="causal", show_default=True,
              help="Count the pairs that a causal mask keeps, or all of them.")  # fmt: skip
@click.option("--logits", type=_choice(Logits), default="last", show_default=True,
              help="Run the output head for the last token of each prompt, or for all.")  # fmt: skip
@click.option("--traffic", type=_choice(TrafficModel), default="fused", show_default=True,
              help="Charge weights alone, fused kernels, or every framework op.")  # fmt: skip
@click.option("--fusion", type=_choice(Fusion), default="engine", show_default=True,
              help="Projections as serving engines run them, or one by one.")  # fmt: skip
@click.option("--latent", type=_choice(LatentForm), default="auto", show_default=True,
              help="Latent attention expanded, absorbed, or (auto) absorbed in decode alone.")  # fmt: skip
@click.option("--distinct-experts", type=float, help="Experts of a layer that a pass reads, measured.")
@click.option("--trace", is_flag=True, help="Take the kernels from a run of the framework's own model (extra torch).")
@output_options
@click.option("--explain", is_flag=True, help="Print how each number came about, as formulas with numbers.")
def command(
    model: str,
    gpu: str | None,
    batch: int,
    prompt: int,
    output: int,
    context: int | None,
    as_json: bool,
    as_csv: bool,
    explain: bool,
    trace: bool,
    dark: bool,
    **rest: Any,
) -> None:
    """Predict, then print and write what was asked for."""
    one_of(json=as_json, csv=as_csv, explain=explain)
    if trace and explain:
        raise InputError(
            "--explain writes out the formulas of counted kernels, which a trace has none of; leave one out"
        )
    if gpu is None:
        raise InputError("no accelerator is named; pass --gpu NAME (`rooflens gpu` lists them) or --gpu ./my-card.toml")
    from rooflens.api import predict

    profile = predict(
        model if trace else load(model, mtp=rest["mtp"]),
        gpu,
        batch=batch,
        prompt=prompt,
        output=output,
        context=context,
        image_tokens=rest["image_tokens"],
        precision=dtypes(rest),
        conventions=_conventions(rest),
        trace=trace,
    )
    wanted = {kind: rest[kind] for kind in TARGETS if rest[kind]}
    check_targets(wanted, {"MODEL": model, "--gpu": gpu})
    made = files(profile, dark, wanted)
    printed = text(profile, as_json, as_csv, explain)
    write_all(made)
    if printed is None:
        from rooflens.render.table import profile_table

        show(profile_table(profile))
    else:
        click.echo(printed, nl=False)


def _conventions(rest: dict[str, Any]) -> Conventions:
    return Conventions(
        AttentionFlops(rest["attention_flops"]),
        Logits(rest["logits"]),
        TrafficModel(rest["traffic"]),
        Fusion(rest["fusion"]),
        LatentForm(rest["latent"]),
        checked_experts(rest["distinct_experts"]),
    )
