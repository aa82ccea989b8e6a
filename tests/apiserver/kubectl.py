"""Finding a real kubectl and running it against a server of the test's own process."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

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
            [path, "version", "--client", "-o", "json"], capture_output=True, timeout=30, check=True
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

    async def run(self, *arguments: str, stdin: str = "", timeout: float = 30) -> Result:
        """Run a command, whatever its end."""
        process = await asyncio.create_subprocess_exec(
            *self._command,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"HOME": str(self._home), "PATH": os.environ.get("PATH", "")},
        )
        out, err = await asyncio.wait_for(process.communicate(stdin.encode()), timeout)
        return Result(process.returncode or 0, out.decode(), err.decode())

    async def __call__(self, line: str, stdin: str = "") -> str:
        """Run a command that must succeed. Returns its output."""
        result = await self.run(*line.split(), stdin=stdin)
        assert result.code == 0, f"kubectl {line}: {result.err or result.out}"
        return result.out
