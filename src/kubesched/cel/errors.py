"""The errors of CEL, with the words that Kubernetes puts into its messages."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Issue:
    """One problem of an expression. ``offset`` is the index of a character, or -1 for the expression as a whole."""

    offset: int
    message: str

    def render(self, source: str) -> str:
        """The message with the line of the source and a marker below it, as cel-go prints it."""
        if self.offset < 0:
            return f"ERROR: <input>:-1:0: {self.message}"
        start = source.rfind("\n", 0, self.offset) + 1
        end = source.find("\n", self.offset)
        line = source[start:] if end < 0 else source[start:end]
        column = self.offset - start
        number = source.count("\n", 0, start) + 1
        return f"ERROR: <input>:{number}:{column + 1}: {self.message}\n | {line}\n | {'.' * column}^"


class CELError(Exception):
    """The base of every error that an expression can cause."""


class CompileError(CELError):
    """The expression does not parse or does not type-check."""

    def __init__(self, source: str, issues: list[Issue]) -> None:
        super().__init__("\n".join(issue.render(source) for issue in issues))
        self.issues = issues


class EvaluationError(CELError):
    """The expression failed while it ran. ``&&`` and ``||`` absorb this error."""


class CostLimitError(CELError):
    """The expression used up its budget. No operator absorbs this error."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class ParseError(CELError):
    """Syntax errors. The environment turns them into a CompileError, which knows the source."""

    def __init__(self, offset: int, message: str, others: Sequence[Issue] = ()) -> None:
        super().__init__(message)
        self.issues = sorted([Issue(offset, message), *others], key=lambda issue: issue.offset)
