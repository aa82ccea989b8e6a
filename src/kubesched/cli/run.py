"""`kubesched run`: the daemon, with kube-scheduler's flags."""

from __future__ import annotations

import sys

import click

from kubesched.daemon.flags import usage
from kubesched.daemon.main import start


class _GoFlags(click.Command):
    """Passes its arguments on unparsed: click would parse Go's flags differently."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return []

    def get_help(self, ctx: click.Context) -> str:
        return usage(ctx.command_path)


@click.command(cls=_GoFlags, add_help_option=False)
@click.pass_context
def command(context: click.Context) -> None:
    """Schedule a real cluster: kube-scheduler's flags, configuration file and endpoints."""
    context.exit(start(context.args, program=context.command_path))


def main() -> None:
    """The program `kube-scheduler`: the same, for manifests and scripts that start it by that name."""
    sys.exit(start(sys.argv[1:], program="kube-scheduler"))
