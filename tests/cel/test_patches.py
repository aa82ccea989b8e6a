"""Objects that expressions create, for mutating admission policies."""

from __future__ import annotations

import pytest

from kubesched.cel import CompileError, Environment, EvaluationError
from kubesched.cel.environment import KUBERNETES
from kubesched.cel.patches import library, patch_types, to_json, wrong_names
from kubesched.cel.types import DYN

ENVIRONMENT = Environment({"object": DYN}, (*KUBERNETES, library), structs=patch_types)


def value(source: str) -> object:
    """The value of an expression about an object with a name."""
    return ENVIRONMENT.compile(source)({"object": {"name": "a"}})


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("Object{}", {}),
        ("Object{spec: Object.spec{names: [object.name], n: 2}}", {"spec": {"names": ["a"], "n": 2}}),
        ("Object{?a: optional.of(1), ?b: optional.none()}", {"a": 1}),
        ("Object{a: b'hi', t: timestamp('2024-01-01T00:00:00Z'), d: duration('90s')}", None),
        ("JSONPatch{op: 'add', path: '/a', value: {'k': [1]}}", {"op": "add", "path": "/a", "value": {"k": [1]}}),
        ("Object{a: 1}.a + 1", 2),
        ("has(Object{a: 1}.b)", False),
        ("Object{a: 1} == Object{a: 1} && dyn(Object{a: 1}) != Object.x{a: 1} && dyn(Object{a: 1}) != {'a': 1}", True),
        ("[1, 2].map(n, Object.c{n: n})", [{"n": 1}, {"n": 2}]),
        ("9007199254740993", "9007199254740993"),
        ("jsonpatch.escapeKey('a/b~c')", "a~1b~0c"),
    ],
)
def test_values(source: str, expected: object) -> None:
    """Created objects have the fields that were given, and a form in JSON."""
    found = to_json(value(source))
    if expected is None:
        expected = {"a": "aGk=", "t": "2024-01-01T00:00:00Z", "d": "90s"}
    assert found == expected


def test_names_tell_places() -> None:
    """An object's type is named after the fields that lead to it; lists and maps do not count."""
    right = "Object{a: {'k': Object.a{b: [Object.a.b{}]}}}"
    assert list(wrong_names(value(right), "Object")) == []
    (wrong,) = wrong_names(value("Object{a: [Object.b{}]}"), "Object")
    assert wrong.startswith('unexpected type name "Object.b", expected "Object.a"')


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("Objects{}", "undeclared reference to 'Objects' (in container '')"),
        ("JSONPatch{op: 1}", "expected type of field 'op' is 'string' but provided type is 'int'"),
        ("JSONPatch{other: 1}", "undefined field 'other'"),
        ("Object{?a: 1}", "expected type 'optional_type(int)' but found 'int'"),
    ],
)
def test_wrong_objects_are_rejected(source: str, message: str) -> None:
    """Unknown types, fields and wrong values are found before anything runs."""
    with pytest.raises(CompileError) as caught:
        ENVIRONMENT.compile(source)
    assert message in [issue.message for issue in caught.value.issues]


def test_objects_cost_and_keys_must_be_strings() -> None:
    """An object costs 40; a map with other keys than strings has no form in JSON."""
    assert ENVIRONMENT.compile("Object{a: Object.a{}}").evaluate({})[1] == 80
    assert ENVIRONMENT.compile("Object{a: Object.a{}}").cost.max == 80
    with pytest.raises(EvaluationError, match="not string"):
        to_json(value("Object{a: {1: 2}}"))


def test_objects_need_an_environment_that_has_them() -> None:
    """Elsewhere expressions create no objects."""
    with pytest.raises(CompileError):
        Environment({}).compile("Object{}")
