"""Containers over time: init containers, probes, restarts, image pulls, stopping, and what annotations change."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.controllers.world import World, template, world

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.storage.store import StoreEvent
from kubesched.base.clocks import SystemClock, VirtualClock, virtual_time
from kubesched.base.types import JSON
from kubesched.embedded import ClusterSettings, EmbeddedCluster
from kubesched.kubelet.settings import KubeletSettings
from kubesched.reconcile.access import CONFIG_MAPS, EVENTS, NODES, PODS


def _pod(**container: Any) -> JSON:
    """The spec of a pod with one container; `spec` are further fields of the pod."""
    spec = container.pop("spec", {})
    made: JSON = template("x", containers=[{"name": "main", "image": "nginx", **container}], **spec)["spec"]
    return made


def _annotations(**values: str) -> dict[str, str]:
    return {f"kubesched.io/{name.replace('_', '-')}": text for name, text in values.items()}


def _main(w: World) -> JSON:
    found: JSON = w.get(PODS, "p")["status"]["containerStatuses"][0]
    return found


def _state(w: World) -> str:
    return str(next(iter(_main(w)["state"])))


def _is_ready(w: World) -> bool:
    conditions = {each["type"]: each["status"] for each in w.get(PODS, "p")["status"]["conditions"]}
    assert conditions.get("Ready") == conditions.get("ContainersReady")
    return conditions.get("Ready") == "True"


def _messages(w: World, reason: str) -> list[str]:
    return [each["message"] for each in _events(w, reason)]


def _events(w: World, reason: str) -> list[JSON]:
    return [each for each in w.access.list(EVENTS) if each["reason"] == reason]


async def _running(w: World) -> None:
    await w.until(lambda: (w.get(PODS, "p").get("status") or {}).get("phase") == "Running", 60)


@virtual_time
async def test_init_containers_run_one_after_the_other(clock: VirtualClock) -> None:
    """Each runs for its time, a sidecar stays, and only then the main container starts."""
    async with world(clock) as w:
        first = {"name": "first", "image": "x", "command": ["sleep", "10"]}
        side = {"name": "side", "image": "x", "restartPolicy": "Always", "startupProbe": _probe(initialDelaySeconds=5)}
        second = {"name": "second", "image": "x", "command": ["sleep", "20"]}
        w.create(PODS, "p", _pod(spec={"initContainers": [first, side, second]}))
        seen: list[list[str]] = []

        def look(_event: object) -> None:
            status = w.get(PODS, "p").get("status") or {}
            found = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
            states = [next(iter(each["state"])) for each in found]
            if states and states not in seen:
                seen.append(states)

        w.access.store.shelf(PODS).observers.append(look)
        began = clock.monotonic()
        await _running(w)
        assert 35 <= clock.monotonic() - began < 37
        assert seen == [
            ["waiting"] * 4,
            ["running", "waiting", "waiting", "waiting"],
            ["terminated", "running", "waiting", "waiting"],
            ["terminated", "running", "running", "waiting"],
            ["terminated", "running", "terminated", "running"],
        ]
        assert _is_ready(w)


@virtual_time
async def test_a_failing_init_container_keeps_the_others_from_starting(clock: VirtualClock) -> None:
    """It is restarted with back-off; with the policy Never the pod has failed."""
    async with world(clock) as w:
        broken = {"name": "broken", "image": "x", "command": ["false"]}
        w.create(PODS, "p", _pod(spec={"initContainers": [dict(broken)]}))
        w.create(PODS, "never", _pod(spec={"initContainers": [dict(broken)], "restartPolicy": "Never"}))
        await clock.advance(60)
        status = w.get(PODS, "p")["status"]
        assert status["phase"] == "Pending"
        assert status["initContainerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert _main(w)["state"]["waiting"]["reason"] == "PodInitializing"
        assert w.get(PODS, "never")["status"]["phase"] == "Failed"


def _probe(**timing: int) -> JSON:
    return {"httpGet": {"path": "/", "port": 80}, **timing}


@virtual_time
async def test_readiness_takes_its_time_and_may_be_lost(clock: VirtualClock) -> None:
    """Ready after the initial delay, unready after as many failures as the threshold, ready without the annotation."""
    async with world(clock) as w:
        probe = _probe(initialDelaySeconds=10, periodSeconds=5, failureThreshold=2)
        w.create(PODS, "p", _pod(readinessProbe=probe), annotations=_annotations(readiness_fails="30s"))
        await _running(w)
        assert not _is_ready(w)
        await clock.advance(9)
        assert not _is_ready(w)
        await clock.advance(2)
        assert _is_ready(w)
        await clock.advance(22)
        assert _is_ready(w)
        await clock.advance(4)
        assert not _is_ready(w)
        assert "Readiness probe failed: simulated failure" in _messages(w, "Unhealthy")
        assert _main(w)["restartCount"] == 0
        w.access.edit(PODS, "default/p", lambda pod: pod["metadata"].pop("annotations"))
        await clock.settle()
        assert _is_ready(w)


@virtual_time
async def test_a_failing_liveness_probe_restarts_the_container(clock: VirtualClock) -> None:
    """The first restart is immediate, the next ones wait longer and longer."""
    async with world(clock) as w:
        probe = _probe(periodSeconds=1, failureThreshold=3)
        w.create(PODS, "p", _pod(livenessProbe=probe), annotations=_annotations(liveness_fails="5s"))
        await _running(w)
        await clock.advance(8)
        assert (_main(w)["restartCount"], _state(w)) == (1, "running")
        assert _main(w)["lastState"]["terminated"]["exitCode"] == 137
        await clock.advance(8)
        assert _main(w)["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert not _is_ready(w)
        await clock.advance(8)
        assert (_main(w)["restartCount"], _state(w)) == (2, "running")
        (unhealthy,) = _events(w, "Unhealthy")
        assert (unhealthy["message"], unhealthy["count"]) == ("Liveness probe failed: simulated failure", 2 * 3)
        assert "Container main failed liveness probe, will be restarted" in _messages(w, "Killing")


@virtual_time
async def test_a_startup_probe_comes_before_the_others(clock: VirtualClock) -> None:
    """Nothing is ready before it succeeds; if it never does, the container is killed after the threshold."""
    async with world(clock) as w:
        probes = {
            "startupProbe": _probe(initialDelaySeconds=20, periodSeconds=10, failureThreshold=3),
            "livenessProbe": _probe(periodSeconds=1, failureThreshold=1),
        }
        w.create(PODS, "p", _pod(**probes))
        await _running(w)
        await clock.advance(19)
        assert (_main(w)["started"], _main(w)["ready"]) == (False, False)
        await clock.advance(2)
        assert (_main(w)["started"], _main(w)["ready"]) == (True, True)
        w.delete(PODS, "p")
        await clock.advance(1)
        w.create(PODS, "p", _pod(**probes), annotations=_annotations(startup_fails="0s", liveness_fails="0s"))
        await _running(w)
        await clock.advance(39)
        assert _main(w)["restartCount"] == 0
        await clock.advance(2)
        assert _main(w)["restartCount"] == 1
        assert "Container main failed startup probe, will be restarted" in _messages(w, "Killing")


@virtual_time
async def test_with_always_a_container_that_ends_starts_again(clock: VirtualClock) -> None:
    """Whatever its exit code, and with back-off; the pod goes on."""
    async with world(clock) as w:
        w.create(PODS, "p", _pod(), annotations=_annotations(run_time="3s", exit_code="0"))
        await _running(w)
        await clock.advance(4)
        assert (_main(w)["restartCount"], _state(w)) == (1, "running")
        assert _main(w)["lastState"]["terminated"]["reason"] == "Completed"
        await clock.advance(4)
        assert _state(w) == "waiting"
        await clock.advance(60)
        assert _main(w)["restartCount"] == 3
        assert w.get(PODS, "p")["status"]["phase"] == "Running"


@virtual_time
async def test_a_long_run_ends_the_back_off(clock: VirtualClock) -> None:
    """A container that ran for ten minutes is restarted at once."""
    async with world(clock) as w:
        w.create(PODS, "p", _pod(), annotations=_annotations(run_time="11m"))
        await _running(w)
        for restarts in (1, 2, 3):
            await clock.advance(11 * 60 + 1)
            assert (_main(w)["restartCount"], _state(w)) == (restarts, "running")


@virtual_time
async def test_containers_end_one_by_one(clock: VirtualClock) -> None:
    """With the policy Never the pod ends with its last container, and fails if any of them failed."""
    async with world(clock) as w:
        containers = [
            {"name": "main", "image": "x", "command": ["sleep", "10"]},
            {"name": "bad", "image": "x", "command": ["false"]},
        ]
        w.create(PODS, "p", template("x", containers=containers, restartPolicy="Never")["spec"])
        await _running(w)
        await clock.advance(7)
        states = [next(iter(each["state"])) for each in w.get(PODS, "p")["status"]["containerStatuses"]]
        assert states == ["running", "terminated"]
        assert w.get(PODS, "p")["status"]["phase"] == "Running"
        await clock.advance(4)
        assert w.get(PODS, "p")["status"]["phase"] == "Failed"


@virtual_time
async def test_not_ready_is_an_annotation_that_can_be_set_and_removed(clock: VirtualClock) -> None:
    """The pod runs, and is ready only without the annotation."""
    async with world(clock) as w:
        w.create(PODS, "p", _pod())
        await _running(w)
        assert _is_ready(w)
        w.annotate(PODS, "p", **{"kubesched__io_not-ready": "true"})
        await clock.settle()
        assert not _is_ready(w)
        assert _state(w) == "running"
        w.annotate(PODS, "p", **{"kubesched__io_not-ready": "false"})
        await clock.settle()
        assert _is_ready(w)
        assert _main(w)["restartCount"] == 0


@virtual_time
async def test_an_image_that_cannot_be_pulled_is_tried_again(clock: VirtualClock) -> None:
    """First ErrImagePull, then ImagePullBackOff; without the annotation the pod starts."""
    async with world(clock) as w:
        w.create(PODS, "p", _pod(), annotations=_annotations(image_pull_fails="true"))
        await clock.advance(2)
        assert _main(w)["state"]["waiting"]["reason"] == "ErrImagePull"
        await clock.advance(30)
        assert _main(w)["state"]["waiting"]["reason"] == "ImagePullBackOff"
        assert w.get(PODS, "p")["status"]["phase"] == "Pending"
        assert 'Back-off pulling image "nginx"' in _messages(w, "BackOff")
        w.access.edit(PODS, "default/p", lambda pod: pod["metadata"].pop("annotations"))
        await clock.advance(1)
        assert _is_ready(w)


@pytest.mark.parametrize(
    ("pod", "annotations", "grace", "seconds"),
    [
        ({}, {}, 30, 0.2),
        ({"lifecycle": {"preStop": {"sleep": {"seconds": 10}}}}, {}, 30, 10.2),
        ({"lifecycle": {"preStop": {"exec": {"command": ["sleep", "15"]}}}}, {}, 30, 15.2),
        ({"lifecycle": {"preStop": {"sleep": {"seconds": 10}}}}, {}, 5, 5.0),
        ({}, {"stop_time": "20s"}, 30, 20.0),
        ({}, {"stop_time": "1m"}, 30, 30.0),
    ],
)
def test_stopping_takes_its_time_within_the_grace_period(
    pod: JSON, annotations: dict[str, str], grace: int, seconds: float
) -> None:
    """preStop hooks and the stop itself take their time; after the grace period the pod is gone in any case."""

    @virtual_time
    async def check(clock: VirtualClock) -> None:
        async with world(clock) as w:
            w.create(PODS, "p", _pod(**pod), annotations=_annotations(**annotations))
            await _running(w)
            began = clock.monotonic()
            w.delete(PODS, "p", grace=grace)
            await w.until(lambda: not w.names(PODS), 60)
            assert clock.monotonic() - began == pytest.approx(seconds, abs=0.05)

    check()


@virtual_time
async def test_a_second_deletion_may_shorten_the_grace_period(clock: VirtualClock) -> None:
    """The pod is gone when the shorter one is over."""
    async with world(clock) as w:
        w.create(PODS, "p", _pod(), annotations=_annotations(stop_time="1m"))
        await _running(w)
        w.delete(PODS, "p", grace=50)
        await clock.advance(5)
        w.delete(PODS, "p", grace=10)
        await clock.advance(6)
        assert w.names(PODS) == []


@virtual_time
async def test_a_wrong_annotation_is_an_event(clock: VirtualClock) -> None:
    """The pod runs as if it were not there."""
    async with world(clock) as w:
        w.create(PODS, "p", _pod(), annotations=_annotations(run_time="soon"))
        await _running(w)
        (message,) = _messages(w, "InvalidAnnotation")
        assert message == 'annotation kubesched.io/run-time: expected a duration such as 90s or 1h30m, got "soon"'


@virtual_time
async def test_a_wrong_annotation_of_a_running_pod_is_an_event(clock: VirtualClock) -> None:
    """Once for each wrong value, and again if it comes back."""
    async with world(clock) as w:
        w.create(PODS, "p", _pod(), annotations=_annotations(run_time="soon"))
        await _running(w)
        for value in ("maybe", "maybe", "true", "maybe"):
            w.annotate(PODS, "p", **{"kubesched__io_not-ready": value, "other": f"{clock.monotonic()}"})
            await clock.advance(1)
        told = sorted((each["message"].partition(":")[0], each["count"]) for each in _events(w, "InvalidAnnotation"))
        assert told == [("annotation kubesched.io/not-ready", 2), ("annotation kubesched.io/run-time", 1)]


@virtual_time
async def test_pods_are_ready_again_when_their_node_is_back(clock: VirtualClock) -> None:
    """A silent kubelet makes them unready; when it speaks again, they are ready and were not restarted."""
    async with world(clock, nodes=1) as w:
        w.create(PODS, "p", _pod())
        await _running(w)
        w.annotate(NODES, "node-1", kubesched__io_kubelet="stopped")
        await clock.advance(70)
        ready = [each for each in w.get(PODS, "p")["status"]["conditions"] if each["type"] == "Ready"]
        assert ready[0]["status"] == "False"
        w.annotate(NODES, "node-1", kubesched__io_kubelet="")
        await clock.advance(2)
        assert _is_ready(w)
        assert _main(w)["restartCount"] == 0


@virtual_time
async def test_a_new_process_goes_on_where_the_last_one_ended(clock: VirtualClock) -> None:
    """Run times, restarts and back-offs are continued from the stored status."""
    api = None
    async with world(clock, nodes=1) as w:
        w.create(PODS, "p", _pod(), annotations=_annotations(run_time="60s", exit_code="2"))
        w.create(PODS, "once", _pod(spec={"restartPolicy": "Never"}), annotations=_annotations(run_time="90s"))
        await _running(w)
        await clock.advance(65)
        assert _main(w)["restartCount"] == 1
        api = w.api
    async with world(clock, nodes=1, api=api) as w:
        await clock.advance(30)
        assert w.get(PODS, "once")["status"]["phase"] == "Succeeded"
        assert _main(w)["restartCount"] == 1
        await w.until(lambda: _state(w) == "waiting", 40)
        assert _main(w)["state"]["waiting"]["message"].startswith("back-off 10s")
        assert w.get(PODS, "p")["status"]["phase"] == "Running"


@virtual_time
async def test_conditions_are_in_the_order_of_a_kubelet(clock: VirtualClock) -> None:
    """As kubectl describe shows them on a real cluster."""
    async with world(clock) as w:
        w.create(PODS, "p", _pod())
        await _running(w)
        assert [each["type"] for each in w.get(PODS, "p")["status"]["conditions"]] == [
            "PodReadyToStartContainers",
            "Initialized",
            "Ready",
            "ContainersReady",
            "PodScheduled",
        ]


async def test_pods_become_ready_and_restart_in_real_time() -> None:
    """On a real clock time passes within a step, too."""
    api = ApiServer(clock=SystemClock())
    settings = ClusterSettings(kubelet=KubeletSettings(start_delay=0.02))
    cluster = EmbeddedCluster(api, settings)
    access = cluster.context.access
    cluster.start()
    cluster.add_nodes(1)
    body = {**_pod(readinessProbe=_probe()), "nodeName": "node-1"}
    meta = {"namespace": "default", "name": "p", "annotations": _annotations(run_time="0.2s")}
    seen: set[tuple[int, bool]] = set()

    def note(event: StoreEvent) -> None:
        for each in event.record.load().get("status", {}).get("containerStatuses") or []:
            seen.add((each["restartCount"], each["ready"]))

    api.store.shelf("/pods").observers.append(note)
    access.create(PODS, {"metadata": meta, "spec": body})
    try:
        async with asyncio.timeout(120):
            # On a busy machine the time of a container may be over before it is seen to be ready.
            while not any(restarts and ready for restarts, ready in seen):
                await asyncio.sleep(0.01)
    finally:
        await cluster.stop()


@pytest.mark.parametrize("tag", ["non-existent", "404"])
@virtual_time
async def test_a_tag_can_say_that_an_image_does_not_exist(clock: VirtualClock, tag: str) -> None:
    """Its pull fails as with the annotation; other containers of the pod have their images."""
    async with world(clock, nodes=1) as w:
        w.create(PODS, "p", {"containers": [{"name": "main", "image": f"nginx:{tag}"}]})
        await w.until(lambda: "BackOff" in w.reasons("p"), 60)
        assert _main(w)["state"]["waiting"]["reason"] == "ErrImagePull"
        assert "ErrImagePull" in " ".join(_messages(w, "Failed"))


@virtual_time
async def test_a_host_port_that_is_taken(clock: VirtualClock) -> None:
    """The kubelet rejects a pod that was bound by hand to a node where another pod has its port."""
    async with world(clock, nodes=1) as w:
        for name, address in (("first", "0.0.0.0"), ("second", "127.0.0.1")):
            port = {"containerPort": 80, "hostPort": 8080, "hostIP": address}
            container = {"name": "main", "image": "nginx", "ports": [port]}
            w.create(PODS, name, {"nodeName": "node-1", "containers": [container]})
            await clock.advance(5)
        status = w.get(PODS, "second")["status"]
        assert (w.get(PODS, "first")["status"]["phase"], status["phase"]) == ("Running", "Failed")
        assert (status["reason"], status["message"].partition(":")[0]) == ("NodePorts", "Pod was rejected")


@virtual_time
async def test_an_annotation_that_nobody_reads_is_an_event(clock: VirtualClock) -> None:
    """On a pod with the name that was probably meant, and on a node with the possible values."""
    async with world(clock, nodes=1) as w:
        w.create(PODS, "p", _pod(), annotations={"kubesched.io/runtime": "5s"})
        await _running(w)
        (message,) = _messages(w, "InvalidAnnotation")
        assert message == (
            "annotation kubesched.io/runtime: pods have no such annotation; did you mean kubesched.io/run-time "
            "or kubesched.io/init-run-time?"
        )
        w.annotate(NODES, "node-1", kubesched__io_kubelet="stoped")
        await w.until(lambda: len(_messages(w, "InvalidAnnotation")) == 2)


@virtual_time
@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("node-load", "cpu=lots", "kubesched.io/node-load: expected mean and deviation in percent such as"),
        ("node-load", "cpu=1.2.3", "kubesched.io/node-load: expected mean and deviation in percent such as"),
        ("node-lod", "cpu=1", "kubesched.io/node-lod: nodes have no such annotation; did you mean"),
    ],
)
async def test_wrong_annotations_of_nodes(clock: VirtualClock, name: str, value: str, problem: str) -> None:
    """A node's load that cannot be read, or an unknown name, is an event on the node."""
    async with world(clock, nodes=1) as w:
        await clock.advance(1)
        w.annotate(NODES, "node-1", **{f"kubesched__io_{name}": value})
        await w.until(lambda: len(_messages(w, "InvalidAnnotation")) == 1)
        assert _messages(w, "InvalidAnnotation")[0].startswith(problem)


# --- what a pod needs -------------------------------------------------------------------------------------------------


@virtual_time
async def test_missing_objects_are_told(clock: VirtualClock) -> None:
    """Events name the ConfigMaps, Secrets and keys that do not exist, each once; optional ones may lack."""
    key = {"name": "there", "key": "none"}
    env = [
        {"name": "A", "valueFrom": {"configMapKeyRef": key}},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "lost", "key": "password"}}},
        {"name": "C", "valueFrom": {"secretKeyRef": {"name": "maybe", "key": "password", "optional": True}}},
    ]
    source = [{"configMapRef": {"name": "there"}}, {"secretRef": {"name": "gone"}}]
    volumes = [
        {"name": "one", "configMap": {"name": "typo"}},
        {"name": "two", "secret": {"secretName": "tls"}},
        {"name": "all", "projected": {"sources": [{"configMap": {"name": "typo"}}]}},
    ]
    async with world(clock, nodes=1) as w:
        w.access.create(CONFIG_MAPS, {"metadata": {"name": "there", "namespace": "default"}, "data": {"a": "b"}})
        w.create(PODS, "p", _pod(env=env, envFrom=source, spec={"volumes": volumes}))
        await _running(w)
        ending = ": a real kubelet would wait for it"
        assert sorted(_messages(w, "MissingObject")) == [
            f'configmap "typo" not found{ending}',
            f"couldn't find key none in ConfigMap default/there{ending}",
            f'secret "gone" not found{ending}',
            f'secret "lost" not found{ending}',
            f'secret "tls" not found{ending}',
        ]


# --- resizing ---------------------------------------------------------------------------------------------------------


def _resize(w: World, name: str = "p", /, **requests: str) -> None:
    def edit(pod: JSON) -> None:
        (container,) = pod["spec"]["containers"]
        container["resources"] = {"requests": {**container["resources"]["requests"], **requests}}

    w.access.edit(PODS, w.key(PODS, name), edit, "resize")


def _pending_resize(w: World, name: str = "p") -> str:
    conditions = w.get(PODS, name)["status"]["conditions"]
    return next((each["reason"] for each in conditions if each["type"] == "PodResizePending"), "")


@virtual_time
async def test_a_running_pod_is_resized(clock: VirtualClock) -> None:
    """Its status says what it has; a container whose policy asks for it is restarted, each time at once."""
    policy = {"resourceName": "memory", "restartPolicy": "RestartContainer"}
    size = {"requests": {"cpu": "3", "memory": "1Gi"}}
    async with world(clock, nodes=1) as w:
        w.create(PODS, "p", _pod(resources=size, resizePolicy=[policy]))
        await _running(w)
        assert w.get(PODS, "p")["status"]["observedGeneration"] == 1
        assert "resources" not in _main(w)
        _resize(w, cpu="1")
        assert _main(w)["allocatedResources"] == {"cpu": "3", "memory": "1Gi"}
        await clock.settle()
        smaller = {"cpu": "1", "memory": "1Gi"}
        assert (_main(w)["allocatedResources"], _main(w)["resources"]) == (smaller, {"requests": smaller})
        assert (_main(w)["restartCount"], w.get(PODS, "p")["status"]["observedGeneration"]) == (0, 2)
        for count, memory in enumerate(("2Gi", "3Gi", "4Gi"), 1):
            _resize(w, memory=memory)
            await clock.advance(1)
            assert (_main(w)["restartCount"], _main(w)["allocatedResources"]["memory"]) == (count, memory)
            assert "running" in _main(w)["state"]
        assert len(_messages(w, "ResizeCompleted")) == 4


@virtual_time
async def test_a_resize_that_the_node_has_no_room_for(clock: VirtualClock) -> None:
    """One that can never fit is infeasible; one that does not fit now waits until other pods are gone."""
    size = {"requests": {"cpu": "1", "memory": "1Gi"}}
    async with world(clock, nodes=1) as w:
        w.create(PODS, "p", _pod(resources=size))
        w.create(PODS, "other", _pod(resources={"requests": {"cpu": "2"}}))
        await _running(w)
        _resize(w, cpu="9")
        await clock.advance(1)
        assert _pending_resize(w) == "Infeasible"
        _resize(w, cpu="3")
        await clock.advance(1)
        assert _pending_resize(w) == "Deferred"
        assert _main(w)["allocatedResources"] == size["requests"]
        w.access.remove(PODS, w.key(PODS, "other"))
        await clock.advance(6)
        assert _pending_resize(w) == ""
        assert _main(w)["allocatedResources"]["cpu"] == "3"
        assert "requested: 9000, capacity: 4000" in _messages(w, "ResizeInfeasible")[0]
        assert len(_messages(w, "ResizeDeferred")) == 1


@virtual_time
async def test_what_another_pod_asks_for_in_vain_takes_no_room(clock: VirtualClock) -> None:
    """A resize that cannot be granted, or not yet, leaves the room to others: what counts is what a pod has."""
    size = {"requests": {"cpu": "1", "memory": "1Gi"}}
    async with world(clock, nodes=1) as w:
        for name in ("p", "infeasible", "deferred"):
            w.create(PODS, name, _pod(resources=size))
        await _running(w)
        _resize(w, "infeasible", cpu="9")
        _resize(w, "deferred", cpu="3")
        await clock.advance(1)
        assert [_pending_resize(w, name) for name in ("infeasible", "deferred")] == ["Infeasible", "Deferred"]
        _resize(w, cpu="2")
        await clock.advance(1)
        assert _pending_resize(w) == ""
        assert _main(w)["allocatedResources"]["cpu"] == "2"
