"""`check_plugin` tries namespaces, priorities, volumes and owners, so that rules about them are tested at all."""

from __future__ import annotations

from typing import Any

import pytest

import kubesched
from kubesched import Action, CycleState, Namespace, NodeInfo, Plugin, Pod, Reads, Resource, Status, on, unschedulable
from kubesched.api import objects as api
from kubesched.testing import PluginCheckError, check_plugin

NO = unschedulable("no")
TEAM = {"team": ["a", "b"]}


class Rule(Plugin):
    """A base for rules about one node."""

    name = "Rule"
    reads = Reads.CLUSTER

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return NO if self.rejects(pod, node) else None

    def rejects(self, pod: Pod, node: NodeInfo) -> bool:
        """Whether the rule rejects the node."""
        raise NotImplementedError


class KnowsOneNamespace(Rule):
    """Fails for every namespace but one."""

    def rejects(self, pod: Pod, node: NodeInfo) -> bool:
        return {"default": False}[pod.namespace]


class CachesNamespaces(Rule):
    """Reads the namespace's labels, but declares that it reads the node alone."""

    reads = Reads.NODE

    def rejects(self, pod: Pod, node: NodeInfo) -> bool:
        found = self.handle.cluster.get(Namespace, pod.namespace)
        return found is not None and found.labels.get("team") == "a"


class IgnoresNamespaceEvents(Rule):
    """Rejects by the namespace's labels, but does not register for their changes."""

    def events_to_register(self) -> list[kubesched.EventHint]:
        return [on(Resource.NODE, Action.ADD)]

    def rejects(self, pod: Pod, node: NodeInfo) -> bool:
        found = self.handle.cluster.get(Namespace, pod.namespace)
        return found is None or found.labels.get("team") != "a"


class SharesNothing(Rule):
    """Keeps namespaces apart, but does not register for the deletion of pods."""

    def events_to_register(self) -> list[kubesched.EventHint]:
        everything = Action.ADD | Action.UPDATE
        return [on(Resource.NODE, everything), on(Resource.UNSCHEDULED_POD, Action.UPDATE)]

    def rejects(self, pod: Pod, node: NodeInfo) -> bool:
        return any(each.pod.namespace != pod.namespace for each in node.pods)


class ComparesPriorities(Rule):
    """Compares priorities that may be missing."""

    def rejects(self, pod: Pod, node: NodeInfo) -> bool:
        return pod.spec.priority is not None and any(
            each.pod.spec.priority is not None and each.pod.spec.priority // pod.spec.priority > 5 for each in node.pods
        )


class ExpectsClaims(Rule):
    """Takes every volume for a claim."""

    def rejects(self, pod: Pod, node: NodeInfo) -> bool:
        return any(each.persistent_volume_claim.claim_name == "" for each in pod.spec.volumes)  # type: ignore[union-attr]


class ExpectsTheClaim(Rule):
    """Expects that the claim of a pod exists."""

    def rejects(self, pod: Pod, node: NodeInfo) -> bool:
        for each in pod.spec.volumes:
            if each.persistent_volume_claim is not None:
                key = f"{pod.namespace}/{each.persistent_volume_claim.claim_name}"
                found: Any = self.handle.cluster.get(api.PersistentVolumeClaim, key)
                return bool(found.spec.volume_name == "never")
        return False


class IgnoresClaimEvents(Rule):
    """Waits for the claim to be bound, but does not register for claims."""

    def events_to_register(self) -> list[kubesched.EventHint]:
        return [on(Resource.NODE, Action.ADD)]

    def rejects(self, pod: Pod, node: NodeInfo) -> bool:
        claims = [each.persistent_volume_claim for each in pod.spec.volumes if each.persistent_volume_claim]
        found = [self.handle.cluster.get(api.PersistentVolumeClaim, f"{pod.namespace}/{c.claim_name}") for c in claims]
        return any(each is None or not each.spec.volume_name for each in found)


class CachesOwners(Rule):
    """Reads the pod's owner, which pods of one class do not share, but declares that it reads the node alone."""

    reads = Reads.NODE

    def rejects(self, pod: Pod, node: NodeInfo) -> bool:
        return any(each.kind == "StatefulSet" for each in pod.metadata.owner_references)


class ExpectsAnApiGroup(Rule):
    """Splits the owner's API version, which has no group for core kinds."""

    def rejects(self, pod: Pod, node: NodeInfo) -> bool:
        return any(each.api_version.split("/")[1] == "v2" for each in pod.metadata.owner_references)


WRONG: dict[type[Plugin], str] = {
    KnowsOneNamespace: "raised KeyError",
    CachesNamespaces: "its results depend on other objects",
    IgnoresNamespaceEvents: "on(Resource.NAMESPACE, Action.",
    SharesNothing: "on(Resource.ASSIGNED_POD, Action.DELETE)",
    ComparesPriorities: "raised ZeroDivisionError",
    ExpectsClaims: "raised AttributeError",
    ExpectsTheClaim: "raised AttributeError",
    IgnoresClaimEvents: "on(Resource.PERSISTENT_VOLUME_CLAIM, Action.",
    CachesOwners: "set reads = Reads.ROW",
    ExpectsAnApiGroup: "raised IndexError",
}


@pytest.mark.parametrize("plugin", WRONG, ids=lambda plugin: plugin.__name__)
def test_a_wrong_rule_is_found(plugin: type[Plugin]) -> None:
    """Each of these rules is wrong only where namespaces, priorities, volumes or owners differ."""
    with pytest.raises(PluginCheckError) as caught:
        check_plugin(plugin, labels=TEAM, examples=60)
    assert WRONG[plugin] in str(caught.value)


class TeamNodes(Rule):
    """Pods of a namespace with a team go to that team's nodes."""

    def events_to_register(self) -> list[kubesched.EventHint]:
        return [
            on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
            on(Resource.NAMESPACE, Action.ADD | Action.UPDATE | Action.DELETE),
        ]

    def rejects(self, pod: Pod, node: NodeInfo) -> bool:
        found = self.handle.cluster.get(Namespace, pod.namespace)
        team = None if found is None else found.labels.get("team")
        return team is not None and node.labels.get("team") != team


def test_a_right_rule_passes() -> None:
    """A rule about namespaces that says what it reads and what wakes its pods is left alone."""
    check_plugin(TeamNodes, labels=TEAM)
