"""A candidate in an election by the official client; run as ``python candidate.py NAME``."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

kubernetes: Any = import_module("kubernetes")
election: Any = import_module("kubernetes.leaderelection.leaderelection")
lock: Any = import_module("kubernetes.leaderelection.resourcelock.leaselock")

if __name__ == "__main__":
    name = sys.argv[1]
    kubernetes.config.load_kube_config()
    settings = import_module("kubernetes.leaderelection.electionconfig").Config(
        lock.LeaseLock("the-lock", "default", name),
        lease_duration=4,
        renew_deadline=3,
        retry_period=1,
        onstarted_leading=lambda: print(f"{name} leads", flush=True),
        onstopped_leading=None,
    )
    election.LeaderElection(settings).run()
