"""The commands that the documents show, as people would type them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
GENERATED = ROOT / "docs/reference/commands.md"
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")} - {GENERATED})
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`([^`]+)`")
SHELLS = ("", "sh", "console")
ENDS = ("|", "||", "&&", "&", ">")


def page_name(path: Path) -> str:
    """A page's path as people write it."""
    return str(path.relative_to(ROOT))


def lines(path: Path) -> Iterator[str]:
    """The lines of a page's blocks for a shell, each a whole command; prompts are removed."""
    for language, block in _BLOCK.findall(path.read_text("utf-8")):
        for line in block.replace("\\\n", " ").splitlines() if language in SHELLS else ():
            yield line.removeprefix("$ ")


def typed(path: Path, program: str) -> Iterator[list[str]]:
    """The arguments of every call of a program in a page's blocks, up to a pipe, a redirection or a remark."""
    for line in lines(path):
        if line.startswith(f"{program} "):
            yield arguments(line)


def mentioned(path: Path) -> Iterator[list[str]]:
    """The arguments of every call of kubesched within a sentence."""
    for command in _INLINE.findall(_BLOCK.sub("", path.read_text("utf-8"))):
        if command.startswith("kubesched ") and "..." not in command:
            yield arguments(command.replace("\n", " "))


def arguments(line: str) -> list[str]:
    """What follows the program. Remarks stand after a number sign, or after two blanks."""
    words = shlex.split(re.split(r" {2,}(?=[^-\s])", line)[0], comments=True)
    end = next((place for place, word in enumerate(words) if word in ENDS), len(words))
    return words[1:end]
