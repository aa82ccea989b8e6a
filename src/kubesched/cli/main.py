"""The `kubesched` command: one module per subcommand, imported on demand."""

from __future__ import annotations

import difflib
import errno
import importlib
import os
import sys
from io import TextIOWrapper
from typing import Any

import click

COMMANDS = {
    "demo": "Start a cluster in memory, run a mixed set of pods on it and explain each placement.",
    "explain": "Explain why pods are pending, or why they are where they are, on any cluster.",
    "ui": "Show a cluster in a browser: nodes, queue, pending pods, decisions, timeline, configuration.",
    "up": "Start a whole local cluster in one process: API server, controllers, simulated kubelets, scheduler.",
    "run": "Schedule a real cluster: kube-scheduler's flags, configuration file and endpoints.",
    "plugins": "List all plugins: where each comes from, its extension points, and whether it is vectorised.",
    "new-plugin": "Write a small installable project with a plugin, its tests, a configuration and a README.",
    "snapshot": "Write a running cluster to a file, for simulate, explain, compare and the others.",
    "record": "Write a running cluster and every change in it to a file, until stopped.",
    "simulate": "Run scenarios on a virtual clock: a whole cluster in one process, hours of it in seconds.",
    "compare": "Run the same arrivals with several configurations, and show what differs.",
    "capacity": "Count how many more pods fit, say what runs out first, and which nodes would be needed.",
    "whatif": "Say what drains, failures and new nodes would do, and which nodes could go.",
    "trace": "Import public cluster traces as scenarios: openb, Alibaba, Azure, Helios, Philly, Borg.",
    "sweep": "Run scenarios with many configurations and seeds, on all cores or many machines.",
    "tune": "Search for weights and plugin arguments that do better, and show by how much.",
    "learn": "Learn how a scheduler works, in seven runnable steps.",
    "conformance": "Replay recorded kube-scheduler decisions and report any difference.",
    "torture": "Run the scheduler in a deterministic simulation with faults, and check that nothing goes wrong.",
    "completion": "Print a script that makes a shell complete commands and flags.",
    "bench": "Measure decisions per second, and pods per second through the whole loop.",
}
"""The subcommands and their summaries in `kubesched --help`. The code is `kubesched.cli.NAME:command`."""


class Commands(click.Group):
    """Finds subcommands by name, so that `kubesched --help` imports none of them."""

    def main(self, *args: Any, **more: Any) -> Any:
        """Run a command. What is wrong with the output, or with a file that a command writes, is one line."""
        if sys.stdout is None:  # closed by the caller
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - until the process ends
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):  # what the locale cannot show must not end the command
                stream.reconfigure(errors="replace" if stream.isatty() else "backslashreplace")
        try:
            return super().main(*args, **more)
        except OSError as problem:
            if problem.errno == errno.ENOSPC:
                sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - its buffer cannot be written either
                sys.exit(f"Error: {problem.strerror}: the output is not complete")
            if problem.filename is None:
                raise
            sys.exit(f"Error: {problem.filename}: {problem.strerror}")

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"kubesched.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            close = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"the commands are {', '.join(COMMANDS)}"
            raise click.UsageError(f"there is no command {args[0]!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kubesched", prog_name="kubesched")
def main() -> None:
    """A complete Kubernetes scheduler in Python: kube-scheduler's decisions, plugins in Python, every decision
    explained.

    \b
    See decisions explained:      kubesched demo
    Why are my pods pending?      kubesched explain
    Start a cluster for kubectl:  kubesched up --nodes=5
    With a plugin of your own:    kubesched up --plugin=rule.py --enable=rule
    Schedule a real cluster:      kubesched run --config=second.yaml
    Get help for a command:       kubesched COMMAND --help

    Results go to stdout, everything else to stderr. NO_COLOR is respected.
    """
