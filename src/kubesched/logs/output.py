"""Where lines go. Logging never fails and never waits for long: a line that cannot be written is lost, and counted."""

from __future__ import annotations

from typing import BinaryIO, Final

MAX_BUFFER: Final = 2 * 1024**3


class Output:
    """A stream of whole lines, gathered up to `size` bytes before they are written."""

    def __init__(self, stream: BinaryIO, size: int = 0) -> None:
        self._stream = stream
        self._size = min(size, MAX_BUFFER)
        self._lines: list[bytes] = []
        self._gathered = 0
        self.lost = 0
        """Lines that could not be written: the disk is full, or nobody reads the pipe any more."""

    def write(self, line: str) -> None:
        """Take a line; it is written at once unless there is room to gather it."""
        data = line.encode("utf-8", "backslashreplace")
        if self._gathered + len(data) > self._size:
            self.flush()
        if len(data) > self._size:
            self._write(data, 1)
        else:
            self._lines.append(data)
            self._gathered += len(data)

    def flush(self) -> None:
        """Write what was gathered."""
        if self._lines:
            lines, self._lines, self._gathered = self._lines, [], 0
            self._write(b"".join(lines), len(lines))

    def _write(self, data: bytes, lines: int) -> None:
        try:
            self._stream.write(data)
            self._stream.flush()
        except (OSError, ValueError):
            self.lost += lines
