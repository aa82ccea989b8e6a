"""Programs that run for containers: a container is as healthy as its program, and ends when that does."""

from __future__ import annotations

from tests.controllers.world import World, template, world

from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.types import JSON
from kubesched.kubelet.timeline import ProgramHealth
from kubesched.reconcile.access import PODS
from kubesched.reconcile.views import Container, Pod


class Program:
    """A program that runs for the container `main` of every pod."""

    def __init__(self, w: World) -> None:
        self._world = w
        self.health = ProgramHealth(started=False, ready=False)
        w.cluster.kubelets.use_programs(self._health_of)

    def _health_of(self, _pod: Pod, container: Container) -> ProgramHealth | None:
        return self.health if container.name == "main" else None

    @property
    def pod(self) -> Pod:
        """The pod as kubelets know it."""
        found = self._world.cluster.context.pods.get("default/p")
        assert found is not None
        return found

    def set(self, *, started: bool = True, ready: bool) -> None:
        """Change its health."""
        self.health = ProgramHealth(started, ready)
        self._world.cluster.kubelets.check(self.pod)


def _status(w: World) -> tuple[str, bool, bool, bool]:
    """Phase, started, ready, and whether the pod is ready."""
    status = w.get(PODS, "p")["status"]
    container = next(each for each in status["containerStatuses"] if each["name"] == "main")
    conditions = {each["type"]: each["status"] for each in status["conditions"]}
    return status["phase"], container["started"], container["ready"], conditions["Ready"] == "True"


async def _create(w: World, *more: JSON, **spec: object) -> None:
    containers = [{"name": "main", "image": "x"}, *more]
    w.create(PODS, "p", template("x", containers=containers, **spec)["spec"])
    await w.until(lambda: (w.get(PODS, "p").get("status") or {}).get("phase") == "Running", 60)


@virtual_time
async def test_a_pod_is_ready_when_its_program_is(clock: VirtualClock) -> None:
    """It runs without being started or ready, follows the program's health, and other containers are simulated."""
    async with world(clock) as w:
        program = Program(w)
        await _create(w, {"name": "other", "image": "y"})
        await clock.advance(100)
        assert _status(w) == ("Running", False, False, False)
        assert w.get(PODS, "p")["status"]["containerStatuses"][1]["ready"]
        program.set(ready=False)
        await clock.advance(1)
        assert _status(w) == ("Running", True, False, False)
        program.set(ready=True)
        await clock.advance(1)
        assert _status(w) == ("Running", True, True, True)
        program.set(ready=False)
        await clock.advance(1)
        assert _status(w) == ("Running", True, False, False)


@virtual_time
async def test_a_programs_probes_keep_their_delay(clock: VirtualClock) -> None:
    """A healthy program is not ready before the first readiness probe."""
    async with world(clock) as w:
        program = Program(w)
        program.health = ProgramHealth(started=True, ready=True)
        probe = {"httpGet": {"path": "/readyz", "port": 1}, "initialDelaySeconds": 20}
        w.create(PODS, "p", template("x", containers=[{"name": "main", "image": "x", "readinessProbe": probe}])["spec"])
        await w.until(lambda: (w.get(PODS, "p").get("status") or {}).get("phase") == "Running", 60)
        await clock.advance(15)
        assert _status(w) == ("Running", True, False, False)
        await clock.advance(6)
        assert _status(w) == ("Running", True, True, True)


@virtual_time
async def test_a_program_that_ends_is_restarted_and_is_not_ready(clock: VirtualClock) -> None:
    """The container ends with the exit code and starts again, and waits for the new program's health."""
    async with world(clock) as w:
        program = Program(w)
        await _create(w)
        program.set(ready=True)
        await clock.advance(1)
        program.health = ProgramHealth(started=False, ready=False)
        w.cluster.kubelets.exited(program.pod, "main", 3)
        await clock.advance(1)
        assert _status(w) == ("Running", False, False, False)
        (container,) = w.get(PODS, "p")["status"]["containerStatuses"]
        assert (container["restartCount"], container["lastState"]["terminated"]["exitCode"]) == (1, 3)
        w.cluster.kubelets.exited(program.pod, "main", 3)
        await clock.advance(1)
        (container,) = w.get(PODS, "p")["status"]["containerStatuses"]
        assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"


@virtual_time
async def test_a_program_that_is_not_restarted_runs_until_it_ends(clock: VirtualClock) -> None:
    """A pod that is not restarted has no simulated run time if a program runs for it."""
    async with world(clock) as w:
        program = Program(w)
        await _create(w, restartPolicy="Never")
        await clock.advance(1000)
        assert _status(w)[0] == "Running"
        w.cluster.kubelets.exited(program.pod, "main", 0)
        await clock.advance(1)
        assert w.get(PODS, "p")["status"]["phase"] == "Succeeded"
