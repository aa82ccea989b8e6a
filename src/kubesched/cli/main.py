"""The `kubesched` command: one module per subcommand, loaded when it is asked for."""

from __future__ import annotations

import importlib

import click

COMMANDS = {
    "conformance": "Replay recorded kube-scheduler decisions and report any difference.",
    "demo": "Schedule a mixed set of pods on an in-memory cluster and show why each went where.",
}
"""Subcommands and what `kubesched --help` says of them; `kubesched.cli.NAME:command` is the code."""


class Commands(click.Group):
    """Finds subcommands by name, so that `kubesched --help` imports none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"kubesched.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kubesched", prog_name="kubesched")
def main() -> None:
    """A complete Kubernetes scheduler in Python: kube-scheduler's decisions, plugins in Python, every decision
    explained.
    """
