"""The wheel and the source archive, installed and tried on every Python of this machine."""

from __future__ import annotations

import gzip
import hashlib
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.interpreters import SUPPORTED, interpreters

ROOT = Path(__file__).parents[2]
OWN = "{}.{}".format(*sys.version_info[:2])
"""The version that the whole suite runs on."""
TOOLS = ("hatchling", "hypothesis", "pytest", "pytest-asyncio", "trustme")
CORPUS = ROOT / "tests/conformance/corpus/taints.jsonl.gz"
SENSITIVE = ("tests/history/test_writer.py", "tests/scheduler/test_extender.py")
"""Tests whose subject differs between versions of Python: SQLite connections left open, and json's error messages."""


def run(*words: str | Path, cwd: Path, path: Path | None = None) -> str:
    """Run a program that must succeed, away from the source tree. Return all that it printed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if path is not None:
        environment["PATH"] = os.pathsep.join((str(path), environment["PATH"]))
    command = [str(word) for word in words]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


class NoPackagesError(Exception):
    """Dependencies could not be had, which says nothing about kubesched."""


@dataclass
class Environment:
    """A virtual environment of one Python, and an empty folder to work in."""

    bin: Path
    folder: Path

    def __call__(self, program: str, *words: str | Path, cwd: Path | None = None) -> str:
        """Run one of its programs."""
        return run(self.bin / program, *words, cwd=cwd or self.folder, path=self.bin)


def install(version: str, package: Path, folder: Path) -> Environment:
    """Install a package in an environment with its dependencies, which is kept for the next time."""
    uv = (sys.executable, "-m", "uv")
    kept = (
        ROOT / ".cache/pythons" / f"{version}-{hashlib.sha256((ROOT / 'pyproject.toml').read_bytes()).hexdigest()[:12]}"
    )
    environment = Environment(kept / "bin", folder)
    into = ("pip", "install", "--quiet", "--python", environment.bin / "python")
    if not (kept / ".ready").exists():
        run(*uv, "venv", "--quiet", "--clear", "--python", interpreters()[version], kept, cwd=folder)
        try:
            run(*uv, *into, "--requirements", ROOT / "pyproject.toml", *TOOLS, cwd=folder)
        except AssertionError as error:
            raise NoPackagesError(str(error).splitlines()[-1]) from error
        (kept / ".ready").touch()
    run(*uv, *into, "--reinstall", "--no-deps", "--no-index", "--no-build-isolation", package, cwd=folder)
    run(*uv, "pip", "check", "--quiet", "--python", environment.bin / "python", cwd=folder)
    return environment


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The source archive, and the wheel built from what is in it."""
    folder = tmp_path_factory.mktemp("packages")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, cwd=ROOT)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    run(
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "wheel",
        "-d",
        folder,
        cwd=folder / archive.name[: -len(".tar.gz")],
    )
    (wheel,) = folder.glob("*.whl")
    return archive, wheel


def try_out(version: str, package: Path, folder: Path) -> None:
    """Commands, the demo, the corpus, a new plugin's own tests and some of ours work with nothing but the package."""
    environment = install(version, package, folder)
    where = environment("python", "-c", "import sys, kubesched; print(sys.version_info[:2], kubesched.__file__)")
    assert where.startswith(f"({version.replace('.', ', ')}) {environment.bin.parent}/lib/")
    assert environment("kubesched", "--version").startswith("kubesched, version")
    assert "urgent-1 goes to ssd-b1" in environment("kubesched", "demo")
    assert "--leader-elect" in environment("kube-scheduler", "--help")
    assert "POD" in environment("kubectl-why", "--help")
    recorded = folder / "recorded.jsonl"
    recorded.write_bytes(b"".join(gzip.decompress(CORPUS.read_bytes()).splitlines(keepends=True)[:20]))
    said = environment("kubesched", "conformance", recorded)
    assert "20 scenarios" in said
    assert " 0 differences" in said
    environment("kubesched", "new-plugin", "QuietHours")
    assert " passed" in environment("python", "-m", "pytest", cwd=folder / "quiet-hours")
    if version != OWN:
        assert " passed" in environment("python", "-m", "pytest", "-p", "no:cacheprovider", *SENSITIVE, cwd=ROOT)


@pytest.fixture(scope="module")
def attempts(
    packages: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[None]]]:
    """One attempt for every version, two at a time. The first gets the source archive, the others the wheel."""
    with ThreadPoolExecutor(2) as threads:
        yield {
            version: threads.submit(try_out, version, packages[number > 0], tmp_path_factory.mktemp(version))
            for number, version in enumerate(interpreters())
        }


def test_what_is_in_them(packages: tuple[Path, Path]) -> None:
    """The wheel has the package with its data and licence, and no tests; the source archive has what builds it."""
    archive, wheel = packages
    names = zipfile.ZipFile(wheel).namelist()
    assert {"kubesched/py.typed", "kubesched/cli/demo.yaml"} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"kubesched"}
    with tarfile.open(archive) as files:
        sources = {name.partition("/")[2] for name in files.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "src/kubesched/__init__.py"} <= sources
    assert not [name for name in sources if name.startswith((".cache", ".venv", "build/"))]


@pytest.mark.parametrize("version", SUPPORTED)
def test_it_works_where_it_is_installed(version: str, attempts: dict[str, Future[None]]) -> None:
    """The package works on every Python of this machine."""
    if version not in attempts:
        pytest.skip(f"Python {version} is not on this machine")
    try:
        attempts[version].result()
    except NoPackagesError as error:
        pytest.skip(f"dependencies for Python {version}: {error}")
