"""A plugin that waits for a custom kind, over HTTP: the embedded API server serves, another process schedules."""

from __future__ import annotations

import json
from pathlib import Path

from tests import quota_plugin
from tests.kubectl.local import Local, eventually, second_scheduler

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{kubeconfig: {kubeconfig}}}
leaderElection: {{leaderElect: false}}
profiles:
- schedulerName: within-quota
  plugins: {{multiPoint: {{enabled: [{{name: WithinQuota}}]}}}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  schedulerName: within-quota
  containers: [{name: main, image: nginx}]
"""
QUOTA = "apiVersion: example.com/v1\nkind: Quota\nmetadata: {{name: quota}}\nspec: {{open: {value}}}\n"


def test_a_plugin_waits_for_a_custom_kind(kubectl: Local, tmp_path: Path) -> None:
    """A pod is pending until an object of the kind changes."""
    config = CONFIG.format(kubeconfig=kubectl.kubeconfig)
    kubectl("apply -f -", json.dumps(quota_plugin.DEFINITION))
    kubectl("wait --for=condition=Established crd/quotas.example.com --timeout=120s")
    with second_scheduler(tmp_path, kubectl, config, Path(quota_plugin.__file__)):
        kubectl("apply -f -", POD)
        eventually(lambda: "the quota is closed" in kubectl("describe pod web"), what="the reason")
        kubectl("apply -f -", QUOTA.format(value="false"))
        kubectl("apply -f -", QUOTA.format(value="true"))
        kubectl("wait --for=condition=Ready pod/web --timeout=120s")
    kubectl("delete crd quotas.example.com")
