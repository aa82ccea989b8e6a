"""Annotations that simulated kubelets read, and that builders and manifests set."""

RUN_TIME = "kubesched.io/run-time"
"""How long a pod runs, as ``90s`` or ``1h30m``, if it is one that ends."""
EXIT_CODE = "kubesched.io/exit-code"
"""The exit code with which a pod's containers end; 0 without it."""
