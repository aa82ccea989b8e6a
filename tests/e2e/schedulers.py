"""The two schedulers, started with the same command line."""

from __future__ import annotations

import json
import ssl
import sys
from collections.abc import Callable
from pathlib import Path

from tests.e2e.api import JSON, Api
from tests.e2e.control_plane import SCHEDULER, ControlPlane
from tests.e2e.parts import path_of
from tests.e2e.processes import Child, free_port
from tests.e2e.waiting import until

KUBE_SCHEDULER, KUBESCHED = "kube-scheduler", "kubesched"


def command_of(program: str) -> list[str | Path]:
    """What starts one of the two."""
    if program == KUBE_SCHEDULER:
        return [path_of(KUBE_SCHEDULER)]
    return [Path(sys.executable).with_name("kubesched"), "run"]


class Running:
    """A scheduler that runs, and what it serves."""

    def __init__(self, child: Child, port: int) -> None:
        self.child = child
        self.port = port

    def served(self, path: str, token: str = "") -> tuple[int, str]:
        """Status and text of what it serves at a path. Its certificate is of its own making."""
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        return Api(self.port, trusting, token).ask("GET", path)

    def is_ready(self) -> bool:
        """Whether it says that it is ready."""
        self.child.running()
        try:
            return self.served("/readyz")[0] == 200
        except OSError:
            return False


Start = Callable[..., Running]


def start(
    program: str,
    plane: ControlPlane,
    *flags: str,
    kubeconfig: Path | None = None,
    name: str = "",
    elect: bool = False,
    ready: bool = True,
    config: JSON | None = None,
) -> Running:
    """Start a scheduler and wait until it is ready. `config` is the content of its configuration file."""
    own = kubeconfig or plane.kubeconfig(token=SCHEDULER)
    port = free_port()
    command = [
        *command_of(program),
        f"--authentication-kubeconfig={own}",
        f"--authorization-kubeconfig={own}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--leader-elect={str(elect).lower()}",
        "--v=4",
        *flags,
    ]
    if config is None:
        command.append(f"--kubeconfig={own}")
    else:
        head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        path = plane.folder / f"{name or program}.json"
        path.write_text(json.dumps({**head, "clientConnection": {"kubeconfig": str(own)}, **config}))
        command.append(f"--config={path}")
    running = Running(plane.child(name or program, *command), port)
    if ready:
        until(running.is_ready, f"{name or program} is ready")
    return running
