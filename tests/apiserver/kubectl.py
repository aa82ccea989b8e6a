"""Finding a real kubectl and running it against a server of the test's own process."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.apiserver.support import PATIENCE
from tests.e2e.parts import find

VARIABLE = "KUBESCHED_KUBECTL"


@cache
def find_kubectl() -> tuple[str, str]:
    """The path of a kubectl, or the reason why there is none."""
    path = str(os.environ.get(VARIABLE) or find("kubectl") or shutil.which("kubectl") or "")
    if not path:
        return "", f"no kubectl on the PATH; install one, let make parts build one, or set {VARIABLE}"
    try:
        answer = subprocess.run(
            [path, "version", "--client", "-o", "json"], capture_output=True, timeout=120, check=True
        )
        version = json.loads(answer.stdout)["clientVersion"]["gitVersion"]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
        return "", f"{path} is not the Kubernetes kubectl: {error}"
    return path, version


@dataclass(frozen=True, slots=True)
class Result:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str


class Kubectl:
    """kubectl with a kubeconfig."""

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        path, _ = find_kubectl()
        self._command = [path, f"--kubeconfig={kubeconfig}", f"--cache-dir={folder / 'cache'}"]
        self._home = folder

    async def run(self, *arguments: str, stdin: str = "") -> Result:
        """Run a command, whatever its end."""
        async with self._started(arguments) as process, asyncio.timeout(PATIENCE):
            out, err = await process.communicate(stdin.encode())
        return Result(process.returncode or 0, out.decode(), err.decode())

    @asynccontextmanager
    async def _started(self, arguments: Sequence[str]) -> AsyncIterator[Process]:
        """A process that is killed if it has not ended by itself."""
        process = await asyncio.create_subprocess_exec(
            *self._command,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"HOME": str(self._home), "PATH": os.environ.get("PATH", "")},
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()

    async def until(self, line: str, printed: str) -> None:
        """Run a command until it prints this."""
        out = ""
        async with self._started(line.split()) as process, asyncio.timeout(PATIENCE):
            assert process.stdout is not None
            while printed not in out:
                more = await process.stdout.readline()
                assert more, f"kubectl {line} ended after printing {out}"
                out += more.decode()

    async def __call__(self, line: str, stdin: str = "") -> str:
        """Run a command that must succeed. Returns its output."""
        result = await self.run(*line.split(), stdin=stdin)
        assert result.code == 0, f"kubectl {line}: {result.err or result.out}"
        return result.out
