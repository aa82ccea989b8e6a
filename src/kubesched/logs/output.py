"""Output. Logging never fails and never blocks for long: lines that cannot be written are dropped and counted."""

from __future__ import annotations

from typing import BinaryIO, Final

MAX_BUFFER: Final = 2 * 1024**3


class Output:
    """A stream of whole lines, buffered up to `size` bytes."""

    def __init__(self, stream: BinaryIO, size: int = 0) -> None:
        self._stream = stream
        self._size = min(size, MAX_BUFFER)
        self._lines: list[bytes] = []
        self._gathered = 0
        self.lost = 0
        """Lines that could not be written because the disk is full or the pipe is closed."""

    def write(self, line: str) -> None:
        """Add a line; it is written at once unless it fits the buffer."""
        data = line.encode("utf-8", "backslashreplace")
        if self._gathered + len(data) > self._size:
            self.flush()
        if len(data) > self._size:
            self._write(data, 1)
        else:
            self._lines.append(data)
            self._gathered += len(data)

    def flush(self) -> None:
        """Write buffered lines."""
        if self._lines:
            lines, self._lines, self._gathered = self._lines, [], 0
            self._write(b"".join(lines), len(lines))

    def _write(self, data: bytes, lines: int) -> None:
        try:
            self._stream.write(data)
            self._stream.flush()
        except (OSError, ValueError):
            self.lost += lines
