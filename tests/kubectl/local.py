"""`kubesched up` in a process of its own, and a real kubectl beside it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from tests.apiserver.kubectl import find_kubectl

ROOT = Path(__file__).parents[2]
KUBESCHED = [sys.executable, "-c", "from kubesched.cli.main import main; main()"]
PATIENCE = 180.0


def free_port() -> int:
    """A free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def eventually(condition: Callable[[], object], seconds: float = PATIENCE, what: str = "") -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"after {seconds:g} s still not: {what or condition}"
        time.sleep(0.05)


class Local:
    """A running local cluster."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.folder = folder
        self.kubeconfig = folder / ".kube/kubesched.config"
        self.secure_port = free_port()
        self._log = folder / "log"
        self._cache = folder / "cache"
        command = [*KUBESCHED, "up", "--port=0", f"--secure-port={self.secure_port}"]
        command += ["--pod-start-delay=100ms", "--pod-stop-delay=50ms", *flags]
        home = {**os.environ, "HOME": str(folder)}
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=ROOT, env=home)
        eventually(lambda: "Ctrl-C stops it." in self.log or self.process.poll() is not None, what="started")
        assert self.process.poll() is None, self.log

    @property
    def log(self) -> str:
        """Everything it has printed."""
        return self._log.read_text("utf-8")

    @property
    def environment(self) -> dict[str, str]:
        """What kubectl and kubesched need to find the cluster, and a shell to find them."""
        places = (os.path.dirname(find_kubectl()[0]), os.path.dirname(sys.executable))
        path = os.pathsep.join((*places, os.environ.get("PATH", "")))
        return {**os.environ, "PATH": path, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.folder)}

    def run(self, *words: str, stdin: str = "", timeout: float = PATIENCE) -> subprocess.CompletedProcess[str]:
        """Run kubectl, whatever its end."""
        command = [find_kubectl()[0], f"--cache-dir={self._cache}", *words]
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=timeout, env=self.environment, check=False
        )

    def __call__(self, line: str, stdin: str = "") -> str:
        """Run a kubectl command that must succeed; returns its output."""
        done = self.run(*line.split(), stdin=stdin)
        assert done.returncode == 0, f"kubectl {line}: {done.stderr or done.stdout}"
        return done.stdout

    def shell(self, script: str) -> str:
        """Run what a document says to type, in a shell; it must succeed."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=self.environment,
            cwd=self.folder,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stderr or done.stdout}"
        return done.stdout

    def use_namespace(self, name: str) -> None:
        """Change the namespace that commands use if they name none."""
        config = yaml.safe_load(self.kubeconfig.read_text("utf-8"))
        (context,) = config["contexts"]
        context["context"]["namespace"] = name
        self.kubeconfig.write_text(yaml.safe_dump(config), "utf-8")

    def messages(self, pattern: str) -> list[str]:
        """The messages of log lines that match, in order."""
        lines = [line for line in self.log.splitlines() if re.search(pattern, line)]
        return [found[1] for line in lines if (found := re.search(r'\] "([^"]*)"', line))]

    def stop(self) -> int:
        """End it as Ctrl-C does; answers with the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE)


@contextmanager
def local(folder: Path, *flags: str) -> Iterator[Local]:
    """A local cluster for a while."""
    cluster = Local(folder, *flags)
    try:
        yield cluster
    finally:
        try:
            cluster.stop()
        finally:
            cluster.process.kill()
            cluster.process.wait()


@contextmanager
def second_scheduler(folder: Path, cluster: Local, config: str, plugin: Path, *flags: str) -> Iterator[Path]:
    """Another scheduler beside the cluster's own, with a plugin; returns its log."""
    file = folder / "scheduler.yaml"
    file.write_text(config, "utf-8")
    command = [*KUBESCHED, "run", f"--config={file}", f"--plugin={plugin}", f"--secure-port={free_port()}", *flags]
    command += [f"--{which}-kubeconfig={cluster.kubeconfig}" for which in ("authentication", "authorization")]
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT)
    try:
        yield log
        assert process.poll() is None, log.read_text("utf-8")
    finally:
        process.terminate()
        process.wait(PATIENCE)
