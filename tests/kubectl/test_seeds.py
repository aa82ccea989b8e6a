"""The documents that this project began with, typed as they are written."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kubectl.local import KUBESCHED, ROOT, Local, eventually, free_port, local

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
clientConnection:
  kubeconfig: {kubeconfig}
profiles:
- schedulerName: index-scheduler
  plugins:
    filter:
      enabled:
      - name: IndexScheduling
"""

SAMPLES = "---".join(
    f"""
apiVersion: v1
kind: Pod
metadata:
  name: sample-0{number}
spec:
  schedulerName: index-scheduler
  containers:
  - name: sample-0{number}
    image: nginx
"""
    for number in (1, 2, 3)
)

ROLE = """
kubectl create clusterrole \\
    debug-flag-admin \\
    --verb=put \\
    --non-resource-url=/debug/flags/v
"""
BINDING = """
kubectl create clusterrolebinding \\
    debug-flag-admin \\
    --clusterrole=debug-flag-admin \\
    --serviceaccount=default:default
"""
PUT = """
TOKEN=$(kubectl create token default)
curl -sk -H "Authorization: Bearer $TOKEN" -d 5 -X PUT  https://127.0.0.1:{port}/debug/flags/v
"""

# What the document shows of the log, in its order.
LINES = [
    "Add event for unscheduled pod",
    "Pod moved to an internal scheduling queue",
    "About to try and schedule pod",
    "Attempting to schedule pod",
    "Attempting to bind pod to node",
    "Finished binding for pod, can be expired",
    "Successfully bound pod to node",
    "Add event for scheduled pod",
    "Delete event for unscheduled pod",
    "Update event for scheduled pod",
    "Update event for scheduled pod",
    "Update event for scheduled pod",
]


@pytest.fixture(scope="module")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """The document's cluster: two workers, and a scheduler that tells little at first."""
    names = "--node-name-format=worker{:02}.home.local"
    with local(tmp_path_factory.mktemp("seed"), "--nodes=2", names, "--v=2") as running:
        yield running


def test_the_first_document_the_log_level(seed: Local) -> None:
    """A role, a binding, a token and a PUT, as typed; then a deployment, whose log lines come in their order."""
    assert seed.shell(ROLE) == "clusterrole.rbac.authorization.k8s.io/debug-flag-admin created\n"
    assert seed.shell(BINDING) == "clusterrolebinding.rbac.authorization.k8s.io/debug-flag-admin created\n"
    put = PUT.format(port=seed.secure_port)
    seed("create serviceaccount nobody")
    assert "forbidden" in seed.shell(put.replace("token default", "token nobody"))
    assert seed.shell(put).strip() == "successfully set klog.logging.verbosity to 5"
    created = seed.shell("kubectl create deployment demo-sched --image=nginx --port=80")
    assert created == "deployment.apps/demo-sched created\n"
    eventually(lambda: len(seed.messages(r"default/demo-sched-")) >= len(LINES), what="all lines")
    assert seed.messages(r"default/demo-sched-") == LINES
    (bound,) = (line for line in seed.log.splitlines() if "Successfully bound pod" in line)
    assert re.search(r'pod="default/demo-sched-\w+-\w+" node="worker0[12].home.local" evaluatedNodes=2', bound)


def test_the_first_document_a_second_scheduler(seed: Local, tmp_path: Path) -> None:
    """The index scheduler runs beside the default one; sample-03 has no node of its number and stays pending."""
    config = tmp_path / "index-scheduler.yaml"
    config.write_text(CONFIG.format(kubeconfig=seed.kubeconfig), "utf-8")
    command = [*KUBESCHED, "run"]
    command += [f"--authentication-kubeconfig={seed.kubeconfig}", f"--authorization-kubeconfig={seed.kubeconfig}"]
    command += [f"--config={config}", f"--secure-port={free_port()}"]
    command += ["--plugin=tests.kubectl.index_scheduling:IndexScheduling"]
    with (tmp_path / "log").open("wb") as log:
        second = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=ROOT)
    try:
        seed("apply -f -", SAMPLES)
        seed("wait --for=condition=Ready pod/sample-01 pod/sample-02 --timeout=30s")
        eventually(lambda: "FailedScheduling" in seed("events --for=pod/sample-03"), what="an event")
        rows = [line.split() for line in seed("get pod -o wide").splitlines() if line.startswith("sample")]
        placed = {row[0]: (row[1], row[2], row[6]) for row in rows}
        assert placed == {
            "sample-01": ("1/1", "Running", "worker01.home.local"),
            "sample-02": ("1/1", "Running", "worker02.home.local"),
            "sample-03": ("0/1", "Pending", "<none>"),
        }
    finally:
        second.terminate()
        second.wait(20)


TEST_SCHEDULER = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: scheduler-config
  namespace: kube-system
data:
  scheduler-config.yaml: |
    apiVersion: kubescheduler.config.k8s.io/v1beta1
    kind: KubeSchedulerConfiguration
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: test-scheduler
spec:
  replicas: 1
  selector: {matchLabels: {app: test-scheduler}}
  template:
    metadata: {labels: {app: test-scheduler}}
    spec:
      nodeSelector: {cpu: "true"}
      containers:
      - name: nginx
        image: nginx:1.19.2-alpine
        ports: [{containerPort: 80}]
"""


def test_the_fourth_document_pending_until_a_label(seed: Local) -> None:
    """Pending with its event in the description; a label on a node, and it is scheduled, pulled, created, started."""
    seed("apply -f -", TEST_SCHEDULER)
    pods = "-l app=test-scheduler"
    eventually(lambda: "FailedScheduling" in seed(f"describe pod {pods}"), what="the event")
    described = seed(f"describe pod {pods}")
    assert re.search(r"Warning +FailedScheduling .*default-scheduler +0/2 nodes are available: 2 node", described)
    assert re.search(r"Status: +Pending", described)
    seed("label node worker02.home.local cpu=true")
    seed(f"wait --for=condition=Ready pod {pods} --timeout=30s")
    described = seed(f"describe pod {pods}")
    for line in (
        r"Normal +Scheduled .*default-scheduler +Successfully assigned default/test-scheduler-.* to worker02",
        r'Normal +Pulling .*kubelet +Pulling image "nginx:1.19.2-alpine"',
        r'Normal +Pulled .*kubelet +Successfully pulled image "nginx:1.19.2-alpine"',
        r"Normal +Created .*kubelet +Created container nginx",
        r"Normal +Started .*kubelet +Started container nginx",
        r"Node: +worker02.home.local/192.168.",
        r"Controlled By: +ReplicaSet/test-scheduler-",
        r"QoS Class: +BestEffort",
        r"Tolerations: +node.kubernetes.io/not-ready:NoExecute op=Exists for 300s",
    ):
        assert re.search(line, described), f"{line}\n{described}"
