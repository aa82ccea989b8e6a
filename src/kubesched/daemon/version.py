"""The version that the daemon reports: the Kubernetes version that it behaves like, then its own."""

from __future__ import annotations

import platform
import sys
from importlib import metadata

KUBERNETES_MAJOR, KUBERNETES_MINOR = "1", "36"


def short_version() -> str:
    """Return a version that scripts written for kube-scheduler can compare: ``v1.36.0+kubesched.0.1.0``."""
    return f"v{KUBERNETES_MAJOR}.{KUBERNETES_MINOR}.0+kubesched.{metadata.version('kubesched')}"


def version_info() -> str:
    """Return all version fields, as ``--version=raw`` prints them."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    fields = {
        "Major": KUBERNETES_MAJOR,
        "Minor": KUBERNETES_MINOR,
        "EmulationMajor": KUBERNETES_MAJOR,
        "EmulationMinor": KUBERNETES_MINOR,
        "GitVersion": short_version(),
        "GoVersion": f"python{platform.python_version()}",
        "Compiler": platform.python_implementation().lower(),
        "Platform": f"{sys.platform}/{machine}",
    }
    shown = ", ".join(f'{key}:"{value}"' for key, value in fields.items())
    return f"version.Info{{{shown}}}"
