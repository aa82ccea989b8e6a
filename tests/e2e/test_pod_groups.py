"""Gangs with the real kube-scheduler and with kubesched, with the same gates: the end state in the API is the same."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.api import JSON, Api, condition, node_of, pod_path
from tests.e2e.control_plane import ControlPlane
from tests.e2e.objects import node, pod, priority_class
from tests.e2e.schedulers import KUBE_SCHEDULER, KUBESCHED, start
from tests.e2e.waiting import until

GATES = ("GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling", "WorkloadAwarePreemption")
ENABLED = f"--feature-gates={','.join(f'{gate}=true' for gate in GATES)}"
SERVED = "--runtime-config=scheduling.k8s.io/v1alpha2=true"
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"


def group(name: str, min_count: int, **spec: object) -> JSON:
    """A gang."""
    policy = {"gang": {"minCount": min_count}}
    meta = {"name": name, "namespace": "default"}
    body: JSON = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": meta}
    return {**body, "spec": {"schedulingPolicy": policy, **spec}}


def members(name: str, count: int, **more: str) -> list[JSON]:
    """Pods of a gang."""
    return [pod(f"{name}-{number}", cpu="1", schedulingGroup={"podGroupName": name}, **more) for number in range(count)]


def bound(api: Api, name: str) -> list[str]:
    """The nodes of a gang's pods, of those that have one."""
    return sorted(filter(None, (node_of(each) for each in api.pods() if each["metadata"]["name"].startswith(name))))


def state(api: Api, name: str) -> JSON:
    """The condition of a group, without its time."""
    found = condition(api.get(f"{GROUPS}/{name}"), "PodGroupScheduled")
    return {key: value for key, value in found.items() if key != "lastTransitionTime"}


def becomes(api: Api, name: str, status: str, saying: str = "") -> None:
    """Wait for a group's condition."""
    until(
        lambda: state(api, name),
        f"group {name} is {status} {saying}",
        enough=lambda seen: seen.get("status") == status and saying in seen.get("message", ""),
    )


def fits(api: Api) -> None:
    """All pods of a gang are bound."""
    api.create(node("n1", cpu="2"), node("n2", cpu="1"), group("g", 3), *members("g", 3))
    becomes(api, "g", "True")
    until(lambda: bound(api, "g"), "all are bound", enough=lambda seen: len(seen) == 3)


def fits_partly(api: Api) -> None:
    """A gang for which there is too little room gets nothing, until there is more."""
    api.create(node("n1", cpu="2"), group("g", 3), *members("g", 3))
    becomes(api, "g", "False")
    assert bound(api, "g") == []
    api.create(node("n2", cpu="1"))
    until(lambda: bound(api, "g"), "all are bound", enough=lambda seen: len(seen) == 3)
    becomes(api, "g", "True")


def preempts(api: Api) -> None:
    """A gang of higher priority gets the places of others."""
    low = [pod(f"low-{each}", cpu="1", nodeName=each) for each in ("n1", "n2")]
    api.create(priority_class("high", 1000), node("n1", cpu="1"), node("n2", cpu="1"), *low)
    api.create(group("g", 2, priorityClassName="high"), *members("g", 2, priorityClassName="high"))
    until(lambda: bound(api, "g"), "all are bound", enough=lambda seen: len(seen) == 2)
    becomes(api, "g", "True")


def takes_turns(api: Api) -> None:
    """Of two gangs that would block one another, the first is bound, and the other after it is gone."""
    pairs = zip(members("a", 2), members("b", 2), strict=True)
    api.create(node("n1", cpu="1"), node("n2", cpu="1"))
    api.create(group("a", 2), group("b", 2), *(each for pair in pairs for each in pair))
    until(lambda: bound(api, "a"), "the gang that is complete first is bound", enough=lambda seen: len(seen) == 2)
    becomes(api, "b", "False")
    assert bound(api, "b") == []
    for number in range(2):
        api.delete(pod_path(f"a-{number}"), now=True)
    until(lambda: bound(api, "b"), "the other is bound", enough=lambda seen: len(seen) == 2)
    becomes(api, "b", "True")


def loses_a_member(api: Api) -> None:
    """A gang that has lost a pod waits for a new one."""
    api.create(node("n1", cpu="2"), group("g", 3), *members("g", 3))
    becomes(api, "g", "False")
    api.delete(pod_path("g-1"), now=True)
    # So large that it is the better node for each of them: of two equal ones either may be chosen.
    api.create(node("n2", cpu="8"))
    api.create(*members("g", 4)[3:])
    until(lambda: bound(api, "g"), "all are bound", enough=lambda seen: len(seen) == 3)
    becomes(api, "g", "True")


def stays_in_a_rack(api: Api) -> None:
    """A gang with a topology constraint goes to the only rack that has room for it."""
    racks = [("a1", "a", "2"), ("b1", "b", "2"), ("b2", "b", "1")]
    api.create(*(node(name, cpu=cpu, labels={"rack": rack}) for name, rack, cpu in racks))
    constraints = {"topology": [{"key": "rack"}]}
    api.create(group("g", 3, schedulingConstraints=constraints), *members("g", 3))
    until(lambda: bound(api, "g"), "all are bound", enough=lambda seen: len(seen) == 3)
    becomes(api, "g", "True")


SCENARIOS = (fits, fits_partly, preempts, takes_turns, loses_a_member, stays_in_a_rack)


def played(scenario: Callable[[Api], None], program: str, folder: Path) -> dict[str, Any]:
    """Where pods and groups are after a scenario with one of the two schedulers."""
    folder.mkdir()
    plane = ControlPlane(folder, ENABLED, SERVED)
    try:
        plane.start()
        start(program, plane, ENABLED)
        api = plane.admin
        scenario(api)
        groups = [each["metadata"]["name"] for each in api.items(GROUPS)]
        return {
            "groups": {name: state(api, name) for name in groups},
            "bound": {name: bound(api, name) for name in groups},
        }
    finally:
        plane.stop()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_gangs_end_the_same(scenario: Callable[[Api], None], folder: Path) -> None:
    """Nodes of pods and conditions of groups are the same."""
    with ThreadPoolExecutor(2) as pool:
        theirs = pool.submit(played, scenario, KUBE_SCHEDULER, folder / KUBE_SCHEDULER)
        ours = pool.submit(played, scenario, KUBESCHED, folder / KUBESCHED)
        assert ours.result() == theirs.result()
