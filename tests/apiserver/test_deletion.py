"""Deleting: at once, with grace, with finalizers, with dependents in mind."""

from __future__ import annotations

import pytest
from tests.apiserver.support import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    FixedClock,
    config_map,
    deployment,
    pod,
    refusal,
    upcoming,
)

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.base.types import JSON


async def _gone(client: LocalClient, path: str) -> bool:
    return (await client.send("GET", path)).status == 404


async def test_plain_objects_go_at_once(client: LocalClient) -> None:
    """A ConfigMap is gone, and the answer says which one it was."""
    made = await client.create(CONFIG_MAPS, config_map("a"))
    answer = await client.delete(f"{CONFIG_MAPS}/a")
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"] == {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}
    assert await _gone(client, f"{CONFIG_MAPS}/a")


async def test_a_pod_on_a_node_gets_grace(client: LocalClient, clock: FixedClock) -> None:
    """A running pod is marked and stays until its kubelet says it has ended."""
    await client.create(PODS, pod("a", nodeName="n"))
    marked = await client.delete(f"{PODS}/a")
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    assert marked["metadata"]["deletionTimestamp"] == "2023-11-14T22:13:50Z"
    assert not await _gone(client, f"{PODS}/a")
    final = await client.delete(f"{PODS}/a", {"gracePeriodSeconds": 0})
    assert final["metadata"]["deletionGracePeriodSeconds"] == 0
    assert await _gone(client, f"{PODS}/a")


async def test_grace_can_only_get_shorter(client: LocalClient) -> None:
    """A second deletion may shorten the grace and not prolong it."""
    await client.create(PODS, pod("a", nodeName="n"))
    await client.delete(f"{PODS}/a", {"gracePeriodSeconds": 20})
    longer = await client.delete(f"{PODS}/a", {"gracePeriodSeconds": 100})
    shorter = await client.delete(f"{PODS}/a", {"gracePeriodSeconds": 5})
    graces = [obj["metadata"]["deletionGracePeriodSeconds"] for obj in (longer, shorter)]
    assert graces == [20, 5]


async def test_a_pod_that_never_started_goes_at_once(client: LocalClient) -> None:
    """Without a node there is no kubelet to wait for; nor is there for a pod that has ended."""
    await client.create(PODS, pod("a"))
    await client.delete(f"{PODS}/a")
    assert await _gone(client, f"{PODS}/a")
    await client.create(PODS, pod("b", nodeName="n"))
    await client.patch(f"{PODS}/b/status", {"status": {"phase": "Succeeded"}})
    await client.delete(f"{PODS}/b")
    assert await _gone(client, f"{PODS}/b")


async def test_finalizers_hold_an_object(client: LocalClient) -> None:
    """An object goes when its last finalizer does, and gets no new ones meanwhile."""
    obj = config_map("a")
    obj["metadata"]["finalizers"] = ["example.com/x"]
    await client.create(CONFIG_MAPS, obj)
    marked = await client.delete(f"{CONFIG_MAPS}/a")
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    more = {"metadata": {"finalizers": ["example.com/x", "example.com/y"]}}
    error = await refusal(client.patch(f"{CONFIG_MAPS}/a", more))
    assert "no new finalizers can be added if the object is being deleted" in error.message
    await client.patch(f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": None}})
    assert await _gone(client, f"{CONFIG_MAPS}/a")


@pytest.mark.parametrize(
    ("options", "finalizers"),
    [
        ({"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
        ({"propagationPolicy": "Orphan"}, ["orphan"]),
        ({"orphanDependents": True}, ["orphan"]),
    ],
)
async def test_propagation_is_recorded(client: LocalClient, options: JSON, finalizers: list[str]) -> None:
    """The propagation policy becomes a finalizer for the garbage collector."""
    await client.create(DEPLOYMENTS, deployment("d"))
    marked = await client.delete(f"{DEPLOYMENTS}/d", options)
    assert marked["metadata"]["finalizers"] == finalizers
    assert marked["metadata"]["generation"] == 2


async def test_background_is_the_default(client: LocalClient) -> None:
    """Without a policy, or in the background, the object itself goes at once."""
    await client.create(DEPLOYMENTS, deployment("d"))
    await client.delete(f"{DEPLOYMENTS}/d?propagationPolicy=Background")
    assert await _gone(client, f"{DEPLOYMENTS}/d")


async def test_preconditions(client: LocalClient) -> None:
    """A deletion with the UID of another object of the same name is refused."""
    made = await client.create(CONFIG_MAPS, config_map("a"))
    error = await refusal(client.delete(f"{CONFIG_MAPS}/a", {"preconditions": {"uid": "other"}}))
    assert (error.code, "UID in precondition: other" in error.message) == (409, True)
    await client.delete(f"{CONFIG_MAPS}/a", {"preconditions": {"uid": made["metadata"]["uid"]}})
    assert await _gone(client, f"{CONFIG_MAPS}/a")


@pytest.mark.parametrize(
    "options", [{"gracePeriodSeconds": "x"}, {"propagationPolicy": "Sideways"}, {"kind": "Pod", "apiVersion": "v1"}]
)
async def test_bad_options(client: LocalClient, options: JSON) -> None:
    """Options that make no sense are refused before anything happens."""
    await client.create(CONFIG_MAPS, config_map("a"))
    assert (await refusal(client.delete(f"{CONFIG_MAPS}/a", options))).code in (400, 422)
    assert not await _gone(client, f"{CONFIG_MAPS}/a")


async def test_dry_run(client: LocalClient) -> None:
    """A dry deletion deletes nothing."""
    await client.create(CONFIG_MAPS, config_map("a"))
    await client.delete(f"{CONFIG_MAPS}/a?dryRun=All")
    assert not await _gone(client, f"{CONFIG_MAPS}/a")


async def test_namespaces_end_in_steps(client: LocalClient) -> None:
    """A namespace is terminating until its finalizer is taken off; nothing new goes in meanwhile."""
    await client.create(NAMESPACES, {"metadata": {"name": "x"}})
    marked = await client.delete(f"{NAMESPACES}/x")
    assert marked["status"]["phase"] == "Terminating"
    error = await refusal(client.create(f"{NAMESPACES}/x/configmaps", config_map("a")))
    assert (error.code, error.causes[0].reason) == (403, "NamespaceTerminating")
    await client.replace(f"{NAMESPACES}/x/finalize", {**marked, "spec": {"finalizers": []}})
    assert await _gone(client, f"{NAMESPACES}/x")


async def test_some_namespaces_never_end(client: LocalClient) -> None:
    """The system's own namespaces cannot be deleted."""
    error = await refusal(client.delete(f"{NAMESPACES}/default"))
    assert error.message == 'namespaces "default" is forbidden: this namespace may not be deleted'


async def test_a_forced_deletion_is_seen_by_watchers(client: LocalClient, api: ApiServer) -> None:
    """The last event of a pod says that no grace was given."""
    made = await client.create(PODS, pod("a", nodeName="n"))
    await client.delete(f"{PODS}/a?gracePeriodSeconds=0")
    event = await upcoming(client.watch(PODS, resourceVersion=made["metadata"]["resourceVersion"]))
    assert event["type"] == "DELETED"
    assert event["object"]["metadata"]["deletionGracePeriodSeconds"] == 0
    assert event["object"]["metadata"]["resourceVersion"] == str(api.store.version)


async def test_a_negative_grace_period_is_one_second(client: LocalClient) -> None:
    """As upstream: a running pod is not removed at once."""
    await client.create(PODS, pod("p", nodeName="n"))
    deleted = await client.delete(f"{PODS}/p", {"gracePeriodSeconds": -5})
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 1


async def test_the_query_is_ignored_where_there_is_a_body(client: LocalClient) -> None:
    """As upstream: the options are in the body, or without one in the query."""
    await client.create(CONFIG_MAPS, config_map("a"))
    await client.send("DELETE", f"{CONFIG_MAPS}/a?dryRun=All")
    assert not await _gone(client, f"{CONFIG_MAPS}/a")
    await client.send("DELETE", f"{CONFIG_MAPS}/a?dryRun=All", {"propagationPolicy": "Background"})
    assert await _gone(client, f"{CONFIG_MAPS}/a")
