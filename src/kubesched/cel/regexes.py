"""Regular expressions, by RE2: the syntax that Go accepts, in time linear in the text, whatever the pattern."""

from functools import lru_cache
from typing import Any

import re2  # type: ignore[import-untyped]  # it has no stubs

from kubesched.cel.errors import EvaluationError
from kubesched.cel.functions import Library

library = Library()

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
# How Go words the errors that RE2 words differently.
_WORDS = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "unexpected )",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
}


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> Any:
    """The compiled pattern. Raises EvaluationError with Go's words."""
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        text = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error.args[0])
        reason, _, part = text.partition(": ")
        raise EvaluationError(f"error parsing regexp: {_WORDS.get(reason, reason)}: `{part or pattern}`") from None


@library.define(matches="matches(string, string) -> bool", matches_string="string.matches(string) -> bool")
def matches(text: str, pattern: str) -> bool:
    return compiled(pattern).search(text) is not None


@library.define(string_find_string="string.find(string) -> string")
def find(text: str, pattern: str) -> str:
    match = compiled(pattern).search(text)
    return match.group() if match else ""


@library.define(
    string_find_all_string="string.findAll(string) -> list(string)",
    string_find_all_string_int="string.findAll(string, int) -> list(string)",
)
def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found: list[str] = []
    for match in compiled(pattern).finditer(text):
        if limit >= 0 and len(found) == limit:
            break
        found.append(match.group())
    return found
