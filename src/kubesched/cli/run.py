"""`kubesched run`: the daemon, with kube-scheduler's flags."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import click

from kubesched.daemon import start
from kubesched.daemon.flags import usage

if TYPE_CHECKING:
    from kubesched.framework.registry import PluginSource


class _GoFlags(click.Command):
    """Leaves its words alone: click would read Go's flags in its own way."""

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


class _Run(ModuleType):
    """This module, callable.

    Once Python has imported `kubesched.cli.run`, that name of the package is this module and no longer the function
    that the package exports under it. So both can be called.
    """

    def __call__(self, plugins: Iterable[PluginSource] = (), argv: Sequence[str] | None = None) -> int:
        return start(argv, plugins=plugins)


sys.modules[__name__].__class__ = _Run
