"""Reading YAML and JSON strictly, with Go's idea of scalars."""

import pytest

from kubesched.config.errors import Problem
from kubesched.config.read import read


def reading(text: str | bytes) -> tuple[object, list[Problem]]:
    found: list[Problem] = []
    return read(text, found), found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("y", True),
        ("off", False),
        ("~", None),
        ("0x10", 16),
        ("0o17", 15),
        ("017", 15),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1:30", "1:30"),
        ("2020-01-01", "2020-01-01"),
        ("15s", "15s"),
        ("=", "="),
    ],
)
def test_scalars_are_what_go_takes_them_for(text: str, value: object) -> None:
    """A plain scalar is a string, a number or a boolean as it is for kube-scheduler's YAML library."""
    assert reading(f"a: {text}") == ({"a": value}, [])


def test_json_is_read_too() -> None:
    """JSON works as it is, indented with tabs as well."""
    assert reading('{\n\t"a":[1,\n\t\t"x"]}') == ({"a": [1, "x"]}, [])


def test_every_repeated_key_is_reported() -> None:
    """Each key that is given twice in one object is named with its path and both lines."""
    _, found = reading("a: 1\nb:\n- c: 1\n  c: 2\na: 2\n")
    assert [str(problem) for problem in found] == [
        "b[0].c: given twice, on lines 3 and 4; keep one of them",
        "a: given twice, on lines 1 and 5; keep one of them",
    ]


@pytest.mark.parametrize("text", ["a: [", "a: 1\n---\nb: 2\n", "a: !!python/object:os.x {}", b"\xff\xff", "a: \x00"])
def test_broken_documents_are_a_problem(text: str | bytes) -> None:
    """What cannot be read as one document is reported, not raised."""
    value, found = reading(text)
    assert value is None
    assert len(found) == 1
    assert str(found[0]).startswith("not valid YAML: ")


def test_the_first_of_several_documents_counts() -> None:
    """As for kube-scheduler, which does not say so."""
    warnings: list[str] = []
    assert read("a: 1\n---\nb: 2\n", [], warnings) == {"a": 1}
    assert warnings == ["only the first of 2 documents is used, as by kube-scheduler"]


def test_repeated_keys_behind_an_alias_are_reported_once() -> None:
    """Keys given twice are found where they stand, not again at every alias."""
    _, found = reading("a: &x [{k: 1, k: 2}]\nb: *x")
    assert [problem.path for problem in found] == ["a[0].k"]


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("[" * 80_000, "line 1, column 129: nested deeper than 128 levels"),
        ("a: &x [*x]", "line 1, column 8: an alias refers to a value that contains it"),
    ],
)
def test_hostile_documents_are_a_problem(text: str, limit: str) -> None:
    """What would end the process or never end is reported with its place and the limit."""
    assert reading(text) == (None, [Problem("", f"not valid YAML: {limit}")])
