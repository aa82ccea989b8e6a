"""A user of the cluster: creates, deletes and scales pods, cordons and taints nodes, and tries what is forbidden."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException
from random import Random
from typing import Any

from tests.e2e.api import CORE, JSON, RefusedError, node_of, pod_path
from tests.e2e.control_plane import NOBODY, ControlPlane
from tests.e2e.objects import node, pod
from tests.e2e.soak.figures import Figures

SHARED, STEADY = "shared", "steady"
"""Two pools of nodes: for the pods of the two schedulers that elect a leader, and for those of the third scheduler."""
NODES = {SHARED: 12, STEADY: 4}
CPUS = 8
MOST_PODS = 150
"""In each pool all pods together fit, also if each requests the most."""
REQUESTS = (100, 250, 500)
SETS = {f"{pool}-{number}": pool for pool in (SHARED, STEADY) for number in range(2)}
MOST_REPLICAS = 20
REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"
AWAY = {"key": "example.com/away", "effect": "NoSchedule"}
BUSY = (OSError, HTTPException, RefusedError, ValueError)
"""What an API server does that is killed, starts, or waits for etcd."""


def node_names() -> list[str]:
    """All nodes."""
    return [f"{pool}-node-{number}" for pool, count in NODES.items() for number in range(count)]


class Driver:
    """Runs in a thread until it is stopped."""

    def __init__(self, plane: ControlPlane, random: Random, figures: Figures, metrics: Callable[[], int]) -> None:
        """`metrics` reads the metrics of a scheduler without credentials and returns the HTTP status."""
        self._plane = plane
        self._random = random
        self._figures = figures
        self._metrics = metrics
        self._quiet = threading.Event()
        self._thread = threading.Thread(target=self._drive, name="driver")
        self._names = 0
        self.pods: dict[str, JSON] = {}
        """All pods that were ever seen, by UID, as last seen."""
        self.present: dict[str, JSON] = {}
        """The pods of the last list."""
        self.deleted: dict[str, float] = {}
        """When each deletion was first sent, by UID."""
        self.intruded: list[str] = []

    def furnish(self) -> None:
        """Create nodes and ReplicaSets."""
        for name in node_names():
            self._plane.admin.create(node(name, cpu=str(CPUS), labels={"pool": name.partition("-")[0]}))
        self._plane.admin.create(*(self._replica_set(name, pool) for name, pool in SETS.items()))

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """End after the current step."""
        self._quiet.set()
        self._thread.join()

    def _drive(self) -> None:
        acts = (self._create, self._delete, self._scale, self.reconcile, self._edit_node, self._intrude)
        while not self._quiet.is_set():
            with suppress(*BUSY):
                self._random.choices(acts, (8, 5, 2, 4, 3, 1))[0]()
            self._quiet.wait(self._random.uniform(0.01, 0.4))

    def seen(self) -> list[JSON]:
        """All pods that the API server has."""
        found = self._plane.admin.pods()
        self.present = {each["metadata"]["uid"]: each for each in found}
        self.pods.update(self.present)
        return found

    # --- pods ---------------------------------------------------------------------------------------------------------

    def _create(self) -> None:
        random = self._random
        room = MOST_PODS - sum(1 for each in self.seen() if not self._set_of(each))
        for _ in range(min(random.randint(1, 8), room)):
            more = {"priorityClassName": "high"} if random.random() < 0.1 else {}
            self._create_pod("pod", SHARED, cpu=random.choice(REQUESTS), **more)

    def _create_pod(self, prefix: str, pool: str, *, cpu: int, **spec: Any) -> None:
        self._names += 1
        if pool == STEADY:
            spec["schedulerName"] = STEADY
        made = pod(f"{prefix}-{self._names}", cpu=f"{cpu}m", nodeSelector={"pool": pool}, **spec)
        created = self._plane.admin.create(made)[0]
        self.pods[created["metadata"]["uid"]] = created
        self._figures.created += 1

    def _delete(self) -> None:
        present = self.seen()
        self._delete_pods(self._random.sample(present, min(len(present), self._random.randint(1, 5))))

    def _delete_pods(self, pods: list[JSON]) -> None:
        for each in pods:
            self.deleted.setdefault(each["metadata"]["uid"], time.time())
            self._plane.admin.delete(pod_path(each["metadata"]["name"]), now=True)
            self._figures.deleted += 1

    # --- ReplicaSets: no controller runs in this control plane, so the driver does its work ---------------------------

    def _replica_set(self, name: str, pool: str) -> JSON:
        labels = {"set": name}
        made = pod(name, cpu="200m", labels=labels, nodeSelector={"pool": pool})
        template = {"metadata": {"labels": labels}, "spec": {"containers": made["spec"]["containers"]}}
        spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
        return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}, "spec": spec}

    def _scale(self) -> None:
        name, replicas = self._random.choice(list(SETS)), self._random.randint(0, MOST_REPLICAS)
        self._plane.admin.patch(f"{REPLICA_SETS}/{name}/scale", {"spec": {"replicas": replicas}})
        self._figures.scaled += 1
        self.reconcile()

    def reconcile(self) -> None:
        """Create or delete pods of the ReplicaSets that have too few or too many."""
        pods = self.seen()
        for each in self._plane.admin.items(REPLICA_SETS):
            name, wanted = each["metadata"]["name"], each["spec"]["replicas"]
            have = [each for each in pods if self._set_of(each) == name]
            for _ in range(wanted - len(have)):
                self._create_pod(name, SETS[name], cpu=200, labels={"set": name})
            self._delete_pods(have[wanted:])

    def _set_of(self, each: JSON) -> str:
        return str((each["metadata"].get("labels") or {}).get("set", ""))

    def unsettled(self) -> list[str]:
        """After the faults: what is not as it should be, in words."""
        try:
            self.reconcile()
            pods, sets = self.seen(), self._plane.admin.items(REPLICA_SETS)
        except BUSY as error:
            return [str(error)]
        wanted = {each["metadata"]["name"]: each["spec"]["replicas"] for each in sets}
        have = Counter(self._set_of(each) for each in pods)
        found = [f"{each['metadata']['name']} has no node" for each in pods if not node_of(each)]
        return found + [
            f"{name} has {have[name]} of {count} pods" for name, count in wanted.items() if have[name] != count
        ]

    # --- nodes and intruders ------------------------------------------------------------------------------------------

    def _edit_node(self) -> None:
        random = self._random
        spec = {"unschedulable": random.random() < 0.2, "taints": random.choice(([], [], [AWAY]))}
        self._plane.admin.patch(f"{CORE}/nodes/{random.choice(node_names())}", {"spec": spec})

    def open_nodes(self) -> bool:
        """Remove all cordons and taints; False if the API server is busy."""
        try:
            for name in node_names():
                self._plane.admin.patch(f"{CORE}/nodes/{name}", {"spec": {"unschedulable": False, "taints": []}})
        except BUSY:
            return False
        return True

    def _intrude(self) -> None:
        """A user without rights tries to bind a pod, and to read what a scheduler serves."""
        present = self.seen()
        if present:
            name = self._random.choice(present)["metadata"]["name"]
            target = {"target": {"kind": "Node", "name": node_names()[0]}, "metadata": {"name": name}}
            body = {"apiVersion": "v1", "kind": "Binding", **target}
            code, _ = self._plane.api(NOBODY).ask("POST", f"{pod_path(name)}/binding", body)
            if code < 400:
                self.intruded.append(f"nobody bound {name}: {code}")
        if self._metrics() < 400:
            self.intruded.append("a stranger has read the metrics of a scheduler")
