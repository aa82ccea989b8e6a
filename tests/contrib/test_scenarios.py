"""The example scenarios of the contrib plugins pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubesched.plugins import OFFERED
from kubesched.simulator.run import run
from kubesched.simulator.yaml_file import load_yaml

FOLDER = Path(__file__).parents[2] / "examples" / "contrib"
FILES = sorted(FOLDER.glob("*.yaml"))


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
