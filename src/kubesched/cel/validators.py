"""Checks that Kubernetes adds to the type checker: literals that cannot work, and lists of mixed types."""

from collections.abc import Iterator

from kubesched.cel.errors import EvaluationError, Issue
from kubesched.cel.formatting import FormatError, clauses, mismatch
from kubesched.cel.regexes import compiled
from kubesched.cel.syntax import Call, ListNode, Literal, MapNode, Node, children
from kubesched.cel.times import parse_duration, parse_timestamp
from kubesched.cel.types import Type


def validate(root: Node) -> list[Issue]:
    """The errors of a tree that passed the type checker."""
    found: list[Issue] = []
    pending = [(root, False)]
    while pending:
        node, formatted = pending.pop()
        if isinstance(node, Call):
            found += _literal(node)
            if node.function == "format" and node.target is not None:
                found += _format(node)
                pending += [(node.target, formatted), *((arg, True) for arg in node.args)]
                continue
        if not formatted:
            found += _mixed(node)
        pending += [(child, formatted) for child in children(node)]
    return sorted(found, key=lambda issue: issue.offset)


def _literal(node: Call) -> Iterator[Issue]:
    """The only argument of duration(), timestamp() and matches(), if it is a literal."""
    if len(node.args) != 1 or not isinstance(node.args[0], Literal):
        return
    value = node.args[0].value
    match node.function:
        case "duration":
            fine = isinstance(value, str) and parse_duration(value) is not None
        case "timestamp":
            fine = isinstance(value, int) or (isinstance(value, str) and parse_timestamp(value) is not None)
        case "matches":
            fine = isinstance(value, str) and _compiles(value)
        case _:
            return
    if not fine:
        yield Issue(node.args[0].offset, f"invalid {node.function} argument")


def _compiles(pattern: str) -> bool:
    try:
        compiled(pattern)
    except EvaluationError:
        return False
    return True


def _mixed(node: Node) -> Iterator[Issue]:
    match node:
        case ListNode():
            yield from _different([(item, index in node.optional) for index, item in enumerate(node.elements)])
        case MapNode():
            yield from _different([(entry.key, False) for entry in node.entries])
            yield from _different([(entry.value, entry.optional) for entry in node.entries])


def _different(items: list[tuple[Node, bool]]) -> Iterator[Issue]:
    """The first item whose type is not that of the first one."""
    expected: Type | None = None
    for item, optional in items:
        found = item.type
        if optional and found is not None and found.name == "optional_type":
            found = found.params[0]
        if expected is None:
            expected = found
        elif found != expected:
            yield Issue(item.offset, f"expected type '{expected}' but found '{found}'")
            return


def _format(node: Call) -> Iterator[Issue]:
    if not isinstance(node.target, Literal) or not isinstance(node.args[0], ListNode):
        return
    args = node.args[0].elements
    try:
        verbs = clauses(str(node.target.value))
        for index, verb in enumerate(verbs):
            if index >= len(args):
                raise FormatError(f"index {index} out of range")
            if message := mismatch(verb, args[index].type):
                yield Issue(args[index].offset, message)
                return
    except FormatError as error:
        yield Issue(node.offset, str(error))
        return
    if len(args) > len(verbs):
        expected = f"(expected {len(verbs)}, got {len(args)})"
        yield Issue(node.offset, f"too many arguments supplied to string.format {expected}")
