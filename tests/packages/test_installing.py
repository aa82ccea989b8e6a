"""The commands that install kubesched from its checkout, each in an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.pages import ROOT, Script

OFFLINE = ("No matching distribution found", "Could not find a version", "Failed to fetch", "Request failed")
"""What pip and uv say when there is no package index."""


class Environment:
    """A fresh virtual environment that is active, a pipx, and a folder for what pipx makes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "env/bin"
        self.shell(f"{sys.executable} -m venv {folder / 'env'}")
        pipx = self.bin / "pipx"
        pipx.write_text(f'#!/bin/sh\nexec {sys.executable} -m uv tool run --quiet pipx "$@"\n', "utf-8")
        pipx.chmod(0o755)

    def shell(self, command: str) -> str:
        """Type a command in the checkout. Return what it printed; without a package index, skip the test."""
        homes = {"PIPX_HOME": str(self.folder / "pipx"), "PIPX_BIN_DIR": str(self.folder / "bin")}
        paths = (self.bin, self.folder / "bin", os.environ["PATH"])
        environment = {**os.environ, **homes, "PATH": os.pathsep.join(map(str, paths))}
        environment.pop("PYTHONPATH", None)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if done.returncode and any(each in done.stderr for each in OFFLINE):
            pytest.skip(f"no package index: {done.stderr.splitlines()[-1]}")
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """One for all tests: what is installed twice is installed once."""
    return Environment(tmp_path_factory.mktemp("installing"))


def test_installing(script: Callable[[str], Script], fresh: Environment) -> None:
    """After each command of the README kubesched is there; the last one runs the demo and leaves nothing behind."""
    install, apart, run = script("README.md").take()
    fresh.shell(install)
    assert fresh.shell("command -v kubesched").strip() == str(fresh.bin / "kubesched")
    assert "urgent-1 goes to ssd-b1" in fresh.shell("kubesched demo")
    fresh.shell(apart)
    assert fresh.shell(f"{fresh.folder / 'bin/kubesched'} --version").startswith("kubesched, version")
    fresh.shell("pipx uninstall kubesched")
    assert "urgent-1 goes to ssd-b1" in fresh.shell(run)
    assert not (fresh.folder / "bin/kubesched").exists()


@pytest.mark.parametrize(("page", "module"), [("gpu-sharing", "matplotlib"), ("gym", "gymnasium")])
def test_extras(script: Callable[[str], Script], fresh: Environment, page: str, module: str) -> None:
    """What an example needs beside kubesched is installed with it."""
    (command,) = script(f"examples/{page}/README.md").take()
    fresh.shell(command)
    where = fresh.shell(f"python -c 'import {module}, kubesched; print(kubesched.__file__)'")
    assert where.startswith(str(fresh.folder))
