"""`rooflens profile`: run a model for real and place what it reached under this machine's own ceilings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from rooflens.cli.options import TARGETS, output_options
from rooflens.cli.output import check_targets, narrow, progress_bar, show, write_all
from rooflens.cli.rendering import files, text
from rooflens.core.profile import Profile
from rooflens.core.scenario import AttentionFlops, Conventions, Fusion, Logits
from rooflens.errors import InputError

_STOPPED = 130


@click.command("profile", help="Run MODEL for real: measure prefill and decode under this machine's own ceilings.")
@click.argument("model")
@click.option("--random-weights", is_flag=True, help="Run a config or bundled name with random weights.")
@click.option("--batch", default="1", show_default=True, metavar="N[,N...]", help="Sequences; several make a sweep.")
@click.option("--prompt", default="512", show_default=True, metavar="N[,N...]", help="Prompt tokens of each sequence.")
@click.option("--output", type=int, default=64, show_default=True, help="Output tokens; 1 has no decode phase.")
@click.option("--dtype", help="fp32, bf16 or fp16; the fastest that the machine has unless given.")
@click.option("--device", help="A device of torch: cpu, cuda, cuda:1, mps; the first GPU, else the CPU, unless given.")
@click.option("--attn", default="auto", show_default=True, help="How attention runs, in the words of transformers.")
@click.option("--compile", "compiled", is_flag=True, help="Run through torch.compile.")
@click.option("--layers", type=int, help="Run the first layers of a large model, and scale to all.")
@click.option("--warmup", type=int, default=1, show_default=True, help="Runs before the timing.")
@click.option("--repeat", type=int, default=5, show_default=True, help="Timed runs; their median counts.")
@click.option("--ceilings", "part", metavar="NAME|FILE", help="Roofs of a part or TOML file, not those measured here.")
@click.option("--attention-flops", type=click.Choice([m.value for m in AttentionFlops]), default="causal",
              show_default=True, help="Count the pairs that a causal mask keeps, or all of them.")  # fmt: skip
@click.option("--logits", type=click.Choice([m.value for m in Logits]), default="last", show_default=True,
              help="Compute logits of the last token of each prompt, or of all.")  # fmt: skip
@click.option("--backend", type=click.Choice(["torch", "llamacpp"]), default="torch", show_default=True,
              help="What runs the model: PyTorch, or llama.cpp for a GGUF file.")  # fmt: skip
@click.option("--keep-traces", "keep", type=click.Path(path_type=Path, file_okay=False), help="Keep the traces there.")
@output_options
@click.pass_context
def command(context: click.Context, /, model: str, as_json: bool, as_csv: bool, dark: bool, **rest: Any) -> None:
    """Run, then print and write what was asked for; a run that was stopped prints what it has."""
    if as_json and as_csv:
        raise InputError("--json and --csv both write to standard output; pass one")
    wanted = {kind: rest[kind] for kind in TARGETS if rest[kind]}
    check_targets(wanted, {"MODEL": model, "--ceilings": rest["part"] or ""})
    batches, prompts = numbers("batch", rest["batch"]), numbers("prompt", rest["prompt"])
    if len(batches) * len(prompts) > 1:
        from rooflens.cli.profile_sweep import run_sweep

        run_sweep(model, (batches, prompts), rest, as_json=as_json, as_csv=as_csv, dark=dark, wanted=wanted)
        return
    with progress_bar() as progress:
        run = run_llamacpp if rest["backend"] == "llamacpp" else run_torch
        found = run(model, batches[0], prompts[0], rest, progress)
    made = files(found, dark, wanted)
    printed = text(found, as_json, as_csv)
    write_all(made)
    if printed is None:
        from rooflens.render.table import profile_table

        show(profile_table(found, narrow=narrow()))
    else:
        click.echo(printed, nl=False)
    if stopped(found):
        context.exit(_STOPPED)


def run_torch(model: str, batch: int, prompt: int, rest: dict[str, Any], progress: Any) -> Profile:
    """A run in PyTorch."""
    from rooflens.api import profile

    return profile(model, batch=batch, prompt=prompt, **options(rest), progress=progress)


def run_llamacpp(model: str, batch: int, prompt: int, rest: dict[str, Any], progress: Any) -> Profile:
    """A run in llama.cpp, which has no use for most options.

    Raises:
        InputError: one that it has no use for.
    """
    from rooflens.api import profile_llamacpp

    given = {
        "--device": rest["device"],
        "--dtype": rest["dtype"],
        "--layers": rest["layers"],
        "--keep-traces": rest["keep"],
    }
    given |= {"--compile": rest["compiled"], "--random-weights": rest["random_weights"], "--batch": batch > 1}
    useless = [name for name, value in given.items() if value]
    if useless:
        raise InputError(
            f"{useless[0]} means nothing to llama.cpp, which runs one sequence of the file as it is; leave it out"
        )
    sizes = {"output": rest["output"], "warmup": rest["warmup"], "repeat": rest["repeat"]}
    return profile_llamacpp(model, prompt=prompt, hardware=rest["part"], **sizes, progress=progress)


def options(rest: dict[str, Any]) -> dict[str, Any]:
    """The options of `api.profile` but for sizes."""
    counted = Conventions(AttentionFlops(rest["attention_flops"]), Logits(rest["logits"]), fusion=Fusion.FRAMEWORK)
    return {
        "output": rest["output"],
        "device": rest["device"],
        "dtype": rest["dtype"],
        "attention": rest["attn"],
        "layers": rest["layers"],
        "compiled": rest["compiled"],
        "random_weights": rest["random_weights"],
        "hardware": rest["part"],
        "warmup": rest["warmup"],
        "repeat": rest["repeat"],
        "conventions": counted,
        "keep": rest["keep"],
    }


def numbers(name: str, given: str) -> tuple[int, ...]:
    """The whole numbers of an option such as "1,4,16".

    Raises:
        InputError: something else.
    """
    words = [word.strip() for word in given.split(",")]
    if not all(word.isascii() and word.isdigit() and len(word) < 14 for word in words):
        raise InputError(f"--{name} is {given[:60]!r}; expected a whole number from 1, or several with commas")
    return tuple(dict.fromkeys(int(word) for word in words))


def stopped(profile: Profile) -> bool:
    """Whether the run was stopped before it was complete; standard error says so."""
    found = [finding.text for finding in profile.findings if finding.code == "interrupted"]
    if found:
        print(f"rooflens: {found[0]}", file=sys.stderr)
    return bool(found)
