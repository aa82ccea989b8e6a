"""The cluster as a whole: objects by kind, pods on nodes, assumptions."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.builders import cluster, namespace, node, pod, service
from tests.cluster.content import content

from kubesched.api import objects as api
from kubesched.cluster.objects import ObjectsByKind
from kubesched.cluster.state import ClusterState


def places(state: ClusterState) -> dict[str, str]:
    return {uid: state.nodes.names[info.row] for uid, info in state.pods.items()}


# --- objects of any kind ----------------------------------------------------------------------------------------------


def test_objects_are_found_by_kind_and_key() -> None:
    """An object is found under "namespace/name", or its name where it has no namespace."""
    web, blue = service("web", {"app": "web"}), namespace("blue")
    state = cluster(web, blue)
    assert state.get(api.Service, "default/web") is web
    assert state.get(api.Namespace, "blue") is blue
    assert state.get(api.Service, "default/db") is None
    assert state.get(api.StorageClass, "fast") is None
    assert list(state.all(api.Service)) == [web]
    assert list(state.all(api.StorageClass)) == []


def test_the_first_object_of_a_kind_is_reported_once() -> None:
    """A callback for the first object of a kind is called when that comes, once, or at once if there is one."""
    state, calls = ClusterState(), list[str]()
    state.objects.when_first(api.Service, lambda: calls.append("early"))
    state.set(namespace("blue"))
    assert calls == []
    state.set(service("web", {"app": "web"}))
    state.set(service("db", {"app": "db"}))
    state.objects.when_first(api.Service, lambda: calls.append("late"))
    assert calls == ["early", "late"]


def test_nodes_and_pods_are_found_as_all_else() -> None:
    """Nodes and pods are found too, but not rows without a node, or pending pods."""
    n1, web = node("n1"), pod("web", node="n1")
    state = cluster(n1, web, pod("early", node="n2"), pod("waiting"))
    assert state.get(api.Node, "n1") is n1
    assert state.get(api.Node, "n2") is None
    assert state.get(api.Node, "n3") is None
    assert list(state.all(api.Node)) == [n1]
    assert state.get(api.Pod, "default/web") is web
    assert state.get(api.Pod, "default/waiting") is None
    assert [each.name for each in state.all(api.Pod)] == ["web", "early"]


def test_versions_of_nodes_and_pods_move_too() -> None:
    """The versions of nodes and pods change too, and report that all objects may have changed."""
    state = cluster(node("n1"))
    nodes, pods = state.version(api.Node), state.version(api.Pod)
    assert (state.changed_since(api.Node, nodes), state.changed_since(api.Pod, pods)) == ([], [])
    state.set(node("n2"))
    state.set(pod("web", node="n1"))
    assert (state.changed_since(api.Node, nodes), state.changed_since(api.Pod, pods)) == (None, None)


def test_an_unchanged_selector_changes_no_version() -> None:
    """An update of a service or controller that keeps its selector changes no version."""
    state = ClusterState()
    state.set(service("web", {"app": "web"}))
    newer = replace(service("web", {"app": "web"}), metadata=api.ObjectMeta("web", "default", resource_version="2"))
    state.set(newer)
    assert state.version(api.Service) == 1
    assert state.get(api.Service, "default/web") is newer


def test_versions_move_with_their_kind() -> None:
    """Adding, changing and deleting an object changes the version of its kind and no other."""
    state = cluster()
    seen = [state.version(api.Service)]
    state.set(service("web", {"app": "web"}))
    seen.append(state.version(api.Service))
    state.set(service("web", {"app": "db"}))
    seen.append(state.version(api.Service))
    state.remove(service("web", {}))
    seen.append(state.version(api.Service))
    assert seen == [0, 1, 2, 3]
    assert state.version(api.ReplicaSet) == 0


def test_removing_what_is_not_there_is_no_event() -> None:
    """A second deletion changes no version."""
    state = cluster(service("web", {}))
    state.remove(service("web", {}))
    state.remove(service("web", {}))
    state.remove(service("db", {}))
    state.remove(pod("nobody"))
    state.remove(node("nowhere"))
    assert state.version(api.Service) == 2


def test_changes_are_remembered_by_key() -> None:
    """The objects changed since a given version are listed, oldest first."""
    state = cluster(service("a", {}))
    since = state.version(api.Service)
    assert state.changed_since(api.Service, since) == []
    state.set(service("b", {}))
    state.remove(service("a", {}))
    assert state.changed_since(api.Service, since) == ["default/b", "default/a"]
    assert state.changed_since(api.Service, 0) == ["default/a", "default/b", "default/a"]
    assert state.changed_since(api.StorageClass, 0) == []


class ShortMemory(ObjectsByKind):
    """Keeps few changes."""

    LOG = 4


def test_old_changes_are_forgotten() -> None:
    """For a version that is too old the result is None, which means that anything may have changed."""
    state = ShortMemory()
    for number in range(7):
        state.set(service(f"s{number}", {}))
    assert state.changed_since(api.Service, 0) is None
    assert state.changed_since(api.Service, 5) == ["default/s5", "default/s6"]


def test_unknown_namespaces_have_no_labels() -> None:
    """A namespace that is not known yet has no labels."""
    state = cluster()
    assert state.namespace_labels("blue") == {}
    state.set(namespace("blue", labels={"team": "one"}))
    assert state.namespace_labels("blue") == {"team": "one"}


# --- pods -------------------------------------------------------------------------------------------------------------


def test_a_bound_pod_is_on_its_node() -> None:
    """A pod with a node name is on that node; a pending pod is on none."""
    state = cluster(node("a"), pod("p", node="a"), pod("pending"))
    assert places(state) == {"default.p": "a"}


def test_an_irrelevant_update_changes_nothing() -> None:
    """An update that is irrelevant for scheduling replaces the pod and changes no row."""
    state = cluster(node("a"), pod("p", node="a"))
    position = state.nodes.log_end
    state.set(pod("p", node="a", started="2026-01-01T00:00:00Z"))
    assert state.nodes.log_end == position
    assert state.pods["default.p"].pod.status.start_time is not None
    assert state.nodes.pods[0]["default.p"] is state.pods["default.p"]


@pytest.mark.parametrize(
    "after",
    [
        pod("p", node="a", started="2026-01-01T00:00:00Z"),
        pod("p", node="a", labels={"app": "db"}),
        pod("p", node="a", cpu="2"),
        pod("p", node="b"),
        pod("p", node="a", phase="Succeeded"),
        replace(pod("p", node="a"), metadata=replace(pod("p").metadata, deletion_timestamp="2026-01-01T00:00:00Z")),
        replace(pod("p", node="a"), status=api.PodStatus(allocated_resources={"cpu": "3"})),
    ],
)
def test_an_update_may_say_what_was_before(after: api.Pod) -> None:
    """The caller's knowledge of the last state saves time and makes no difference, forwards and backwards."""
    before = pod("p", node="a")
    for old, new in ((before, after), (after, before)):
        known, unknown = (cluster(node("a"), node("b"), old) for _ in range(2))
        known.update_pod(new, old)
        unknown.update_pod(new)
        assert content(known) == content(unknown)
        assert known.nodes.log_end == unknown.nodes.log_end


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_holds_nothing(phase: str) -> None:
    """A pod that has ended is removed from its node before it is deleted, and is not added if it ended before."""
    state = cluster(node("a"), pod("p", node="a", cpu="1"))
    state.set(pod("p", node="a", cpu="1", phase=phase))
    state.set(pod("q", node="a", cpu="1", phase=phase))
    assert places(state) == {}
    assert not state.nodes.used.any()


def test_a_pod_that_moves_is_on_one_node() -> None:
    """A new node name replaces the old one; the row of an unknown old node is removed."""
    state = cluster(node("b"), pod("p", node="a"))
    state.set(pod("p", node="b"))
    assert places(state) == {"default.p": "b"}
    assert set(state.nodes.row_of) == {"b"}


def test_a_name_used_again_is_another_pod() -> None:
    """A recreated pod with a new UID may arrive before the old one is deleted; deleting the old one keeps the new
    one.
    """
    state = cluster(node("a"), pod("p", uid="old", node="a", cpu="1"))
    state.set(pod("p", uid="new", node="a", cpu="2"))
    assert int(state.nodes.used[0, 0]) == 3000
    state.remove(pod("p", uid="old"))
    assert int(state.nodes.used[0, 0]) == 2000


def test_a_bad_pod_is_refused_and_leaves_the_old_one() -> None:
    """A pod with invalid requests raises an error, and the known version of the pod stays."""
    state = cluster(node("a"), pod("p", node="a", cpu="1"))
    before = content(state)
    with pytest.raises(api.InvalidObject, match="Pod default/p"):
        state.set(pod("p", node="a", cpu="-1"))
    with pytest.raises(api.InvalidObject, match="Pod default/q"):
        state.set(pod("q", node="a", cpu="much"))
    assert content(state) == before


# --- assumptions ------------------------------------------------------------------------------------------------------


def assumed(*objects: api.Object) -> ClusterState:
    """A cluster in which pod p is assumed on node a."""
    state = cluster(node("a"), node("b"), *objects)
    state.assume(state.classes.info(pod("p", cpu="1")), "a")
    return state


def test_an_assumed_pod_counts() -> None:
    """An assumed pod counts on its node at once."""
    state = assumed()
    assert places(state) == {"default.p": "a"}
    assert state.assumed == {"default.p"}
    assert int(state.nodes.used[0, 0]) == 1000


def test_forgetting_undoes_it() -> None:
    """Forgetting an assumed pod restores the previous state."""
    state = assumed()
    state.forget("default.p")
    assert content(state) == content(cluster(node("a"), node("b")))


def test_confirmation_ends_the_assumption() -> None:
    """When the API server confirms the binding, the pod stays and can no longer be forgotten."""
    state = assumed()
    position = state.nodes.log_end
    state.set(pod("p", cpu="1", node="a"))
    assert state.assumed == set()
    assert state.nodes.log_end == position
    state.forget("default.p")
    assert places(state) == {"default.p": "a"}


@pytest.mark.parametrize("exact", [False, True])
def test_labels_that_come_with_the_binding_change_no_row(exact: bool) -> None:
    """A confirmed pod with the topology labels of its node counts by them, and only plugins of others are asked again
    about its row."""
    state = assumed()
    state.nodes.exact = exact
    position, version, stamp = state.nodes.log_end, state.version(api.Pod), int(state.nodes.stamps[0])
    confirmed = pod("p", cpu="1", node="a", labels={"topology.kubernetes.io/zone": "west"})
    state.set(confirmed)
    assert state.nodes.log_end == position + exact
    assert state.version(api.Pod) > version
    assert state.nodes.stamps[0] > stamp
    assert content(state) == content(cluster(node("a"), node("b"), confirmed))


def test_a_follower_of_placements_sees_other_labels() -> None:
    """Other labels of a pod are a placement for those who follow placements one by one."""
    state = cluster(node("a"), pod("p", node="a"))
    seen: list[tuple[dict[str, str], int]] = []
    state.placement_observers.append(lambda info, change: seen.append((info.pod.labels, change)))
    state.set(pod("p", node="a", labels={"app": "web"}))
    assert seen == [({}, -1), ({"app": "web"}, 1)]


def test_the_api_server_takes_precedence() -> None:
    """A pod that was bound to another node is there, and not where it was assumed."""
    state = assumed()
    state.set(pod("p", cpu="1", node="b"))
    assert places(state) == {"default.p": "b"}
    assert int(state.nodes.used[0, 0]) == 0


def test_an_update_from_before_the_binding_keeps_the_assumption() -> None:
    """An update from before the binding, without a node name, does not undo the assumption."""
    state = assumed()
    state.set(pod("p", cpu="1", phase="Pending", nominated="b"))
    assert places(state) == {"default.p": "a"}
    assert len(state.nominations) == 0


def test_a_bound_pod_that_failed_is_no_longer_assumed() -> None:
    """A pod that ended before its binding was seen is removed at once."""
    state = assumed()
    state.set(pod("p", cpu="1", node="a", phase="Failed"))
    assert places(state) == {}
    assert state.assumed == set()


def test_deletion_ends_the_assumption() -> None:
    """A pod deleted during its binding is gone, and forgetting it then does nothing."""
    state = assumed()
    state.remove(pod("p"))
    state.forget("default.p")
    assert content(state) == content(cluster(node("a"), node("b")))


def test_a_pod_cannot_be_assumed_twice() -> None:
    """Assuming a pod that is already on a node is an error that names the pod."""
    state = assumed()
    with pytest.raises(ValueError, match="default/p is on a node already"):
        state.assume(state.classes.info(pod("p", cpu="1")), "b")
    assert places(state) == {"default.p": "a"}


def test_assuming_ends_the_nomination() -> None:
    """An assumed pod is no longer nominated."""
    state = cluster(node("a"), pod("p", nominated="a"))
    state.assume(state.classes.info(pod("p", nominated="a")), "a")
    assert len(state.nominations) == 0


def test_a_node_may_leave_between_decision_and_assumption() -> None:
    """If the node was deleted after the decision, the pod is on a row without a node, which disappears with the
    pod.
    """
    state = cluster(node("a"))
    state.remove(node("a"))
    state.assume(state.classes.info(pod("p", cpu="1")), "a")
    assert state.nodes.valid_count == 0
    assert places(state) == {"default.p": "a"}
    state.forget("default.p")
    assert state.nodes.row_of == {}


def test_pods_without_a_uid_do_not_overwrite_each_other() -> None:
    """Pods from manifests have no UID; each one counts, and each one can be removed."""
    state = cluster(node("a"))
    bare = [replace(pod(name, node="a"), metadata=api.ObjectMeta(name=name)) for name in ("x", "y")]
    for each in bare:
        state.set(each)
    assert len(state.pods) == 2
    state.remove(bare[0])
    assert [info.pod.name for info in state.pods.values()] == ["y"]


def test_assumed_pods_without_a_uid_do_not_overwrite_each_other() -> None:
    """Assumed pods without a UID do not overwrite each other either."""
    state = cluster(node("a"))
    for name in ("x", "y"):
        state.assume(state.classes.info(api.Pod(metadata=api.ObjectMeta(name=name))), "a")
    assert len(state.pods) == 2
