"""`kubesched new-plugin`: what it writes passes its own tests, and is what type checkers and linters like."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubesched.cli.main import main
from kubesched.cli.new_plugin import FILES

WRITTEN = [
    "README.md",
    "pyproject.toml",
    "scheduler.yaml",
    "src/quiet_hours/__init__.py",
    "src/quiet_hours/plugin.py",
    "tests/test_quiet_hours.py",
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(project: Path, *words: str) -> str:
    """A tool of this Python's environment, in the project; its output."""
    done = subprocess.run([sys.executable, "-m", *words], cwd=project, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["QuietHours", "quiet-hours", "quiet_hours", "quietHours", "quiet hours"])
def test_names_in_any_spelling(here: Path, name: str) -> None:
    """They make the same project: a folder, a package and a class."""
    result = CliRunner().invoke(main, ["new-plugin", name])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Wrote QuietHours to quiet-hours/:\n")
    files = sorted(str(file.relative_to(here / "quiet-hours")) for file in here.rglob("*") if file.is_file())
    assert files == WRITTEN
    assert len(FILES) == len(WRITTEN)
    project = tomllib.loads((here / "quiet-hours/pyproject.toml").read_text())["project"]
    assert project["name"] == "quiet-hours"
    assert project["entry-points"]["kubesched.plugins"] == {"QuietHours": "quiet_hours.plugin:QuietHours"}
    assert not [file for file in files if "{{" in (here / "quiet-hours" / file).read_text()]


def test_the_next_step_can_be_typed(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs the tests with the Python that runs kubesched, and installs what that one lacks first."""
    said = CliRunner().invoke(main, ["new-plugin", "QuietHours"]).stderr
    command = said.strip().removeprefix("Next: ")
    assert command.endswith(" -m pytest")
    done = subprocess.run(["sh", "-c", f"{command} --co -q"], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    lacking = CliRunner().invoke(main, ["new-plugin", "OtherHours"]).stderr
    assert " -m pip install pytest hypothesis && " in lacking


def test_its_tests_pass_as_generated(here: Path) -> None:
    """In a fresh process, with the fixture that pytest finds by itself."""
    CliRunner().invoke(main, ["new-plugin", "QuietHours"])
    output = run(here / "quiet-hours", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio")
    assert "4 passed" in output


def test_it_is_as_clean_as_our_own_code(here: Path) -> None:
    """mypy strict and ruff have nothing to say."""
    CliRunner().invoke(main, ["new-plugin", "QuietHours"])
    run(here / "quiet-hours", "mypy", "--strict", "--cache-dir", str(here / "cache"), "src", "tests")
    run(here / "quiet-hours", "ruff", "check", "--no-cache", "--select", "E,F,W,I,UP,B", "--line-length", "120", ".")
    run(here / "quiet-hours", "ruff", "format", "--no-cache", "--check", "--line-length", "120", ".")


def test_installed_it_is_found_by_its_entry_point(here: Path) -> None:
    """Beside nothing but the installed package, any command knows it: the list, with its version, and a simulation."""
    CliRunner().invoke(main, ["new-plugin", "QuietHours"])
    install(here / "quiet-hours", here / "site")
    words = [sys.executable, "-c", "from kubesched.cli.main import main; main()"]
    environment = {**os.environ, "PYTHONPATH": str(here / "site")}
    done = subprocess.run([*words, "plugins", "-o", "json"], env=environment, capture_output=True, text=True)
    (found,) = (each for each in json.loads(done.stdout) if each["name"] == "QuietHours")
    assert (found["origin"], found["from"], found["version"]) == ("package", "quiet-hours", "0.1.0")
    assert found["vectorised"]
    (here / "scenario.yaml").write_text(
        """
        config: quiet-hours/scheduler.yaml
        objects:
        - {apiVersion: v1, kind: Node, metadata: {name: node1, labels: {example.com/resting: "true"}}}
        steps:
        - create:
            {apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {schedulerName: quiet-hours, containers:
              [{name: main, image: nginx}]}}
        - {after: 1s, expect: {pod: web, pending: true, because: 1 node(s) were resting}}
        """
    )
    done = subprocess.run([*words, "simulate", "scenario.yaml"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def install(project: Path, site: Path) -> None:
    """What pip leaves of a package of pure Python: its modules, and beside them what it offers."""
    metadata = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    shutil.copytree(project / "src", site)
    information = site / f"{metadata['name'].replace('-', '_')}-{metadata['version']}.dist-info"
    information.mkdir()
    text = f"Metadata-Version: 2.1\nName: {metadata['name']}\nVersion: {metadata['version']}\n"
    (information / "METADATA").write_text(text)
    groups = metadata["entry-points"].items()
    lines = [line for group, points in groups for line in (f"[{group}]", *map(" = ".join, points.items()))]
    (information / "entry_points.txt").write_text("\n".join(lines))


def test_a_folder_of_ones_choice(here: Path) -> None:
    """--path says where; an empty folder will do."""
    (here / "mine").mkdir()
    assert CliRunner().invoke(main, ["new-plugin", "QuietHours", "--path", "mine"]).exit_code == 0
    assert (here / "mine/src/quiet_hours/plugin.py").is_file()


def test_nothing_is_overwritten(here: Path) -> None:
    """A folder with something in it is left alone."""
    (here / "quiet-hours").mkdir()
    (here / "quiet-hours/notes.txt").write_text("mine")
    result = CliRunner().invoke(main, ["new-plugin", "QuietHours"])
    assert result.exit_code == 1
    assert "quiet-hours already exists; remove it, or choose another with --path" in result.stderr
    assert [file.name for file in (here / "quiet-hours").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("5stars", "is not a name"),
        ("a/b", "is not a name"),
        ("", "is not a name"),
        ("class", "is a keyword or a module of Python"),
        ("json", "is a keyword or a module of Python"),
        ("kubesched", "a package kubesched is already installed"),
        ("numpy", "a package numpy is already installed"),
        ("NodeName", "kubesched already has a plugin NodeName"),
    ],
)
def test_what_is_no_name(here: Path, name: str, said: str) -> None:
    """Refused before anything is written."""
    result = CliRunner().invoke(main, ["new-plugin", name])
    assert result.exit_code == 2
    assert said in result.stderr
    assert list(here.iterdir()) == []
