"""One simulated world: API server, controllers, kubelets and schedulers, and everything that is done to them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from copy import deepcopy
from random import Random
from typing import Any
from zlib import crc32

from kubesched.api import objects as api
from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.inprocess.direct import DirectClient
from kubesched.apiserver.storage.store import ChangeType, Record, Store, StoreEvent
from kubesched.apiserver.wire.status import StatusError
from kubesched.base.annotations import DEVICES
from kubesched.base.features import Features
from kubesched.base.types import JSON
from kubesched.client.faults import ClientCall
from kubesched.client.protocol import ApiError
from kubesched.config.load import load
from kubesched.config.types import API_VERSION, KIND
from kubesched.embedded import ClusterSettings, EmbeddedCluster
from kubesched.framework.extender import Extender
from kubesched.framework.registry import Registry
from kubesched.kubelet.nodes import NodeSettings
from kubesched.kubelet.settings import KubeletSettings
from kubesched.plugins import in_tree_registry
from kubesched.reconcile.access import DEVICE_CLAIMS, DEVICE_CLASSES, LEASES, NODES, PODS, Access, Edit
from kubesched.torture.invariants import DeviceWatcher, ProcessCheck, StoreWatcher, Witness
from kubesched.torture.moods import KNOCK, LIAR, MOODY, Mood, MoodyExtender, lying_plugin, moody_plugin
from kubesched.torture.network import Met, Server
from kubesched.torture.plan import Plan
from kubesched.torture.processes import PROCESS, ProcessClock, ProcessLoop, ProcessState, SimulatedProcess
from kubesched.torture.rebuilding import Rebuilding
from kubesched.torture.replica import ELECTION, Replica, Surroundings
from kubesched.torture.room import ProcessRoom
from kubesched.torture.workload import CSI_NODES, DRIVER, HELD

LEASE_SECONDS = ELECTION.lease_duration
DOUBTFUL_SECONDS = 60.0
"""After a rollback, how long calls may arrive that were decided in the history that is gone."""
PRIORITY_CLASSES = "scheduling.k8s.io/priorityclasses"
UNCLEAR_SECONDS = 60.0
"""A process that could not read a pod for less than this may not know whether it has bound it."""
API_ACCESS = "kube-api-access-"
"""How the names of volumes begin that the API server adds to pods."""
MEDDLED = {"key": "example.com/meddled", "effect": "NoSchedule"}
VOLUME_BINDING = {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 60}}
"""A pod whose claim was rolled back waits this long. It must be less than the time in which everything settles."""
VERSION_GAP = 1000
"""A restored store continues well above the versions that clients have seen, as etcd's restore does."""


class Violation(Exception):  # noqa: N818 - what was found, and no failure of the simulation
    """An invariant does not hold."""

    def __init__(self, invariant: str, message: str, at: float) -> None:
        super().__init__(f"{invariant}: {message}")
        self.invariant = invariant
        self.message = message
        self.at = at


class RestoredStore(Store):
    """A store that begins with the objects of another."""

    def __init__(self, version: int, objects: Mapping[str, Sequence[Record]]) -> None:
        super().__init__(version=version)
        self._objects = objects

    def load(self) -> None:
        for resource, records in self._objects.items():
            for record in records:
                self.shelf(resource).restore(record)


class World:
    """Runs on a `ProcessLoop`. Everything random comes from the plan and the seed."""

    devices_annotation = DEVICES

    def __init__(self, loop: ProcessLoop, plan: Plan, seed: int, met: Met) -> None:
        self.loop = loop
        self.plan = plan
        self.seed = seed
        self.met = met
        self.outside = copy_context()
        self.clock = ProcessClock(loop)
        self.mood = Mood(met)
        self.violations: list[Violation] = []
        self.restarts = 0
        self._stolen: set[str] = set()
        self.opened: set[str] = set()
        """The groups of pods that knocked and were let in."""
        self._rolled_back = float("-inf")
        self._undone: set[str] = set()
        """UIDs of pods whose bindings a restored backup has undone."""
        self.digest = 0
        """A checksum of all writes except those of leases."""
        self.last_write = 0.0
        self.api = ApiServer(clock=self.clock, random=Random(seed))
        self.embedded = self._embed()
        self.server = Server(DirectClient(self.api))
        self.server.is_stale = self._is_stale
        self.pods = StoreWatcher(self.report)
        self._room = ProcessRoom(self.report)
        self._devices = DeviceWatcher(self.report)
        self.rebuilding = Rebuilding(features_of(plan))
        self._follow()
        self._plugins = (moody_plugin(self.mood), lying_plugin(self.mood))
        registry = self._registry()
        around = Surroundings(
            loop,
            self.clock,
            self.server,
            met,
            self.outside,
            load(_configuration(plan), points=registry.points, args_types=registry.args_types).config,
            self._registry,
            features_of(plan),
            self._extenders,
            self.report,
        )
        self.around = around
        self.replicas = [Replica(number, around, seed) for number in range(plan.replicas)]
        self.witnesses: list[Witness] = []
        self._current: dict[str, Witness] = {}
        self._checks: dict[SimulatedProcess, ProcessCheck] = {}
        self._checked: dict[SimulatedProcess, int] = {}
        for replica in self.replicas:
            replica.subscriber = self._witness
            replica.on_sent = self._sent

    @property
    def now(self) -> float:
        return self.loop.real_time

    def report(self, invariant: str, message: str) -> None:
        """An invariant does not hold."""
        self.violations.append(Violation(invariant, message, self.now))

    def _registry(self) -> Registry:
        registry = in_tree_registry()
        for plugin in self._plugins:
            registry.add(plugin)
        return registry

    def _extenders(self) -> Sequence[Extender]:
        if not self.plan.extender:
            return []
        return [MoodyExtender(self.mood, self._bind_by_extender, binds=self.plan.binds, preempts=self.plan.preempts)]

    def _bind_by_extender(self, pod: api.Pod, node: str) -> bool:
        current = self.get(PODS, pod.key)
        if current is None or current["metadata"]["uid"] != pod.uid:
            return False
        # The API server and the kubelets go on when the process that asked is killed.
        return self.outside.copy().run(self.bind, pod.key, node)

    def _witness(self, replica: Replica) -> Witness:
        witness = self._current[replica.name] = Witness(replica, self.report, self._has_bound, self.pods.bindings)
        self.witnesses.append(witness)
        return witness

    def _has_bound(self, witness: Witness, pod: api.Pod, node: str) -> bool:
        """Whether a process has bound a pod to a node, and could find that out."""
        stored = self.get(PODS, pod.key) or {"metadata": {"uid": ""}}
        known = stored["metadata"]["uid"] == pod.uid and stored["spec"].get("nodeName") == node
        others = any(node in each.decided_nodes.get(pod.uid, ()) for each in self.witnesses if each is not witness)
        client = witness.replica.client
        could_ask = client is not None and self.now > client.failed_read + UNCLEAR_SECONDS
        certain = pod.uid not in self._stolen and not others and self.now > self._rolled_back + DOUBTFUL_SECONDS
        return known and certain and could_ask

    def _embed(self) -> EmbeddedCluster:
        settings = ClusterSettings(
            kubelet=KubeletSettings(start_delay=0.5, stop_delay=0.2, run_time=15, every_step=False),
            node=NodeSettings(heartbeat=0),
            events=False,
            seed=self.seed + self.restarts,
        )
        return EmbeddedCluster(self.api, settings)

    # --- start and stop -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start everything."""
        self.embedded.start()
        for replica in self.replicas:
            replica.start()

    def create_device_class(self) -> None:
        """Create the class of the devices, unless it is there."""
        if not self.api.store.get(DEVICE_CLASSES, DRIVER):
            selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
            self.create(DEVICE_CLASSES, {"metadata": {"name": DRIVER}, "spec": {"selectors": [selector]}})

    async def stop(self) -> None:
        """Stop everything, the dead included."""
        for replica in self.replicas:
            replica.stopping = True
            replica.faults.heal()
        for replica in self.replicas:
            for process in (*replica.buried, replica.process):
                if process.state is not ProcessState.RUNNING:
                    process.thaw()
        await self.embedded.stop()
        for _ in range(5):
            left = [task for task in asyncio.all_tasks(self.loop) if task is not asyncio.current_task()]
            if not left:
                break
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=60)

    def heal(self) -> None:
        """Nothing goes wrong any more."""
        self.mood.calm()
        self.server.lag = 0
        self.server.meddle = None
        for key in self.keys(PODS):
            if HELD in ((self.get(PODS, key) or {}).get("metadata", {}).get("finalizers") or ()):
                self.let_go(key)
        # Plugins let pods in again that they refused. What a lying plugin said is kept until a node changes. Without
        # such plugins nothing happens here: an event would hide that another one was missed.
        for key in self.keys(NODES) if self.mood.was_bad else ():
            self.edit(NODES, key, lambda obj: obj["metadata"].setdefault("labels", {}).update(calm="true"))
        claims = {record.key: record.version for record in self.api.store.shelf(DEVICE_CLAIMS).records.values()}
        for replica in self.replicas:
            replica.faults.heal()
            if replica.process.state is ProcessState.FROZEN:
                replica.process.thaw()
            if replica.relies_on_undone(self._undone, claims):
                replica.kill()
            replica.revive()

    # --- checks -------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """What must hold at every moment."""
        alive = [replica for replica in self.replicas if replica.process.state is not ProcessState.DEAD]
        leaders = [replica for replica in alive if replica.leads] if len(alive) > 1 else []
        if len(leaders) > 1:
            self.report("two leaders", " and ".join(each.process.name for each in leaders))
        for replica in self.replicas:
            if replica.is_up and self._checked.get(replica.process) != replica.process.steps:
                self._checked[replica.process] = replica.process.steps
                check = self._checks.get(replica.process)
                if check is None:
                    check = self._checks[replica.process] = ProcessCheck(
                        replica, self.report, self.mood.reserved, self._current[replica.name]
                    )
                check.run()
                self._current[replica.name].forget_known()

    def _sent(self, replica: Replica, name: str, args: tuple[Any, ...]) -> None:
        others = [each for each in self.replicas if each is not replica and each.leads]
        if others:
            self.report("two leaders", f"{replica.process.name} sends {name} while {others[0].process.name} leads")
        self._devices.wrote(replica, name, args)

    def _is_stale(self, call: ClientCall) -> bool:
        """Whether a write of a lease or claim names a version of it that is not the present one."""
        if call.name == "update_lease":
            storage, (namespace, name, body) = LEASES, call.args
        elif call.name == "merge_patch" and call.args[0] is api.ResourceClaim:
            storage, (_, name, body, namespace, _) = DEVICE_CLAIMS, call.args
        else:
            return False
        stored = self.get(storage, f"{namespace}/{name}")
        version = (body.get("metadata") or {}).get("resourceVersion")
        return bool(version) and stored is not None and stored["metadata"]["resourceVersion"] != version

    def _follow(self) -> None:
        store = self.api.store
        self.pods.nodes = {}
        for record in store.shelf(PODS).records.values():
            pod = record.load()
            self.pods.nodes[pod["metadata"]["uid"]] = (pod.get("spec") or {}).get("nodeName") or ""
        store.shelf(PODS).observers.append(self._on_pod)
        store.shelf(DEVICE_CLAIMS).observers.append(
            lambda _: self._devices.on_claim(
                [record.load() for record in store.shelf(DEVICE_CLAIMS).records.values()],
                doubtful=self.now < self._rolled_back + DOUBTFUL_SECONDS,
            )
        )
        store.shelf(NODES).observers.append(self._room.on_node)
        store.shelf(CSI_NODES).observers.append(self._room.on_csi_node)
        for name, shelf in store.shelves.items():
            if name != LEASES:
                shelf.observers.append(self._written)

    def _on_pod(self, event: StoreEvent) -> None:
        pod = event.record.load()
        before = self.pods.nodes.get(pod["metadata"]["uid"], "")
        self.pods.on_pod(event, pod)
        self._room.on_pod(event, pod)
        if not before and (pod.get("spec") or {}).get("nodeName") and event.change is not ChangeType.DELETED:
            self._on_bound(event, pod)

    def _on_bound(self, event: StoreEvent, pod: JSON) -> None:
        """A pod that one of our schedulers binds is where the scheduler decided, fits, and has its devices."""
        key, node, uid = event.record.key, pod["spec"]["nodeName"], pod["metadata"]["uid"]
        if uid in self._stolen:
            return
        owners = [each for each in reversed(self.witnesses) if node in each.decided_nodes.get(uid, ())]
        # Another process may have chosen the same node before, in an attempt that failed.
        owner = next((each for each in owners if each.has_placed(uid, node)), next(iter(owners), None))
        if event.previous is not None and owner is None:
            self.report("no decision", f"{key} is bound to {node}, which no scheduler has chosen for it")
        knocks = (pod["metadata"].get("labels") or {}).get(KNOCK)
        if knocks is not None and knocks not in self.opened:
            self.report("permit", f"{key} is bound although Permit never let it in")
        if self._rolled_back < 0 and owner is not None:  # a backup brings pods back whose places were given away
            self._room.check(pod, node, owner, limits_known=uid in owner.knew_limits)
        if self.now < self._rolled_back + DOUBTFUL_SECONDS:
            return
        for status in (pod.get("status") or {}).get("resourceClaimStatuses") or ():
            claim = self.get(DEVICE_CLAIMS, f"{pod['metadata']['namespace']}/{status.get('resourceClaimName')}")
            if claim is not None:
                self._check_claim(key, uid, node, claim)

    def _check_claim(self, key: str, uid: str, node: str, claim: JSON) -> None:
        name, status = claim["metadata"]["name"], claim.get("status") or {}
        if uid not in [each.get("uid") for each in status.get("reservedFor") or ()]:
            self.report("devices", f"{key} is bound to {node}; its claim {name} is not reserved for it")
        results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
        pools = {result["pool"] for result in results}
        if not results or pools != {node}:
            self.report("devices", f"{key} is bound to {node}; its claim {name} has devices of {pools or 'nobody'}")

    def _written(self, event: StoreEvent) -> None:
        if (process := PROCESS.get()) is not None:
            self.report("the simulation", f"{event.record.key} is written in the context of {process.name}")
        self.last_write = self.now
        self.digest = crc32(event.record.data, self.digest)

    # --- what users do ------------------------------------------------------------------------------------------------

    def _attempt(self, act: Callable[[Access], Any]) -> Any:
        """Do something with the API. What it refuses is the users' problem."""
        if self.server.away:
            return None
        try:
            return act(Access(self.api))
        except StatusError as error:
            logging.getLogger(__name__).debug("refused: %s", error)
            return None

    def create(self, storage: str, obj: JSON) -> None:
        # A copy: the API server completes what it is given, and a story must stay as it was written.
        obj = deepcopy(obj)
        for spec in (obj.get("spec") or {}, ((obj.get("spec") or {}).get("template") or {}).get("spec") or {}):
            self._name_priority(spec)
        self._attempt(lambda access: access.create(storage, obj))

    def _name_priority(self, spec: JSON) -> None:
        """Stories say a priority in a number. The API server wants the name of a class."""
        if "priority" in spec and not spec.get("priorityClassName"):
            value = spec.pop("priority")
            name = spec["priorityClassName"] = f"priority-{value}"
            if self.get(PRIORITY_CLASSES, name) is None:
                self._attempt(
                    lambda access: access.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
                )

    def edit(self, storage: str, key: str, edit: Edit, subresource: str = "") -> None:
        self._attempt(lambda access: access.edit(storage, key, edit, subresource))

    def delete(self, storage: str, key: str, grace: int | None = None) -> None:
        self._attempt(lambda access: access.delete(storage, key, propagation="Background", grace=grace))

    def let_go(self, key: str) -> None:
        """Remove the finalizers of a pod."""
        self.edit(PODS, key, lambda obj: obj["metadata"].pop("finalizers", None))

    def refuse_deletions(self, times: int) -> None:
        """Let the next deletions of pods by schedulers fail."""
        for replica in self.replicas:
            replica.faults.fail("delete_pod", ApiError(500, "InternalError", "leader changed"), times=times)

    def get(self, storage: str, key: str) -> JSON | None:
        return Access(self.api).get(storage, key)

    def keys(self, storage: str) -> list[str]:
        return list(self.api.store.shelf(storage).sorted_keys())

    def pod(self, rank: float) -> str | None:
        """Some pod."""
        keys = self.keys(PODS)
        return keys[int(rank * len(keys))] if keys else None

    def bind(self, key: str, node: str) -> bool:
        """Bind a pod as another program does; False if that is refused."""
        namespace, _, name = key.partition("/")
        target = {"target": {"kind": "Node", "name": node}, "metadata": {}}

        def act(access: Access) -> bool:
            access.api.pods.bind(namespace, name, target)
            return True

        return bool(self._attempt(act))

    def recreate(self, key: str) -> None:
        """Replace a pod by another of the same name."""
        pod = self.get(PODS, key)
        if pod is None:
            return
        self.delete(PODS, key, grace=0)
        meta = {each: pod["metadata"][each] for each in ("name", "namespace", "labels") if each in pod["metadata"]}
        self.create(PODS, {"metadata": meta, "spec": _as_written(pod["spec"])})
        new = self.get(PODS, key)
        if new is not None and new["metadata"]["uid"] != pod["metadata"]["uid"]:
            self.met.note("pod recreated", "a pod")

    def meddle(self, what: str, call: ClientCall) -> None:
        """Others change the object of a call, or its node, right now."""
        pod = call.args[0] if call.args and isinstance(call.args[0], api.Pod) else None
        if pod is None:
            return
        node = call.args[1] if call.name == "bind" else pod.nominated_node_name
        self.met.note(f"edited by others: {what}", call.name)
        if what == "delete the pod":
            self.delete(PODS, pod.key, grace=0)
        elif what == "recreate":
            self.recreate(pod.key)
        elif what == "relabel the pod":
            self.edit(PODS, pod.key, lambda obj: obj["metadata"].setdefault("labels", {}).update(app="web"))
        elif what == "bind the pod elsewhere":
            others = [key for key in self.keys(NODES) if key != node]
            if others:
                self.steal(pod.key, others[0])
        elif what == "delete the node" and node:
            self.drop_node(node)
        elif what == "taint the node" and node:
            self.edit(NODES, node, lambda obj: obj["spec"].update(taints=[MEDDLED]))

    def steal(self, key: str, node: str) -> None:
        """Another scheduler binds a pod."""
        pod = self.get(PODS, key)
        if pod is not None:
            self._stolen.add(pod["metadata"]["uid"])
            self.bind(key, node)

    def drop_node(self, name: str) -> None:
        """Delete a node. It comes back after a while."""
        node = self.get(NODES, name)
        if node is not None:
            self.delete(NODES, name)
            self.met.note("node deleted", "a node")
            self.later(15.0, lambda: self._back(node))

    def _back(self, node: JSON) -> None:
        if self.get(NODES, node["metadata"]["name"]) is None:
            self.create(NODES, _as_new(node))
            self.met.note("node back", "a node")

    # --- what goes wrong ----------------------------------------------------------------------------------------------

    def later(self, seconds: float, act: Callable[[], object]) -> None:
        self.loop.call_at(self.now + seconds, act)

    def struck(self, fault: str, seconds: float) -> float:
        self.met.note(fault, "a call or a watch")
        return seconds

    def leader(self) -> Replica | None:
        return next((each for each in self.replicas if each.is_up and each.leads), None)

    def witness_of(self, replica: Replica) -> Witness:
        """What follows the process of a replica."""
        return self._current[replica.name]

    def cut_all(self, error: Exception | None, kind: type[api.Object] | None = None) -> None:
        """End the watches of all schedulers, of every kind or of one."""
        for replica in self.replicas:
            if replica.client is not None:
                replica.client.cut(error, kind)

    def forget_history(self) -> None:
        for shelf in self.api.store.shelves.values():
            shelf.forget()
        self.met.note("history forgotten", "API server")

    def restart_server(self, seconds: float, back: int) -> None:
        if not self.server.away:
            self.server.away = True
            self.cut_all(ConnectionResetError("the server is gone"))
            self.loop.create_task(self._restart(seconds, back))

    async def _restart(self, seconds: float, back: int) -> None:
        if back:
            self._rolled_back = self.now
        self.met.note("store rolled back" if back else "API server restarted", "API server")
        await self.embedded.stop()
        old = self.api.store
        self.restarts += 1
        version = max(old.version - back, *(shelf.oldest for shelf in old.shelves.values()))
        objects = {
            name: sorted(shelf.at(version).values(), key=lambda record: record.key)
            for name, shelf in old.shelves.items()
        }
        # An older lease would not say who leads: schedulers must be stopped before a restore that includes it.
        objects[LEASES] = list(old.shelf(LEASES).records.values())
        store = RestoredStore(old.version + VERSION_GAP, objects)
        self.api = ApiServer(store, clock=self.clock, random=Random(self.seed * 100 + self.restarts))
        self.embedded = self._embed()
        bound = {uid for uid, node in self.pods.nodes.items() if node}
        self._follow()
        returned = {uid for uid, _ in self.pods.bindings} & self.pods.nodes.keys()
        self._undone |= {uid for uid in bound | returned if not self.pods.nodes.get(uid)}
        await asyncio.sleep(seconds)
        self.server.client = DirectClient(self.api)
        self.embedded.start()
        self.server.away = False
        for record in old.shelf(NODES).records.values():
            if store.get(NODES, record.key) is None:
                self.create(NODES, _as_new(record.load()))  # as its kubelet does

    def kill(self, replica: Replica, turns: int, back: float) -> None:
        self.loop.create_task(self._kill(replica, turns, back))

    async def _kill(self, replica: Replica, turns: int, back: float) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        if replica.process.state is ProcessState.DEAD:
            return
        for where in waiting_in(replica):
            self.met.note("killed", where)
        replica.kill()
        self.later(back, replica.revive)

    def freeze(self, replica: Replica, turns: int, seconds: float) -> None:
        self.loop.create_task(self._freeze(replica, turns, seconds))

    async def _freeze(self, replica: Replica, turns: int, seconds: float) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        process = replica.process
        if process.state is not ProcessState.RUNNING:
            return
        past = "frozen past the lease" if seconds > LEASE_SECONDS and replica.leads else "frozen"
        for where in waiting_in(replica):
            self.met.note(past, where)
        process.freeze()
        self.later(seconds, process.thaw_if_frozen)


def _as_new(node: JSON) -> JSON:
    """A node without what the API server sets."""
    meta = {key: node["metadata"][key] for key in ("name", "labels", "annotations") if key in node["metadata"]}
    return {"metadata": meta, "spec": node.get("spec") or {}, "status": node.get("status") or {}}


def _as_written(spec: JSON) -> JSON:
    """The spec of a pod without its node, and without the volume that the API server adds for the pod's token."""

    def others(parts: list[JSON]) -> list[JSON]:
        return [each for each in parts if not each["name"].startswith(API_ACCESS)]

    containers = [{**each, "volumeMounts": others(each.get("volumeMounts") or [])} for each in spec["containers"]]
    kept = {name: value for name, value in spec.items() if name != "nodeName"}
    return {**kept, "containers": containers, "volumes": others(spec.get("volumes") or [])}


def waiting_in(replica: Replica) -> list[str]:
    """The functions of ours in which the tasks of a process wait."""
    scheduler = replica.scheduler
    if scheduler is None:
        return ["torture.replica.starting"]
    found = []
    for task in (*replica.process.tasks, *scheduler.shared.tasks):
        coroutine: Any = task.get_coro()
        where = ""
        while coroutine is not None and hasattr(coroutine, "cr_frame") and coroutine.cr_frame is not None:
            code = coroutine.cr_code
            if "kubesched" in code.co_filename:
                module = code.co_filename.rpartition("kubesched/")[2].removesuffix(".py").replace("/", ".")
                where = f"{module}.{code.co_qualname}"
            coroutine = coroutine.cr_await
        if where and not task.done():
            found.append(where)
    return found


def features_of(plan: Plan) -> Features:
    return Features(
        scheduler_async_api_calls=plan.async_calls,
        scheduler_async_preemption=plan.async_preemption,
        opportunistic_batching=plan.batching,
        generic_workload=plan.gangs,
        gang_scheduling=plan.gangs,
    )


def _configuration(plan: Plan) -> JSON:
    plugins = {"multiPoint": {"enabled": [{"name": name} for name in ((MOODY, LIAR) if plan.liar else (MOODY,))]}}
    least = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "profiles": [
            {"schedulerName": "default-scheduler", "pluginConfig": [VOLUME_BINDING]},
            {
                "schedulerName": "second",
                "plugins": plugins,
                "pluginConfig": [{"name": "NodeResourcesFit", "args": least}, VOLUME_BINDING],
            },
        ],
    }


__all__ = ["NODES", "Violation", "World"]
