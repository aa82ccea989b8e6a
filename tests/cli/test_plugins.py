"""`kubesched plugins`, and the flags of the daemon that are about plugins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.cli.main import main
from kubesched.config.errors import ConfigError
from kubesched.config.plugins import expand
from kubesched.config.types import Point
from kubesched.daemon.config_file import configuration
from kubesched.daemon.flags import Options, parse
from kubesched.daemon.plugin_reloading import plugins_changed, reload_problems
from kubesched.daemon.plugins import PluginFolders, idle_plugins, known_plugins
from kubesched.plugins import IN_TREE
from kubesched.testing.recording import LogLines

SOURCE = '''
import kubesched

@kubesched.score(weight={weight})
def prefer_ssd(pod, node):
    """Likes fast disks."""
    return 100
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one plugin in it, which is the current one."""
    (tmp_path / "disks.py").write_text(SOURCE.format(weight=3))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def listed(*words: str) -> dict[str, dict[str, Any]]:
    """What the command lists, by name."""
    result = CliRunner().invoke(main, ["plugins", "-o", "json", *words])
    assert result.exit_code == 0, result.stderr
    return {each["name"]: each for each in json.loads(result.stdout)}


def options(*words: str) -> Options:
    """Flags of the daemon."""
    parsed = parse(words)
    assert parsed.problems == []
    return parsed.options


# --- the list ---------------------------------------------------------------------------------------------------------


def test_the_built_in_plugins_are_listed() -> None:
    """All of them, with their points in upstream's order and how they answer."""
    found = listed()
    assert found.keys() >= {plugin.name for plugin in IN_TREE}
    fit = found["NodeResourcesFit"]
    assert fit["origin"] == "built-in"
    assert fit["points"] == ["preFilter", "filter", "preScore", "score", "placementScore"]
    assert fit["vectorised"] is True
    assert fit["reads"] == "PODS"
    assert "scoringStrategy" in fit["args"]
    assert found["DefaultBinder"]["vectorised"] is None
    assert found["DefaultBinder"]["reads"] is None


@pytest.mark.parametrize(
    "words", [("--plugin", "disks.py"), ("--plugin", "disks.py:prefer_ssd"), ("--plugin-dir", ".")]
)
def test_a_plugin_of_ones_own_is_listed(folder: Path, words: tuple[str, ...]) -> None:
    """With its file and line, its weight, and that it answers for one node at a time."""
    found = listed(*words)["prefer_ssd"]
    assert found == {
        "name": "prefer_ssd",
        "origin": "file",
        "from": "disks.py",
        "version": "",
        "points": ["score"],
        "vectorised": False,
        "reads": "CLUSTER",
        "weight": 3,
        "args": [],
        "summary": "Likes fast disks.",
        "place": "disks.py:4",
    }


def test_a_table_for_people(folder: Path) -> None:
    """A row per plugin, also on a narrow terminal."""
    result = CliRunner().invoke(main, ["plugins", "--plugin", "disks.py"], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    assert "prefer_ssd" in result.stdout
    assert "TaintToleration" in result.stdout


def test_what_cannot_be_loaded_is_told_after_the_list() -> None:
    """The list is there, stderr has the problem, and the exit code is 1."""
    result = CliRunner().invoke(main, ["plugins", "--plugin", "nowhere:It"])
    assert result.exit_code == 1
    assert "NodeName" in result.stdout
    assert result.stderr == "Error: --plugin: nowhere:It: ModuleNotFoundError: No module named 'nowhere'\n"


# --- the daemon's flags -----------------------------------------------------------------------------------------------


def enabled(*words: str) -> dict[str, int]:
    """What multiPoint enables of plugins that are not built in, in each profile alike."""
    given = options(*words)
    problems: list[str] = []
    registry, _ = known_plugins(given.plugins, (), problems)
    assert problems == []
    config = configuration(given, registry).config
    found = [
        {plugin.name: plugin.weight for plugin in profile.plugins.multi_point.enabled if plugin.name == "prefer_ssd"}
        for profile in config.profiles
    ]
    assert all(each == found[0] for each in found)
    return found[0]


CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: one
- schedulerName: two
  plugins: {multiPoint: {enabled: [{name: prefer_ssd, weight: 5}], disabled: [{name: ImageLocality}]}}
"""


def test_enable(folder: Path) -> None:
    """--enable names a plugin in every profile, with a weight if one is given, and keeps what a file says."""
    (folder / "scheduler.yaml").write_text(CONFIG)
    assert enabled("--plugin=disks.py") == {}
    assert enabled("--plugin=disks.py", "--enable=prefer_ssd") == {"prefer_ssd": 0}
    assert enabled("--plugin=disks.py", "--enable=prefer_ssd=7") == {"prefer_ssd": 7}
    assert enabled("--plugin=disks.py", "--enable=prefer_ssd=5", "--config=scheduler.yaml") == {"prefer_ssd": 5}


@pytest.mark.parametrize(
    ("word", "said"),
    [
        (f"prefer_ssd={'9' * 5000}", "--enable: the weight of prefer_ssd must be a positive integer"),
        ("prefer_ssd=much", "--enable: the weight of prefer_ssd must be a positive integer"),
        ("prefer_sdd", "prefer_ssd?"),
    ],
)
def test_enable_what_cannot_be_enabled(folder: Path, word: str, said: str) -> None:
    """A wrong weight and a wrong name are told like mistakes in a file."""
    with pytest.raises(ConfigError) as caught:
        enabled("--plugin=disks.py", f"--enable={word}")
    assert said in str(caught.value)


SORTER = """
import kubesched

class Newest(kubesched.Plugin):
    name = "Newest"

    def sort_key(self, queued):
        return (-queued.timestamp,)
"""


def test_a_plugin_that_sorts_replaces_the_default(folder: Path) -> None:
    """--enable puts it in the place of PrioritySort in every profile, and says so."""
    (folder / "sorter.py").write_text(SORTER)
    (folder / "scheduler.yaml").write_text(CONFIG)
    given = options("--plugin=sorter.py", "--plugin=disks.py", "--enable=Newest", "--config=scheduler.yaml")
    registry, _ = known_plugins(given.plugins, (), [])
    loaded = configuration(given, registry)
    assert loaded.warnings[0] == "--enable=Newest: it replaces the queue's order, which there can be only one of"
    for profile in loaded.config.profiles:
        assert expand(profile, registry.points)[Point.QUEUE_SORT] == ("Newest",)


def test_disable(folder: Path) -> None:
    """--disable switches a plugin off at all its points, also one that a file or --enable names; a typo is told."""
    (folder / "scheduler.yaml").write_text(CONFIG)
    words = ("--plugin=disks.py", "--disable=prefer_ssd", "--disable=TaintToleration", "--config=scheduler.yaml")
    given = options(*words)
    registry, _ = known_plugins(given.plugins, (), [])
    for profile in configuration(given, registry).config.profiles:
        resolved = expand(profile, registry.points)
        assert not {"prefer_ssd", "TaintToleration"} & {name for point in Point for name in resolved[point]}
    with pytest.raises(ConfigError, match="did you mean TaintToleration"):
        configuration(options("--disable=TaintTolerations"), registry)


def test_a_plugin_that_nobody_enables(folder: Path) -> None:
    """A named plugin that is not enabled gives a warning that says how to enable it."""
    given = options("--plugin=disks.py")
    registry, asked = known_plugins(given.plugins, (), [])
    (said,) = idle_plugins(asked, configuration(given, registry).config)
    assert said.startswith(
        "plugin prefer_ssd is known but no profile enables it; start with --enable prefer_ssd, or add"
    )
    given = options("--plugin=disks.py", "--enable=prefer_ssd")
    assert list(idle_plugins(asked, configuration(given, registry).config)) == []


# --- reloading --------------------------------------------------------------------------------------------------------


def test_changes_in_a_folder(folder: Path) -> None:
    """Files that come, change and go are noticed, once."""
    watched = PluginFolders([str(folder)])
    assert watched.changes() == []
    (folder / "more.py").write_text("")
    assert watched.changes() == [str(folder / "more.py")]
    assert watched.changes() == []
    (folder / "more.py").unlink()
    (folder / "disks.py").write_text(SOURCE.format(weight=30))
    assert watched.changes() == [str(folder / "disks.py"), str(folder / "more.py")]


def test_what_is_wrong_with_a_change(folder: Path) -> None:
    """Nothing while it loads; else everything that keeps a scheduler from starting with it."""
    given = options("--plugin-dir=.", "--enable=prefer_ssd")
    assert reload_problems(given) == []
    (folder / "disks.py").write_text("import kubesched\n@kubesched.score\ndef prefer_ssd(pod): return 1\n")
    problems = reload_problems(given)
    assert "write prefer_ssd(pod, node)" in problems[0]
    assert "prefer_ssd" in problems[1]


@virtual_time
async def test_a_scheduler_starts_anew_only_with_what_loads(
    clock: VirtualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken change is logged and waited out; the next good one ends the waiting."""
    import asyncio

    monkeypatch.chdir(tmp_path)
    file = tmp_path / "disks.py"
    file.write_text(SOURCE.format(weight=3))
    log = LogLines()
    waiting = asyncio.create_task(plugins_changed(options("--plugin-dir=."), (), clock, log))
    await clock.advance(2)
    file.write_text("1 / 0")
    await clock.advance(2)
    assert not waiting.done()
    assert len(log.errors()) == 1
    assert "ZeroDivisionError" in log.errors()[0]
    file.write_text(SOURCE.format(weight=30))
    await clock.advance(2)
    assert waiting.done()
    assert log[-1].message == "Plugins have changed, restarting"
    assert log[-1].fields == {"files": "disks.py"}
