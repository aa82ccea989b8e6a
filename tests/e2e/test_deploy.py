"""What `deploy/` ships, applied with kubectl to a cluster with RBAC: a scheduler that may do what it must, no more."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml
from tests.e2e.api import CORE, JSON
from tests.e2e.control_plane import ADMIN, NOBODY, ControlPlane
from tests.e2e.objects import claim, local_volume, node, pod, priority_class, storage_class
from tests.e2e.parts import path_of
from tests.e2e.schedulers import KUBE_SCHEDULER, KUBESCHED, start
from tests.e2e.stage import Stage
from tests.e2e.volume_controller import complete_when_given
from tests.e2e.waiting import until

OVERLAYS = Path(__file__).parents[2] / "deploy" / "overlays"
SYSTEM = f"{CORE}/namespaces/kube-system"
READER = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "metrics-reader"},
    "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
}


def kubectl(plane: ControlPlane, *arguments: str) -> str:
    """What kubectl, as an administrator, prints."""
    # Not the home of whoever runs the tests: kubectl keeps what it discovers there.
    environment = {**os.environ, "HOME": str(plane.folder), "KUBECONFIG": str(plane.kubeconfig(token=ADMIN))}
    done = subprocess.run(
        [str(path_of("kubectl")), *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def deployed(plane: ControlPlane, overlay: str) -> tuple[Path, JSON]:
    """Apply an overlay; answers with a kubeconfig of the service account it makes, and the configuration it ships."""
    kubectl(plane, "apply", "-k", str(OVERLAYS / overlay))
    request: JSON = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = plane.admin.post(f"{SYSTEM}/serviceaccounts/kubesched/token", request)["status"]["token"]
    # The API server learns of its own roles by watches, one for each kind.
    own = plane.api(token)
    for path in (f"{CORE}/nodes", f"{SYSTEM}/configmaps/extension-apiserver-authentication"):
        until(lambda path=path: own.ask("GET", path)[0] == 200, f"the roles allow {path}")  # type: ignore[misc]
    maps = plane.admin.items(f"{SYSTEM}/configmaps")
    shipped = next(each for each in maps if each["metadata"]["name"].startswith("kubesched-config"))
    config: JSON = yaml.safe_load(shipped["data"]["config.yaml"])
    return plane.kubeconfig(token=token), config


@pytest.mark.parametrize("overlay", ["second-scheduler", "replacement"])
def test_shipped_roles_suffice(plane: ControlPlane, overlay: str) -> None:
    """With nothing but the shipped roles it leads, schedules, preempts, binds volumes, tells of it and is not refused
    anything."""
    kubeconfig, config = deployed(plane, overlay)
    name = config.get("profiles", [{}])[0].get("schedulerName", "default-scheduler")
    ours: JSON = {"schedulerName": name}
    scheduler = start(KUBESCHED, plane, kubeconfig=kubeconfig, config=config, elect=True)
    stage = Stage(plane)
    stage.put(
        priority_class("high", 1000),
        node("only", cpu="2"),
        storage_class("local"),
        local_volume("disk", "local", "only"),
        claim("data", "local"),
    )
    stage.bound(pod("low", cpu="2", **ours))
    stage.refused(pod("second", cpu="1", **ours))
    stage.bound(pod("high", cpu="2", priorityClassName="high", **ours))
    stage.told("low", "Preempted")
    stage.gone("high")
    stage.becomes_bound("second")
    stage.put(pod("with-data", claims=["data"], **ours))
    complete_when_given(stage, "data", "disk")
    stage.becomes_bound("with-data")
    assert scheduler.served("/metrics", ADMIN)[0] == 200
    said = [line for line in scheduler.child.output().splitlines() if "forbidden" in line.lower()]
    assert not said
    assert scheduler.child.terminate() == 0


@pytest.mark.parametrize("program", [KUBE_SCHEDULER, KUBESCHED])
def test_who_may_read_metrics(plane: ControlPlane, program: str) -> None:
    """Health is for everybody; metrics are for those whom a role allows them, and the rest hear why not."""
    kubectl(plane, "create", "clusterrolebinding", "reader", "--clusterrole=metrics-reader", "--user=nobody")
    scheduler = start(program, plane, "--authorization-webhook-cache-unauthorized-ttl=1s")
    assert scheduler.served("/healthz") == (200, "ok")
    assert scheduler.served("/metrics")[0] == 403
    assert scheduler.served("/metrics", "no-such-token")[0] == 401
    assert scheduler.served("/metrics", ADMIN)[0] == 200
    code, text = scheduler.served("/metrics", NOBODY)
    assert code == 403
    assert 'User \\"nobody\\" cannot get path \\"/metrics\\"' in text
    plane.admin.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", READER)
    # The refusal is remembered for a while.
    until(lambda: scheduler.served("/metrics", NOBODY)[0], "a role opens it", enough=lambda seen: seen == 200)
    assert scheduler.served("/configz", NOBODY)[0] == 403
    assert "scheduler_pending_pods" in scheduler.served("/metrics", NOBODY)[1]
