"""Files that only their owner may read, and folders that only their owner may change, whatever the umask."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO


def open_private(path: Path | str, mode: str = "wb") -> IO[bytes]:
    """Open a file for bytes. A new one gets mode 0600; an existing one keeps its mode."""
    return open(path, mode, opener=_opener)


def create_private(path: Path | str) -> None:
    """Create a file with mode 0600 if it does not exist, for a library that opens it by name."""
    os.close(_opener(path, os.O_CREAT | os.O_RDWR))


def make_folder(path: Path, mode: int = 0o755) -> None:
    """Create a folder and those above it, if they are missing. Whoever can change a folder can replace its files."""
    for each in reversed([each for each in path.parents if not each.exists()]):
        each.mkdir(0o755, exist_ok=True)
    path.mkdir(mode, exist_ok=True)


def _opener(path: Path | str, flags: int) -> int:
    return os.open(path, flags, 0o600)
