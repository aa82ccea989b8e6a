"""Namespaces: their initial objects, and their deletion."""

from __future__ import annotations

from tests.controllers.world import workload, world

from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.reconcile.access import ACCOUNTS, CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, NODES, PODS


@virtual_time
async def test_a_namespace_has_an_account_and_a_certificate(clock: VirtualClock) -> None:
    """The service account and the certificate exist at once and are restored after changes."""
    async with world(clock) as w:
        w.create(NAMESPACES, "team")
        await clock.settle()
        assert w.names(ACCOUNTS, "team") == ["default"]
        assert w.get(CONFIG_MAPS, "kube-root-ca.crt", "team")["data"] == {"ca.crt": "a certificate"}
        w.access.delete(ACCOUNTS, "team/default")
        w.access.edit(CONFIG_MAPS, "team/kube-root-ca.crt", lambda obj: obj.update(data={"ca.crt": "another"}))
        await clock.settle()
        assert w.names(ACCOUNTS, "team") == ["default"]
        assert w.get(CONFIG_MAPS, "kube-root-ca.crt", "team")["data"] == {"ca.crt": "a certificate"}


@virtual_time
async def test_a_deleted_namespace_is_emptied_first(clock: VirtualClock) -> None:
    """A namespace is deleted with all of its contents, after its pods have stopped gracefully."""
    async with world(clock) as w:
        w.create(NAMESPACES, "team")
        await clock.settle()
        w.create(DEPLOYMENTS, "web", workload("web", 2), namespace="team")
        await w.until(lambda: len(w.running(app="web")) == 2)
        w.delete(NAMESPACES, "team")
        await clock.settle()
        found = w.get(NAMESPACES, "team")
        assert found["status"]["phase"] == "Terminating"
        told = {each["type"]: (each["status"], each["message"]) for each in found["status"]["conditions"]}
        assert "pods has 2 resource instances" in told["NamespaceContentRemaining"][1]
        assert told["NamespaceFinalizersRemaining"][0] == "False"
        await w.until(lambda: "team" not in w.names(NAMESPACES), timeout=5)
        assert not [shelf for shelf in w.api.store.shelves.values() if shelf.sorted_keys("team")]


@virtual_time
async def test_pods_of_a_node_that_is_gone_are_removed(clock: VirtualClock) -> None:
    """Pods of a deleted node are removed after a while, because no kubelet can stop them."""
    async with world(clock) as w:
        w.create(DEPLOYMENTS, "web", workload("web", 3))
        await w.until(lambda: len(w.running(app="web")) == 3)
        w.delete(NODES, "node-2")
        await clock.advance(39)
        assert len([pod for pod in w.pods(app="web") if pod["spec"].get("nodeName") == "node-2"]) == 1
        await clock.advance(5)
        assert len(w.running(app="web")) == 3
        assert "node-2" not in w.nodes_of(app="web")
        assert len(w.names(PODS)) == 3


@virtual_time
async def test_a_pod_that_takes_the_place_of_a_removed_one_stays_as_long(clock: VirtualClock) -> None:
    """The time that pods of a missing node have begins anew once the last of them is gone."""
    async with world(clock) as w:
        for _ in range(2):
            w.create(PODS, "one", {"nodeName": "nowhere", "containers": [{"name": "main", "image": "x"}]})
            await clock.advance(39)
            assert w.names(PODS) == ["one"]
            await clock.advance(5)
            assert w.names(PODS) == []


@virtual_time
async def test_pods_are_deleted_before_everything_else(clock: VirtualClock) -> None:
    """As long as a pod of a terminating namespace is there, so is what it may need."""
    async with world(clock) as w:
        w.create(NAMESPACES, "team")
        await clock.settle()
        spec = {"containers": [{"name": "main", "image": "nginx"}]}
        w.create(PODS, "held", spec, namespace="team", finalizers=["example.com/hold"])
        w.create(CONFIG_MAPS, "settings", namespace="team")
        w.delete(NAMESPACES, "team")
        await clock.advance(60)
        assert "settings" in w.names(CONFIG_MAPS, "team")
        w.access.edit(PODS, "team/held", lambda obj: obj["metadata"].update(finalizers=[]))
        await w.until(lambda: "team" not in w.names(NAMESPACES), timeout=5)
