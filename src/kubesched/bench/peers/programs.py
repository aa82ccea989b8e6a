"""The programs that are measured: kubesched, the real kube-scheduler, and the null binder."""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Protocol

import aiohttp

from kubesched.base.documents import read_yaml
from kubesched.base.types import JSON
from kubesched.bench.peers.control_plane import READY_SECONDS, ControlPlane
from kubesched.bench.peers.null_binder import READY
from kubesched.bench.peers.processes import ChildProcess, free_port

UNLIMITED = 100_000
"""Requests per second, so that no client's own limit is measured."""


class PeerProgram(Enum):
    """A program that binds pods."""

    KUBESCHED = "kubesched"
    KUBE_SCHEDULER = "kube-scheduler"
    NULL_BINDER = "null binder"


class RunningProgram:
    """A program that was started, and the port it serves its health on; 0 if it has none."""

    def __init__(self, process: ChildProcess, port: int) -> None:
        self.process = process
        self._port = port

    async def wait_until_ready(self) -> None:
        """Wait until it has read the cluster."""
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        deadline = time.monotonic() + READY_SECONDS
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as session:
            while not await self._is_ready(session):
                self.process.check()
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{self.process.name} is not ready after {READY_SECONDS:.0f} s")
                await asyncio.sleep(0.05)

    async def _is_ready(self, session: aiohttp.ClientSession) -> bool:
        if not self._port:
            return READY in self.process.output()
        try:
            async with session.get(f"https://127.0.0.1:{self._port}/readyz") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False


class Plane(Protocol):
    """An API server to start programs on."""

    folder: Path

    def kubeconfig(self) -> Path:
        """The kubeconfig file for schedulers."""
        ...


def start_program(
    program: PeerProgram, plane: Plane, gates: Mapping[str, bool], config: Path | None = None
) -> RunningProgram:
    """Start a program on a control plane. `config` is a scheduler configuration to start from."""
    kubeconfig = plane.kubeconfig()
    log = plane.folder / f"{program.value.replace(' ', '-')}.log"
    if program is PeerProgram.NULL_BINDER:
        command = [sys.executable, "-m", "kubesched.bench.peers.null_binder", str(kubeconfig)]
        return RunningProgram(ChildProcess(program.value, command, log), 0)
    port = free_port()
    flags = [
        f"--config={_configuration(plane.folder / 'scheduler.json', kubeconfig, config)}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
    ]
    if gates:
        flags.append("--feature-gates=" + ",".join(f"{name}={str(value).lower()}" for name, value in gates.items()))
    return RunningProgram(ChildProcess(program.value, [*_command(program, plane), *flags], log), port)


def _command(program: PeerProgram, plane: Plane) -> Sequence[str | Path]:
    if program is PeerProgram.KUBE_SCHEDULER:
        assert isinstance(plane, ControlPlane)
        return [plane.parts / "kube-scheduler"]
    return [sys.executable, "-c", "from kubesched.cli.run import main; main()"]


def _configuration(path: Path, kubeconfig: Path, base: Path | None) -> Path:
    config: JSON = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    if base is not None:
        config = read_yaml(base.read_text("utf-8"))
    config["clientConnection"] = {"kubeconfig": str(kubeconfig), "qps": UNLIMITED, "burst": UNLIMITED}
    config["leaderElection"] = {"leaderElect": False}
    path.write_text(json.dumps(config))
    return path
