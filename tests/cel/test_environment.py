"""Environments with variables of their own: what validation rules and admission policies will use."""

import pytest

from kubesched.cel import CompileError, CostLimitError, Environment, EvaluationError
from kubesched.cel.types import DYN, INT, STRING, Type, list_of, map_of, object_type, optional_of
from kubesched.cel.values import NONE, Optional

SPEC = object_type(
    "Spec",
    {
        "replicas": INT,
        "names": list_of(Type("string", max_size=10), max_size=5),
        "labels": map_of(STRING, STRING, max_size=3),
    },
)
SELF = object_type("Self", {"spec": SPEC})


def test_fields_of_objects_are_checked_and_read() -> None:
    """A schema gives types to fields; the object itself is plain JSON."""
    program = Environment({"self": SELF}).compile("self.spec.replicas > 1 && self.spec.names.all(n, n.startsWith('a'))")
    assert program({"self": {"spec": {"replicas": 2, "names": ["a", "ab"]}}}) is True
    assert program({"self": {"spec": {"replicas": 2, "names": ["b"]}}}) is False


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("self.spec.nothing == 1", "undefined field 'nothing'"),
        ("self.spec.replicas == 'a'", "found no matching overload for '_==_' applied to '(int, string)'"),
        ("other.spec", "undeclared reference to 'other' (in container '')"),
    ],
)
def test_wrong_uses_of_a_schema_are_rejected(source: str, message: str) -> None:
    """Unknown fields, wrong types and unknown variables are found before anything runs."""
    with pytest.raises(CompileError) as caught:
        Environment({"self": SELF}).compile(source)
    assert [issue.message for issue in caught.value.issues] == [message]


def test_a_missing_field_is_an_error_when_it_is_read() -> None:
    """A field that the schema has and the object lacks fails at run time; has() tells."""
    environment = Environment({"self": SELF})
    with pytest.raises(EvaluationError, match="no such key: replicas"):
        environment.compile("self.spec.replicas == 1")({"self": {"spec": {}}})
    assert environment.compile("has(self.spec.replicas)")({"self": {"spec": {}}}) is False


def test_the_estimate_uses_the_bounds_of_the_schema() -> None:
    """Bounded lists and strings have a bounded cost; without bounds the estimate is without bound too."""
    source = "self.names.all(n, n.contains('x'))"
    bounded = object_type("T", {"names": list_of(Type("string", max_size=10), max_size=5)})
    free = object_type("T", {"names": list_of(STRING)})
    assert Environment({"self": bounded}).compile(source).cost.max == 28
    assert Environment({"self": free}).compile(source).cost.max == 2**64 - 1


def test_optional_variables_and_missing_ones() -> None:
    """oldSelf may be an optional; a variable without a value is an error only if it is read."""
    environment = Environment({"self": INT, "oldSelf": optional_of(INT), "params": DYN})
    program = environment.compile("oldSelf.hasValue() ? self >= oldSelf.value() : true")
    assert program({"self": 1, "oldSelf": NONE}) is True
    assert program({"self": 1, "oldSelf": Optional(True, 2)}) is False
    with pytest.raises(EvaluationError, match=r"no such attribute\(s\): params"):
        environment.compile("params.x == 1")({"self": 1})


def test_each_caller_may_set_its_own_limit() -> None:
    """The limit of the environment is a default."""
    program = Environment({"l": list_of(INT)}, cost_limit=50).compile("l.all(a, a > 0)")
    numbers = {"l": [1] * 20}
    with pytest.raises(CostLimitError):
        program(numbers)
    assert program.evaluate(numbers, cost_limit=1000) == (True, 102)
