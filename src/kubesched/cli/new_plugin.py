"""`kubesched new-plugin`: writes a small project to start from, whose tests already pass."""

from __future__ import annotations

import importlib.util
import keyword
import re
import shlex
import shutil
import sys
from importlib import resources
from pathlib import Path

import click

from kubesched.plugins import in_tree_registry

TEMPLATE = "new_plugin_template"
FILES = {
    "pyproject.toml.in": "pyproject.toml",
    "README.md.in": "README.md",
    "scheduler.yaml.in": "scheduler.yaml",
    "package.py.in": "src/{{package}}/__init__.py",
    "plugin.py.in": "src/{{package}}/plugin.py",
    "test_plugin.py.in": "tests/test_{{package}}.py",
}
"""The path of each template in the new project."""


@click.command()
@click.argument("name")
@click.option(
    "--path",
    type=click.Path(path_type=Path),
    help="Folder to create. Default: the plugin's name.",
)
def command(name: str, path: Path | None) -> None:
    """Write a small installable project with a plugin, its tests, a configuration and a README.

    NAME is the plugin's, in any spelling: QuietHours, quiet-hours and quiet_hours mean the same. The tests already
    pass, so you can change one thing at a time.
    """
    words = _words(name)
    names = {
        "class": "".join(word[:1].upper() + word[1:] for word in words),
        "package": "_".join(words).lower(),
        "distribution": "-".join(words).lower(),
    }
    _refuse_taken(name, names)
    folder = path or Path(names["distribution"])
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise click.ClickException(f"{folder} already exists; remove it, or choose another with --path")
    _write(folder, names)
    click.echo(f"Wrote {names['class']} to {folder}{'/' if not str(folder).endswith('/') else ''}:")
    for target in FILES.values():
        click.echo(f"  {_filled(target, names)}")
    click.echo(f"\nNext: cd {shlex.quote(str(folder))} && {_test_command()}", err=True)


def _test_command() -> str:
    """How to run the tests with this very Python, which need not be the shell's and need not have pytest."""
    python = sys.executable if shutil.which("python") != sys.executable else "python"
    missing = [name for name in ("pytest", "hypothesis") if importlib.util.find_spec(name) is None]
    install = f"{shlex.quote(python)} -m pip install {' '.join(missing)} && " if missing else ""
    return f"{install}{shlex.quote(python)} -m pytest"


def _refuse_taken(name: str, names: dict[str, str]) -> None:
    """Reject names that would hide another package or a built-in plugin."""
    package = names["package"]
    if keyword.iskeyword(package) or package in sys.stdlib_module_names:
        raise click.UsageError(f"{name!r} is a keyword or a module of Python; choose another name")
    if importlib.util.find_spec(package) is not None:
        raise click.UsageError(f"a package {package} is already installed; choose another name")
    if names["class"] in in_tree_registry():
        raise click.UsageError(f"kubesched already has a plugin {names['class']}; choose another name")


def _words(name: str) -> list[str]:
    """Split a name in any spelling into words."""
    words = [word for word in re.split(r"[-_.\s]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", name) if word]
    if not words or not all(re.fullmatch(r"[A-Za-z][A-Za-z0-9]*|[0-9]+", word) for word in words) or words[0].isdigit():
        raise click.UsageError(f"{name!r} is not a name for a plugin; use letters and digits, as in QuietHours")
    return words


def _write(folder: Path, names: dict[str, str]) -> None:
    templates = resources.files("kubesched.cli").joinpath(TEMPLATE)
    for template, target in FILES.items():
        file = folder / _filled(target, names)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_filled(templates.joinpath(template).read_text("utf-8"), names), "utf-8")


def _filled(text: str, names: dict[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda found: names[found[1]], text)
