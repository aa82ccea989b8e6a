"""Scenarios that leave nothing to chance: wherever a pod may go, one node is better than all others.

Between them they have a pod for every default plugin. Each is a function that plays on a `Stage`.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.e2e.api import JSON, pod_path
from tests.e2e.objects import (
    claim,
    csi_node,
    csi_volume,
    disruption_budget,
    local_volume,
    node,
    pod,
    priority_class,
    service,
    storage_class,
)
from tests.e2e.stage import Stage
from tests.e2e.volume_controller import bind_claim, claim_named, complete_when_given
from tests.e2e.waiting import until

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
RESTARTS_ALL = "RestartAllContainersOnContainerExits"


def _in(key: str, *values: str) -> JSON:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


def _app(name: str) -> JSON:
    return {"matchLabels": {"app": name}}


def _preferring(key: str, value: str) -> JSON:
    return {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": _in(key, value)}]
        }
    }


def node_properties(stage: Stage) -> None:
    """NodeUnschedulable, TaintToleration, NodeAffinity, NodePorts, NodeResourcesFit, ImageLocality,
    NodeDeclaredFeatures and SchedulingGates."""
    image = {"names": ["example.com/large:1"], "sizeBytes": 900_000_000}
    stage.put(
        node("cordoned", unschedulable=True),
        node("tainted", taints=[{"key": "dedicated", "value": "infra", "effect": "NoSchedule"}]),
        node("evicting", taints=[{"key": "broken", "effect": "NoExecute"}]),
        node("disliked", labels={"pool": "soft"}, taints=[{"key": "slow", "effect": "PreferNoSchedule"}]),
        node("liked", labels={"pool": "soft"}),
        node("ssd", labels={"pool": "disk", "disk": "ssd"}),
        node("hdd", labels={"pool": "disk", "disk": "hdd"}),
        node("edge", labels={"pool": "edge"}),
        node("gpu", labels={"pool": "gpu"}, resources={"example.com/gpu": "2"}),
        node("pulled", labels={"pool": "image"}, images=[image]),
        node("empty", labels={"pool": "image"}),
        node("large", labels={"pool": "size"}, cpu="16", memory="32Gi"),
        node("small", labels={"pool": "size"}, cpu="4", memory="8Gi"),
        node("older", labels={"pool": "feature"}, cpu="16"),
        node("newer", labels={"pool": "feature"}, cpu="2", declared=[RESTARTS_ALL]),
    )
    infra = {"key": "dedicated", "operator": "Equal", "value": "infra", "effect": "NoSchedule"}
    anywhere = {"operator": "Exists"}
    required = {"nodeSelectorTerms": [_in("disk", "hdd", "tape")]}
    stage.bound(
        pod("on-cordoned", nodeSelector={HOST: "cordoned"}, tolerations=[anywhere], cpu="100m"),
        pod("on-tainted", nodeSelector={HOST: "tainted"}, tolerations=[infra], cpu="100m"),
        pod("on-liked", nodeSelector={"pool": "soft"}, cpu="100m", memory="100Mi"),
        pod("on-ssd", nodeSelector={"disk": "ssd"}),
        pod("on-hdd", affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}),
        pod("rather-hdd", nodeSelector={"pool": "disk"}, affinity=_preferring("disk", "hdd")),
        pod("on-edge", nodeSelector={"pool": "edge"}, ports=[8080]),
        pod("with-gpu", requests={"example.com/gpu": "1"}),
        pod("has-image", nodeSelector={"pool": "image"}, image="example.com/large:1"),
        pod("least-allocated", nodeSelector={"pool": "size"}, cpu="2", memory="4Gi"),
        pod("balanced", nodeSelector={"pool": "size"}, cpu="1", memory="6Gi"),
        _restarting("restarts-all", {"pool": "feature"}),
    )
    stage.refused(
        pod("same-port", nodeSelector={"pool": "edge"}, ports=[8080]),
        pod("more-gpus", requests={"example.com/gpu": "2"}),
        pod("unknown-resource", requests={"example.com/tpu": "1"}),
        pod("too-large", cpu="100", memory="1Ti"),
        pod("no-such-label", nodeSelector={"pool": "none"}),
        pod("not-tolerant", nodeSelector={HOST: "tainted"}, cpu="100m"),
        pod("not-there", nodeSelector={HOST: "cordoned"}, cpu="100m"),
        _restarting("not-declared", {HOST: "older"}),
    )
    gated = pod("gated", nodeSelector={"disk": "ssd"}, schedulingGates=[{"name": "example.com/wait"}])
    stage.put(gated)
    stage.change(gated, {"spec": {"schedulingGates": []}})
    stage.becomes_bound("gated")
    stage.put(pod("stays-gated", schedulingGates=[{"name": "example.com/one"}, {"name": "example.com/two"}]))
    stage.put(node("late", labels={"pool": "none"}))
    stage.becomes_bound("no-such-label")
    stage.change(node("tainted"), {"spec": {"taints": []}})
    stage.becomes_bound("not-tolerant")
    stage.gone("on-edge")
    stage.becomes_bound("same-port")
    stage.api.patch("/api/v1/nodes/older/status", {"status": {"declaredFeatures": [RESTARTS_ALL]}})
    stage.becomes_bound("not-declared")


def _restarting(name: str, where: JSON) -> JSON:
    """A pod that needs a feature of the kubelet: the exit of its container restarts all."""
    made = pod(name, nodeSelector=where, cpu="100m", restartPolicy="Never")
    exits = {"operator": "In", "values": [1]}
    made["spec"]["containers"][0] |= {
        "restartPolicy": "Never",
        "restartPolicyRules": [{"action": "RestartAllContainers", "exitCodes": exits}],
    }
    return made


def topology(stage: Stage) -> None:
    """PodTopologySpread and InterPodAffinity, required and preferred."""
    stage.put(
        node("a1", labels={ZONE: "a"}, cpu="8"),
        node("a2", labels={ZONE: "a"}, cpu="4"),
        node("b1", labels={ZONE: "b"}, cpu="6"),
        node("nowhere", cpu="3"),
    )
    spread: JSON = {
        "topologyKey": ZONE,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": _app("web"),
    }
    web: JSON = {"labels": {"app": "web"}, "cpu": "500m", "memory": "100Mi", "topologySpreadConstraints": [spread]}
    near = [{"topologyKey": ZONE, "labelSelector": _app("web")}]
    apart = [{"topologyKey": HOST, "labelSelector": _app("db")}]
    database = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart}}
    cache = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": near}}
    rather = {
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 100, "podAffinityTerm": {"topologyKey": HOST, "labelSelector": _app("solo")}}
            ]
        }
    }
    anyway = {**spread, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": _app("loose"), "topologyKey": HOST}
    stage.bound(
        *(pod(f"web-{number}", **web) for number in range(4)),
        *(pod(f"db-{number}", labels={"app": "db"}, affinity=database, cpu="100m") for number in range(4)),
        pod("cache", labels={"app": "cache"}, affinity=cache, cpu="100m"),
        pod("solo", labels={"app": "solo"}, nodeSelector={HOST: "a2"}),
        pod("beside-solo", affinity=rather),
        pod("loose-0", labels={"app": "loose"}, topologySpreadConstraints=[anyway], nodeSelector={HOST: "a1"}),
        pod("loose-1", labels={"app": "loose"}, topologySpreadConstraints=[anyway], cpu="100m"),
    )
    lonely = [{"topologyKey": ZONE, "labelSelector": _app("nobody")}]
    stage.refused(
        pod("db-4", labels={"app": "db"}, affinity=database, cpu="100m"),
        pod("lonely", affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": lonely}}),
        pod("web-stuck", nodeSelector={HOST: "nowhere"}, **web),
    )
    stage.gone("db-2")
    stage.becomes_bound("db-4")


def default_spreading(stage: Stage) -> None:
    """Pods without constraints of their own: those of a service are kept apart, others go where there is most room."""
    stage.put(
        service("web", {"app": "web"}),
        node("roomy", labels={ZONE: "a"}, cpu="16", memory="32Gi"),
        node("tight", labels={ZONE: "b"}, cpu="4", memory="8Gi"),
    )
    small: JSON = {"cpu": "200m", "memory": "400Mi"}
    stage.bound(
        *(pod(f"web-{number}", labels={"app": "web"}, nodeSelector={HOST: "roomy"}, **small) for number in range(2)),
        pod("web-2", labels={"app": "web"}, **small),
        pod("alone", labels={"app": "alone"}, **small),
    )


def preemption(stage: Stage) -> None:
    """DefaultPreemption: victims by priority, disruption budgets, pods that do not preempt, and the nomination while
    victims take their time."""
    stage.put(
        priority_class("high", 1000),
        priority_class("middle", 500),
        priority_class("polite", 1000, preempts=False),
        priority_class("low", 10),
        node("guarded", labels={"pool": "budget"}, cpu="2"),
        node("open", labels={"pool": "budget"}, cpu="2"),
        node("slow", labels={"pool": "slow"}, cpu="2"),
    )
    low: JSON = {"priorityClassName": "low", "cpu": "2"}
    stage.bound(
        pod("kept", labels={"app": "kept"}, nodeSelector={HOST: "guarded"}, **low),
        pod("victim", labels={"app": "victim"}, nodeSelector={HOST: "open"}, **low),
        pod(
            "leaving",
            nodeSelector={HOST: "slow"},
            priorityClassName="low",
            cpu="1500m",
            terminationGracePeriodSeconds=60,
        ),
        pod("small", nodeSelector={HOST: "slow"}, priorityClassName="middle", cpu="500m"),
    )
    stage.put(disruption_budget("kept", {"app": "kept"}, 0, 1), disruption_budget("free", {"app": "victim"}, 1, 1))
    stage.refused(
        pod("waits-politely", nodeSelector={"pool": "budget"}, priorityClassName="polite", cpu="2"),
        pod("cannot", nodeSelector={"pool": "slow"}, priorityClassName="low", cpu="1"),
    )
    stage.gone("waits-politely")
    stage.bound(pod("important", nodeSelector={"pool": "budget"}, priorityClassName="high", cpu="2"))
    stage.told("victim", "Preempted")
    stage.refused(pod("nominated", nodeSelector={"pool": "slow"}, priorityClassName="high", cpu="1500m"))
    nominated = stage.api.pod
    until(lambda: nominated("nominated")["status"].get("nominatedNodeName"), "nominated has its node")
    until(lambda: nominated("leaving")["metadata"].get("deletionTimestamp"), "leaving is on its way out")
    stage.told("leaving", "Preempted")
    stage.put(pod("does-not-take-it", nodeSelector={"pool": "slow"}, priorityClassName="middle", cpu="1500m"))
    stage.becomes_refused("does-not-take-it")


def after_preemption(stage: Stage) -> None:
    """What is left of a nomination when the victims have gone at last."""
    stage.put(priority_class("high", 1000), priority_class("low", 10), node("only", cpu="2"))
    stage.bound(
        pod("first", priorityClassName="low", cpu="1", terminationGracePeriodSeconds=60),
        pod("second", priorityClassName="low", cpu="1", terminationGracePeriodSeconds=60),
    )
    stage.refused(pod("important", priorityClassName="high", cpu="2"))
    for victim in ("first", "second"):
        stage.told(victim, "Preempted")
    stage.gone("first", "second")
    stage.becomes_bound("important")


def volumes(stage: Stage) -> None:
    """VolumeBinding, VolumeRestrictions, NodeVolumeLimits and VolumeZone; the test plays the volume controller."""
    stage.put(
        node("one", labels={ZONE: "a"}),
        node("two", labels={ZONE: "b"}),
        csi_node("one", "example.com", 1),
        csi_node("two", "example.com", 2),
        storage_class("local"),
        storage_class("made", "example.com/made"),
        storage_class("now", waits=False),
        local_volume("on-two", "local", "two", "2Gi"),
        local_volume("on-one", "local", "one", "5Gi"),
        claim("small", "local"),
        claim("large", "local", "4Gi"),
        claim("huge", "local", "9Gi"),
        claim("made", "made"),
        claim("unbound", "now"),
    )
    stage.put(pod("first", claims=["small"], nodeSelector={HOST: "two"}), pod("second", claims=["large"]))
    for name, volume in (("small", "on-two"), ("large", "on-one")):
        complete_when_given(stage, name, volume)
    stage.becomes_bound("first", "second")
    provisioned = pod("provisioned", claims=["made"], nodeSelector={HOST: "two"})
    stage.put(provisioned)
    annotation = "volume.kubernetes.io/selected-node"
    until(
        lambda: annotation in claim_named(stage, "made")["metadata"].get("annotations", {}),
        "made has its node selected",
    )
    stage.put(csi_volume("made", "made", "example.com"))
    bind_claim(stage, "made", "made")
    stage.becomes_bound("provisioned")
    stage.refused(
        pod("too-much", claims=["huge"]),
        pod("immediate", claims=["unbound"]),
        pod("no-claim", claims=["missing"]),
        pod("fixed", claims=["small"], nodeSelector={HOST: "one"}),
    )
    for number, zone in enumerate("ab"):
        once: JSON = {"mode": "ReadWriteOncePod"}
        stage.put(csi_volume(f"zonal-{number}", "now", "other.example.com", labels={ZONE: zone}, **once))
        stage.put(claim(f"zonal-{number}", "now", **once))
        bind_claim(stage, f"zonal-{number}", f"zonal-{number}")
    stage.bound(pod("in-a", claims=["zonal-0"]), pod("in-b", claims=["zonal-1"]))
    stage.refused(pod("not-twice", claims=["zonal-0"]), pod("wrong-zone", claims=["zonal-1"], nodeSelector={ZONE: "a"}))
    for number in range(3):
        stage.put(csi_volume(f"counted-{number}", "now", "example.com"), claim(f"counted-{number}", "now"))
        bind_claim(stage, f"counted-{number}", f"counted-{number}")
    on_one: JSON = {"nodeSelector": {HOST: "one"}}
    stage.bound(pod("counted-0", claims=["counted-0"], **on_one))
    stage.refused(pod("counted-1", claims=["counted-1"], **on_one))
    stage.put(claim("missing", "local", "9Gi"))
    stage.becomes_refused("no-claim", "didn't find available persistent volumes to bind")


def empty_cluster(stage: Stage) -> None:
    """Pods that come before the first node, and nodes that come later."""
    stage.refused(pod("early", cpu="1"), pod("picky", nodeSelector={"disk": "ssd"}))
    stage.put(node("first", cpu="2"))
    stage.becomes_bound("early")
    stage.becomes_refused("picky", "0/1 nodes are available")
    stage.change(node("first"), {"metadata": {"labels": {"disk": "ssd"}}})
    stage.becomes_bound("picky")
    stage.put(pod("named", nodeName="first"))
    stage.api.get(pod_path("named"))


def profiles(stage: Stage) -> None:
    """Several profiles in one scheduler: they differ in how they score, in what they reject and in what they prefer."""
    taint = {"key": "dedicated", "effect": "NoSchedule"}
    stage.put(
        node("full", cpu="4", labels={"pool": "size"}),
        node("roomy", cpu="8", labels={"pool": "size"}),
        node("tainted", taints=[taint], labels={"pool": "taint"}),
        node("new", labels={"pool": "age", "age": "new"}),
        node("old", labels={"pool": "age", "age": "old"}),
    )
    stage.bound(pod("there-already", nodeSelector={HOST: "full"}, cpu="2", memory="2Gi"))
    sized: JSON = {"nodeSelector": {"pool": "size"}, "cpu": "500m", "memory": "500Mi"}
    stage.bound(
        pod("spread", **sized),
        pod("packed", schedulerName="packer", **sized),
        pod("bold", schedulerName="bold", nodeSelector={"pool": "taint"}),
        pod("aged", schedulerName="ager", nodeSelector={"pool": "age"}),
    )
    stage.refused(
        pod("timid", nodeSelector={"pool": "taint"}),
        pod("no-preemption", schedulerName="bold", cpu="100"),
        pod("aged-wrongly", schedulerName="ager", nodeSelector={"age": "new"}),
    )
    # Nobody's pod: it is left alone.
    stage.put(pod("somebody-elses", schedulerName="somebody"))


PROFILES: JSON = {
    "profiles": [
        {"schedulerName": "default-scheduler"},
        {
            "schedulerName": "packer",
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "scoringStrategy": {
                            "type": "MostAllocated",
                            "resources": [{"name": "cpu", "weight": 5}, {"name": "memory", "weight": 1}],
                        }
                    },
                }
            ],
        },
        {
            "schedulerName": "bold",
            "plugins": {
                "filter": {"disabled": [{"name": "TaintToleration"}]},
                "postFilter": {"disabled": [{"name": "*"}]},
            },
        },
        {
            "schedulerName": "ager",
            "pluginConfig": [
                {
                    "name": "NodeAffinity",
                    "args": {
                        "addedAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_in("age", "old")]}
                        }
                    },
                }
            ],
        },
    ]
}
CONFIGURATIONS: dict[Callable[[Stage], None], JSON] = {profiles: PROFILES}
"""Scenarios for which schedulers have a configuration file."""

SCENARIOS = (
    node_properties,
    topology,
    default_spreading,
    preemption,
    after_preemption,
    volumes,
    empty_cluster,
    profiles,
)
