"""`rocke-aot`: a group of commands, each in its own module that is imported only when it runs."""

from __future__ import annotations

import importlib
import os
import sys

import click

from aot.cli.errors import guarded
from aot.cli.streams import mend_streams
from aot.workers.interrupt import stop_on_signals

#: Command name: module under aot.cli that has it as `command`, and one line for the overview.
COMMANDS: dict[str, tuple[str, str]] = {
    "compile-all": ("compile_all", "Build a kernel cache: enumerate, compile in parallel, write one file."),
    "count": ("count", "Count candidates, admitted and buildable kernels."),
    "describe": ("describe", "Show what a grid is made of, axis by axis."),
    "inspect": ("inspect", "Look into a cache: kernels, resources, reasons."),
    "plan": ("plan", "Print the launch plan of a problem from a cache."),
    "verify": ("verify", "Run the kernels of a cache on the emulator and compare with float64."),
    "doctor": ("doctor", "Say which toolchain was found, why, and what is missing."),
}


class LazyGroup(click.Group):
    """Knows its commands by name and imports one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        # Work is shared between processes, never between threads of one: numpy's own would fight over the cores.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        command = importlib.import_module(f"aot.cli.{COMMANDS[cmd_name][0]}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The overview, from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, sentence) for name, (_, sentence) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="rocke-aot", prog_name="rocke-aot")
def group() -> None:
    """Ahead-of-time kernel-cache compiler for convolution on AMD GPUs.

    \b
    Example:
      rocke-aot compile-all --arch gfx950 --dtype bf16 --direction fwd --limit 2000 --out caches
    """


def run(arguments: list[str]) -> int:
    """Run one command line; the exit code."""
    return guarded(lambda: _invoke(arguments or ["--help"]), as_json="--json" in arguments)


def _invoke(arguments: list[str]) -> object:
    # Not `group.main`: it writes to the terminal and ends the process on its own account when it is interrupted.
    with group.make_context("rocke-aot", arguments) as context:
        return group.invoke(context)


def main() -> None:
    """The console script."""
    mend_streams()
    stop_on_signals()
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
