"""The documents that this project began with, typed as they are written, with the plugins of `examples/`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kubectl.local import ROOT, Local, eventually, local, second_scheduler

EXAMPLES = ROOT / "examples"

# --- the first document -----------------------------------------------------------------------------------------------

CONFIG = """
# index-scheduler.yaml
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

SAMPLE = """apiVersion: v1
kind: Pod
metadata:
  name: sample-0{number}
spec:
  schedulerName: index-scheduler
  containers:
  - name: sample-0{number}
    image: nginx
"""
SAMPLES = "cat | kubectl apply -f - <<EOF\n" + "---\n".join(SAMPLE.format(number=n) for n in (1, 2, 3)) + "EOF\n"

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

# The deployment of the same scheduler, in the words of its project: a program with another name than kube-scheduler.
DEPLOYMENT = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: index-scheduler, namespace: sched-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: index-scheduler-kube-scheduler}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:kube-scheduler"}
subjects: [{kind: ServiceAccount, name: index-scheduler, namespace: sched-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: index-scheduler-volume-scheduler}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:volume-scheduler"}
subjects: [{kind: ServiceAccount, name: index-scheduler, namespace: sched-system}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: scheduler-config, namespace: sched-system}
data:
  config: |
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration
    leaderElection:
      leaderElect: false
    profiles:
    - schedulerName: index-scheduler
      plugins:
        filter:
          enabled:
          - name: IndexScheduling
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: index-scheduler, namespace: sched-system}
spec:
  selector: {matchLabels: {app: index-scheduler}}
  template:
    metadata: {labels: {app: index-scheduler}}
    spec:
      serviceAccountName: index-scheduler
      containers:
      - name: index-scheduler
        image: <Scheduler Image Path>
        command: [/index-scheduler, --config=/opt/config.yaml]
        ports: [{containerPort: 10259, protocol: TCP}]
        volumeMounts: [{name: scheduler-config, mountPath: /opt}]
      volumes:
      - name: scheduler-config
        configMap: {name: scheduler-config, items: [{key: config, path: config.yaml, mode: 0444}]}
"""

CONTROLLER = "apiVersion: v1\nkind: Node\nmetadata: {name: controller.home.local}\n"


@pytest.fixture(scope="module")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """The document's cluster: two workers and one more node, and a scheduler that tells little at first."""
    names = "--node-name-format=worker{:02}.home.local"
    plugin = f"--plugin={EXAMPLES / 'index-scheduling' / 'index_scheduling.py'}"
    with local(tmp_path_factory.mktemp("seed"), "--nodes=2", names, "--v=2", plugin) as running:
        running("apply -f -", CONTROLLER)
        running("wait --for=condition=Ready node --all --timeout=120s")
        yield running


def test_the_first_document_the_log_level(seed: Local) -> None:
    """A role, a binding, a token and a PUT, as typed; then a deployment, whose log lines come in their order."""
    assert seed.shell(ROLE) == "clusterrole.rbac.authorization.k8s.io/debug-flag-admin created\n"
    assert seed.shell(BINDING) == "clusterrolebinding.rbac.authorization.k8s.io/debug-flag-admin created\n"
    assert seed.shell("kubectl create token default").startswith("eyJhbGciOiJ")
    put = PUT.format(port=seed.secure_port)
    seed("create serviceaccount nobody")
    assert "forbidden" in seed.shell(put.replace("token default", "token nobody"))
    assert seed.shell(put).strip() == "successfully set klog.logging.verbosity to 5"
    created = seed.shell("kubectl create deployment demo-sched --image=nginx --port=80")
    assert created == "deployment.apps/demo-sched created\n"
    eventually(lambda: len(_shown(seed)) >= len(LINES), what="all lines")
    assert _shown(seed) == LINES
    (bound,) = (line for line in seed.log.splitlines() if "Successfully bound pod" in line)
    chosen = r'pod="default/demo-sched-\w+-\w+" node="\w+.home.local" evaluatedNodes=3 feasibleNodes=3$'
    assert re.search(chosen, bound)


def _shown(seed: Local) -> list[str]:
    """The log lines about the pod, without those about batching: kube-scheduler 1.36 has them, the document's had
    not."""
    return [line for line in seed.messages(r"default/demo-sched-") if not line.startswith("OpportunisticBatch")]


def test_the_first_document_a_second_scheduler(seed: Local, tmp_path: Path) -> None:
    """The index scheduler runs beside the default one; sample-03 has no node of its number and stays pending."""
    config = CONFIG.format(kubeconfig=seed.kubeconfig)
    with second_scheduler(tmp_path, seed, config, EXAMPLES / "index-scheduling" / "index_scheduling.py"):
        assert seed.shell(SAMPLES) == "pod/sample-01 created\npod/sample-02 created\npod/sample-03 created\n"
        seed("wait --for=condition=Ready pod/sample-01 pod/sample-02 --timeout=120s")
        eventually(lambda: "FailedScheduling" in seed("events --for=pod/sample-03"), what="an event")
        lines = seed.shell("kubectl get pod -o wide").splitlines()
        heads = ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE", "NOMINATED NODE", "READINESS GATES"]
        assert re.split(r" {2,}", lines[0].strip()) == heads
        rows = [line.split() for line in lines if line.startswith("sample")]
        placed = {row[0]: (row[1], row[2], row[3], row[6]) for row in rows}
        assert placed == {
            "sample-01": ("1/1", "Running", "0", "worker01.home.local"),
            "sample-02": ("1/1", "Running", "0", "worker02.home.local"),
            "sample-03": ("0/1", "Pending", "0", "<none>"),
        }
        eventually(lambda: "0/3 nodes are available:" in seed("describe pod sample-03"), what="the reason")


def test_the_first_documents_scheduler_as_a_deployment(seed: Local) -> None:
    """The manifests of its project run it with the plugin that `up` was started with."""
    seed("create namespace sched-system")
    seed("apply -f -", DEPLOYMENT)
    seed("apply -f -", SAMPLE.format(number=2).replace("sample-02", "deployed-02"))
    eventually(lambda: "Running" in seed("get pod deployed-02"), 120, "the pod runs")
    assert "worker02.home.local" in seed("get pod deployed-02 -o wide")
    seed("delete deployment index-scheduler -n sched-system")


# --- the fourth document ----------------------------------------------------------------------------------------------

GPU_NODES = ("gpu02-poweredge-t420", "gpu03-poweredge-t420")
SAMPLE2 = EXAMPLES / "sample2"


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """The document's two nodes, made with kubectl."""
    with local(tmp_path_factory.mktemp("gpu"), "--nodes=0") as running:
        for name in GPU_NODES:
            running("apply -f -", f"apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\n")
        running("wait --for=condition=Ready node --all --timeout=120s")
        yield running


def test_the_fourth_document_pending_until_a_label(gpu: Local) -> None:
    """ConfigMap and Deployment applied, so that a scheduler runs with the plugin of that ConfigMap: the test pod is
    pending with the document's event; a label on a node, and it is scheduled, pulled, created, started."""
    applied = gpu(f"apply -f {SAMPLE2 / 'sample-scheduler.yaml'}")
    assert "configmap/scheduler-config created\n" in applied
    assert "deployment.apps/sample-scheduler created\n" in applied
    gpu("rollout status deployment/sample-scheduler -n kube-system --timeout=120s")
    assert gpu(f"apply -f {SAMPLE2 / 'test-scheduler.yaml'}") == "deployment.apps/test-scheduler created\n"
    _pending(gpu)
    gpu("label node gpu02-poweredge-t420 cpu=true")
    gpu("wait --for=condition=Ready pod -l app=test-scheduler --timeout=120s")
    _scheduled(gpu)


def _log(gpu: Local) -> str:
    return gpu("logs -n kube-system deployment/sample-scheduler")


def _pending(gpu: Local) -> None:
    """The event in the description, and the line in the log."""
    eventually(lambda: "FailedScheduling" in gpu("describe pod -l app=test-scheduler"), what="the event")
    described = gpu("describe pod -l app=test-scheduler")
    why = "0/2 nodes are available: 1 Node: gpu02-poweredge-t420, 1 Node: gpu03-poweredge-t420."
    assert re.search(rf"Warning +FailedScheduling .*sample-scheduler +{why}", described), described
    assert re.search(r"Status: +Pending", described)
    assert re.search(r"Node: +<none>", described)
    line = rf'"Unable to schedule pod; no fit; waiting" pod="default/test-.*" err="{why}'
    eventually(lambda: re.search(line, _log(gpu)) is not None, what="the line in the log")


def _scheduled(gpu: Local) -> None:
    """What the document shows of the pod that runs."""
    described = gpu("describe pod -l app=test-scheduler")
    # kubectl puts the container before what happened to it, since 1.36.
    kubelet = r"kubelet +(?:spec\.containers\{nginx\}: )?"
    for line in (
        r"Node: +gpu02-poweredge-t420/192.168.",
        r"Labels: +app=test-scheduler\n +pod-template-hash=",
        r"Status: +Running",
        r"Controlled By: +ReplicaSet/test-scheduler-",
        r"Image: +nginx:1.19.2-alpine",
        r"Port: +80/TCP",
        r"Initialized +True",
        r"PodScheduled +True",
        r"QoS Class: +BestEffort",
        r"Node-Selectors: +<none>",
        r"Tolerations: +node.kubernetes.io/not-ready:NoExecute op=Exists for 300s",
        r"Warning +FailedScheduling .*sample-scheduler ",
        r"Normal +Scheduled .*sample-scheduler +Successfully assigned default/test-scheduler-.* to gpu02-",
        rf'Normal +Pulling .*{kubelet}Pulling image "nginx:1.19.2-alpine"',
        rf'Normal +Pulled .*{kubelet}Successfully pulled image "nginx:1.19.2-alpine"',
        rf"Normal +Created .*{kubelet}Created container nginx",
        rf"Normal +Started .*{kubelet}Started container nginx",
    ):
        assert re.search(line, described), f"{line}\n{described}"
    bound = r'Successfully bound pod.* node="gpu02-poweredge-t420" evaluatedNodes=2 feasibleNodes=1'
    eventually(lambda: re.search(bound, _log(gpu)) is not None, what="the line in the log")
