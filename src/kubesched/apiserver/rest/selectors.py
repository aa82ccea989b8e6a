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
        return Requirement(key, NOT_IN if sign == "!=" else IN, frozenset((_value(tokens),)))
    if sign in ("<", ">"):
        return Requirement(key, LT if sign == "<" else GT, frozenset((_value(tokens),)))
    if sign in ("in", "notin"):
        return Requirement(key, IN if sign == "in" else NOT_IN, _values(tokens))
    raise tokens.error(f"found {sign!r}, expected: in, notin, =, ==, !=, gt, lt")


def _key(tokens: _Tokens) -> str:
    key = tokens.take()
    if key in _SIGNS:
        raise tokens.error(f"found {key!r}, expected: !, identifier, or 'end of string'")
    for problem in label_key_errors(key):
        raise tokens.error(f'key: Invalid value: "{key}": {problem}')
    return key


def _value(tokens: _Tokens) -> str:
    value = "" if tokens.peek() in (",", _END, ")") else tokens.take()
    if value in _SIGNS - {_END}:
        raise tokens.error(f"found {value!r}, expected: identifier")
    for problem in label_value_errors(value):
        raise tokens.error(f'values: Invalid value: "{value}": {problem}')
    return value


def _values(tokens: _Tokens) -> frozenset[str]:
    if (sign := tokens.take()) != "(":
        raise tokens.error(f"found '{sign}' expected: '('")
    values = {_value(tokens)}
    while (sign := tokens.take()) == ",":
        values.add(_value(tokens))
    if sign != ")":
        raise tokens.error(f"found {sign!r}, expected: ',' or ')'")
    return frozenset(values)


FieldSelector = tuple[tuple[str, bool, str], ...]
"""Each requirement: the field, whether it must be equal or unequal, and the value."""

_ESCAPED = re.compile(r"\\([\\,=])")


@lru_cache(maxsize=1024)
def split_fields(text: str) -> FieldSelector:
    """Parse a field selector without checking its field names."""
    terms = [term for term in re.split(r"(?<!\\),", text) if term]
    return tuple(_field_term(term) for term in terms)


def _field_term(term: str) -> tuple[str, bool, str]:
    match = re.match(r"([^=!]+)(!=|==|=)(.*)$", term)
    if match is None:
        raise bad_request(f"invalid selector: '{term}'; can't understand '{term}'")
    return match[1].strip(), match[2] != "!=", _ESCAPED.sub(r"\1", match[3].strip())


NAME, NAMESPACE = "metadata.name", "metadata.namespace"
"""Selectable fields of every kind."""


def parse_fields(text: str, supported: Collection[str]) -> FieldSelector:
    """Parse a field selector. Raises 400 for a field that is not selectable."""
    selector = split_fields(text)
    for field, _, _ in selector:
        if field in (NAME, NAMESPACE) or field in supported:
            continue
        if not supported:
            raise bad_request(f'"{field}" is not a known field selector: only "{NAME}", "{NAMESPACE}"')
        raise bad_request(f"field label not supported: {field}")
    return selector


def fields_match(selector: FieldSelector, values: Mapping[str, str]) -> bool:
    """Whether an object with these field values is selected. A missing field is empty."""
    return all((values.get(field, "") == value) is equal for field, equal, value in selector)
