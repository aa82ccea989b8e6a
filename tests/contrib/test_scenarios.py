"""Every contrib plugin has a scenario that passes, a chapter of the guide, a benchmark and tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kubesched.bench.workloads import CONTRIB_TEMPLATES
from kubesched.plugins import OFFERED
from kubesched.simulator.run import run
from kubesched.simulator.yaml_file import load_yaml

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "examples" / "contrib").glob("*.yaml"))
GENERAL = ("test_configuration.py", "test_crds.py", "test_scenarios.py")
"""Tests that go over all plugins and say little about any of them."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    """All expectations hold."""
    report = run(load_yaml(path))
    assert report.passed, [report.error, *(each.message for each in report.expectations)]
    assert report.expectations


def test_each_plugin_has_a_scenario() -> None:
    """Every plugin is enabled in one of them."""
    texts = " ".join(path.read_text("utf-8") for path in FILES)
    assert not [name for name in OFFERED if f"name: {name}" not in texts]


def test_each_plugin_has_a_chapter_a_benchmark_and_tests() -> None:
    """The guide explains every plugin, `kubesched bench` measures it, a page has the result, and tests use it."""
    guide = (ROOT / "docs/guides/contrib.md").read_text("utf-8")
    assert [name for name in OFFERED if f"\n## {name}\n" not in guide] == []
    assert set(CONTRIB_TEMPLATES) == set(OFFERED)
    measured = (ROOT / "docs/performance.md").read_text("utf-8")
    assert [
        name for name in OFFERED if not re.search(rf"^\| {name} \| [\d,]+ \| \d+ \|$", measured, re.MULTILINE)
    ] == []
    own = [each for each in Path(__file__).parent.glob("test_*.py") if each.name not in GENERAL]
    tests = " ".join(each.read_text("utf-8") for each in own)
    assert [name for name in OFFERED if not re.search(rf"\b{name}\b", tests)] == []
