"""The programs that end-to-end tests start: where each may lie, and what is still missing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

BUILT = ("kube-apiserver", "kube-scheduler", "kubectl")
"""Parts made from the Go module k8s.io/kubernetes."""
PARTS = (*BUILT, "etcd")
SUITE = "e2e.test"
"""Upstream's own end-to-end suite, from the same module. Most tests do without it."""
HELM = "helm"
"""From its own module. Only the tests of the chart use it."""
VARIABLE = "KUBESCHED_E2E_BIN"
CACHE = Path(__file__).parents[2] / ".cache" / "e2e"
CACHED = CACHE / "bin"


def find(part: str) -> Path | None:
    """A part's executable: from the folder named by KUBESCHED_E2E_BIN, else made earlier, else (etcd) installed."""
    named = os.environ.get(VARIABLE)
    for folder in (Path(named) if named else None, CACHED):
        if folder is not None and os.access(folder / part, os.X_OK) and (folder / part).is_file():
            return (folder / part).resolve()
    installed = shutil.which(part) if part == "etcd" else None
    return Path(installed) if installed else None


def path_of(part: str) -> Path:
    """A part that must be there."""
    found = find(part)
    if found is None:
        raise FileNotFoundError(f"{part} is missing; make e2e builds it, or set {VARIABLE} to a folder that holds it")
    return found


def missing() -> list[str]:
    """The parts that are nowhere to be found."""
    return [part for part in PARTS if find(part) is None]
