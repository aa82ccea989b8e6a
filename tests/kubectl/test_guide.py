"""The guides to `kubesched up` can be typed as they are."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests.kubectl.local import ROOT, local
from tests.pages import Script


def test_the_guide_can_be_typed(script: Callable[[str], Script], tmp_path: Path) -> None:
    """All commands for a shell succeed from top to bottom, on the cluster of the first one."""
    page = script("docs/guides/up.md")
    ((_, *flags),) = page.words("kubesched up")
    with local(tmp_path, *flags) as cluster:
        typed = "\n".join(page.take()).replace("10259", str(cluster.secure_port)).replace("curl -k", "curl -sk")
        printed = cluster.shell(typed)
    assert "deployment.apps/web created" in printed
    assert "successfully rolled out" in printed
    assert re.search(r"^yes$", printed, re.MULTILINE)


def test_the_guide_to_devices_can_be_typed(script: Callable[[str], Script], tmp_path: Path) -> None:
    """With the flags of its first command, all pods of the guide get their GPUs; so they do in the scenario."""
    page = script("docs/guides/devices.md")
    ((_, *flags),) = page.words("kubesched up")
    with local(tmp_path, *flags) as cluster:
        printed = cluster.shell("\n".join((f"cd {ROOT}", *page.take())))
    assert printed.count("pod/train-6 condition met") == 2, "it waits, then it succeeds"
    assert "classic-extended-resources-" in printed
    assert re.search(r"^node-2-fpga.example.com-\w+ +node-2 +fpga.example.com +node-2", printed, re.MULTILINE)
