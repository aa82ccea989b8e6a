"""The guides to `kubesched up` can be typed as they are."""

from __future__ import annotations

import re
from pathlib import Path

from tests.kubectl.local import ROOT, local

GUIDE = ROOT / "docs/guides/up.md"
DEVICES = ROOT / "docs/guides/devices.md"


def _script(guide: Path) -> str:
    return "\n".join(re.findall(r"^```sh\n(.*?)^```", guide.read_text("utf-8"), re.DOTALL | re.MULTILINE))


def test_the_guide_can_be_typed(tmp_path: Path) -> None:
    """All commands for a shell succeed from top to bottom, on a cluster as it is by default."""
    script = _script(GUIDE)
    assert script.count("kubectl ") > 10
    with local(tmp_path, "--nodes=3") as cluster:
        printed = cluster.shell(script)
    assert "deployment.apps/web created" in printed
    assert "successfully rolled out" in printed
    assert re.search(r"^yes$", printed, re.MULTILINE)


def test_the_guide_to_devices_can_be_typed(tmp_path: Path) -> None:
    """With the flags of its first command, all pods of the guide get their GPUs."""
    (flags,) = re.findall(r"^kubesched up (--nodes=\S+) --devices='(.+)'$", DEVICES.read_text("utf-8"), re.MULTILINE)
    with local(tmp_path, flags[0], f"--devices={flags[1]}") as cluster:
        printed = cluster.shell(f"cd {ROOT}\n{_script(DEVICES)}")
    assert printed.count("pod/train-6 condition met") == 2, "it waits, then it succeeds"
    assert "classic-extended-resources-" in printed
    assert re.search(r"^node-2-fpga.example.com-\w+ +node-2 +fpga.example.com +node-2", printed, re.MULTILINE)
