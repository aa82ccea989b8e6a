"""A cluster in memory for tests of plugins: what it decides, how time passes, and what it says when used wrongly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import kubesched
from kubesched import (
    Action,
    CycleState,
    EventHint,
    Handle,
    Node,
    NodeInfo,
    Plugin,
    Pod,
    Resource,
    Status,
    on,
    unschedulable,
)
from kubesched.api import objects as api
from kubesched.config.errors import ConfigError
from kubesched.config.types import Point
from kubesched.testing import NotTriedError, Outcome, VirtualCluster, node, pod, taint


@kubesched.filter(events=[on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)])
def is_awake(pod: Pod, node: NodeInfo) -> str | bool:
    return "node(s) were resting" if node.labels.get("resting") == "true" else True


@kubesched.score(weight=5)
def by_name(pod: Pod, node: NodeInfo) -> int:
    return int(node.name[-1])


class WaitArgs(msgspec.Struct):
    seconds: float = 5.0


class Waits(Plugin):
    """Holds every pod back for a while."""

    name = "Waits"
    args_type = WaitArgs

    def events_to_register(self) -> list[EventHint]:
        return []

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status, float]:
        return Status(kubesched.Code.WAIT), self.args.seconds


class Refuses(Plugin):
    """Lets no pod be reserved."""

    name = "Refuses"

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        return unschedulable("not today")


def test_a_pod_is_scheduled_for_real(cluster: VirtualCluster) -> None:
    """The decision has the node, scores and rejections, and the pod is bound at the API server."""
    cluster.use(is_awake)
    cluster.use(by_name)
    cluster.add(node("n1"), node("n2"), node("n3", labels={"resting": "true"}))
    decision = cluster.schedule(pod("web", cpu="1"))
    assert decision.outcome is Outcome.SCHEDULED
    assert decision.node == "n2"
    assert {name: scores["by_name"] for name, scores in decision.node_scores.items()} == {"n1": 5, "n2": 10}
    assert decision.rejections["n3"].message == "node(s) were resting"
    assert cluster.node_of("web") == "n2"
    assert cluster.events.of("web", "Scheduled") == ["Successfully assigned default/web to n2"]


def test_a_decision_explains_itself(cluster: VirtualCluster) -> None:
    """In words: where it goes, every plugin's scores, and which plugin rejected which node."""
    cluster.use(is_awake)
    cluster.use(by_name)
    cluster.add(node("n1"), node("n2"), node("n3", labels={"resting": "true"}))
    text = cluster.schedule(pod("web")).explain()
    assert text.startswith("default/web goes to n2.\n2 of 3 nodes fit.\n")
    assert "  by_name " in text
    assert text.endswith("Rejected:\n  n3: node(s) were resting (is_awake, Unschedulable)")


def test_a_pod_that_fits_nowhere(cluster: VirtualCluster) -> None:
    """The message is the event's, and what made room or could not is in it."""
    cluster.use(is_awake)
    cluster.add(node("n1", labels={"resting": "true"}))
    decision = cluster.schedule(pod("web"))
    assert decision.outcome is Outcome.UNSCHEDULABLE
    assert decision.message.startswith("0/1 nodes are available: 1 node(s) were resting.")
    assert cluster.events.of("web", "FailedScheduling") == [decision.message]
    assert decision.explain().startswith("default/web fits nowhere.\n0/1 nodes are available")


def test_a_change_wakes_a_pod(cluster: VirtualCluster) -> None:
    """An object added again is updated, and who waits for that is tried again."""
    cluster.use(is_awake)
    cluster.add(node("n1", labels={"resting": "true"}))
    cluster.schedule(pod("web"))
    cluster.advance(3)
    assert cluster.node_of("web") == ""
    cluster.add(node("n1"))
    assert cluster.node_of("web") == "n1"
    assert cluster.attempts("web") == 2
    assert cluster.decision("web").node == "n1"


def test_permit_and_time(cluster: VirtualCluster) -> None:
    """A pod that waits has a node in its decision but is not bound; when it is given up, the decision says so."""
    cluster.use(Waits, args={"seconds": 30})
    cluster.add(node("n1"))
    decision = cluster.schedule(pod("web"))
    assert decision.node == "n1"
    assert cluster.node_of("web") == ""
    (waiting,) = cluster.waiting_pods
    assert waiting.pod.name == "web"
    cluster.advance(30)
    after = cluster.decision("web")
    assert after.node == ""
    assert after.outcome is Outcome.UNSCHEDULABLE


def test_a_refusal_after_the_decision(cluster: VirtualCluster) -> None:
    """What Reserve says is the outcome of the attempt."""
    cluster.use(Refuses)
    cluster.add(node("n1"))
    decision = cluster.schedule(pod("web"))
    assert decision.node == ""
    assert decision.message == "0/1 nodes are available: 1 not today."


def test_a_hundred_backoffs_take_no_time(cluster: VirtualCluster) -> None:
    """An hour passes at once, and the pod was tried again and again."""
    cluster.add(node("n1", cpu="1"))
    cluster.schedule(pod("large", cpu="64"))
    cluster.advance(3600)
    assert cluster.attempts("large") > 5
    cluster.remove(pod("large"))
    with pytest.raises(LookupError, match="there is no pod default/large"):
        cluster.pod("large")


def test_the_same_seed_gives_the_same_run() -> None:
    """Ties are broken by chance, but by the same chance every time."""

    def run(seed: int) -> list[str]:
        with VirtualCluster(seed=seed) as cluster:
            cluster.add(*(node(f"n{number}") for number in range(8)))
            return [cluster.schedule(pod(f"p{number}", cpu="1")).node for number in range(6)]

    assert run(1) == run(1)
    assert len({tuple(run(seed)) for seed in range(4)}) > 1


def test_a_configuration_file(cluster: VirtualCluster, tmp_path: Path) -> None:
    """Its profiles are the cluster's, and plugins made known can be named in it."""
    file = tmp_path / "scheduler.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: mine, plugins: {score: {disabled: [{name: '*'}], enabled: [{name: by_name}]}}}]"
    )
    cluster.know(by_name)
    cluster.configure(file)
    cluster.add(node("n1"), node("n2"))
    decision = cluster.schedule(pod("web", scheduler="mine"))
    assert decision.node_scores == {"n1": {"by_name": 5}, "n2": {"by_name": 10}}


def test_a_configuration_as_text_and_as_a_tree(cluster: VirtualCluster) -> None:
    """Both are laid under what is to be used."""
    cluster.use(by_name, weight=1)
    cluster.configure({"podMaxBackoffSeconds": 2})
    cluster.add(node("n1"), node("n2"))
    assert cluster.scheduler.config.pod_max_backoff_seconds == 2
    assert cluster.schedule(pod("web")).node_scores["n2"]["by_name"] == 2
    with VirtualCluster() as other, pytest.raises(ValueError, match="not an object"):
        other.configure("just words")


def test_bad_arguments_are_reported_with_their_path(cluster: VirtualCluster) -> None:
    """As at the start of a daemon."""
    cluster.use(Waits, args={"secnds": 30})
    with pytest.raises(ConfigError, match=r"profiles\[0\].pluginConfig\[0\].args.secnds: unknown field; did you mean"):
        cluster.start()


def test_a_plugin_that_raises(cluster: VirtualCluster) -> None:
    """The decision is an error that names the plugin, and where in it."""

    @kubesched.filter
    def broken(pod: Pod, node: NodeInfo) -> bool:
        raise RuntimeError("out of order")

    cluster.use(broken)
    cluster.add(node("n1"))
    decision = cluster.schedule(pod("web"))
    assert decision.outcome is Outcome.ERROR
    assert decision.message == 'running Filter plugin "broken": RuntimeError: out of order'
    assert "test_virtual_cluster.py:" in decision.where


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            pod("web", scheduler="other"),
            "no profile is called 'other'; build the pod with scheduler='default-sch",
        ),
        (pod("web", node="n1"), "pod default/web is on node n1 already"),
        (pod("web", gates=["later"]), "is held back by PreEnqueue plugin SchedulingGates"),
    ],
)
def test_a_pod_that_is_not_tried(cluster: VirtualCluster, wrong: Pod, said: str) -> None:
    """The error says why there is no decision."""
    cluster.add(node("n1"))
    with pytest.raises(NotTriedError, match=said):
        cluster.schedule(wrong)


def test_too_late(cluster: VirtualCluster) -> None:
    """Once the scheduler runs, its plugins are what they are."""
    cluster.start()
    with pytest.raises(RuntimeError, match="it is too late to use a plugin: the scheduler runs"):
        cluster.use(by_name)
    with pytest.raises(RuntimeError, match="it is too late to register a plugin"):
        cluster.know(by_name)
    with pytest.raises(RuntimeError, match="it is too late to configure it"):
        cluster.configure({})
    with pytest.raises(NotTriedError, match="pod default/web has not been tried"):
        cluster.decision("web")


def test_what_a_handle_has(cluster: VirtualCluster) -> None:
    """All that a plugin may use is there when it is made, but for the profile's other plugins, which are not made yet;
    and the API server can be called before a pod is bound."""
    made: list[str] = []

    class Curious(Plugin):
        name = "Curious"

        def __init__(self, args: object, handle: Handle) -> None:
            super().__init__(args, handle)
            made.append(handle.profile_name)
            assert len(handle.waiting_pods) == 0
            handle.log(0, "made", now=handle.clock.now())
            with pytest.raises(AttributeError, match="use it in a method, not in __init__"):
                handle.what_if  # noqa: B018  # read to see the error
            with pytest.raises(AttributeError, match="no attribute 'clinet'"):
                handle.clinet  # type: ignore[attr-defined]  # noqa: B018  # as above

        async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
            assert self.handle.what_if.nominated_rows(pod) == []
            found = await self.handle.client.read(Node, node_name)
            self.handle.recorder(pod, "Normal", "Looked", "Looking", f"{found.name} is there")
            await self.handle.clock.sleep(2)

    cluster.use(Curious)
    cluster.add(node("n1"))
    cluster.schedule(pod("web"))
    cluster.schedule(pod("db"))
    assert (cluster.node_of("web"), cluster.node_of("db")) == ("", "")
    cluster.advance(2)
    assert (cluster.node_of("web"), cluster.node_of("db")) == ("n1", "n1")
    assert cluster.events.of("web", "Looked") == ["n1 is there"]
    assert made == ["default-scheduler"]


def test_a_manifest_is_scheduled_as_it_is(cluster: VirtualCluster) -> None:
    """A pod without UID and namespace, as people write it, is a pod like any other: dict, YAML or struct."""
    cluster.add(node("n1"))
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}}
    assert cluster.schedule(manifest).node == "n1"
    assert cluster.schedule("{apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {containers: []}}").node == "n1"
    assert cluster.schedule(api.Pod(metadata=api.ObjectMeta(name="c"))).node == "n1"
    assert [cluster.node_of(name) for name in ("a", "b", "c")] == ["n1"] * 3


class Newest(Plugin):
    """Sorts the newest pods first."""

    name = "Newest"

    def sort_key(self, queued: Any) -> tuple[float, ...]:
        return (-queued.timestamp,)


def test_a_plugin_that_sorts_and_one_that_is_disabled(cluster: VirtualCluster) -> None:
    """`use` replaces the default order, and switches off what its `disable` names."""
    cluster.use(Newest, disable=["TaintToleration"])
    cluster.add(node("n1", taints=[taint("resting:NoSchedule")]))
    assert cluster.schedule(pod("web")).node == "n1"
    points = cluster.scheduler.profiles["default-scheduler"].engine.framework.points
    assert [plugin.name for plugin in points[Point.QUEUE_SORT]] == ["Newest"]


def test_a_function_is_not_tried_again_for_what_the_scheduler_wrote(cluster: VirtualCluster) -> None:
    """The status that follows a failed attempt does not wake the pod; a new label does."""

    @kubesched.filter
    def labelled(pod: Pod, node: NodeInfo) -> bool:
        return "wanted" in pod.labels

    cluster.use(labelled)
    cluster.add(node("n1"))
    cluster.schedule(pod("web"))
    cluster.advance(120)
    assert cluster.attempts("web") == 1
    cluster.add(pod("web", labels={"wanted": "yes"}))
    cluster.advance(30)
    assert cluster.node_of("web") == "n1"
