"""What version this claims to be: Kubernetes' that it behaves like, and its own behind it."""

from __future__ import annotations

import platform
import sys
from importlib import metadata

KUBERNETES_MAJOR, KUBERNETES_MINOR = "1", "36"


def short_version() -> str:
    """A version that scripts which expect kube-scheduler's can compare: ``v1.36.0+kubesched.0.1.0``."""
    return f"v{KUBERNETES_MAJOR}.{KUBERNETES_MINOR}.0+kubesched.{metadata.version('kubesched')}"


def version_info() -> str:
    """Everything, as ``--version=raw`` prints it."""
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
