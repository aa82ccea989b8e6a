"""The run: parts, a driver that uses the cluster, and somebody who breaks things."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.e2e.api import CORE, JSON, RefusedError, node_of, pod_path
from tests.e2e.control_plane import NOBODY, SCHEDULER, ControlPlane
from tests.e2e.objects import node, pod, priority_class
from tests.e2e.processes import Child, free_port
from tests.e2e.relay import Relay
from tests.e2e.schedulers import KUBESCHED, Running, start
from tests.e2e.soak.proof import POLICY, Proof, prove
from tests.e2e.waiting import until

PYTHON = (sys.executable,)
NODES, CPUS = 12, 8
MOST_PODS = 150
"""What all pods together request is at most two thirds of what the nodes have, so that all of them fit."""
REQUESTS = (100, 250, 500)
ELECTION = ("--leader-elect-lease-duration=10s", "--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=1s")
LATEST_SECONDS = 3.0
"""How long calls are under way at most: less than the time between the end of one leader and the next."""
SETTLE_SECONDS = 120.0


@dataclass(slots=True)
class Figures:
    """What happened in a run."""

    seconds: float = 0.0
    created: int = 0
    deleted: int = 0
    preempted: int = 0
    bound: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    memory: dict[str, list[int]] = field(default_factory=dict)
    """Megabytes of each scheduler process when it was looked at."""
    settled: float = 0.0
    """Seconds from the last fault until every pod had a node."""
    proof: Proof = field(default_factory=Proof)

    @property
    def kills(self) -> int:
        return sum(count for name, count in self.faults.items() if name.startswith("kill -9"))

    def report(self) -> str:
        proof = self.proof
        grown = [(min(each), max(each)) for each in self.memory.values() if each]
        most = max((high for _, high in grown), default=0)
        lines = [
            f"{self.seconds:.0f}s: {self.created} pods created, {self.deleted} deleted, {self.preempted} preempted,"
            f" {self.bound} bound at the end, {self.settled:.1f}s after the last fault",
            f"{self.kills} kill -9, {sum(self.faults.values())} faults: "
            + ", ".join(f"{count} {name}" for name, count in sorted(self.faults.items())),
            f"audit log: {proof.bindings} bindings, {proof.refused_bindings} refused,"
            f" {sum(proof.requests.values())} requests of schedulers, {proof.intrusions} of intruders",
            f"memory of schedulers: at most {most} MB",
            *(f"WRONG: {problem}" for problem in proof.problems),
        ]
        return "\n".join(lines)


class Soak:
    """One run. Everything that it writes is in `folder`; what happens comes from `seed`."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._random = Random(seed)
        self._plane = ControlPlane(folder, audited=POLICY)
        self._folder = folder
        self._relays: list[Relay] = []
        self._schedulers: list[Running] = []
        self._extender_port = free_port()
        self._pods: dict[str, JSON] = {}
        """All pods that ever were, by UID, as last seen."""
        self._deleted: dict[str, float] = {}
        self._starting: list[tuple[float, float]] = []
        """When the API server started. Until it is ready it refuses what it will allow."""
        self._names = 0
        self._quiet = threading.Event()
        self.figures = Figures()

    def run(self, seconds: float) -> Figures:
        """Break things for a while, then wait until all is well, and prove that it was."""
        with ExitStack() as stack:
            stack.callback(self._plane.stop)
            self._start(stack)
            self._starting = [(0.0, time.time())]
            began = time.monotonic()
            driver = threading.Thread(target=self._drive, name="driver")
            driver.start()
            try:
                while time.monotonic() - began < seconds:
                    self._break_something()
                    time.sleep(self._random.uniform(0.2, 2.0))
            finally:
                self._quiet.set()
                driver.join()
            self.figures.seconds = time.monotonic() - began
            self._settle()
        capacity = {f"node-{number}": CPUS * 1000 for number in range(NODES)}
        log, intruded = self._folder / "audit.log", self.figures.proof.problems
        self.figures.proof = prove(log, self._pods, self._deleted, capacity, self._starting)
        self.figures.proof.problems += intruded
        self._account()
        return self.figures

    # --- parts --------------------------------------------------------------------------------------------------------

    def _start(self, stack: ExitStack) -> None:
        self._plane.start()
        self._plane.admin.create(*(node(f"node-{number}", cpu=str(CPUS)) for number in range(NODES)))
        self._plane.admin.create(priority_class("high", 1000))
        self._start_extender()
        for number in range(2):
            self._relays.append(stack.enter_context(Relay(self._plane.port)))
            self._schedulers.append(self._start_scheduler(number))
        until(self._schedulers[0].is_ready, "a scheduler is ready")

    def _start_extender(self) -> None:
        module = "tests.e2e.soak.extender"
        self._extender: Child = self._plane.child("extender", *PYTHON, "-m", module, str(self._extender_port))

    def _start_scheduler(self, number: int) -> Running:
        extender = {
            "urlPrefix": f"http://127.0.0.1:{self._extender_port}",
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "weight": 1,
            "httpTimeout": "2s",
        }
        own = self._plane.kubeconfig(token=SCHEDULER, port=self._relays[number].port)
        backoff = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 4}
        config = {"extenders": [extender], **backoff}
        name = f"kubesched-{number}"
        return start(
            KUBESCHED, self._plane, *ELECTION, kubeconfig=own, name=name, elect=True, ready=False, config=config
        )

    # --- faults -------------------------------------------------------------------------------------------------------

    def _break_something(self) -> None:
        act, weight = zip(*self._faults(), strict=True)
        self._random.choices(act, weight)[0]()
        self._revive()
        self._look_at_memory()

    def _faults(self) -> list[tuple[Callable[[], None], int]]:
        return [
            (self._kill_scheduler, 8),
            (self._kill_extender, 2),
            (self._kill_api_server, 2),
            (self._kill_etcd, 2),
            (self._freeze, 6),
            (self._slow_etcd, 1),
            (self._cut, 5),
            (self._silence, 3),
            (self._compact, 2),
        ]

    def _note(self, what: str) -> None:
        self.figures.faults[what] += 1

    def _kill_scheduler(self) -> None:
        number = self._random.randrange(2)
        self._schedulers[number].child.kill()
        self._note("kill -9 kubesched")

    def _kill_extender(self) -> None:
        self._extender.kill()
        self._note("kill -9 extender")

    def _kill_api_server(self) -> None:
        self._plane.api_server.kill()
        self._note("kill -9 kube-apiserver")

    def _kill_etcd(self) -> None:
        self._plane.etcd.kill()
        self._note("kill -9 etcd")

    def _freeze(self) -> None:
        plane = self._plane
        schedulers = [each.child for each in self._schedulers]
        part = self._random.choice([*schedulers, *schedulers, plane.api_server, plane.etcd, self._extender])
        part.signal(signal.SIGSTOP)
        time.sleep(self._random.choice((0.3, 1.0, LATEST_SECONDS, 8.0 if part in schedulers else 2.0)))
        part.signal(signal.SIGCONT)
        self._note(f"SIGSTOP {part.name.rstrip('-01')}")

    def _slow_etcd(self) -> None:
        """Etcd as if its disk were slow: it works for one part in five."""
        for _ in range(20):
            self._plane.etcd.signal(signal.SIGSTOP)
            time.sleep(0.12)
            self._plane.etcd.signal(signal.SIGCONT)
            time.sleep(0.03)
        self._note("slow etcd")

    def _cut(self) -> None:
        self._random.choice(self._relays).cut()
        self._note("connections cut")

    def _silence(self) -> None:
        relay = self._random.choice(self._relays)
        relay.silence(True)
        time.sleep(self._random.choice((0.5, 1.5, LATEST_SECONDS)))
        relay.silence(False)
        self._note("network silent")

    def _compact(self) -> None:
        if self._plane.compact():
            self._note("etcd compacted")

    def _revive(self) -> None:
        """Start again what has ended, as a supervisor does."""
        if self._plane.etcd.code is not None:
            self._plane.start_etcd()
        if self._plane.api_server.code is not None:
            began = time.time()
            self._plane.start_api_server()
            self._starting.append((began, time.time() + 1.0))
        if self._extender.code is not None:
            self._start_extender()
        for number, each in enumerate(self._schedulers):
            if each.child.code is not None:
                self._schedulers[number] = self._start_scheduler(number)

    def _look_at_memory(self) -> None:
        for each in self._schedulers:
            with suppress(OSError, ValueError, IndexError):
                pages = int(Path(f"/proc/{each.child.pid}/statm").read_text().split()[1])
                self.figures.memory.setdefault(str(each.child.pid), []).append(pages * 4096 >> 20)

    # --- the driver ---------------------------------------------------------------------------------------------------

    def _drive(self) -> None:
        random = Random(self._random.random())
        while not self._quiet.is_set():
            act = random.choices((self._create, self._delete, self._edit_node, self._intrude), (10, 6, 3, 1))[0]
            with suppress(OSError, RefusedError, ValueError):
                act(random)
            self._quiet.wait(random.uniform(0.01, 0.4))

    def _create(self, random: Random) -> None:
        for _ in range(min(random.randint(1, 8), MOST_PODS - len(self._present()))):
            self._names += 1
            more = {"priorityClassName": "high"} if random.random() < 0.1 else {}
            made = pod(f"pod-{self._names}", cpu=f"{random.choice(REQUESTS)}m", **more)
            self._remember(self._plane.admin.create(made)[0])
            self.figures.created += 1

    def _present(self) -> list[JSON]:
        return [each for uid, each in self._pods.items() if uid not in self._deleted]

    def _delete(self, random: Random) -> None:
        present = self._present()
        for each in random.sample(present, min(len(present), random.randint(1, 5))):
            self._deleted.setdefault(each["metadata"]["uid"], time.time())
            self._plane.admin.delete(pod_path(each["metadata"]["name"]), now=True)
            self.figures.deleted += 1

    def _edit_node(self, random: Random) -> None:
        name = f"node-{random.randrange(NODES)}"
        taints = random.choice(([], [], [{"key": "example.com/away", "effect": "NoSchedule"}]))
        spec = {"unschedulable": random.random() < 0.2, "taints": taints}
        self._plane.admin.patch(f"{CORE}/nodes/{name}", {"spec": spec})

    def _intrude(self, random: Random) -> None:
        """Somebody without rights tries to bind a pod, and to read what a scheduler serves."""
        present = self._present()
        if present:
            name = random.choice(present)["metadata"]["name"]
            target = {"target": {"kind": "Node", "name": "node-0"}, "metadata": {"name": name}}
            body = {"apiVersion": "v1", "kind": "Binding", **target}
            code, _ = self._plane.api(NOBODY).ask("POST", f"{pod_path(name)}/binding", body)
            if code < 400:
                self.figures.proof.problems.append(f"nobody bound {name}: {code}")
        code, _ = random.choice(self._schedulers).served("/metrics")
        if code < 400:
            self.figures.proof.problems.append("a stranger has read the metrics of a scheduler")

    def _remember(self, *pods: JSON) -> None:
        self._pods.update({each["metadata"]["uid"]: each for each in pods})

    # --- the end ------------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        began = time.monotonic()
        self._revive()
        until(self._plane.is_ready, "the API server is ready")
        for number in range(NODES):
            self._plane.admin.patch(f"{CORE}/nodes/node-{number}", {"spec": {"unschedulable": False, "taints": []}})
        until(
            lambda: [each["metadata"]["name"] for each in self._plane.admin.pods() if not node_of(each)],
            "every pod has a node",
            seconds=SETTLE_SECONDS,
            enough=lambda waiting: not waiting,
        )
        self.figures.settled = time.monotonic() - began
        self._left = {each["metadata"]["uid"]: each for each in self._plane.admin.pods()}
        # A pod may have been created although the API server was killed before it answered.
        self._remember(*self._left.values())
        self._events = self._plane.admin.events(reason="Preempted")

    def _account(self) -> None:
        """No pod is missing, except those that the driver deleted and those that were preempted."""
        figures = self.figures
        preempted = {event["regarding"].get("uid", "") for event in self._events}
        gone = {uid for uid in self._pods if uid not in self._left and uid not in self._deleted}
        figures.preempted, figures.bound = len(gone & preempted), len(self._left)
        figures.proof.problems += [f"{self._pods[uid]['metadata']['name']} is lost" for uid in gone - preempted]
        held: Counter[str] = Counter()
        for each in self._left.values():
            held[node_of(each)] += 1
        figures.proof.problems += [f"pods are on {name}, which does not exist" for name in held if name[:5] != "node-"]
