"""Every command of every page exists, with the flags that the page gives it, and a test runs it."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from tests.pages import BLOCK, PAGES, ROOT, commands, mentioned, page_name, typed
from tests.run_by import NOT_RUN, RUN_BY, runner

from kubesched.cli.go_flags import GoFlagsCommand
from kubesched.cli.main import main
from kubesched.daemon.flags import parse

NO_VALUE = " an argument"
"""Sentences name flags without their values."""

LANGUAGES = {"", "console", "json", "py", "python", "sh", "sql", "yaml"}
PROGRAM = re.compile(r"^(\$ |(curl|docker|export|helm|jq|kubectl|kubesched|make|pip|pipx|python|[A-Z_]+=\S+)( |$))")
FORMS = ("[OPTIONS]", "kubectl --TLS-->")
"""What looks like a command and is none: how commands are called, and an arrow of a drawing."""


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


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_command_is_run(page: Path) -> None:
    """Each command in a block for a shell has a test that runs it, by tests/run_by.py, or a reason why none can."""
    name = page_name(page)
    unknown = [each for each in commands(page) if not runner(name, each) and not each.startswith(tuple(NOT_RUN))]
    assert unknown == []


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_commands_are_in_blocks_for_a_shell(page: Path) -> None:
    """A block without a language, or with another one, holds no commands: they would be run by no test."""
    blocks = BLOCK.findall(page.read_text("utf-8"))
    assert {language for language, _ in blocks} <= LANGUAGES
    others = [line for language, text in blocks if language not in ("console", "sh") for line in text.splitlines()]
    assert [line for line in others if PROGRAM.match(line) and not any(form in line for form in FORMS)] == []


def test_the_table_names_tests_that_take_their_commands() -> None:
    """Every test of the table exists and asks for its commands, and every line of the table is for some command."""
    used = {(name, runner(name, each)) for page in PAGES for name in [page_name(page)] for each in commands(page)}
    assert {(page, test) for page, tests in RUN_BY.items() for test in tests} <= used
    for test in {test for _, test in used if test}:
        file, name = test.split("::")
        text = (ROOT / file).read_text("utf-8")
        assert re.search(rf"^(async )?def {name}\([^)]*(script|readme): ", text, re.MULTILINE), test


def test_commands_of_several_lines_are_whole(tmp_path: Path) -> None:
    """Loops, documents, quoted texts and lines that go on are one command each; remarks and prompts are none."""
    page = tmp_path / "page.md"
    blocks = """```sh
for i in 1 2; do
  echo $i
done
cat > a <<END
b: c
END
echo 'one
two'
make x \\
    y    # a remark
```
```console
$ ls
a
```
"""
    page.write_text(blocks, "utf-8")
    found = commands(page)
    assert found[0].endswith("\ndone")
    assert found[1:] == ("cat > a <<END\nb: c\nEND", "echo 'one\ntwo'", "make x      y", "ls")


def test_mistakes_are_found() -> None:
    """The check itself fails for what does not exist."""
    assert complaint(["simulate", "a.yaml"]) == ""
    assert "--twice" in complaint(["simulate", "a.yaml", "--twice"])
    assert "nodez" in complaint(["up", "--nodez=3"])
    assert "no command 'simulat'" in complaint(["simulat"])
