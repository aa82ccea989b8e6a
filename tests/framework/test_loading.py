"""Plugins loaded by name: from modules, files and folders, and from installed packages."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from kubesched.framework import loading
from kubesched.framework.loading import add_all, forget_modules, load_place
from kubesched.framework.registry import FILE, PACKAGE, PROGRAM, Registry
from kubesched.plugins import in_tree_registry

SOURCE = '''
import kubesched
from kubesched import Plugin
from kubesched.plugins.node_name import NodeName

class Picky(Plugin):
    """Says no."""
    name = "Picky"
    def filter(self, state, pod, node):
        return kubesched.unschedulable("no")

class Base(Plugin):
    pass

@kubesched.score(weight=3)
def prefer_ssd(pod, node):
    return 1
'''


@pytest.fixture(autouse=True)
def clean_imports() -> Iterator[None]:
    """Modules that a test imports are removed after it."""
    modules, path = set(sys.modules), list(sys.path)
    yield
    for name in set(sys.modules) - modules:
        del sys.modules[name]
    sys.path[:] = path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for modules, which is the current directory."""
    (tmp_path / "picky.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def added(**places: object) -> tuple[Registry, list[str], list[str]]:
    """A registry with plugins from these places, the names requested, and the problems."""
    registry, problems = in_tree_registry(), list[str]()
    asked = add_all(registry, problems, installed=False, **places)  # type: ignore[arg-type]  # as the tests give them
    return registry, asked, problems


@pytest.mark.parametrize("place", ["picky:Picky", "picky.py:Picky", "./picky.py:Picky"])
def test_one_plugin_by_name(folder: Path, place: str) -> None:
    """A class is found in a module and in a file."""
    registry, asked, problems = added(named=[place])
    assert problems == []
    assert asked == ["Picky"]
    assert registry["Picky"].__name__ == "Picky"


@pytest.mark.parametrize("place", ["picky", "picky.py"])
def test_all_plugins_of_a_module(folder: Path, place: str) -> None:
    """Without a name, all plugins that the module defines are loaded, but not imported ones or a base without a
    name.
    """
    (folder / "shared.py").write_text("import kubesched\n@kubesched.filter\ndef shared(pod, node): return True\n")
    (folder / "picky.py").write_text(f"from shared import shared\n{SOURCE}")
    assert added(named=[place])[1:] == (["Picky", "prefer_ssd"], [])


def test_a_decorated_function_by_name(folder: Path) -> None:
    """A decorated function can be loaded by name."""
    registry, asked, _ = added(named=["picky:prefer_ssd"])
    assert asked == ["prefer_ssd"]
    assert registry.weights["prefer_ssd"] == 3


def test_all_files_of_a_folder(folder: Path) -> None:
    """Tests, hidden files and helpers without plugins are skipped."""
    (folder / "_hidden.py").write_text("raise RuntimeError")
    (folder / "test_picky.py").write_text("raise RuntimeError")
    (folder / "helper.py").write_text("HELP = 1")
    (folder / "other.py").write_text("import helper, kubesched\n@kubesched.filter\ndef other(pod, node): return True\n")
    registry, asked, problems = added(folders=[str(folder)])
    assert problems == []
    assert asked == ["other", "Picky", "prefer_ssd"]
    assert registry.origin("other").kind == FILE
    assert registry.origin("other").name == "other.py"


def test_a_changed_file_is_reloaded(folder: Path) -> None:
    """A changed file is reloaded together with its neighbours that it imports."""
    (folder / "helper.py").write_text("WEIGHT = 3")
    text = "import helper, kubesched\n@kubesched.score(weight=helper.WEIGHT)\ndef it(pod, node): return 1\n"
    (folder / "other.py").write_text(text)
    assert added(folders=[str(folder)])[0].weights["it"] == 3
    (folder / "helper.py").write_text("WEIGHT = 40")
    forget_modules(str(folder))
    assert added(folders=[str(folder)])[0].weights["it"] == 40


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("nowhere:It", "--plugin: nowhere:It: ModuleNotFoundError: No module named 'nowhere'"),
        ("nowhere.py", "--plugin: nowhere.py: there is no such file"),
        ("picky:Piky", "--plugin: picky:Piky: there is no Piky in picky; its plugins are Picky, prefer_ssd"),
        ("picky:Plugin.name", "there is no name in picky"),
        ("picky:kubesched", "--plugin: picky:kubesched is not a plugin; derive a class from kubesched.Plugin"),
        (":It", "not of the form module:Name, or file.py:Name"),
        ("picky:", "not of the form module:Name, or file.py:Name"),
        ("json", "--plugin: json is not a plugin"),
        ("broken.py", "ZeroDivisionError: division by zero (broken.py:2)"),
        ("wrong.py", "wrong.py: plugin 'Wrong': filter(self) cannot be called; write filter(self, state, pod, node)"),
        ("badly.py", "badly(pod) cannot be a plugin; write badly(pod, node)"),
        ("taken.py", "plugin name 'NodeName' of "),
    ],
)
def test_what_cannot_be_loaded(folder: Path, place: str, said: str) -> None:
    """Each problem names the place and says what to change; nothing is raised."""
    (folder / "broken.py").write_text("\n1 / 0\n")
    head = "import kubesched\nfrom kubesched import Plugin\n"
    (folder / "wrong.py").write_text(f"{head}class Wrong(Plugin):\n    name = 'Wrong'\n    def filter(self): ...\n")
    (folder / "badly.py").write_text(f"{head}@kubesched.filter\ndef badly(pod): ...\n")
    (folder / "taken.py").write_text(f"{head}@kubesched.filter(name='NodeName')\ndef taken(pod, node): ...\n")
    _, asked, problems = added(named=[place])
    assert asked == []
    assert len(problems) == 1
    assert said in problems[0]


@pytest.mark.parametrize("place", ["my-rules", "rules", ".", "./rules", "nested/my-rules", "nested/my-rules:Picky"])
def test_a_folder_is_for_the_other_flag(folder: Path, place: str) -> None:
    """A folder given as a plugin is an error, even where Python would accept it as a module name."""
    for name in ("my-rules", "rules", "nested/my-rules"):
        (folder / name).mkdir(parents=True)
    _, _, problems = added(named=[place])
    target = place.removesuffix(":Picky")
    assert problems == [f"--plugin: {place}: this is a folder; give it as --plugin-dir={target}"]


def test_a_path_that_is_not_there(folder: Path) -> None:
    """A path that does not exist is not treated as a module."""
    _, _, problems = added(named=["nested/rules"])
    assert problems == ["--plugin: nested/rules: no module, and no file that ends in .py"]


def test_no_such_folder() -> None:
    """A folder that does not exist is reported."""
    assert added(folders=["/nowhere/at/all"])[2] == ["--plugin-dir: /nowhere/at/all is not a folder"]


def test_two_plugins_of_one_name(folder: Path) -> None:
    """A clash names both, with file and line."""
    (folder / "again.py").write_text(SOURCE)
    problems = added(named=["picky:Picky", "again:Picky"])[2]
    assert len(problems) == 1
    assert "'Picky' of again.Picky (again.py:6) is taken by picky.Picky (picky.py:6); rename one" in problems[0]


def test_the_same_plugin_twice_is_no_clash(folder: Path) -> None:
    """Naming a plugin twice, or loading its file in two ways, is not a clash."""
    registry, _, problems = added(named=["picky:Picky", "picky:Picky", "picky.py:Picky"])
    assert problems == []
    assert registry.origin("Picky").kind == FILE


def test_installed_packages_offer_theirs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entry points are loaded but do not count as requested by name; a broken one is reported."""
    points = [EntryPoint("Picky", "picky:Picky", loading.GROUP), EntryPoint("Gone", "gone:Gone", loading.GROUP)]
    monkeypatch.setattr(loading, "entry_points", lambda group: EntryPoints(points).select(group=group))
    registry, problems = in_tree_registry(), list[str]()
    assert add_all(registry, problems) == []
    assert registry.origin("Picky").kind == PACKAGE
    assert problems == ["entry point Gone of kubesched.plugins: gone:Gone: ModuleNotFoundError: No module named 'gone'"]


def test_origins(folder: Path) -> None:
    """A module of an installed package has the package's name and version; any other belongs to this program."""
    (folder / "mine.py").write_text("from kubesched import Plugin\n")
    registry, _, _ = added(named=["picky:Picky", "picky.py:prefer_ssd"])
    assert str(registry.origin("Picky")) == "program picky"
    assert str(registry.origin("prefer_ssd")) == "file picky.py"
    assert str(registry.origin("NodeName")) == "built-in"
    assert registry.origin("Picky").kind == PROGRAM


def test_a_failed_file_leaves_nothing_behind(folder: Path) -> None:
    """A file that fails to load leaves nothing behind, and the next attempt starts from scratch."""
    (folder / "broken.py").write_text("1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        load_place("broken.py")
    assert not [name for name in sys.modules if "broken" in name]


def test_a_file_that_calls_exit_does_not_end_the_program(folder: Path) -> None:
    """The problem names the file and the line; the other files of the folder are loaded."""
    (folder / "leaves.py").write_text("import sys\nsys.exit(3)\n")
    _, asked, problems = added(folders=[str(folder)])
    assert "Picky" in asked
    assert problems == [f"--plugin-dir: {folder / 'leaves.py'}: SystemExit: 3 (leaves.py:2)"]
