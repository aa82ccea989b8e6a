"""The run: real parts, a driver that uses the cluster, and faults."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random

from tests.e2e.control_plane import SCHEDULER, ControlPlane
from tests.e2e.objects import priority_class
from tests.e2e.processes import Child, free_port
from tests.e2e.relay import Relay
from tests.e2e.schedulers import KUBESCHED, Running, start
from tests.e2e.soak.driver import CPUS, STEADY, Driver, node_names
from tests.e2e.soak.faults import STRACE, Faults
from tests.e2e.soak.figures import LONG_SECONDS, Figures, growth, sample
from tests.e2e.soak.proof import POLICY, prove
from tests.e2e.waiting import until

ELECTING = ("kubesched-0", "kubesched-1")
ELECTION = ("--leader-elect-lease-duration=10s", "--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=1s")
SETTLE_SECONDS = 120.0
TRACEBACK = "Traceback (most recent call last)"


class Soak:
    """One run. Everything that it writes is in `folder`; what happens comes from `seed`.

    Two schedulers elect a leader. Nothing that loses its lease lives long here, so a third scheduler without election,
    with pods and nodes of its own, shows whether memory keeps growing: it meets every fault except kill -9.
    """

    def __init__(self, folder: Path, seed: int, *, fsync: bool = False) -> None:
        self._folder = folder
        self._random = Random(seed)
        self._plane = ControlPlane(folder, audited=POLICY, fsync=fsync)
        self._wires: dict[str, Relay] = {}
        self._schedulers: dict[str, Running] = {}
        self._extender_port = free_port()
        self._starting: list[tuple[float, float]] = []
        """When the API server started. Until it is ready it refuses what it will allow."""
        self.figures = Figures()
        self._driver = Driver(self._plane, Random(self._random.random()), self.figures, self._read_metrics)

    def run(self, seconds: float) -> Figures:
        """Break things for a while, then wait until all is well, and prove that it was."""
        with ExitStack() as stack:
            stack.callback(self._plane.stop)
            self._start(stack)
            self._starting = [(0.0, time.time())]
            self._break_things(seconds)
            self._settle()
        self._judge()
        return self.figures

    def _break_things(self, seconds: float) -> None:
        faults = Faults(self._plane, self._parts, self._wires, self._random, self.figures.faults)
        began = time.monotonic()
        self._driver.start()
        try:
            while (passed := time.monotonic() - began) < seconds:
                assert self._driver.is_running, "the driver has failed"
                faults.next()
                self._revive()
                self._look_at_memory(passed)
                time.sleep(self._random.uniform(0.2, 2.0))
        finally:
            self._driver.stop()
        self.figures.seconds = time.monotonic() - began
        if seconds >= LONG_SECONDS:
            never = [name for name in faults.kinds() if not self.figures.faults[name]]
            never = [name for name in never if STRACE or not name.startswith("slow-disk")]
            self.figures.proof.problems += [f"this fault never happened: {name}" for name in never]

    # --- parts --------------------------------------------------------------------------------------------------------

    def _parts(self) -> dict[str, Child]:
        schedulers = {name: running.child for name, running in self._schedulers.items()}
        own = {"kube-apiserver": self._plane.api_server, "etcd": self._plane.etcd, "extender": self._extender}
        return own | schedulers

    def _start(self, stack: ExitStack) -> None:
        self._plane.start_etcd()
        self._wires["etcd"] = stack.enter_context(Relay(self._plane.etcd_port))
        self._plane.etcd_served_at = self._wires["etcd"].port
        self._plane.start_api_server()
        self._plane.admin.create(priority_class("high", 1000))
        self._driver.furnish()
        self._start_extender()
        self._wires["extender"] = stack.enter_context(Relay(self._extender_port))
        for name in (*ELECTING, STEADY):
            self._wires[name] = stack.enter_context(Relay(self._plane.port))
            self._schedulers[name] = self._start_scheduler(name)
        for running in self._schedulers.values():
            until(running.is_ready, "a scheduler is ready")

    def _start_extender(self) -> None:
        command = (sys.executable, "-m", "tests.e2e.soak.extender", str(self._extender_port))
        self._extender = self._plane.child("extender", *command)

    def _start_scheduler(self, name: str) -> Running:
        extender = {
            "urlPrefix": f"http://127.0.0.1:{self._wires['extender'].port}",
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "weight": 1,
            "httpTimeout": "2s",
        }
        config = {"extenders": [extender], "podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 4}
        steady = name == STEADY
        more = {"profiles": [{"schedulerName": STEADY}]} if steady else {}
        flags = () if steady else ELECTION
        own = self._plane.kubeconfig(token=SCHEDULER, port=self._wires[name].port)
        return start(
            KUBESCHED,
            self._plane,
            *flags,
            kubeconfig=own,
            name=name,
            elect=not steady,
            ready=False,
            config={**config, **more},
        )

    def _revive(self) -> None:
        """Start again what has ended, as a supervisor does. Nothing ends the scheduler without an election."""
        if self._plane.etcd.code is not None:
            self._plane.start_etcd()
        if self._plane.api_server.code is not None:
            began = time.time()
            self._plane.start_api_server()
            self._starting.append((began, time.time() + 1.0))
        if self._extender.code is not None:
            self._start_extender()
        self._schedulers[STEADY].child.running()
        for name in ELECTING:
            if self._schedulers[name].child.code is not None:
                self._schedulers[name] = self._start_scheduler(name)

    def _look_at_memory(self, second: float) -> None:
        for name, running in self._schedulers.items():
            seen = sample(running.child.pid, second)
            if seen is None:
                continue
            if name != STEADY:
                self.figures.highest_megabytes = max(self.figures.highest_megabytes, seen.megabytes)
                continue
            self.figures.steady.append(seen)
            with (self._folder / "memory.csv").open("a") as file:
                file.write(f"{seen.second:.0f},{seen.megabytes:.1f},{seen.files}\n")

    def _read_metrics(self) -> int:
        return self._schedulers[STEADY].served("/metrics")[0]

    # --- the end ------------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        began = time.monotonic()
        self._revive()
        until(self._plane.is_ready, "the API server is ready")
        until(self._driver.open_nodes, "all nodes are open")
        until(
            self._driver.unsettled,
            "every pod has a node, every ReplicaSet its pods",
            seconds=SETTLE_SECONDS,
            enough=lambda found: not found,
        )
        self.figures.settled = time.monotonic() - began

    def _judge(self) -> None:
        figures, driver = self.figures, self._driver
        found = figures.proof.problems + driver.intruded
        capacity = dict.fromkeys(node_names(), CPUS * 1000)
        figures.proof = prove(self._folder, driver.pods, driver.deleted, capacity, self._starting)
        left = driver.present
        gone = {uid for uid in driver.pods if uid not in left and uid not in driver.deleted}
        preempted = {uid for uid in gone if driver.pods[uid]["metadata"]["name"] in figures.proof.evicted}
        figures.preempted, figures.bound = len(preempted), len(left)
        found += [f"{driver.pods[uid]['metadata']['name']} is lost" for uid in gone - preempted]
        found += figures.proof.unasked(left.values())
        for name in self._schedulers:
            if TRACEBACK in (self._folder / f"{name}.log").read_text(errors="replace"):
                found.append(f"{name} has a traceback in its log")
        if figures.seconds >= LONG_SECONDS:
            found += growth(figures.steady)
        figures.proof.problems += found
