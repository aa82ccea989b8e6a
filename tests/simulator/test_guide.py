"""docs/guides/scenarios.md is complete: its scenarios pass, and it names every field, option and call."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kubesched.cli.simulate import command
from kubesched.simulator import ScenarioClient
from kubesched.simulator.expectations import Expectation
from kubesched.simulator.loading import load
from kubesched.simulator.run import run
from kubesched.simulator.settings import ClusterOptions
from kubesched.simulator.steps import ScenarioFile, Step, Target

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "scenarios.md").read_text("utf-8")
CODE = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", GUIDE, re.DOTALL))
OPTIONS = [option.opts[0] for option in command.params if option.opts[0].startswith("-")]
CALLS = [
    name for name in vars(ScenarioClient) if not name.startswith("_") and name not in ("wait", "report", "checked")
]
FIELDS = [
    field
    for form in (ScenarioFile, Step, Target, Expectation, ClusterOptions)
    for field in form.__struct_encode_fields__
    if field not in ("apiVersion", "metadata", "description")
]


@pytest.mark.parametrize("form", ["yaml", "python"])
def test_its_scenarios_pass(form: str, tmp_path: Path) -> None:
    """All examples run, and pod1 ends up on node10."""
    blocks = re.findall(rf"```{form}\n(.*?)```", GUIDE, re.DOTALL)
    assert blocks
    for block in blocks:
        path = tmp_path / f"guide.{'py' if form == 'python' else form}"
        path.write_text(block, "utf-8")
        report = run(load(path))
        assert report.passed, (report.error, report.expectations)
        placed = [("default/pod1", "node10")] if "pod1" in block else []
        assert [(each.pod, each.node) for each in report.placements] == placed


@pytest.mark.parametrize("name", [*dict.fromkeys(FIELDS), *CALLS, *OPTIONS])
def test_it_names_everything(name: str) -> None:
    """The guide names every field, every call of the client and every option of the command."""
    assert re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", CODE), name


def test_its_defaults_are_true() -> None:
    """The table of cluster options shows the defaults of the code."""
    options = ClusterOptions()
    for row in re.findall(r"^\| (`pod.*?|`node.*?|`heartbeat.*?|`events.*?) \| (.*?) \|", GUIDE, re.MULTILINE):
        names, defaults = (re.findall(r"[\w.]+", cell) for cell in row)
        for name, default in zip(names, defaults, strict=True):
            field = dict(zip(options.__struct_encode_fields__, options.__struct_fields__, strict=True))[name]
            assert (str(getattr(options, field)) or "none").lower() == default.lower(), name
