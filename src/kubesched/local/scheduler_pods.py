"""Schedulers that are deployed as pods run as processes of ours, because there are no containers.

A container counts as a scheduler if its command is ``kube-scheduler`` or ``kubesched run``, or if its ``--config`` is a
KubeSchedulerConfiguration in a mounted ConfigMap. Its process uses the identity of the pod's service account. When the
process ends, the container ends with its exit code, and is restarted by the pod's policy.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import yaml

from kubesched.apiserver.auth.tokens import Claims
from kubesched.apiserver.http_server import HttpServer
from kubesched.base.documents import DocumentError, read_yaml
from kubesched.base.types import JSON
from kubesched.embedded import EmbeddedCluster
from kubesched.local import child_process
from kubesched.reconcile.access import ACCOUNTS, CONFIG_MAPS, PODS
from kubesched.reconcile.events import pod_reference
from kubesched.reconcile.views import Container, Pod

SCHEDULER_USER = "system:kube-scheduler"
HOST_KUBECONFIG = "/etc/kubernetes/scheduler.conf"
STOP_SECONDS = 5.0
TOKEN_SECONDS = 365 * 24 * 3600
_KIND = "KubeSchedulerConfiguration"
_DROPPED = ("secure-port", "kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig", "bind-address")
"""Flags about the pod's network and files, which a process of ours does not have."""


@dataclass(slots=True)
class Running:
    """The process of one container."""

    container_id: str
    folder: Path
    process: Process | None = None
    stopping: bool = False


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
            shutil.rmtree(running.folder, ignore_errors=True)
        self._running.clear()

    def log_of(self, pod: JSON, container: str) -> bytes | None:
        """What a container printed; None if nothing runs in it."""
        running = self._running.get((pod["metadata"]["uid"], container))
        if running is None:
            return None
        with suppress(OSError):
            return (running.folder / "log").read_bytes()
        return b""

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
        if known is not None and known.container_id != found.get("containerID"):
            self._end(self._running.pop(key))
            known = None
        if known is not None or "running" not in (found.get("state") or {}):
            return
        config = _Files(self._cluster, stored, container.name)
        if not _is_scheduler(container) and config.of_flag(container.command_line) is None:
            return
        if not self._enabled:
            self._say(
                pod, container, "Warning", "NothingRuns", "no program runs in containers here: see --run-schedulers"
            )
            return
        self._running[key] = running = Running(found["containerID"], Path(tempfile.mkdtemp(prefix="kubesched-pod-")))
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
        if running.process is not None and running.process.returncode is None:
            running.process.terminate()
        elif running.process is not None:
            shutil.rmtree(running.folder, ignore_errors=True)

    async def _run(self, pod: Pod, container: Container, files: _Files, running: Running) -> None:
        log = running.folder / "log"
        try:
            arguments = self._arguments(container, files, running.folder)
            with log.open("wb") as output:
                running.process = await _started(arguments, output)
            self._say(pod, container, "Normal", "RunsAsProcess", f"The scheduler runs as process {running.process.pid}")
            if running.stopping:
                running.process.terminate()
            code = await running.process.wait()
        except OSError as error:
            log.write_text(f"{error}\n", "utf-8")
            code = 1
        if running.stopping:
            shutil.rmtree(running.folder, ignore_errors=True)
            return
        if code:
            self._say(pod, container, "Warning", "SchedulerEnded", f"exit code {code}: {_last_line(log)}")
        self._cluster.kubelets.exited(pod, container.name, code if code >= 0 else 128 - code)

    def _arguments(self, container: Container, files: _Files, folder: Path) -> list[str]:
        """The flags of the container, with files in a folder of ours."""
        kubeconfig = folder / "kubeconfig"
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(yaml.safe_dump(self._kubeconfig(files.pod, container.command_line)), "utf-8")
        arguments = [word for word in _flags(container.command_line) if not _is_dropped(word)]
        config = files.of_flag(container.command_line)
        if config is not None:
            path = folder / "config.yaml"
            connection = {**(config.get("clientConnection") or {}), "kubeconfig": str(kubeconfig)}
            path.write_text(yaml.safe_dump({**config, "clientConnection": connection}, sort_keys=False), "utf-8")
            arguments = [word for word in arguments if not word.startswith("--config=")]
            arguments.append(f"--config={path}")
        else:
            arguments.append(f"--kubeconfig={kubeconfig}")
        return [*(files.placed(word, folder) for word in arguments), "--secure-port=0", *self._plugins]

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
        path = next((word.partition("=")[2] for word in _flags(command) if word.startswith("--config=")), "")
        for mount in self._mounts:
            text = self._text(mount, path)
            if text is None:
                continue
            with suppress(DocumentError):
                content = read_yaml(text.encode())
                if isinstance(content, dict) and content.get("kind") == _KIND:
                    return content
        return None

    def placed(self, word: str, folder: Path) -> str:
        """A flag whose value is a mounted file, with the path of a copy in the folder; any other flag as it is."""
        flag, _, path = word.partition("=")
        for mount in self._mounts:
            text = self._text(mount, path)
            if text is not None:
                copy = folder / Path(path).name
                copy.write_text(text, "utf-8")
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


def _may_be_scheduler(container: Container) -> bool:
    return _is_scheduler(container) or any(word.startswith("--config") for word in container.command_line)


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


def _last_line(log: Path) -> str:
    with suppress(OSError):
        lines = [line for line in log.read_text("utf-8", errors="replace").splitlines() if line.startswith("Error")]
        return lines[-1] if lines else "see kubectl logs"
    return ""
