"""The calls of make that documents show. Most take long, or are what runs the tests: their steps are looked at."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.pages import PAGES, ROOT, Script, arguments, page_name, typed
from tests.test_document_commands import complaint

WITH_MAKE = [page_name(page) for page in PAGES if "make " in page.read_text("utf-8") and any(typed(page, "make"))]
TOOLS = {"pytest", "ruff", "mypy", "lint-imports"}


def make(*words: str, folder: Path = ROOT) -> str:
    """What a call of make prints. The environment counts as made."""
    ready = [f"--old-file=.venv/.ready{part}" for part in ("", "-dev", "-docs")]
    done = subprocess.run(["make", *ready, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def steps(*words: str) -> list[list[str]]:
    """The programs of .venv that a target starts, with their arguments; names of environment variables are left out."""
    lines = make("--dry-run", *words).replace("\\\n", " ").splitlines()
    found = (re.search(r"^(?:[A-Z_0-9]+=\S+ )*\.venv/bin/(.+?)(?: \|\| .*)?$", line) for line in lines)
    return [shlex.split(step[1]) for step in found if step]


@pytest.mark.parametrize("page", [*WITH_MAKE, "docs/guides/testing.md"])
def test_targets(script: Callable[[str], Script], page: str) -> None:
    """The demo runs as the README shows it. Of every other target, each step starts something that exists."""
    for command in script(page).take():
        words = arguments(command[command.index("make") :])
        if words == ["demo"]:
            assert "urgent-1 goes to ssd-b1." in make(*words, f"VENV={sys.prefix}")
            continue
        for program, *rest in steps(*words):
            if program == "kubesched":
                assert complaint(rest) == "", command
            elif program == "python":
                assert rest[0] == "-m", command
                assert rest[1] in ("pip", "mkdocs") or find_spec(rest[1]), command
            else:
                assert program in TOOLS, command


def test_the_path(script: Callable[[str], Script], tmp_path: Path) -> None:
    """After this, kubesched is found."""
    (tmp_path / ".venv").symlink_to(sys.prefix)
    for page in ("README.md", "examples/README.md"):
        (command,) = script(page).take()
        done = subprocess.run(
            ["bash", "-c", f"{command}; command -v kubesched"], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert done.stdout == f"{tmp_path}/.venv/bin/kubesched\n"
