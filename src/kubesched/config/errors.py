"""Configuration errors, all reported at once.

Nobody should have to start the scheduler once per mistake in a file. So nothing raises at the first problem: problems
are collected, each with its place in the file, and raised together.
"""

import difflib
import json
from collections.abc import Iterable

import msgspec


class Problem(msgspec.Struct, frozen=True):
    """One mistake: where it is, what is wrong, the value that is there, and what to do about it."""

    path: str
    message: str
    value: object = msgspec.UNSET
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.path}: {self.message}" if self.path else self.message
        if self.value is not msgspec.UNSET:
            text += f", got {json.dumps(self.value, default=str, ensure_ascii=False)}"
        return f"{text}; {self.hint}" if self.hint else text

    def concerns(self, path: str) -> bool:
        """Whether this is about the field at ``path``, one inside it, or one that contains it."""
        short, long = sorted((self.path, path), key=len)
        return long == short or long.startswith((f"{short}.", f"{short}["))


class ConfigError(ValueError):
    """A configuration that cannot be used, with all reasons."""

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__(source, self.problems)

    def __str__(self) -> str:
        return "\n".join(f"{self.source}: {problem}" for problem in self.problems)


def join(path: str, field: str) -> str:
    return f"{path}.{field}" if path else field


def suggest(name: str, known: Iterable[str]) -> str:
    """A hint with the known names similar to ``name``; empty if none is close."""
    by_lower = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=2, cutoff=0.6)
    return f"did you mean {' or '.join(by_lower[each] for each in close)}?" if close else ""
