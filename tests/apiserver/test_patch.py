"""Patches of all three kinds, as tables of before, patch and after."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.apiserver.kinds.schema import type_of
from kubesched.apiserver.rest.patch import JsonPatchError, json_patch, strategic_merge
from kubesched.apiserver.wire.status import StatusError
from kubesched.base.merge import merge_patch

MERGE: list[tuple[Any, Any, Any]] = [
    ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
    ({"a": 1}, {"a": None}, {}),
    ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
    ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
    ({"a": 1}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
    ({}, {"a": None}, {}),
]


@pytest.mark.parametrize(("before", "patch", "after"), MERGE)
def test_merge_patch(before: Any, patch: Any, after: Any) -> None:
    """A merge patch merges objects, replaces everything else, and deletes with null."""
    assert merge_patch(before, patch) == after


JSON_PATCH: list[tuple[Any, Any, Any]] = [
    ({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
    ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
    ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
    ({"a": 1}, [{"op": "replace", "path": "/a", "value": 2}], {"a": 2}),
    ({"a": 1}, [{"op": "replace", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
    ({"a": 1}, [{"op": "add", "path": "/b"}], {"a": 1, "b": None}),
    ({"a": 1, "b": 2}, [{"op": "remove", "path": "/a"}], {"b": 2}),
    ({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}),
    ({"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}),
    ({"a": {"x": 1}}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": {"x": 1}, "b": {"x": 1}}),
    ({"a": 1}, [{"op": "copy", "from": "/b", "path": "/c"}], {"a": 1, "c": None}),
    ({"a": 1}, [{"op": "test", "path": "/a", "value": 1}], {"a": 1}),
    ({"x/y": {"~": 1}}, [{"op": "replace", "path": "/x~1y/~0", "value": 2}], {"x/y": {"~": 2}}),
    ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}], {"b": 2}),
    ({"a": 1}, [{"op": "replace", "path": "", "value": [1]}], [1]),
    ({"a": 1}, [{"op": "test", "path": "", "value": {"a": 1}}], {"a": 1}),
    ({"a": 1}, [{"op": "add", "path": "ignored/b", "value": 2}], {"a": 1, "b": 2}),
    ({"a": [1]}, [{"op": "add", "path": "/a/-1", "value": 2}], {"a": [1, 2]}),
    ({"a": [1, 2]}, [{"op": "remove", "path": "/a/-1"}], {"a": [1]}),
]


@pytest.mark.parametrize(("before", "patch", "after"), JSON_PATCH)
def test_json_patch(before: Any, patch: Any, after: Any) -> None:
    """Each operation does what RFC 6902 says, or what upstream makes of it."""
    assert json_patch(before, patch) == after


BAD_JSON_PATCH: list[tuple[Any, int]] = [
    ([{"op": "test", "path": "/a", "value": 2}], 422),
    ([{"op": "remove", "path": "/b"}], 422),
    ([{"op": "replace", "path": "/b/c", "value": 1}], 422),
    ([{"op": "add", "path": "/b/c", "value": 1}], 422),
    ([{"op": "add", "path": "/l/5", "value": 1}], 422),
    ([{"op": "add", "path": "/l/x", "value": 1}], 422),
    ([{"op": "frobnicate", "path": "/a"}], 422),
    ([{"op": "add", "value": 1}], 422),
    ([{"path": "/a"}], 422),
    ([{"op": "copy", "path": "/a"}], 422),
    ([{"op": "add", "path": "", "value": {}}], 422),
    ([{"op": "remove", "path": ""}], 422),
    ([{"op": "add", "path": "a", "value": 1}], 422),
    ([{"op": "move", "from": "/b", "path": "/c"}], 422),
    ([{"op": "copy", "from": "/b/c", "path": "/d"}], 422),
    ({"op": "add"}, 400),
]


@pytest.mark.parametrize(("patch", "code"), BAD_JSON_PATCH)
def test_json_patch_refusals(patch: Any, code: int) -> None:
    """An operation that does not apply is 422, one that is none is 400, and the object stays as it was."""
    before = {"a": 1, "l": [1]}
    with pytest.raises(StatusError) as refused:
        json_patch(before, patch)
    assert refused.value.code == code
    assert before == {"a": 1, "l": [1]}


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        (
            {"op": "move", "from": "/a/zz", "path": "/b"},
            "error in move for path: 'zz': Unable to remove nonexistent key: zz: missing value",
        ),
        (
            {"op": "move", "path": "/b"},
            "move operation failed to decode from: operation, missing from field: missing value",
        ),
        (
            {"op": "replace", "path": "", "value": 5},
            "replace operation value must be object or array: %!w(<nil>)",
        ),
        ({"op": "test", "path": "", "value": {}}, "testing value  failed: test failed"),
        ({"op": "test", "path": "/b/c"}, "test operation does not apply: is missing path: /b/c: missing value"),
        (
            {"op": "copy", "from": "", "path": "/b"},
            "copy operation does not apply: doc is missing from path: : missing value",
        ),
        (
            {"op": "add", "path": "/l/x", "value": 1},
            "error in add for path: '/l/x': value was not a proper array index: 'x': strconv.Atoi: parsing \"x\":"
            " invalid syntax",
        ),
        (
            {"op": "add", "path": "/l/9", "value": 1},
            "error in add for path: '/l/9': Unable to access invalid index: 9: invalid index referenced",
        ),
        (
            {"op": "remove", "path": "/l/9"},
            "error in remove for path: '/l/9': Unable to access invalid index: 9: invalid index referenced",
        ),
        (
            {"op": "replace", "path": "/l/x", "value": 1},
            "replace operation does not apply: doc is missing key: /l/x: missing value",
        ),
        ({"op": "add"}, "add operation failed to decode path: missing value"),
        ({"op": "remove", "path": ""}, 'remove operation does not apply: doc is missing path: "": missing value'),
    ],
)
def test_the_words_of_a_refusal(operation: Any, words: str) -> None:
    """An operation that does not apply is refused with kube-apiserver's words."""
    with pytest.raises(JsonPatchError) as refused:
        json_patch({"a": {}, "l": [1]}, [operation])
    assert refused.value.detail == words


def _containers(*containers: Any, **more: Any) -> Any:
    return {"spec": {"containers": list(containers), **more}}


A, B = {"name": "a", "image": "1"}, {"name": "b", "image": "1"}

STRATEGIC: list[tuple[Any, Any, Any]] = [
    (_containers(A, B), _containers({"name": "b", "image": "2"}), _containers(A, {"name": "b", "image": "2"})),
    (_containers(A), _containers(B), _containers(B, A)),
    (_containers(A, B), _containers({"name": "a", "$patch": "delete"}), _containers(B)),
    (_containers(A), _containers({"$patch": "replace"}, B), _containers(B)),
    (_containers(A, args=["x"]), {"spec": {"args": ["y"]}}, _containers(A, args=["y"])),
    (
        _containers(A, B),
        {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}},
        _containers(B, A),
    ),
    (
        {"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "x"}]}},
        {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": None}]}},
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
    ),
    (
        {"metadata": {"finalizers": ["a", "b"]}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}},
        {"metadata": {"finalizers": ["c", "b"]}},
    ),
    (
        {"metadata": {"labels": {"a": "1", "b": "2"}}},
        {"metadata": {"labels": {"a": None, "c": "3"}}},
        {"metadata": {"labels": {"b": "2", "c": "3"}}},
    ),
    (
        {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
        {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]}},
        {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}},
    ),
    (
        {"spec": {"nodeSelector": {"a": "b"}}},
        {"spec": {"nodeSelector": {"$patch": "replace", "c": "d"}}},
        {"spec": {"nodeSelector": {"c": "d"}}},
    ),
    (
        {"spec": {"tolerations": [{"key": "a"}]}},
        {"spec": {"tolerations": [{"key": "b"}]}},
        {"spec": {"tolerations": [{"key": "b"}]}},
    ),
    (
        {"spec": {"unknown": [{"name": "a"}]}},
        {"spec": {"unknown": [{"name": "b"}]}},
        {"spec": {"unknown": [{"name": "b"}]}},
    ),
]


@pytest.mark.parametrize(("before", "patch", "after"), STRATEGIC)
def test_strategic_merge_patch(before: Any, patch: Any, after: Any) -> None:
    """Lists merge by the key that their type names; directives replace, delete and order."""
    assert strategic_merge(before, patch, type_of("core.Pod")) == after


def test_copies_cannot_double_an_object_without_end() -> None:
    """Thirty copies of everything into itself would be gigabytes; the patch is refused once they pass the limit."""
    patch = [{"op": "copy", "from": "/data", "path": f"/data/{number}"} for number in range(30)]
    with pytest.raises(StatusError, match="exceeding the limit 3145728") as caught:
        json_patch({"data": {"a": "x" * 100}}, patch)
    assert caught.value.code == 422


def test_keys_to_retain_include_those_of_the_patch() -> None:
    """A patch that would drop what it sets is refused in upstream's words, and drops nothing else either."""
    patch = {"spec": {"$retainKeys": ["type"], "strategy": {"type": "Recreate"}}}
    with pytest.raises(StatusError, match="invalid patch format of retainKeys") as caught:
        strategic_merge({"spec": {"replicas": 1}}, patch, type_of("apps.Deployment"))
    assert caught.value.code == 400


def test_strategic_merge_replaces_the_selector_of_a_budget() -> None:
    """The strategy of a field may be to replace it as a whole, without a directive in the patch."""
    before, patch = ({"spec": {"selector": {"matchLabels": {name: "1"}}}} for name in "ab")
    assert strategic_merge(before, patch, type_of("policy.PodDisruptionBudget")) == patch


def test_strategic_merge_needs_the_merge_key() -> None:
    """An item without the key cannot be merged."""
    with pytest.raises(StatusError, match="does not contain declared merge key: name"):
        strategic_merge(_containers(A), _containers({"image": "x"}), type_of("core.Pod"))


def test_ports_merge_and_taints_do_not() -> None:
    """Services' ports merge by port; a node's taints are one value and are replaced."""
    ports = strategic_merge(
        {"spec": {"ports": [{"port": 80, "name": "x"}]}},
        {"spec": {"ports": [{"port": 80, "targetPort": 8080}]}},
        type_of("core.Service"),
    )
    assert ports["spec"]["ports"] == [{"port": 80, "name": "x", "targetPort": 8080}]
    taints = strategic_merge({"spec": {"taints": [{"key": "a"}]}}, {"spec": {"taints": []}}, type_of("core.Node"))
    assert taints["spec"]["taints"] == []
