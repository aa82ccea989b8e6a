"""docs/source-map.md names modules and attributes that exist, and its second half is its first the other way round.

``python tests/test_source_map.py`` writes the second half.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "kubesched"
DOCUMENT = ROOT / "docs" / "source-map.md"
BACKWARD = "## Ours to upstream\n"


def rows(text: str) -> list[tuple[list[str], list[str]]]:
    """Each row of the first half: upstream's files, and our names."""
    forward = text.partition(BACKWARD)[0]
    lines = [line.strip("| ").split(" | ") for line in forward.splitlines() if line.startswith("| ")]
    cells = [line for line in lines if len(line) == 3 and line[0] not in ("upstream", "---")]
    return [(files.split(", "), re.findall(r"`([\w.]+)`", ours)) for files, _, ours in cells]


def module_file(name: str) -> Path | None:
    """The file of a module or package below kubesched."""
    base = SOURCE.joinpath(*name.split("."))
    return next((file for file in (base.with_suffix(".py"), base / "__init__.py") if file.is_file()), None)


def split(name: str) -> tuple[str, list[str]]:
    """A dotted name as the longest module that it begins with, and the attributes after that."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        module = ".".join(parts[:end])
        if module_file(module) is not None:
            return module, parts[end:]
    return "", parts


@cache
def syntax(file: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(file.read_text("utf-8"))


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or a class, function or method in one."""
    module, attributes = split(name)
    file = module_file(module) if module else None
    if file is None:
        return False
    body: list[ast.stmt] = syntax(file).body
    for attribute in attributes:
        definitions = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        found = next((each for each in body if isinstance(each, definitions) and each.name == attribute), None)
        if found is None:
            return False
        body = found.body
    return True


def backward(text: str) -> str:
    """The second half: our modules with upstream's files."""
    files_of: dict[str, dict[str, None]] = {}
    for files, names in rows(text):
        for name in names:
            files_of.setdefault(split(name)[0], {}).update(dict.fromkeys(files))
    lines = [f"| `{module}` | {', '.join(files)} |" for module, files in sorted(files_of.items())]
    return "\n".join(("", "| here | upstream |", "| --- | --- |", *lines)) + "\n"


def test_every_name_of_ours_exists() -> None:
    """Each name in the table is a module, class, function or method of kubesched."""
    names = [name for _, ours in rows(DOCUMENT.read_text("utf-8")) for name in ours]
    assert len(names) > 100
    assert [name for name in names if not exists(name)] == []


def test_a_wrong_name_is_noticed() -> None:
    """A module, a class or a method that does not exist is not taken for one that does."""
    assert exists("cluster.table.NodeTable")
    assert not any(map(exists, ("cluster.tables", "cluster.table.NodeTabel", "cluster.table.NodeTable.no_such_method")))


def test_both_halves_say_the_same() -> None:
    """The second half is generated from the first: run this file as a program after a change."""
    text = DOCUMENT.read_text("utf-8")
    assert text.partition(BACKWARD)[2] == backward(text)


if __name__ == "__main__":
    text = DOCUMENT.read_text("utf-8")
    DOCUMENT.write_text(text.partition(BACKWARD)[0] + BACKWARD + backward(text), "utf-8")
