"""Server-side apply: ownership, conflicts, pruning, lists."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.apiserver.support import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, config_map, deployment, refusal

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.apply.fields import Path, decode, encode
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.wire.request import UserInfo
from kubesched.base.types import JSON

APPLY = "application/apply-patch+yaml"


async def apply(client: LocalClient, path: str, obj: JSON, manager: str = "one", **query: str) -> JSON:
    """Apply an object by its name in the path."""
    return await client.patch(path, obj, APPLY, query={"fieldManager": manager, **query})


async def apply_data(client: LocalClient, manager: str, force: bool = False, **data: str) -> JSON:
    """Apply a ConfigMap; returns its data."""
    query = {"force": "true"} if force else {}
    made: JSON = (await apply(client, f"{CONFIG_MAPS}/c", config_map("c", None, **data), manager, **query)).get(
        "data"
    ) or {}
    return made


def owners(obj: JSON) -> dict[str, JSON]:
    """The fields of each manager."""
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"]["managedFields"]}


async def test_apply_creates(client: LocalClient) -> None:
    """An object that does not exist is created, and its fields belong to the manager."""
    made = await apply(client, f"{CONFIG_MAPS}/c", config_map("c", a="1"))
    assert owners(made) == {"one": {"f:data": {"f:a": {}}}}
    (entry,) = made["metadata"]["managedFields"]
    assert (entry["operation"], entry["apiVersion"], entry["fieldsType"]) == ("Apply", "v1", "FieldsV1")


async def test_what_is_no_longer_applied_is_removed(client: LocalClient) -> None:
    """Fields that a manager leaves out go, unless another manager has them too."""
    await apply_data(client, "one", a="1", b="2", c="3")
    await apply_data(client, "two", b="2")
    assert await apply_data(client, "one", c="3") == {"b": "2", "c": "3"}


async def test_conflict(client: LocalClient) -> None:
    """A field of another manager cannot be changed without force; with force it changes hands."""
    await apply_data(client, "one", a="1")
    error = await refusal(apply_data(client, "two", a="2"))
    assert (error.code, error.reason) == (409, "Conflict")
    assert error.message == 'Apply failed with 1 conflict: conflict with "one": .data.a'
    assert error.causes[0].to_json() == {
        "reason": "FieldManagerConflict",
        "message": 'conflict with "one"',
        "field": ".data.a",
    }
    assert await apply_data(client, "two", force=True, a="2") == {"a": "2"}
    assert owners(await client.get(f"{CONFIG_MAPS}/c")) == {"two": {"f:data": {"f:a": {}}}}


async def test_several_conflicts(client: LocalClient) -> None:
    """Conflicts are listed by manager."""
    await apply_data(client, "one", a="1", b="2")
    error = await refusal(apply_data(client, "two", a="2", b="1"))
    assert error.message == 'Apply failed with 2 conflicts: conflicts with "one":\n- .data.a\n- .data.b'


async def test_the_same_value_is_shared(client: LocalClient) -> None:
    """Two managers that want the same value both own it."""
    await apply_data(client, "one", a="1")
    await apply_data(client, "two", a="1")
    assert set(owners(await client.get(f"{CONFIG_MAPS}/c"))) == {"one", "two"}


async def test_updates_take_what_they_change(client: LocalClient) -> None:
    """After another kind of write to an applied object the field belongs to its writer."""
    await apply_data(client, "one", a="1")
    query = {"fieldManager": "editor"}
    await client.patch(f"{CONFIG_MAPS}/c", {"data": {"a": "2", "b": "3"}}, query=query)
    error = await refusal(apply_data(client, "one", a="1"))
    assert error.message == 'Apply failed with 1 conflict: conflict with "editor" using v1: .data.a'


async def test_objects_that_existed_before(client: LocalClient) -> None:
    """What an object had before its first apply belongs to nobody in particular, and a change of it is a conflict."""
    await client.create(CONFIG_MAPS, config_map("c", a="1"))
    assert "managedFields" not in (await client.get(f"{CONFIG_MAPS}/c"))["metadata"]
    error = await refusal(apply_data(client, "one", a="2"))
    assert error.message == 'Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.a'
    assert await apply_data(client, "one", b="2") == {"a": "1", "b": "2"}


async def test_kubectl_takes_over_what_it_applied_on_the_client(client: LocalClient) -> None:
    """kubectl's client-side apply leaves an annotation; its server-side apply does not conflict with that."""
    body = config_map("c", a="1")
    last = '{"apiVersion":"v1","data":{"a":"1"},"kind":"ConfigMap","metadata":{"name":"c"}}'
    body["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": last}
    await client.create(CONFIG_MAPS, body)
    assert await apply_data(client, "kubectl", a="2") == {"a": "2"}
    written = (await client.get(f"{CONFIG_MAPS}/c"))["metadata"]["annotations"]
    assert written == {"kubectl.kubernetes.io/last-applied-configuration": last.replace('"a":"1"', '"a":"2"') + "\n"}


async def test_an_annotation_that_would_be_too_long_is_dropped(client: LocalClient) -> None:
    """kubectl's server-side apply of a large object succeeds, without the annotation of its client-side apply."""
    body = config_map("c", a="1")
    last = '{"apiVersion":"v1","data":{"a":"1"},"kind":"ConfigMap","metadata":{"name":"c"}}'
    body["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": last}
    await client.create(CONFIG_MAPS, body)
    large = "x" * 300_000
    assert await apply_data(client, "kubectl", a=large) == {"a": large}
    assert not (await client.get(f"{CONFIG_MAPS}/c"))["metadata"].get("annotations")


async def test_kubectl_does_not_take_over_what_others_changed(client: LocalClient) -> None:
    """Fields that another manager has changed since kubectl's client-side apply conflict, as any others."""
    body = config_map("c", a="1")
    last = '{"apiVersion":"v1","data":{"a":"1"},"kind":"ConfigMap","metadata":{"name":"c"}}'
    body["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": last}
    await client.create(CONFIG_MAPS, body)
    await apply_data(client, "two", force=True, a="2")
    error = await refusal(apply_data(client, "kubectl", a="1"))
    assert error.message == 'Apply failed with 1 conflict: conflict with "two": .data.a'


async def test_lists_with_keys(client: LocalClient) -> None:
    """Containers merge by name: each manager can have its own, and a manager's own goes when it leaves it out."""
    path = f"{DEPLOYMENTS}/d"
    await apply(client, path, deployment("d"))
    sidecar: JSON = {"name": "s", "image": "sidecar:1", "ports": [{"containerPort": 80}, {"containerPort": 81}]}
    wanted: JSON = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "spec": {"template": {"spec": {"containers": [sidecar]}}},
    }
    made = await apply(client, path, wanted, "two")
    assert [each["name"] for each in made["spec"]["template"]["spec"]["containers"]] == ["c", "s"]
    sidecar["ports"].pop()
    made = await apply(client, path, wanted, "two")
    assert [port["containerPort"] for port in made["spec"]["template"]["spec"]["containers"][1]["ports"]] == [80]
    wanted["spec"] = {}
    made = await apply(client, path, wanted, "two")
    assert [each["name"] for each in made["spec"]["template"]["spec"]["containers"]] == ["c"]


async def test_a_set(client: LocalClient) -> None:
    """Finalizers are a set: each manager adds its own."""
    body = config_map("c", a="b")
    for manager in ("one", "two"):
        body["metadata"]["finalizers"] = [f"example.com/{manager}"]
        made = await apply(client, f"{CONFIG_MAPS}/c", body, manager)
    assert made["metadata"]["finalizers"] == ["example.com/one", "example.com/two"]


async def test_an_apply_that_changes_nothing(client: LocalClient) -> None:
    """Applying the same again is not a new version."""
    first = await apply(client, f"{DEPLOYMENTS}/d", deployment("d", 2))
    again = await apply(client, f"{DEPLOYMENTS}/d", deployment("d", 2))
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_the_status_is_separate(client: LocalClient) -> None:
    """An apply to the object leaves the status alone, and the other way round."""
    body = deployment("d", 2)
    body["status"] = {"replicas": 7}
    made = await apply(client, f"{DEPLOYMENTS}/d", body)
    assert "replicas" not in made["status"]
    made = await apply(client, f"{DEPLOYMENTS}/d/status", body, "two")
    assert made["status"]["replicas"] == 7
    assert owners(made)["two"] == {"f:status": {"f:replicas": {}}}


@pytest.mark.parametrize(
    ("change", "query", "why"),
    [
        ({}, {"fieldManager": ""}, "fieldManager: Required value: is required for apply patch"),
        ({"kind": ""}, {}, "invalid object type: /v1, Kind="),
        ({"kind": "Other"}, {}, "invalid object type: /v1, Kind=Other"),
        ({"metadata": {"finalizers": ["a/b", "a/b"]}}, {}, '.metadata.finalizers: duplicate entries for key [="a/b"]'),
        ({"metadata": {"name": "other"}}, {}, "does not match the name on the URL"),
        ({"metadata": {"managedFields": [{"manager": "x"}]}}, {}, "metadata.managedFields must be nil"),
        ({"nonsense": 1}, {}, "(default/c; /v1, Kind=ConfigMap): .nonsense: field not declared in schema"),
    ],
)
async def test_requests_that_are_refused(client: LocalClient, change: JSON, query: Any, why: str) -> None:
    """A request without a manager or with a wrong body is refused and says why."""
    body = {**config_map("c"), **change}
    error = await refusal(apply(client, f"{CONFIG_MAPS}/c", body, **{"manager": "one", **query}))
    assert why in error.message


async def test_repeated_keys(client: LocalClient) -> None:
    """A strict apply refuses keys that YAML repeats, with upstream's words."""
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  a: x\n  a: y\n"
    query = {"fieldManager": "one", "fieldValidation": "Strict"}
    error = await refusal(client.patch(f"{CONFIG_MAPS}/c", body, APPLY, query=query))
    assert error.message.endswith('yaml: unmarshal errors:\n  line 6: key "a" already set in map')


async def test_a_manager_can_be_reset(client: LocalClient) -> None:
    """A list with one empty entry forgets all managers."""
    await apply_data(client, "one", a="1")
    made = await client.patch(f"{CONFIG_MAPS}/c", {"metadata": {"managedFields": [{}]}})
    assert "managedFields" not in made["metadata"]


async def test_creating_needs_the_right_to_create(api: ApiServer, client: LocalClient) -> None:
    """A user who may only patch cannot create by applying."""
    rules = [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["patch"]}]
    group = "rbac.authorization.k8s.io/v1"
    role = {"apiVersion": group, "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": rules}
    await client.create(f"/apis/{group}/clusterroles", role)
    binding = {
        "apiVersion": group,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "User", "name": "u"}],
    }
    await client.create(f"/apis/{group}/clusterrolebindings", binding)
    user = LocalClient(api, UserInfo("u"))
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}
    error = await refusal(apply(user, f"{NAMESPACES}/n", body))
    assert (error.code, 'cannot create resource "namespaces"' in error.message) == (403, True)


PATHS = st.sets(st.lists(st.sampled_from(["f:a", "f:b", 'k:{"n":1}', 'v:"x"']), min_size=1, max_size=4).map(tuple))


@given(PATHS)
def test_sets_survive_their_form_in_managed_fields(paths: set[Path]) -> None:
    """Every set of paths can be written and read back."""
    assert decode(encode(paths)) == paths


async def test_creators_that_name_themselves(client: LocalClient) -> None:
    """An object belongs to its creator, defaults included, if the creator names a field manager."""
    made = await client.create(DEPLOYMENTS, deployment("d", 2), query={"fieldManager": "kubectl-create"})
    (entry,) = made["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"], entry["apiVersion"]) == ("kubectl-create", "Update", "apps/v1")
    assert {"f:replicas", "f:progressDeadlineSeconds"} <= set(entry["fieldsV1"]["f:spec"])
    assert "f:status" not in entry["fieldsV1"]
    made = await client.create(DEPLOYMENTS, deployment("e", 2))
    assert "managedFields" not in made["metadata"]


async def test_values_of_the_wrong_type(client: LocalClient) -> None:
    """An apply with a value of the wrong type is refused in upstream's words, without a reason."""
    wanted = deployment("d", 2)
    wanted["spec"]["replicas"] = "x"
    error = await refusal(apply(client, f"{DEPLOYMENTS}/d", wanted))
    where = "failed to create typed patch object (default/d; apps/v1, Kind=Deployment)"
    assert error.message == f"{where}: .spec.replicas: expected numeric (int or float), got string"
    for change, words in (
        ({"replicas": [1]}, ".spec.replicas: expected numeric (int or float), got []interface {}"),
        ({"paused": "x"}, ".spec.paused: expected boolean, got &{x}"),
        ({"template": 5}, ".spec.template: expected map, got &{5}"),
        ({"selector": {"matchLabels": {"a": True}}}, "expected string, got &value.valueUnstructured{Value:true}"),
    ):
        wanted["spec"] = change
        assert (await refusal(apply(client, f"{DEPLOYMENTS}/d", wanted))).message.endswith(words)
    assert error.code == 500


async def test_applying_an_identity_to_an_object_that_is_not_there(client: LocalClient) -> None:
    """A UID names an object that existed, so nothing is created."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gone", "uid": "u"}}
    path = f"{CONFIG_MAPS}/gone?fieldManager=me"
    response = await client.send("PATCH", path, body, content_type="application/apply-patch+yaml")
    assert (response.status, b"uid mismatch: the provided object specified uid u" in response.body) == (409, True)
