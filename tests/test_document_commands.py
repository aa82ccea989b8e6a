"""Every command of every page exists, with the flags that the page gives it, and a test types it."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from tests.pages import PAGES, ROOT, lines, mentioned, page_name, typed

from kubesched.cli.go_flags import GoFlagsCommand
from kubesched.cli.main import main
from kubesched.daemon.flags import parse

NO_VALUE = " an argument"
"""Sentences name flags without their values."""

PROGRAMS = ("curl", "docker", "helm", "jq", "kubectl", "kubesched", "make", "pip", "pipx", "python")
DRAWINGS = {"docs/architecture.md"}
EXAMPLES = "tests/kubectl/test_examples.py"
TYPED_BY = {
    "README.md": ("tests/kubectl/test_pages.py", "tests/packages/test_pythons.py"),
    "docs/guides/contrib.md": ("tests/kubectl/test_pages.py", "tests/test_typed_guides.py"),
    "docs/guides/deploy.md": (
        "tests/kubectl/test_pages.py",
        "tests/kubectl/test_typed_daemons.py",
        "tests/deploy/test_chart.py",
    ),
    "docs/guides/devices.md": ("tests/kubectl/test_guide.py",),
    "docs/guides/history.md": ("tests/kubectl/test_pages.py", "tests/kubectl/test_typed_daemons.py"),
    "docs/guides/learn.md": ("tests/test_typed_guides.py",),
    "docs/guides/pending.md": ("tests/kubectl/test_pages.py",),
    "docs/guides/plugins.md": ("tests/kubectl/test_typed_daemons.py", "tests/test_typed_guides.py"),
    "docs/guides/research.md": ("tests/test_typed_guides.py",),
    "docs/guides/scenarios.md": ("tests/test_typed_guides.py",),
    "docs/guides/snapshots.md": ("tests/kubectl/test_pages.py",),
    "docs/guides/ui.md": ("tests/kubectl/test_typed_daemons.py",),
    "docs/guides/up.md": ("tests/kubectl/test_guide.py",),
    "docs/guides/whatif.md": ("tests/kubectl/test_pages.py",),
    "docs/performance.md": ("tests/test_typed_guides.py",),
    "docs/reference/conformance.md": ("tests/test_typed_guides.py",),
    "docs/reliability.md": ("tests/test_typed_guides.py",),
    "docs/tutorial.md": ("tests/site/test_site.py",),
    "examples/coscheduling/README.md": (EXAMPLES,),
    "examples/cost-aware/README.md": (EXAMPLES,),
    "examples/example-plugin/README.md": (EXAMPLES,),
    "examples/gpu-sharing/README.md": (EXAMPLES,),
    "examples/gpus/README.md": (EXAMPLES,),
    "examples/gym/README.md": (EXAMPLES,),
    "examples/index-scheduling/README.md": (EXAMPLES,),
    "examples/node-number/README.md": (EXAMPLES,),
    "examples/qos-sort/README.md": (EXAMPLES,),
    "examples/sample2/README.md": (EXAMPLES,),
}
"""The tests that type the commands of a page. What only `make` does is what the tests themselves are started with."""


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


def test_every_page_is_typed() -> None:
    """A page with commands has tests that read it, so that a new page, and a command that fails, are noticed."""
    found = {page_name(page) for page in PAGES if programs_of(page) - {"make"}}
    assert found - DRAWINGS == set(TYPED_BY)
    for page, tests in TYPED_BY.items():
        name = page.removesuffix("/README.md").rpartition("/")[2]
        assert [each for each in tests if name not in (ROOT / each).read_text("utf-8")] == [], page


def programs_of(page: Path) -> set[str]:
    """The programs that a page's blocks start."""
    return {line.partition(" ")[0] for line in lines(page)} & {*PROGRAMS}


def test_mistakes_are_found() -> None:
    """The check itself fails for what does not exist."""
    assert complaint(["simulate", "a.yaml"]) == ""
    assert "--twice" in complaint(["simulate", "a.yaml", "--twice"])
    assert "nodez" in complaint(["up", "--nodez=3"])
    assert "no command 'simulat'" in complaint(["simulat"])
