"""A command whose flags are parsed by our own parser, with Go's rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


class GoFlagsCommand(click.Command):
    """Passes its arguments on unparsed, because click would parse Go's flags differently."""

    def __init__(self, name: str | None, *, usage: Callable[[str], str], **attributes: Any) -> None:
        """`usage` returns the help for a program of a given name."""
        super().__init__(name, add_help_option=False, **attributes)
        self._usage = usage

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return []

    def get_help(self, ctx: click.Context) -> str:
        return self._usage(ctx.command_path)
