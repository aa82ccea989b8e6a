"""Schedulers that are deployed as pods run as processes of ours, because there are no containers.

A container counts as a scheduler if its command is ``kube-scheduler`` or ``kubesched run``, or if its ``--config`` is a
KubeSchedulerConfiguration in a mounted ConfigMap. Its process uses the identity of the pod's service account. The
container is started and ready when the process says so (`process_health`). When the process ends, the container ends
with its exit code, and is restarted by the pod's policy.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import yaml

from kubesched.apiserver.auth.tokens import Claims
from kubesched.apiserver.http_server import HttpServer
from kubesched.base.documents import DocumentError, read_yaml
from kubesched.base.types import JSON
from kubesched.embedded import EmbeddedCluster
from kubesched.kubelet.timeline import ProgramHealth
from kubesched.local import child_process
from kubesched.local.process_health import HOST, ProcessHealth, reserved_port
from kubesched.reconcile.access import ACCOUNTS, CONFIG_MAPS, PODS
from kubesched.reconcile.events import pod_reference
from kubesched.reconcile.views import Container, Pod

SCHEDULER_USER = "system:kube-scheduler"
HOST_KUBECONFIG = "/etc/kubernetes/scheduler.conf"
STOP_SECONDS = 5.0
TOKEN_SECONDS = 365 * 24 * 3600
_KIND = "KubeSchedulerConfiguration"
LOG_BYTES = 10 * 1024 * 1024
"""How much of a log is shown. Kubelets rotate logs of this size."""
_DROPPED = (
    "secure-port",
    "bind-address",
    "permit-address-sharing",
    "permit-port-sharing",
    "kubeconfig",
    "authentication-kubeconfig",
    "authorization-kubeconfig",
    "cert-dir",
    "tls-cert-file",
    "tls-private-key-file",
    "tls-sni-cert-key",
    "client-ca-file",
    "requestheader-client-ca-file",
)
"""Flags about the pod's network and files, which a process of ours does not have."""
_UNHEALTHY = ProgramHealth(started=False, ready=False)


@dataclass(slots=True)
class Running:
    """The process of one container."""

    container_id: str
    folder: Path
    process: Process | None = None
    health: ProcessHealth | None = None
    """None unless the process runs."""
    stopping: bool = False
    ended: bool = False
    previous: Running | None = None
    """The run before this one, of which only the log is left."""
    names: dict[str, str] = field(default_factory=dict)
    """The paths of files in the container, by those of our copies."""

    def log(self) -> bytes:
        """The end of what the process has printed. It names files as they are called in the container."""
        with suppress(OSError), (self.folder / "log").open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LOG_BYTES))
            text = file.read()
            for ours, theirs in self.names.items():
                text = text.replace(ours.encode(), theirs.encode())
            return text
        return b""

    def remove(self) -> None:
        """Delete the files of this run and of those before it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.previous is not None:
            self.previous.remove()
            self.previous = None


class SchedulerPods:
    """Starts and stops a process for each container with a scheduler."""

    def __init__(self, server: HttpServer, cluster: EmbeddedCluster, plugins: Sequence[str], *, enabled: bool) -> None:
        """`plugins` are flags for each process. Unless `enabled`, an event on the pod says that nothing runs."""
        self._server = server
        self._cluster = cluster
        self._plugins = plugins
        self._enabled = enabled
        self._running: dict[tuple[str, str], Running] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        context = cluster.context
        context.pods.watch(self._on_pod)
        server.api.rest.log_of = self.log_of
        cluster.kubelets.use_programs(self._health_of)
        for pod in list(context.pods.objects.values()):
            self._on_pod(None, pod)

    async def stop(self) -> None:
        """End all processes."""
        for running in self._running.values():
            self._end(running)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_SECONDS)
        for running in self._running.values():
            if running.process is not None and running.process.returncode is None:
                running.process.kill()
            running.remove()
        self._running.clear()

    def log_of(self, pod: JSON, container: str, container_id: str) -> bytes | None:
        """What a run of a container has printed; None if it is not known."""
        running = self._running.get((pod["metadata"]["uid"], container))
        while running is not None and running.container_id != container_id:
            running = running.previous
        return None if running is None else running.log()

    def _health_of(self, pod: Pod, container: Container) -> ProgramHealth | None:
        """The health of the process of a container; None if none runs for it."""
        if not self._enabled or not _may_be_scheduler(container):
            return None
        running = self._running.get((pod.metadata.uid, container.name))
        if running is not None:
            return _UNHEALTHY if running.health is None else running.health.now
        stored = self._cluster.context.access.get(PODS, pod.key)
        if stored is None or not _runs(container, _Files(self._cluster, stored, container.name)):
            return None
        return _UNHEALTHY

    # --- pods ---------------------------------------------------------------------------------------------------------

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        if new is None or not new.is_active or (old is not None and old.metadata.uid != new.metadata.uid):
            self._end_all(old or new)
        if new is None or new.status.phase != "Running" or not new.is_active:
            return
        for container in new.spec.containers:
            if _may_be_scheduler(container):
                self._follow(new, container)
            elif new.spec.service_account_name not in ("", "default") and (
                old is None or old.status.phase != "Running"
            ):
                self._say(new, container, "Normal", "Simulated", "No program runs in this container: it is simulated")

    def _end_all(self, pod: Pod | None) -> None:
        uid = "" if pod is None else pod.metadata.uid
        for key in [key for key in self._running if key[0] == uid]:
            self._end(self._running.pop(key))

    def _follow(self, pod: Pod, container: Container) -> None:
        """Start a process for a container that has started, and stop that of one that has ended."""
        key = (pod.metadata.uid, container.name)
        stored = self._cluster.context.access.get(PODS, pod.key)
        if stored is None:
            return
        found: JSON = next(
            (each for each in stored["status"].get("containerStatuses") or () if each["name"] == container.name), {}
        )
        known = self._running.get(key)
        if "running" not in (found.get("state") or {}) or (known and known.container_id == found["containerID"]):
            return
        config = _Files(self._cluster, stored, container.name)
        if not _runs(container, config):
            return
        if not self._enabled:
            self._say(
                pod, container, "Warning", "NothingRuns", "no program runs in containers here: see --run-schedulers"
            )
            return
        if known is not None and not known.ended:
            self._end(known)
            known = None
        running = Running(found["containerID"], Path(tempfile.mkdtemp(prefix="kubesched-pod-")), previous=known)
        if known is not None and known.previous is not None:
            known.previous.remove()
            known.previous = None
        self._running[key] = running
        if pod.containers_ready:
            # It was ready before the cluster was stopped.
            self._cluster.kubelets.check(pod)
        task = asyncio.get_running_loop().create_task(self._run(pod, container, config, running))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _say(self, pod: Pod, container: Container, kind: str, reason: str, message: str) -> None:
        field = f"spec.containers{{{container.name}}}"
        host = pod.spec.node_name
        self._cluster.context.events.record(
            "kubelet", pod_reference(pod), kind, reason, message, host=host, field=field
        )

    # --- processes ----------------------------------------------------------------------------------------------------

    def _end(self, running: Running) -> None:
        running.stopping = True
        if running.ended:
            running.remove()
        elif running.process is not None and running.process.returncode is None:
            running.process.terminate()

    async def _run(self, pod: Pod, container: Container, files: _Files, running: Running) -> None:
        log = running.folder / "log"
        try:
            with reserved_port() as port:
                number = port.getsockname()[1]
                arguments = self._arguments(container, files, running, number)
                with log.open("wb") as output:
                    running.process = await _started(arguments, output)
                pid = running.process.pid
                self._say(pod, container, "Normal", "RunsAsProcess", f"The scheduler runs as process {pid}")
                if running.stopping:
                    running.process.terminate()
                running.health = ProcessHealth(container, number, lambda: self._on_health(pod, container, running))
                code = await _ended(running.process, running.health)
        except OSError as error:
            log.write_text(f"{error}\n", "utf-8")
            code = 1
        running.health, running.ended = None, True
        if running.stopping:
            running.remove()
            return
        if code:
            self._say(pod, container, "Warning", "SchedulerEnded", f"exit code {code}: {_last_line(running)}")
        self._cluster.kubelets.exited(pod, container.name, code if code >= 0 else 128 - code)

    def _on_health(self, pod: Pod, container: Container, running: Running) -> None:
        if running.stopping or running.health is None:
            return
        if running.health.problem:
            self._say(pod, container, "Warning", "Unhealthy", f"Readiness probe failed: {running.health.problem}")
        self._cluster.kubelets.check(pod)

    def _arguments(self, container: Container, files: _Files, running: Running, port: int) -> list[str]:
        """The flags of the container, with files in a folder of ours, and a port of ours."""
        folder = running.folder
        kubeconfig = folder / "kubeconfig"
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(yaml.safe_dump(self._kubeconfig(files.pod, container.command_line)), "utf-8")
        arguments = [word for word in _flags(container.command_line) if not _is_dropped(word)]
        config = files.of_flag(container.command_line)
        if config is not None:
            path = folder / "config.yaml"
            connection = {**(config.get("clientConnection") or {}), "kubeconfig": str(kubeconfig)}
            path.write_text(yaml.safe_dump({**config, "clientConnection": connection}, sort_keys=False), "utf-8")
            running.names[str(path)] = config_path(container.command_line)
            arguments = [word for word in arguments if not word.startswith("--config=")]
            arguments.append(f"--config={path}")
        else:
            arguments.append(f"--kubeconfig={kubeconfig}")
        reviews = (f"--{which}-kubeconfig={kubeconfig}" for which in ("authentication", "authorization"))
        serving = (f"--secure-port={port}", f"--bind-address={HOST}", "--permit-port-sharing=true")
        return [*(files.placed(word, running) for word in arguments), *reviews, *serving, *self._plugins]

    def _kubeconfig(self, pod: JSON, command: Sequence[str]) -> JSON:
        """The identity of the service account; that of kube-scheduler if the pod uses the file of its host."""
        if any(word.endswith(f"={HOST_KUBECONFIG}") for word in command):
            pair = self._server.identity.authority.client_pair(SCHEDULER_USER)
            return self._server.kubeconfig(SCHEDULER_USER, pair)
        metadata = pod["metadata"]
        name = pod["spec"].get("serviceAccountName") or "default"
        account = self._cluster.context.access.get(ACCOUNTS, f"{metadata['namespace']}/{name}")
        uid = account["metadata"]["uid"] if account else ""
        # Not bound to the pod, which may be gone before the process has released its lease.
        claims = Claims(metadata["namespace"], name, uid)
        api = self._server.api
        token = api.tokens.sign(claims, api.clock.now(), TOKEN_SECONDS)
        return self._server.kubeconfig(f"system:serviceaccount:{metadata['namespace']}:{name}", token=token)


class _Files:
    """The files that ConfigMaps mount into a container."""

    def __init__(self, cluster: EmbeddedCluster, pod: JSON, container: str) -> None:
        self.pod = pod
        self._access = cluster.context.access
        spec = next(each for each in pod["spec"]["containers"] if each["name"] == container)
        self._mounts = spec.get("volumeMounts") or []

    def of_flag(self, command: Sequence[str]) -> JSON | None:
        """The scheduler's configuration that ``--config`` names; None if it is not in a mounted ConfigMap."""
        path = config_path(command)
        for mount in self._mounts:
            text = self._text(mount, path)
            if text is None:
                continue
            with suppress(DocumentError):
                content = read_yaml(text.encode())
                if isinstance(content, dict) and content.get("kind") == _KIND:
                    return content
        return None

    def placed(self, word: str, running: Running) -> str:
        """A flag whose value is a mounted file, with the path of a copy in the folder; any other flag as it is."""
        flag, _, path = word.partition("=")
        for mount in self._mounts:
            text = self._text(mount, path)
            if text is not None:
                copy = running.folder / Path(path).name
                copy.write_text(text, "utf-8")
                running.names[str(copy)] = path
                return f"{flag}={copy}"
        return word

    def _text(self, mount: JSON, path: str) -> str | None:
        base, key = mount["mountPath"].rstrip("/"), mount.get("subPath", "")
        if key and path != base:
            return None
        if not key:
            if not path.startswith(f"{base}/"):
                return None
            key = path[len(base) + 1 :]
        volume: JSON = next(
            (each for each in self.pod["spec"].get("volumes") or () if each["name"] == mount["name"]), {}
        )
        source = volume.get("configMap") or {}
        for item in source.get("items") or ():
            if item["path"] == key:
                key = item["key"]
        found = self._access.get(CONFIG_MAPS, f"{self.pod['metadata']['namespace']}/{source.get('name', '')}")
        text: str | None = ((found or {}).get("data") or {}).get(key)
        return text


async def _started(arguments: Sequence[str], output: BinaryIO) -> Process:
    return await asyncio.create_subprocess_exec(
        *child_process.COMMAND, "run", *arguments, stdin=PIPE, stdout=output, stderr=output, env=dict(os.environ)
    )


async def _ended(process: Process, health: ProcessHealth) -> int:
    """Follow the health of a process until it ends, and return its exit code."""
    following = asyncio.create_task(health.follow(), name="health of a scheduler")
    try:
        return await process.wait()
    finally:
        following.cancel()
        await asyncio.wait((following,))


def _may_be_scheduler(container: Container) -> bool:
    return _is_scheduler(container) or any(word.startswith("--config") for word in container.command_line)


def _runs(container: Container, files: _Files) -> bool:
    """Whether a process runs for a container that may be a scheduler."""
    return _is_scheduler(container) or files.of_flag(container.command_line) is not None


def _is_scheduler(container: Container) -> bool:
    words = [word.rpartition("/")[2] for word in container.command_line[:2]]
    return words[:1] == ["kube-scheduler"] or words == ["kubesched", "run"]


def _flags(command: Sequence[str]) -> Iterator[str]:
    """The flags of a command line, each as one word with its value."""
    words = [word for word in command if word]
    start = next((index for index, word in enumerate(words) if word.startswith("-")), len(words))
    index = start
    while index < len(words):
        word = words[index]
        takes_next = "=" not in word and index + 1 < len(words) and not words[index + 1].startswith("-")
        yield f"{word}={words[index + 1]}" if takes_next else word
        index += 2 if takes_next else 1


def _is_dropped(word: str) -> bool:
    return word.lstrip("-").partition("=")[0].replace("_", "-") in _DROPPED


def config_path(command: Sequence[str]) -> str:
    """The file that ``--config`` names."""
    return next((word.partition("=")[2] for word in _flags(command) if word.startswith("--config=")), "")


def _last_line(running: Running) -> str:
    lines = [line for line in running.log().decode("utf-8", "replace").splitlines() if line.startswith("Error")]
    return lines[-1] if lines else "see kubectl logs"
