"""What the tests of all examples share.

A test imports the plugin beside it by its plain name, as `--plugin=file.py` does for what a plugin imports. The fixture
`embedded` runs an example as its README does, manifest and all.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesched.simulator import ScenarioClient

Act = Callable[[ScenarioClient], Awaitable[None]]

sys.path += [str(folder) for folder in sorted(Path(__file__).parent.iterdir()) if folder.is_dir()]


class Embedded:
    """The cluster of `kubesched up`, with its API server, controllers and kubelets, on virtual time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def manifest(self, file: str) -> list[dict[str, Any]]:
        """The objects in a file beside the test."""
        return list(yaml.safe_load_all((self._folder / file).read_text("utf-8")))

    async def apply(self, client: ScenarioClient, file: str) -> None:
        """kubectl apply -f."""
        for each in self.manifest(file):
            await client.create(each)

    def run(self, act: Act, *, plugin: str | Sequence[str], config: str) -> None:
        """Let something happen; everything that it expects must hold. `plugin` is a file, or several."""
        from kubesched.simulator.run import run
        from kubesched.simulator.scenario import Scenario

        plugins = [plugin] if isinstance(plugin, str) else plugin
        source = str(self._folder / "README.md")
        report = run(Scenario(self._folder.name, source, act, plugins=plugins, config=config))
        assert report.passed, [report.error, *(each.message for each in report.expectations)]
        assert report.expectations


@pytest.fixture
def embedded(request: pytest.FixtureRequest) -> Embedded:
    """The embedded cluster, for the example that the test belongs to."""
    return Embedded(request.path.parent)
