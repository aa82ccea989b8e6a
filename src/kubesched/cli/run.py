"""`kubesched run`: the daemon, with kube-scheduler's flags."""

from __future__ import annotations

import sys

import click

from kubesched.cli.go_flags import GoFlagsCommand
from kubesched.daemon.flags import Options, usage
from kubesched.daemon.main import start


@click.command(cls=GoFlagsCommand, usage=usage, options=Options)
@click.pass_context
def command(context: click.Context) -> None:
    """Schedule a real cluster: kube-scheduler's flags, configuration file and endpoints."""
    context.exit(start(context.args, program=context.command_path))


def main() -> None:
    """The program `kube-scheduler`: the same, for manifests and scripts that start it by that name."""
    sys.exit(start(sys.argv[1:], program="kube-scheduler"))
