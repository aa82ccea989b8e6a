"""The commands that the documents show, as people would type them, and which test runs each of them."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from click.testing import CliRunner

from kubesched.cli.main import main

ROOT = Path(__file__).parents[1]
GENERATED = ROOT / "docs/reference/commands.md"
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")})
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`([^`]+)`")
_REMARK = re.compile(r"(?m)\s+# [^\n]*$")
_HERE = re.compile(r"<<(\w+)")
ENDS = ("|", "||", "&&", "&", ">")


def page_name(path: Path) -> str:
    """A page's path as people write it."""
    return str(path.relative_to(ROOT))


@cache
def commands(path: Path) -> tuple[str, ...]:
    """The commands of a page's blocks for a shell, without prompts and remarks; those of several lines are whole."""
    found = []
    for language, block in BLOCK.findall(path.read_text("utf-8")):
        lines = block.replace("\\\n", " ").splitlines()
        if language == "console":
            found += [_REMARK.sub("", line[2:]) for line in lines if line.startswith("$ ")]
        elif language == "sh":
            found += _whole(lines)
    return tuple(found)


def _whole(lines: list[str]) -> Iterator[str]:
    """Lines, put together where a loop, a quoted text or a document goes on."""
    command = ""
    for line in lines:
        command = f"{command}\n{line}" if command else line
        if not _goes_on(command):
            if shown := _REMARK.sub("", command).strip():
                yield shown
            command = ""
    assert not command, f"this command has no end: {command}"


def _goes_on(command: str) -> bool:
    if command.startswith("for "):
        return not command.endswith("\ndone")
    if document := _HERE.search(command):
        return not command.endswith(f"\n{document[1]}")
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return True
    return False


def typed(path: Path, program: str) -> Iterator[list[str]]:
    """The arguments of every call of a program in a page's blocks, up to a pipe or a redirection."""
    yield from (arguments(command) for command in commands(path) if command.split()[0] == program)


def mentioned(path: Path) -> Iterator[list[str]]:
    """The arguments of every call of kubesched within a sentence."""
    for command in _INLINE.findall(BLOCK.sub("", path.read_text("utf-8"))):
        if command.startswith("kubesched ") and "..." not in command:
            yield arguments(command.replace("\n", " "))


def arguments(command: str) -> list[str]:
    """What follows the program, up to a pipe or a redirection."""
    return _split(command)[0]


def _split(command: str) -> tuple[list[str], list[str]]:
    """The arguments of a command, and what follows them."""
    words = shlex.split(command, comments=True)
    end = next((place for place, word in enumerate(words) if word in ENDS), len(words))
    return words[1:end], words[end:]


def type_in(command: str, *more: str, **others: str) -> int:
    """Run a command of kubesched, and what follows it in a shell. Words can be replaced, and options added.

    Returns the exit code of kubesched: 0, or 3 for no. What follows must succeed.
    """
    words, rest = _split(command)
    words = [others.get(word, word) for word in words]
    done = CliRunner().invoke(main, [*words, *more])
    assert done.exit_code in (0, 3), f"{words}: {done.output}\n{done.exception!r}"
    if rest:
        following = f"cat {rest[0]} {shlex.join(rest[1:])}"
        subprocess.run(["bash", "-euo", "pipefail", "-c", following], input=done.stdout, text=True, check=True)
    return done.exit_code


class Script:
    """The commands of a page that one test runs. A test that leaves one of them fails."""

    def __init__(self, page: str, mine: list[str]) -> None:
        self.page = page
        self.left = mine

    def take(self, *beginnings: str) -> list[str]:
        """The commands that begin like this, or all that are left, to be run."""
        taken = [command for command in self.left if command.startswith(beginnings or "")]
        assert taken, f"{self.page} has nothing that begins with {beginnings}"
        self.left = [command for command in self.left if command not in taken]
        return taken

    def words(self, *beginnings: str) -> list[list[str]]:
        """The same as arguments, without the program."""
        return [arguments(command) for command in self.take(*beginnings)]
