"""Warnings about objects without effect: each client sees each of them once."""

from __future__ import annotations

import pytest

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.auth.bootstrap_roles import RoleRule
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.rest import creation_warnings
from kubesched.apiserver.rest.patch import APPLY, MERGE_PATCH
from kubesched.apiserver.wire.request import UserInfo
from kubesched.base.types import JSON

POLICIES = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
NO_EFFECT = "NetworkPolicy is stored but has no effect in this cluster"


def policy(name: str) -> JSON:
    """A NetworkPolicy, which is only stored."""
    body = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": name}}
    return {**body, "spec": {"podSelector": {}}}


async def test_kinds_without_effect_say_so_once(client: LocalClient) -> None:
    """Of forty objects of a kind that is only stored the first warns, however they are created."""
    created = [await client.send("POST", POLICIES, policy(f"n{number}")) for number in range(40)]
    assert {response.status for response in created} == {201}
    assert [response.warnings for response in created] == [[NO_EFFECT], *[[]] * 39]
    applied = await client.send("PATCH", f"{POLICIES}/m?fieldManager=x", policy("m"), content_type=APPLY)
    assert (applied.status, applied.warnings) == (201, [])
    # Another kind has a warning of its own.
    other = {"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "i"}}
    other["spec"] = {"controller": "example.com/ingress"}
    response = await client.send("POST", "/apis/networking.k8s.io/v1/ingressclasses", other)
    assert response.warnings == ["IngressClass is stored but has no effect in this cluster"]


async def test_every_client_sees_the_warning(api: ApiServer) -> None:
    """Other users and other programs see it once as well. Server-side apply creates objects too."""
    api.bootstrap.grant("policies", "ann", RoleRule("create patch", "networking.k8s.io", "networkpolicies"))
    ann, admin = LocalClient(api, UserInfo("ann")), LocalClient(api)
    tool = {"user-agent": "tool/1"}
    path = f"{POLICIES}/a?fieldManager=x"
    first, again = [await ann.send("PATCH", path, policy("a"), content_type=APPLY) for _ in range(2)]
    assert (first.status, first.warnings, again.status, again.warnings) == (201, [NO_EFFECT], 200, [])
    assert (await admin.send("POST", POLICIES, policy("b"))).warnings == [NO_EFFECT]
    assert (await admin.send("POST", POLICIES, policy("c"), headers=tool)).warnings == [NO_EFFECT]
    assert (await admin.send("POST", POLICIES, policy("d"), headers=tool)).warnings == []


@pytest.mark.parametrize("at_creation", [True, False])
async def test_pod_security_labels_say_so_once(client: LocalClient, at_creation: bool) -> None:
    """However a namespace gets them; pods that they forbid are accepted here."""
    security = {"pod-security.kubernetes.io/enforce": "restricted"}
    named = {"name": "n", "labels": {"pod-security.kubernetes.io/warn": "privileged"}}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": named}
    if at_creation:
        named["labels"] = security
    created = await client.send("POST", "/api/v1/namespaces", namespace)
    change = {"metadata": {"labels": security}}
    labelled = await client.send("PATCH", "/api/v1/namespaces/n", change, content_type=MERGE_PATCH)
    assert [len(each.warnings) for each in (created, labelled)] == ([1, 0] if at_creation else [0, 1])
    (warning,) = created.warnings + labelled.warnings
    assert warning.startswith("labels of pod-security.kubernetes.io are stored but have no effect")


async def test_a_refused_object_does_not_warn(client: LocalClient) -> None:
    """So that its author sees the warning with the next one, which is stored."""
    assert (await client.send("POST", POLICIES, policy("Not A Name"))).warnings == []
    assert (await client.send("POST", POLICIES, policy("name"))).warnings == [NO_EFFECT]


async def test_warnings_take_bounded_memory(client: LocalClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest warning is forgotten, and that client sees it again."""
    monkeypatch.setattr(creation_warnings, "MAX_SEEN", 2)
    agents = ["one", "two", "three", "two", "one"]
    found = [
        await client.send("POST", POLICIES, policy(f"n{number}"), headers={"user-agent": agent})
        for number, agent in enumerate(agents)
    ]
    assert [bool(response.warnings) for response in found] == [True, True, True, False, True]
