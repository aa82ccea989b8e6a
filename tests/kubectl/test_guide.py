"""The guide to `kubesched up` can be typed as it is."""

from __future__ import annotations

import re
from pathlib import Path

from tests.kubectl.local import ROOT, local

GUIDE = ROOT / "docs/guides/up.md"


def test_the_guide_can_be_typed(tmp_path: Path) -> None:
    """All commands for a shell succeed from top to bottom, on a cluster as it is by default."""
    script = "\n".join(re.findall(r"^```sh\n(.*?)^```", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE))
    assert script.count("kubectl ") > 10
    with local(tmp_path, "--nodes=3") as cluster:
        printed = cluster.shell(script)
    assert "deployment.apps/web created" in printed
    assert "successfully rolled out" in printed
    assert re.search(r"^yes$", printed, re.MULTILINE)
