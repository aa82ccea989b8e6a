"""What users and others do to the cluster: pods, workloads, nodes, and edits by strangers."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from kubesched.api import objects as api
from kubesched.base.types import JSON
from kubesched.controllers.volumes import PROVISIONER
from kubesched.reconcile.access import (
    BUDGETS,
    CLAIM_TEMPLATES,
    DEPLOYMENTS,
    JOBS,
    NODES,
    PODS,
    STATEFUL_SETS,
)
from kubesched.torture.moods import KNOCK, OPEN
from kubesched.torture.plan import Act, Params, Plan

if TYPE_CHECKING:
    from kubesched.torture.world import World

APPS = ("web", "db", "cache")
DRIVER = "gpu.example.com"
HELD = "example.com/held"
"""A finalizer: pods with it are there for a while after they were deleted."""
CSI_NODES = "storage.k8s.io/csinodes"
GROUPS = "scheduling.k8s.io/podgroups"
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
PROFILES = ("default-scheduler", "second")


# --- pods -------------------------------------------------------------------------------------------------------------


def _container(random: Random) -> JSON:
    requests = {"cpu": f"{random.choice((100, 250, 500, 1000, 1900))}m", "memory": f"{random.choice((64, 256, 900))}Mi"}
    return {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": requests}}


def _pod(random: Random) -> tuple[JSON, str]:
    """The template of a pod, and what is special about it."""
    app = random.choice(APPS)
    container = _container(random)
    spec: JSON = {"containers": [container], "schedulerName": random.choice((PROFILES[0], *PROFILES))}
    labels = {"app": app}
    special = random.choice(
        (
            *("", "", "port", "selector", "away", "near", "spread", "tolerant"),
            *("priority", "priority", "gate", "wait", "wait", "short"),
        )
    )
    if special == "port":
        container["ports"] = [{"containerPort": 80, "hostPort": random.choice((8080, 8081))}]
    elif special == "selector":
        spec["nodeSelector"] = {ZONE: random.choice("ab")}
    elif special == "away":
        term = {"topologyKey": random.choice((ZONE, HOSTNAME)), "labelSelector": {"matchLabels": {"app": app}}}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    elif special == "near":
        term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}}
        spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    elif special == "spread":
        rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
        spec["topologySpreadConstraints"] = [{**rule, "labelSelector": {"matchLabels": {"app": app}}}]
    elif special == "tolerant":
        spec["tolerations"] = [{"operator": "Exists"}]
    elif special == "priority":
        spec["priority"] = random.choice((10, 1000))
    elif special == "gate":
        spec["schedulingGates"] = [{"name": "example.com/later"}]
    elif special == "wait":
        labels["wait"] = "a-moment"
        spec["schedulerName"] = PROFILES[1]
    elif special == "short":
        spec["restartPolicy"] = "Never"
    return {"metadata": {"labels": labels}, "spec": spec}, special or "plain"


def make_pods(random: Random, plan: Plan) -> tuple[Params, str]:
    template, special = _pod(random)
    name, count = plan.name("pod"), random.randint(1, 6)
    return {"name": name, "template": template, "count": count}, f"{count} pods {name}-* are created ({special})"


def do_pods(world: World, params: Params) -> None:
    template = params["template"]
    for number in range(params["count"]):
        meta = {"name": f"{params['name']}-{number}", "namespace": "default", **template["metadata"]}
        world.create(PODS, {"metadata": meta, "spec": template["spec"]})


def make_crowd(random: Random, plan: Plan) -> tuple[Params, str]:
    name, after, count = plan.name("crowd"), random.uniform(1.0, 8.0), random.randint(1, 3)
    fails = random.random() < 0.4
    return {"name": name, "after": after, "count": count, "fails": fails, "full": True}, (
        f"pods {name}-* of no priority fill all nodes; {after:.1f}s later {count} of high priority want their places"
        + (", and the first deletions fail" if fails else "")
    )


def do_crowd(world: World, params: Params) -> None:
    def create(name: str, priority: int, cpu: str = "1500m", node: str = "") -> None:
        meta = {"name": f"{params['name']}-{name}", "namespace": "default", "labels": {"app": "crowd"}}
        container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
        where = {"nodeSelector": {HOSTNAME: node}} if node else {}
        world.create(PODS, {"metadata": meta, "spec": {"containers": [container], "priority": priority, **where}})

    if params.get("full"):
        for node in world.keys(NODES):
            cpu = (world.get(NODES, node) or {})["status"]["allocatable"]["cpu"]
            create(f"low-{node}", 0, f"{int(cpu) * 900}m", node)
    else:
        for number in range(10):
            create(f"low-{number}", 0)
    for number in range(params["count"]):
        world.later(params["after"], partial(create, f"high-{number}", 2000))
    if params.get("fails"):
        world.refuse_deletions(3)


def make_held(random: Random, plan: Plan) -> tuple[Params, str]:
    template, special = _pod(random)
    name, count = plan.name("held"), random.randint(1, 4)
    after, held = random.choice((0.0, 0.01, 2.0, 6.0)), random.uniform(5.0, 25.0)
    return {"name": name, "template": template, "count": count, "after": after, "held": held}, (
        f"{count} pods {name}-* are created ({special}), deleted {after:g}s later, and kept {held:.0f}s by a finalizer"
    )


def do_held(world: World, params: Params) -> None:
    keys = [f"default/{params['name']}-{number}" for number in range(params["count"])]
    meta = {**params["template"]["metadata"], "namespace": "default", "finalizers": [HELD]}
    for key in keys:
        name = key.removeprefix("default/")
        world.create(PODS, {"metadata": {**meta, "name": name}, "spec": params["template"]["spec"]})
    for key in keys:
        world.later(params["after"], partial(world.delete, PODS, key))
        world.later(params["after"] + params["held"], partial(world.let_go, key))


def make_knock(random: Random, plan: Plan) -> tuple[Params, str]:
    name, count, by = plan.name("knock"), random.randint(1, 3), random.choice(("node", "pod"))
    after, fails = random.uniform(0.1, 6.0), random.random() < 0.25
    return {"name": name, "count": count, "by": by, "after": after, "fails": fails}, (
        f"{count} pods {name}-* knock; {after:.1f}s later a label of {by} lets them in"
        + (", while the plugin's hints raise" if fails else "")
    )


def do_knock(world: World, params: Params) -> None:
    name = params["name"]
    keys = [f"default/{name}-{number}" for number in range(params["count"])]
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "100m"}}}
    for key in keys:
        meta = {"name": key.removeprefix("default/"), "namespace": "default", "labels": {KNOCK: name, "app": "knock"}}
        world.create(PODS, {"metadata": meta, "spec": {"containers": [container], "schedulerName": PROFILES[1]}})

    def let_in() -> None:
        world.opened.add(name)
        if params.get("fails"):
            world.mood.set("hint", "raises", 1.0, params["seed"])
            world.later(1.0, lambda: world.mood.calm("hint"))
        label = f"{OPEN}-{name}" if params["by"] == "node" else OPEN
        storage, these = (NODES, world.keys(NODES)[:1]) if params["by"] == "node" else (PODS, keys)
        for key in these:
            world.edit(storage, key, lambda obj: obj["metadata"].setdefault("labels", {}).update({label: "true"}))

    world.later(params["after"], let_in)


def make_device_pods(random: Random, plan: Plan) -> tuple[Params, str]:
    name, count = plan.name("gpu"), random.randint(1, 4)
    profile = random.choice(PROFILES)
    return {"name": name, "count": count, "profile": profile}, (
        f"{count} pods {name}-* are created for {profile}, each with a claim on a device"
    )


def do_device_pods(world: World, params: Params) -> None:
    name = params["name"]
    world.create_device_class()
    claim = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}}}
    world.create(CLAIM_TEMPLATES, {"metadata": {"name": name, "namespace": "default"}, "spec": claim})
    container = {"name": "main", "image": "pause", "resources": {"claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": name}]
    profile = params.get("profile", PROFILES[0])
    spec = {"containers": [container], "resourceClaims": claims, "schedulerName": profile}
    for number in range(params["count"]):
        meta = {"name": f"{name}-{number}", "namespace": "default", "labels": {"app": "gpu"}}
        world.create(PODS, {"metadata": meta, "spec": spec})


def make_gang(random: Random, plan: Plan) -> tuple[Params, str]:
    name, count = plan.name("gang"), random.randint(2, 4)
    least = random.randint(2, count)
    cpu = random.choice((250, 1000, 1900))
    return {"name": name, "count": count, "least": least, "cpu": cpu, "gangs": plan.gangs}, (
        f"a gang {name} of {count} pods is created, of which {least} must start together"
    )


def do_gang(world: World, params: Params) -> None:
    name = params["name"]
    spec: JSON = {
        "containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": f"{params['cpu']}m"}}}]
    }
    if params["gangs"]:
        policy = {"gang": {"minCount": params["least"]}}
        world.create(GROUPS, {"metadata": {"name": name, "namespace": "default"}, "spec": {"schedulingPolicy": policy}})
        spec["schedulingGroup"] = {"podGroupName": name}
    for number in range(params["count"]):
        meta = {"name": f"{name}-{number}", "namespace": "default", "labels": {"app": "gang"}}
        world.create(PODS, {"metadata": meta, "spec": spec})


# --- workloads --------------------------------------------------------------------------------------------------------


def make_deployment(random: Random, plan: Plan) -> tuple[Params, str]:
    template, special = _pod(random)
    template["spec"].pop("restartPolicy", None)
    name, replicas = plan.name("web"), random.randint(1, 8)
    plan.workloads.append((DEPLOYMENTS, name))
    return {"name": name, "template": template, "replicas": replicas}, (
        f"deployment {name} of {replicas} pods is created ({special})"
    )


def do_deployment(world: World, params: Params) -> None:
    template = _named(params)
    spec = {"replicas": params["replicas"], "selector": {"matchLabels": {"set": params["name"]}}, "template": template}
    world.create(DEPLOYMENTS, {"metadata": {"name": params["name"], "namespace": "default"}, "spec": spec})


def make_stateful(random: Random, plan: Plan) -> tuple[Params, str]:
    name, replicas = plan.name("db"), random.randint(1, 4)
    plan.workloads.append((STATEFUL_SETS, name))
    profile = random.choice(PROFILES)
    return {"name": name, "replicas": replicas, "profile": profile}, (
        f"stateful set {name} of {replicas} pods with volumes is created for {profile}"
    )


def do_stateful(world: World, params: Params) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    mounted = {"name": "main", "image": "pause", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    pod = {"containers": [mounted], "schedulerName": params.get("profile", PROFILES[0])}
    template = {"metadata": {"labels": {"set": params["name"], "app": "db"}}, "spec": pod}
    spec = {
        "replicas": params["replicas"],
        "serviceName": params["name"],
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"set": params["name"]}},
        "template": template,
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
    }
    world.create(STATEFUL_SETS, {"metadata": {"name": params["name"], "namespace": "default"}, "spec": spec})


def make_job(random: Random, plan: Plan) -> tuple[Params, str]:
    template, special = _pod(random)
    template["spec"]["restartPolicy"] = "Never"
    name, count = plan.name("job"), random.randint(1, 5)
    plan.workloads.append((JOBS, name))
    return {"name": name, "template": template, "count": count}, f"job {name} of {count} pods is created ({special})"


def do_job(world: World, params: Params) -> None:
    spec = {"parallelism": params["count"], "completions": params["count"], "template": _named(params)}
    world.create(JOBS, {"metadata": {"name": params["name"], "namespace": "default"}, "spec": spec})


def _named(params: Params) -> JSON:
    template = params["template"]
    labels = {**template["metadata"]["labels"], "set": params["name"]}
    return {"metadata": {"labels": labels}, "spec": template["spec"]}


def make_scale(random: Random, plan: Plan) -> tuple[Params, str]:
    storage, name = random.choice(plan.workloads or [(DEPLOYMENTS, "web-0")])
    replicas = random.randint(0, 8)
    return {"storage": storage, "name": name, "replicas": replicas}, f"{name} is scaled to {replicas}"


def do_scale(world: World, params: Params) -> None:
    field = "parallelism" if params["storage"] == JOBS else "replicas"
    world.edit(
        params["storage"], f"default/{params['name']}", lambda obj: obj["spec"].update({field: params["replicas"]})
    )


def make_remove(random: Random, plan: Plan) -> tuple[Params, str]:
    storage, name = random.choice(plan.workloads or [(DEPLOYMENTS, "web-0")])
    return {"storage": storage, "name": name}, f"{name} is deleted"


def do_remove(world: World, params: Params) -> None:
    world.delete(params["storage"], f"default/{params['name']}")


def make_budget(random: Random, plan: Plan) -> tuple[Params, str]:
    app = random.choice(APPS)
    return {"name": plan.name("budget"), "app": app}, f"a budget protects the pods of {app}"


def do_budget(world: World, params: Params) -> None:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": params["app"]}}}
    world.create(BUDGETS, {"metadata": {"name": params["name"], "namespace": "default"}, "spec": spec})


# --- strangers --------------------------------------------------------------------------------------------------------


def _some_pod(what: str) -> Any:
    def make(random: Random, plan: Plan) -> tuple[Params, str]:
        return {"rank": random.random(), "at once": random.random() < 0.3}, what

    return make


def do_delete_pod(world: World, params: Params) -> None:
    if (key := world.pod(params["rank"])) is not None:
        world.delete(PODS, key, grace=0 if params["at once"] else None)


def do_relabel_pod(world: World, params: Params) -> None:
    if (key := world.pod(params["rank"])) is not None:
        app = APPS[int(params["rank"] * 1000) % len(APPS)]
        world.edit(PODS, key, lambda obj: obj["metadata"].setdefault("labels", {}).update(app=app))


def do_ungate(world: World, params: Params) -> None:
    for key in world.keys(PODS):
        world.edit(PODS, key, lambda obj: obj["spec"].pop("schedulingGates", None))


def _waiting(world: World, rank: float) -> str | None:
    """Some pod that has no node."""
    waiting = [key for key in world.keys(PODS) if not (world.get(PODS, key) or {}).get("spec", {}).get("nodeName")]
    return waiting[int(rank * len(waiting))] if waiting else None


def do_steal(world: World, params: Params) -> None:
    """Another scheduler binds a pod that waits."""
    key, nodes = _waiting(world, params["rank"]), world.keys(NODES)
    if key is not None and nodes:
        world.steal(key, nodes[int(params["rank"] * 997) % len(nodes)])


def do_delete_waiting(world: World, params: Params) -> None:
    if (key := _waiting(world, params["rank"])) is not None:
        world.delete(PODS, key, grace=0)


def do_relabel_waiting(world: World, params: Params) -> None:
    if (key := _waiting(world, params["rank"])) is not None:
        app = APPS[int(params["rank"] * 1000) % len(APPS)]
        world.edit(PODS, key, lambda obj: obj["metadata"].setdefault("labels", {}).update(app=app))


def do_recreate(world: World, params: Params) -> None:
    """A pod is replaced by another of the same name; schedulers may see that as one change."""
    key = _waiting(world, params["rank"]) if params["at once"] else None
    key = key or world.pod(params["rank"])
    if key is not None:
        world.recreate(key)
        if params["rank"] * 100 % 1 < 0.6:
            world.forget_history()
            world.cut_all(None)


# --- nodes ------------------------------------------------------------------------------------------------------------


def make_node(random: Random, plan: Plan) -> tuple[Params, str]:
    name = plan.name("node")
    plan.node_names.append(name)
    cpu, pods, zone = random.choice((2, 4, 8)), random.choice((5, 20, 110)), random.choice("ab")
    gpus = random.choice((0, 0, 1, 3))
    volumes = random.choice((None, None, 1, 2))
    return {"name": name, "cpu": cpu, "pods": pods, "zone": zone, "gpus": gpus, "volumes": volumes}, (
        f"{name} comes: {cpu} CPUs, {pods} pods, zone {zone}"
        + (f", {gpus} devices" if gpus else "")
        + (f", at most {volumes} volumes" if volumes else "")
    )


def do_node(world: World, params: Params) -> None:
    amounts = {"cpu": str(params["cpu"]), "memory": "8Gi", "pods": str(params["pods"]), "ephemeral-storage": "50Gi"}
    meta: JSON = {"name": params["name"], "labels": {ZONE: params["zone"], HOSTNAME: params["name"]}}
    if params["gpus"]:
        meta["annotations"] = {world.devices_annotation: f"{DRIVER}={params['gpus']}"}
    world.create(NODES, {"metadata": meta, "spec": {}, "status": {"capacity": amounts, "allocatable": amounts}})
    driver = {"name": PROVISIONER, "nodeID": params["name"], "allocatable": {"count": params.get("volumes")}}
    drivers = [driver] if params.get("volumes") else []
    # As a kubelet does, with or without drivers: pods that only volume limits keep out wait for this, not for the node.
    world.create(CSI_NODES, {"metadata": {"name": params["name"]}, "spec": {"drivers": drivers}})


def make_awaited_node(random: Random, plan: Plan) -> tuple[Params, str]:
    params, words = make_node(random, plan)
    after, count = random.uniform(2.0, 20.0), random.randint(1, 2)
    return {**params, "after": after, "count": count}, (
        f"{count} pods wait for {params['name']}; {after:.1f}s later {words}, and all schedulers find it in a list"
    )


def do_awaited_node(world: World, params: Params) -> None:
    """A node that comes while nobody watches is seen once, complete: no later change wakes the pods that need it."""
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "100m"}}}
    for number in range(params["count"]):
        meta = {"name": f"{params['name']}-awaited-{number}", "namespace": "default", "labels": {"app": "guest"}}
        spec = {"containers": [container], "nodeSelector": {HOSTNAME: params["name"]}}
        world.create(PODS, {"metadata": meta, "spec": spec})

    def come() -> None:
        world.cut_all(ConnectionResetError("connection reset"), api.Node)
        do_node(world, params)
        world.later(0.5, world.forget_history)

    world.later(params["after"], come)


def _some_node(words: str, **more: Any) -> Any:
    def make(random: Random, plan: Plan) -> tuple[Params, str]:
        name = random.choice(plan.node_names or ["node-0"])
        return {"name": name, "draw": random.random(), **more}, words.format(name)

    return make


def do_drop_node(world: World, params: Params) -> None:
    if params["draw"] < 0.5:
        world.drop_node(params["name"])
    else:
        world.delete(NODES, params["name"])
        world.met.note("node deleted", "a node")


def do_cordon(world: World, params: Params) -> None:
    world.met.note("node changed", params["name"])
    world.edit(
        NODES, params["name"], lambda obj: obj["spec"].update(unschedulable=not obj["spec"].get("unschedulable"))
    )


def do_taint(world: World, params: Params) -> None:
    world.met.note("node changed", params["name"])
    effect = ("NoSchedule", "NoExecute", "PreferNoSchedule")[int(params["draw"] * 3)]

    def edit(obj: JSON) -> None:
        others = [each for each in obj["spec"].get("taints") or [] if each["key"] != "example.com/moody"]
        had = len(others) != len(obj["spec"].get("taints") or [])
        obj["spec"]["taints"] = others if had else [*others, {"key": "example.com/moody", "effect": effect}]

    world.edit(NODES, params["name"], edit)


def do_rezone(world: World, params: Params) -> None:
    world.met.note("node changed", params["name"])
    world.edit(
        NODES, params["name"], lambda obj: obj["metadata"]["labels"].update({ZONE: "ab"[int(params["draw"] * 2)]})
    )


def do_resize(world: World, params: Params) -> None:
    world.met.note("node changed", params["name"])
    cpu = str((1, 2, 6, 16)[int(params["draw"] * 4)])
    world.edit(NODES, params["name"], lambda obj: obj["status"]["allocatable"].update(cpu=cpu), "status")


ACTIONS = {
    "pods": Act(make_pods, do_pods),
    "crowd": Act(make_crowd, do_crowd),
    "held": Act(make_held, do_held),
    "knock": Act(make_knock, do_knock),
    "device pods": Act(make_device_pods, do_device_pods),
    "gang": Act(make_gang, do_gang),
    "deployment": Act(make_deployment, do_deployment),
    "stateful set": Act(make_stateful, do_stateful),
    "job": Act(make_job, do_job),
    "scale": Act(make_scale, do_scale),
    "remove": Act(make_remove, do_remove),
    "budget": Act(make_budget, do_budget),
    "delete pod": Act(_some_pod("some pod is deleted"), do_delete_pod),
    "relabel pod": Act(_some_pod("some pod gets another label"), do_relabel_pod),
    "ungate": Act(_some_pod("all gates are removed"), do_ungate),
    "steal": Act(_some_pod("another scheduler binds a pod that waits"), do_steal),
    "delete waiting": Act(_some_pod("a pod that waits is deleted"), do_delete_waiting),
    "relabel waiting": Act(_some_pod("a pod that waits gets another label"), do_relabel_waiting),
    "recreate": Act(_some_pod("a pod is deleted and created again at once"), do_recreate),
    "node": Act(make_node, do_node),
    "awaited node": Act(make_awaited_node, do_awaited_node),
    "drop node": Act(_some_node("{} is deleted"), do_drop_node),
    "cordon": Act(_some_node("{} is cordoned, or opened again"), do_cordon),
    "taint": Act(_some_node("{} gets a taint, or loses it"), do_taint),
    "rezone": Act(_some_node("{} moves to a zone"), do_rezone),
    "resize": Act(_some_node("{} gets another number of CPUs"), do_resize),
}
WEIGHTS = {
    "pods": 12,
    "crowd": 2,
    "held": 2,
    "knock": 3,
    "device pods": 3,
    "gang": 2,
    "deployment": 6,
    "stateful set": 3,
    "job": 3,
    "scale": 4,
    "remove": 2,
    "budget": 1,
    "delete pod": 4,
    "relabel pod": 2,
    "ungate": 1,
    "steal": 2,
    "delete waiting": 3,
    "relabel waiting": 2,
    "recreate": 2,
    "node": 2,
    "drop node": 2,
    "cordon": 2,
    "taint": 2,
    "rezone": 1,
    "resize": 2,
}
