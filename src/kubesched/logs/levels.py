"""Verbosity: ``-v`` for everything, ``--vmodule`` for single files."""

from __future__ import annotations

import re
from typing import Final

ERROR: Final = -1
"""The level of errors, which are always logged."""
WARNING: Final = -2
"""The level of warnings. Structured logging has no such severity; Python's libraries do."""

_INT31: Final = 2**31 - 1


class LoggingProblem(ValueError):  # noqa: N818 - it is the user's input that is wrong, and the text says how
    """A logging option that cannot be used."""


class VModule:
    """``pattern=N`` pairs; the first pattern that matches a file's name without its suffix gives its verbosity."""

    def __init__(self, text: str = "") -> None:
        self._patterns = [_parsed(part) for part in text.split(",") if part]
        self._known: dict[str, int] = {}
        self.highest = max((level for _, _, level in self._patterns), default=0)

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def __str__(self) -> str:
        return ",".join(f"{pattern}={level}" for pattern, _, level in self._patterns)

    def level_of(self, file: str) -> int:
        """The verbosity of a file, given as ``folder/file.go:96``; 0 if no pattern matches."""
        stem = file.rpartition("/")[2].partition(".")[0]
        found = self._known.get(stem)
        if found is None:
            matching = (level for _, pattern, level in self._patterns if pattern.fullmatch(stem))
            found = self._known[stem] = next(matching, 0)
        return found


def verbosity(text: str) -> int:
    """The number given to ``-v``."""
    if not re.fullmatch("[0-9]+", text) or int(text) > _INT31:
        raise LoggingProblem(f'parsing "{text}": use a whole number from 0 to {_INT31}')
    return int(text)


def _parsed(part: str) -> tuple[str, re.Pattern[str], int]:
    pattern, equals, level = part.partition("=")
    if not (pattern and equals and level) or "=" in level:
        raise LoggingProblem(f'"{part}" does not have the pattern=N format')
    try:
        return pattern, _glob(pattern), verbosity(level)
    except LoggingProblem as problem:
        raise LoggingProblem(f'parsing verbosity in "{part}": {problem}') from None


def _glob(pattern: str) -> re.Pattern[str]:
    """Go's ``filepath.Match``: ``*``, ``?``, ``[a-z]``, ``[^a]`` and ``\\`` before a character that means itself."""
    try:
        return re.compile("".join(map(_glob_part, re.findall(r"\\.|\[(?:\\.|[^\]\\])+\]|.", pattern, re.DOTALL))))
    except re.error:
        # Go's match of a malformed pattern is false, whatever the name.
        return re.compile(r"(?!)")


def _glob_part(part: str) -> str:
    if part == "*":
        return "[^/]*"
    if part == "?":
        return "[^/]"
    return part if part.startswith("[") and len(part) > 1 else re.escape(part[-1])
