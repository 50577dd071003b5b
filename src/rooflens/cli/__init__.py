"""The command line: a thin shell. Each command is a module, imported when it runs."""

from __future__ import annotations

import io
import os
import signal
import sys
from importlib import import_module

import click

from rooflens.errors import RooflensError
from rooflens.version import __version__

_LONGEST = 1200
"""Characters of an error at most: what was read may be megabytes."""

COMMANDS = {
    "profile": "Run a model for real: measure prefill and decode under this machine's ceilings.",
    "predict": "Predict prefill and decode of a model on an accelerator.",
    "import": "Read a trace of another profiler: the same profile as of a run here.",
    "model": "Print the facts of a model: parameters, layers, weight and KV bytes.",
    "gpu": "List the accelerators, or print one with each number's source.",
    "watch": "Watch a server (vLLM, SGLang) by its metrics: where it sits under the roofs now.",
    "ceilings": "Measure what this machine itself reaches, and keep it.",
    "explain": "Explain the roofline model: a 30-second revision and a glossary.",
    "command": "Print, or run, the line that records a run with a vendor's profiler.",
    "place": "Put any FLOP and byte count under a roof.",
}
"""Commands with their one-line help, so that `--help` imports none of them."""


_MODULES = {"import": "import_file"}
"""Modules of commands whose names are words of the language."""


def module_of(command: str) -> str:
    """The module in which the command of that name is."""
    return f"rooflens.cli.{_MODULES.get(command, command)}"


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """The names of the commands, in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command `cmd_name`, or None."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(module_of(cmd_name)).command
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with their help, importing none."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="rooflens")
@click.pass_context
def cli(context: click.Context) -> None:
    """What limits LLM inference on this machine: compute, memory, link or overhead; and by how much."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main() -> None:
    """Run the command line; exit status 2 for bad input, with one sentence and no traceback."""
    try:
        _tolerate()
        _end_tidily()
        status = cli.main(prog_name="rooflens", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except RooflensError as error:
        sys.exit(_fail(str(error)))
    except click.ClickException as error:
        sys.exit(_fail(_sentence(error)))
    except (KeyboardInterrupt, click.Abort):
        _fail("interrupted")
        sys.exit(130)
    except MemoryError:
        sys.exit(_fail("memory ran out; free some, or ask for less at once"))
    except ImportError as error:
        sys.exit(_fail(f"a package that rooflens needs could not be imported ({error}); install rooflens again"))
    except BrokenPipeError:
        _drop_output()
        sys.exit(141)
    except OSError as error:
        _drop_output()
        sys.exit(_fail(f"the output could not be written ({error.strerror})"))
    sys.exit(status if isinstance(status, int) else 0)


def _end_tidily() -> None:
    """End on SIGTERM and SIGHUP as at the end of a program, so that temporary files go; left alone where ignored."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda told, _frame: sys.exit(128 + told))


def _tolerate() -> None:
    """Print what a terminal's encoding lacks as a question mark; without a standard output, print nowhere."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (open as long as the process)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _drop_output() -> None:
    """Nothing more is written when the interpreter flushes standard output at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _sentence(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    hint = f" (see '{context.command_path} --help')" if context is not None else ""
    return " ".join(error.format_message().split()) + hint


def _fail(text: str) -> int:
    """Print one sentence of bounded length, control characters escaped; return the exit status."""
    line = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
    line = line if len(line) <= _LONGEST else f"{line[: _LONGEST - 200]} ... {line[-190:]}"
    if sys.stderr is not None:
        print(f"rooflens: {line}", file=sys.stderr)
    return 2
