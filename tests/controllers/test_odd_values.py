"""What users write into statuses and annotations that controllers and kubelets read: it may be anything."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.controllers.world import World, template, workload, world

from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.types import JSON
from kubesched.reconcile.access import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    REVISIONS,
    STATEFUL_SETS,
    VOLUMES,
)

DIGITS = "9" * 5000
"""More than Python reads as a number."""
INDEX = "batch.kubernetes.io/job-completion-index"
REVISION = "deployment.kubernetes.io/revision"


async def _cluster(w: World) -> None:
    """One of each workload."""
    pi = template("pi", restartPolicy="Never", annotations={"kubesched.io/run-time": "30s"})
    job = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "template": pi}
    w.create(DEPLOYMENTS, "web", workload("web", 2))
    w.create(STATEFUL_SETS, "db", workload("db", 1))
    w.create(DAEMON_SETS, "agent", workload("agent"))
    w.create(JOBS, "pi", job)
    w.create(CRON_JOBS, "often", {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": pi}}})
    volume = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    w.create(VOLUMES, "disk", volume)
    await w.until(lambda: len(w.running(app="web")) == 2 and len(w.running(app="pi")) == 2)


def _put(obj: JSON, path: str, value: Any) -> None:
    *parents, last = path.split("/")
    for each in parents:
        obj = obj[int(each)] if isinstance(obj, list) else obj.setdefault(each.replace("|", "/"), {})
    obj[last.replace("|", "/")] = value


@pytest.mark.parametrize(
    ("storage", "subresource", "changes"),
    [
        (REPLICA_SETS, "/status", {"status/replicas": None, "status/availableReplicas": None}),
        (REPLICA_SETS, "/status", {"status/conditions": [{"type": "ReplicaFailure", "status": "True"}]}),
        (DEPLOYMENTS, "", {"spec/strategy/rollingUpdate/maxSurge": f"{DIGITS}%"}),
        (REPLICA_SETS, "", {f"metadata/annotations/{REVISION.replace('/', '|')}": DIGITS}),
        (REVISIONS, "", {"revision": None}),
        (CRON_JOBS, "/status", {"status/active": [None, {"name": "x"}]}),
        (REVISIONS, "", {"metadata/labels": None}),
        (PODS, "", {f"metadata/annotations/{INDEX.replace('/', '|')}": DIGITS}),
        (PODS, "", {f"metadata/annotations/{INDEX.replace('/', '|')}": "x"}),
        (PODS, "/status", {"status/podIP": "fd00::1", "status/podIPs": [{"ip": "fd00::1"}]}),
        (PODS, "/status", {"status/containerStatuses/0/name": None}),
        (VOLUMES, "", {"spec/claimRef": {"namespace": "default"}}),
    ],
)
@virtual_time
async def test_no_controller_fails(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture, storage: str, subresource: str, changes: dict[str, Any]
) -> None:
    """Nothing is logged as an error, and workloads get their pods as before."""
    async with world(clock, nodes=1) as w:
        client = LocalClient(w.api)
        await _cluster(w)
        resource = w.access.resource(storage)
        scope = "/namespaces/default" if resource.namespaced else ""
        base = f"{'/apis' if resource.group else '/api'}/{resource.group_version}{scope}/{resource.plural}"
        for name in w.names(storage):
            obj = w.get(storage, name)
            for path, value in changes.items():
                _put(obj, path, value)
            response = await client.send("PUT", f"{base}/{name}{subresource}", obj)
            assert response.status == 200, response.body
        await clock.advance(90)
        await client.send("DELETE", base, query={"propagationPolicy": "Orphan"})
        await clock.advance(90)
        w.create(DEPLOYMENTS, "late", workload("late", 1))
        await w.until(lambda: len(w.running(app="late")) == 1)
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR] == []


@virtual_time
async def test_more_failures_than_a_power_of_two_may_have(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """After more than a thousand failed pods, a Job waits for ten minutes and goes on."""
    failing = template("pi", restartPolicy="Never", annotations={"kubesched.io/exit-code": "1"})
    async with world(clock, nodes=0) as w:
        w.create(JOBS, "pi", {"parallelism": 1100, "completions": 1100, "backoffLimit": 5000, "template": failing})
        await w.until(lambda: len(w.names(PODS)) == 1100)
        for name in w.names(PODS):
            key = w.key(PODS, name)
            w.access.edit_status(
                PODS, key, lambda obj: obj["status"].update(phase="Failed"), w.get(PODS, name)["metadata"]["uid"]
            )
        await clock.advance(700)
        assert len(w.names(PODS)) == 2200
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR] == []
