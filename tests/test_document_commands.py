"""Every command of every page exists, with the flags that the page gives it."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from tests.pages import PAGES, ROOT, mentioned, page_name, typed

from kubesched.cli.go_flags import GoFlagsCommand
from kubesched.cli.main import main
from kubesched.daemon.flags import parse

NO_VALUE = " an argument"
"""Sentences name flags without their values."""


def complaint(words: list[str], command: click.Command = main) -> str:
    """What is wrong with the arguments of a command, by its own parser; files need not exist."""
    if isinstance(command, GoFlagsCommand):
        return "; ".join(parse(words, command.make_options()).problems)
    context = click.Context(command, **command.context_settings)
    try:
        _, rest, _ = command.make_parser(context).parse_args(list(words))
    except click.UsageError as error:
        return error.format_message()
    if not isinstance(command, click.Group) or not rest:
        return ""
    found = command.get_command(context, rest[0])
    return f"there is no command {rest[0]!r}" if found is None else complaint(rest[1:], found)


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_commands_and_flags_exist(page: Path) -> None:
    """All calls of kubesched, in blocks and in sentences, are understood by its parsers."""
    found = {" ".join(words): complaint(words) for words in (*typed(page, "kubesched"), *mentioned(page))}
    assert {words: said for words, said in found.items() if said and NO_VALUE not in said} == {}


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_targets_exist(page: Path) -> None:
    """All calls of make name targets of the Makefile."""
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    inline = re.findall(r"`make ([a-z][a-z-]*)`", page.read_text("utf-8"))
    named = [word for words in typed(page, "make") for word in words if "=" not in word]
    assert {*inline, *named} <= targets


def test_mistakes_are_found() -> None:
    """The check itself fails for what does not exist."""
    assert complaint(["simulate", "a.yaml"]) == ""
    assert "--twice" in complaint(["simulate", "a.yaml", "--twice"])
    assert "nodez" in complaint(["up", "--nodez=3"])
    assert "no command 'simulat'" in complaint(["simulat"])
