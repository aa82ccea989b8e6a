"""A command whose flags are parsed by our own parser, with Go's rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

from kubesched.daemon.flags import Options


class GoFlagsCommand(click.Command):
    """Passes its arguments on unparsed, because click would parse Go's flags differently."""

    def __init__(
        self, name: str | None, *, usage: Callable[[str], str], options: Callable[[], Options], **attributes: Any
    ) -> None:
        """`usage` returns the help for a program of a given name, and `options` has the flags."""
        super().__init__(name, add_help_option=False, **attributes)
        self._usage = usage
        self.make_options = options

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return []

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The flags that begin like the last word; files for anything else."""
        if not incomplete.startswith("-"):
            return [CompletionItem(incomplete, type="file")]
        flags = [each for section in self.make_options().sections() for each in type(section).flags()]
        found = sorted((each for each in flags if f"--{each.name}".startswith(incomplete)), key=lambda each: each.name)
        return [CompletionItem(f"--{each.name}", help=each.help.partition(". ")[0]) for each in found]

    def get_help(self, ctx: click.Context) -> str:
        return self._usage(ctx.command_path)
