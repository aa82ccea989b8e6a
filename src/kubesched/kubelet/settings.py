"""The settings of simulated kubelets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KubeletSettings:
    """How fast simulated kubelets are."""

    start_delay: float = 0.5
    """Seconds from binding a pod until it runs."""
    stop_delay: float = 0.2
    """Seconds from deleting a pod until it is gone; never longer than its grace period."""
    run_time: float = 5.0
    """Run time in seconds of pods that end and do not say when."""
    every_step: bool = True
    """Whether to write each step of starting, as kubelets do, or only the last. Large simulations skip steps."""
