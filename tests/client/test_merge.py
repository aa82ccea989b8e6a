"""Patches on JSON: the cases of RFC 7386, and the part of strategic merge that a scheduler uses."""

import copy
from typing import Any

import pytest

from kubesched.client.merge import merge_patch, strategic_merge


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"conditions": [{"type": "A"}]}, {"conditions": [{"type": "B"}]}, {"conditions": [{"type": "B"}]}),
    ],
)
def test_merge_patch(target: Any, patch: Any, expected: Any) -> None:
    """A merge patch replaces, adds and deletes as the RFC says, and changes neither of its inputs."""
    before = copy.deepcopy((target, patch))
    assert merge_patch(target, patch) == expected
    assert (target, patch) == before


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ([], [{"type": "A"}], [{"type": "A"}]),
        ([{"type": "A", "x": 1}], [{"type": "A", "y": 2}], [{"type": "A", "x": 1, "y": 2}]),
        ([{"type": "A"}], [{"type": "B"}], [{"type": "A"}, {"type": "B"}]),
        ([{"type": "A"}, {"type": "B"}], [{"type": "A", "$patch": "delete"}], [{"type": "B"}]),
    ],
)
def test_strategic_merge_of_conditions(old: Any, new: Any, expected: Any) -> None:
    """Conditions are merged by their type; ordering directives are passed over; other lists are replaced."""
    target = {"status": {"conditions": old, "podIPs": [1]}}
    patch = {"status": {"$setElementOrder/conditions": [{"type": "A"}], "conditions": new, "podIPs": [2]}}
    assert strategic_merge(target, patch) == {"status": {"conditions": expected, "podIPs": [2]}}
