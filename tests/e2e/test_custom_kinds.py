"""A plugin that waits for a custom kind, on a real API server: its objects are watched, read, and wake pods."""

from __future__ import annotations

from pathlib import Path

from tests import quota_plugin
from tests.e2e.api import JSON
from tests.e2e.control_plane import ControlPlane
from tests.e2e.objects import node, pod
from tests.e2e.schedulers import KUBESCHED, start
from tests.e2e.stage import Stage
from tests.e2e.waiting import until

RBAC = "/apis/rbac.authorization.k8s.io/v1"
QUOTAS = "/apis/example.com/v1/namespaces/default/quotas"
ROLE: JSON = {
    "metadata": {"name": "quotas"},
    "rules": [{"apiGroups": ["example.com"], "resources": ["quotas"], "verbs": ["list", "watch"]}],
}
BINDING: JSON = {
    "metadata": {"name": "quotas"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "quotas"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:kube-scheduler"}],
}


def test_a_plugin_waits_for_a_custom_kind(plane: ControlPlane) -> None:
    """A pod stays pending while the quota is closed, and is bound when it opens."""
    api = plane.admin
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", quota_plugin.DEFINITION)
    api.post(f"{RBAC}/clusterroles", ROLE)
    api.post(f"{RBAC}/clusterrolebindings", BINDING)
    until(lambda: api.ask("GET", QUOTAS)[0] == 200, "the kind is served")
    start(KUBESCHED, plane, f"--plugin={Path(quota_plugin.__file__)}", "--enable=WithinQuota")
    stage = Stage(plane)
    stage.put(node("n1"))
    stage.refused(pod("web"))
    stage.becomes_refused("web", "the quota is closed")
    quota = {"apiVersion": "example.com/v1", "kind": "Quota", "metadata": {"name": "quota"}}
    api.post(QUOTAS, {**quota, "spec": {"open": False}})
    api.patch(f"{QUOTAS}/quota", {"spec": {"open": True}})
    stage.becomes_bound("web")
