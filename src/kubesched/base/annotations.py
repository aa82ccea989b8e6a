"""The annotations that control simulated nodes and pods."""

from __future__ import annotations

KUBELET = "kubesched.io/kubelet"
"""On a node: ``stopped`` silences its kubelet, as if the machine had lost power."""
RUN_TIME = "kubesched.io/run-time"
"""On a pod: how long its containers run before they exit, such as ``90s`` or ``1h30m``."""
EXIT_CODE = "kubesched.io/exit-code"
"""On a pod: the exit code of its containers; 0 by default."""
