"""The Pythons of this machine that kubesched can run on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

SUPPORTED = ("3.11", "3.12", "3.13", "3.14")


@cache
def interpreters() -> dict[str, Path]:
    """The newest interpreter of each supported version: on the PATH, or installed by pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = {}
    for version in SUPPORTED:
        installed = sorted(pyenv.glob(f"{version}.*/bin/python"), key=_patch_level, reverse=True)
        candidates = [Path(sys.executable), *installed, Path(shutil.which(f"python{version}") or "")]
        chosen = next((each for each in candidates if _version(each) == version), None)
        if chosen is not None:
            found[version] = chosen
    return found


def _patch_level(python: Path) -> int:
    patch = python.parts[-3].rpartition(".")[2]
    return int(patch) if patch.isdecimal() else -1


def _version(python: Path) -> str:
    """Its version, or nothing if it does not run, as a shim of pyenv without a version behind it, or has no venv."""
    question = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", question], capture_output=True, text=True, timeout=120, check=False)
    except OSError:
        return ""
    return done.stdout.strip()
