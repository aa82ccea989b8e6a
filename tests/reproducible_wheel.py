"""Builds the wheel of the current commit twice, from two folders, and fails if the files differ.

``python -m tests.reproducible_wheel dist`` leaves the wheel in dist. It needs the package `build` and a registry.
"""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path


def build(archive: bytes, seconds: str) -> tuple[str, bytes]:
    """Build the wheel of an archive in a new folder. Return the wheel's name and content."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
        command = [sys.executable, "-m", "build", "--wheel", "--outdir", f"{folder}/made", folder]
        environment = {**os.environ, "SOURCE_DATE_EPOCH": seconds}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
        (wheel,) = Path(folder, "made").iterdir()
        return wheel.name, wheel.read_bytes()


def git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], check=True, stdout=subprocess.PIPE).stdout


def main(target: Path) -> int:
    """Compare two builds, and keep one."""
    archive, seconds = git("archive", "HEAD"), git("log", "-1", "--format=%ct").decode().strip()
    (name, wheel), (_, again) = build(archive, seconds), build(archive, seconds)
    if wheel != again:
        print(f"{name}: two builds of one commit differ", file=sys.stderr)
        return 1
    target.mkdir(exist_ok=True)
    (target / name).write_bytes(wheel)
    print(f"{hashlib.sha256(wheel).hexdigest()}  {target / name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
