"""Parsing label and field selectors in queries: ``app=web,tier in (a,b)`` and ``spec.nodeName!=n1``.

`kubesched.api.selectors` has the selectors inside objects. These are text with the same meaning.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache

from kubesched.api.names import label_key_errors, label_value_errors
from kubesched.api.selectors import DOES_NOT_EXIST, EXISTS, GT, IN, LT, NOT_IN, Requirement, Selector
from kubesched.apiserver.wire.status import StatusError, bad_request

_TOKEN = re.compile(r"\s*(?:(==|!=|[=!<>(),])|([^\s=!<>(),]+))")
_END = ""


class _Tokens:
    """The tokens of a selector, with one token of lookahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split(text)
        self._next = 0

    def _split(self, text: str) -> list[str]:
        tokens, position = [], 0
        text = text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise self.error(f"unexpected text {text[position:]!r}")
            tokens.append(match[1] or match[2])
            position = match.end()
        return tokens

    def peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else _END

    def take(self) -> str:
        token = self.peek()
        self._next += 1
        return token

    def error(self, why: str) -> StatusError:
        return bad_request(f"unable to parse requirement: {why}")


_SIGNS = frozenset(("=", "==", "!=", "!", "<", ">", "(", ")", ",", _END))


@lru_cache(maxsize=1024)
def parse_labels(text: str) -> Selector:
    """Parse a label selector. The empty one selects everything."""
    tokens = _Tokens(text)
    requirements: list[Requirement] = []
    while tokens.peek() != _END:
        if tokens.peek() in _SIGNS - {"!"}:
            raise bad_request(f"found '{tokens.peek()}', expected: !, identifier, or 'end of string'")
        requirements.append(_requirement(tokens))
        if tokens.peek() == _END:
            break
        if (sign := tokens.take()) != ",":
            raise bad_request(f"found '{sign}', expected: ',' or 'end of string'")
        if tokens.peek() in (_END, ","):
            raise bad_request(f"found '{tokens.peek()}', expected: identifier after ','")
    return Selector(tuple(requirements))


def _requirement(tokens: _Tokens) -> Requirement:
    if tokens.peek() == "!":
        tokens.take()
        return Requirement(_key(tokens), DOES_NOT_EXIST)
    key = _key(tokens)
    sign = tokens.peek()
    if sign in (",", _END):
        return Requirement(key, EXISTS)
    tokens.take()
    if sign in ("=", "==", "!="):
        return Requirement(key, NOT_IN if sign == "!=" else IN, frozenset((_value(tokens, key),)))
    if sign in ("<", ">"):
        return Requirement(key, LT if sign == "<" else GT, frozenset((_number(tokens),)))
    if sign in ("in", "notin"):
        return Requirement(key, IN if sign == "in" else NOT_IN, _values(tokens, key))
    raise tokens.error(f"found {sign!r}, expected: in, notin, =, ==, !=, gt, lt")


def _key(tokens: _Tokens) -> str:
    key = tokens.take()
    if key in _SIGNS:
        raise tokens.error(f"found '{key}', expected: identifier")
    for problem in label_key_errors(key):
        raise tokens.error(f'<nil>: Invalid value: "{key}": {problem}')
    return key


def _value(tokens: _Tokens, key: str) -> str:
    value = "" if tokens.peek() in (",", _END, ")") else tokens.take()
    if value in _SIGNS - {_END}:
        raise tokens.error(f"found '{value}', expected: identifier")
    for problem in label_value_errors(value):
        raise tokens.error(f'values[0][{key}]: Invalid value: "{value}": {problem}')
    return value


def _number(tokens: _Tokens) -> str:
    value = "" if tokens.peek() in (",", _END) else tokens.take()
    if not re.fullmatch("[-+]?[0-9]{1,19}", value):
        why = "for 'Gt', 'Lt' operators, the value must be an integer"
        raise tokens.error(f'values[0]: Invalid value: "{value}": {why}')
    return value


def _values(tokens: _Tokens, key: str) -> frozenset[str]:
    if (sign := tokens.take()) != "(":
        raise tokens.error(f"found '{sign}' expected: '('")
    if tokens.peek() in _SIGNS - {",", ")"}:
        raise tokens.error(f"found '{tokens.peek()}', expected: ',', ')' or identifier")
    values = {_value(tokens, key)}
    while (sign := tokens.take()) == ",":
        if tokens.peek() in _SIGNS - {",", ")"}:
            raise tokens.error(f"found '{tokens.peek()}', expected: ',', or identifier")
        values.add(_value(tokens, key))
    if sign != ")":
        raise tokens.error(f"found '{sign}', expected: ',' or ')'")
    return frozenset(values)


FieldSelector = tuple[tuple[str, bool, str], ...]
"""Each requirement: the field, whether it must be equal or unequal, and the value."""

_TERM = re.compile(r"(?:[^\\,]|\\.|\\$)+", re.DOTALL)
"""A requirement: text up to a comma that no backslash escapes."""
_OPERATOR = re.compile("!=|==|=")
_SPECIAL = re.compile(r"\\.?|[,=]", re.DOTALL)


@lru_cache(maxsize=1024)
def split_fields(text: str) -> FieldSelector:
    """Parse a field selector without checking its field names."""
    return tuple(_field_term(text, term) for term in _TERM.findall(text))


def _field_term(text: str, term: str) -> tuple[str, bool, str]:
    found = _OPERATOR.search(term)
    if found is None:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
    return term[: found.start()], found[0] != "!=", _SPECIAL.sub(_unescaped, term[found.end() :])


def _unescaped(match: re.Match[str]) -> str:
    found = match[0]
    if found[1:] in ("\\", ",", "="):
        return found[1]
    if found in (",", "="):
        raise bad_request(f"invalid field selector: unescaped character in value: {ord(found)}")
    raise bad_request(f"invalid field selector: invalid escape sequence: {found}")


NAME, NAMESPACE = "metadata.name", "metadata.namespace"
"""Selectable fields of every kind."""


def parse_fields(text: str, supported: Collection[str], *, namespaced: bool = True) -> FieldSelector:
    """Parse a field selector. Raises 400 for a field that is not selectable.

    The namespace is not, for a kind without namespaces that has selectable fields of its own.
    """
    selector = split_fields(text)
    common = (NAME, NAMESPACE) if namespaced or not supported else (NAME,)
    for field, _, _ in selector:
        if field in common or field in supported:
            continue
        if not supported:
            raise bad_request(f'"{field}" is not a known field selector: only "{NAME}", "{NAMESPACE}"')
        raise bad_request(f"field label not supported: {field}")
    return selector


def fields_match(selector: FieldSelector, values: Mapping[str, str]) -> bool:
    """Whether an object with these field values is selected. A missing field is empty."""
    return all((values.get(field, "") == value) is equal for field, equal, value in selector)
