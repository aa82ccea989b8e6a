"""What people do to workloads with kubectl, on a cluster where something happens."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.kubectl.local import Local, eventually

BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}
"""

DATABASE = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers:
      - name: postgres
        image: postgres:16
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""

AGENT = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: agent, image: "agent:1"}]}
"""


def _web(kubectl: Local, replicas: int = 3) -> None:
    kubectl(f"create deployment web --image=nginx --replicas={replicas}")
    kubectl("rollout status deployment/web --timeout=120s")


def _pods(kubectl: Local, selector: str = "") -> list[dict[str, Any]]:
    chosen = f" -l {selector}" if selector else ""
    found: list[dict[str, Any]] = json.loads(kubectl(f"get pods -o json{chosen}"))["items"]
    return found


def _nodes(kubectl: Local, selector: str) -> list[str]:
    return [pod["spec"].get("nodeName", "") for pod in _pods(kubectl, selector)]


def test_a_rollout_and_the_way_back(kubectl: Local) -> None:
    """A new image rolls out, a restart too, the history lists them, and undo brings the old image back."""
    _web(kubectl)
    kubectl("set image deployment/web nginx=nginx:2")
    assert "successfully rolled out" in kubectl("rollout status deployment/web --timeout=120s")
    kubectl("rollout restart deployment/web")
    assert "successfully rolled out" in kubectl("rollout status deployment/web --timeout=120s")
    assert re.findall(r"^(\d+) ", kubectl("rollout history deployment/web"), re.MULTILINE) == ["1", "2", "3"]
    kubectl("rollout undo deployment/web --to-revision=1")
    assert "successfully rolled out" in kubectl("rollout status deployment/web --timeout=120s")
    images = "get pods -l app=web -o jsonpath={.items[*].spec.containers[*].image}"
    eventually(lambda: set(kubectl(images).split()) == {"nginx"}, what="pods that are on their way out are gone")


def test_scale_wait_and_get(kubectl: Local) -> None:
    """Scaling changes the columns that people look at; wait returns when it is so."""
    _web(kubectl, 1)
    kubectl("scale deployment/web --replicas=4")
    kubectl("wait --for=jsonpath={.status.readyReplicas}=4 deployment/web --timeout=120s")
    assert re.search(r"^web +4/4 +4 +4 ", kubectl("get deployment"), re.MULTILINE)
    wide = kubectl("get pods -o wide")
    assert len(re.findall(r"1/1 +Running +0 .* 10\.244\.\d+\.\d+ +node-[123] ", wide)) == 4
    kubectl("wait --for=condition=Available deployment/web --timeout=120s")
    assert kubectl("get pods --field-selector=status.phase=Pending -o name") == ""


def test_drain_keeps_to_the_budget(kubectl: Local) -> None:
    """Draining a node takes its pods away one by one, so that two are always ready; then it may be used again."""
    _web(kubectl)
    kubectl("apply -f -", BUDGET)
    kubectl("apply -f -", AGENT)
    kubectl("rollout status daemonset/agent --timeout=120s")
    eventually(lambda: kubectl("get pdb web -o jsonpath={.status.disruptionsAllowed}") == "1", what="a status")
    done = kubectl.run("drain", "node-1", "node-2", "--ignore-daemonsets", "--timeout=120s")
    assert done.returncode == 0, done.stderr
    kubectl("rollout status deployment/web --timeout=120s")
    eventually(lambda: _nodes(kubectl, "app=web") == ["node-3"] * 3, what="three pods on the node that is left")
    assert "SchedulingDisabled" in kubectl("get nodes")
    assert len(set(_nodes(kubectl, "app=agent"))) == 3
    kubectl("uncordon node-1 node-2")
    assert "SchedulingDisabled" not in kubectl("get nodes")


def test_a_budget_that_allows_nothing_stops_a_drain(kubectl: Local) -> None:
    """With as many pods as have to be there, the eviction is refused in upstream's words until drain gives up."""
    _web(kubectl, 2)
    kubectl("apply -f -", BUDGET)
    eventually(lambda: kubectl("get pdb web -o jsonpath={.status.currentHealthy}") == "2", what="a status")
    node = _pods(kubectl, "app=web")[0]["spec"]["nodeName"]
    refusal = "Cannot evict pod as it would violate the pod's disruption budget."
    drain = ("drain", node, "--ignore-daemonsets", "--force", "--timeout=1s")
    eventually(lambda: (done := kubectl.run(*drain)).returncode and refusal in done.stderr, what="refused")
    kubectl(f"uncordon {node}")


def test_deleting_in_three_ways(kubectl: Local) -> None:
    """In the background all go, in the foreground the owner last, orphans stay."""
    for cascade in ("background", "foreground"):
        _web(kubectl, 2)
        kubectl(f"delete deployment web --cascade={cascade} --timeout=120s")
        kubectl("wait --for=delete pod -l app=web --timeout=120s")
        assert kubectl("get all -o name") == ""
    _web(kubectl, 2)
    kubectl("delete deployment web --cascade=orphan --timeout=120s")
    assert len(_pods(kubectl, "app=web")) == 2
    kubectl("delete replicaset -l app=web --cascade=orphan --timeout=120s")
    pod = _pods(kubectl, "app=web")[0]["metadata"]["name"]
    kubectl(f"delete pod {pod} --force --grace-period=0")
    assert len(_pods(kubectl, "app=web")) == 1


def test_a_namespace_goes_with_all_that_is_in_it(kubectl: Local) -> None:
    """kubectl waits until it is gone, and it is gone within seconds."""
    kubectl("create namespace short-lived")
    kubectl("create deployment web --image=nginx --replicas=2 -n short-lived")
    kubectl("wait --for=condition=Available deployment/web -n short-lived --timeout=120s")
    kubectl("delete namespace short-lived --timeout=120s")
    assert kubectl.run("get", "namespace", "short-lived").returncode != 0


def test_a_stateful_set_and_its_claims(kubectl: Local) -> None:
    """Ordered pods, claims of the default class bound to volumes made for them, an update, cleaning up."""
    kubectl("apply -f -", DATABASE)
    kubectl("rollout status statefulset/db --timeout=120s")
    assert [pod["metadata"]["name"] for pod in _pods(kubectl)] == ["db-0", "db-1"]
    assert len(re.findall(r"data-db-[01] +Bound +pvc-\S+ +1Gi +RWO +standard", kubectl("get pvc"))) == 2
    kubectl("rollout restart statefulset/db")
    kubectl("rollout status statefulset/db --timeout=120s")
    kubectl("delete statefulset db --timeout=120s")
    kubectl("wait --for=delete pod db-0 db-1 --timeout=120s")
    kubectl("delete pvc --all --timeout=120s")
    eventually(lambda: kubectl("get pv -o name") == "", what="no volumes left")


def test_a_job_runs_to_its_end(kubectl: Local) -> None:
    """Its pods complete, the columns say so, and it is deleted with them."""
    kubectl("create job pi --image=perl -- sleep 1")
    kubectl("wait --for=condition=Complete job/pi --timeout=120s")
    assert re.search(r"^pi +Complete +1/1 ", kubectl("get jobs"), re.MULTILINE)
    assert re.search(r"0/1 +Completed ", kubectl("get pods"))
    kubectl("delete job pi --timeout=120s")
    kubectl("wait --for=delete pod -l job-name=pi --timeout=120s")


def test_run_label_annotate_patch_and_watch(kubectl: Local) -> None:
    """The small commands of every day, each with its effect."""
    kubectl("run one --image=nginx --labels=app=one")
    kubectl("wait --for=condition=Ready pod/one --timeout=120s")
    kubectl("label pod one tier=front")
    kubectl("annotate pod one note=hello")
    for kind, patch in (
        ("strategic", '{"metadata":{"labels":{"a":"1"}}}'),
        ("merge", '{"metadata":{"labels":{"b":"2"}}}'),
        ("json", '[{"op":"add","path":"/metadata/labels/c","value":"3"}]'),
    ):
        assert kubectl.run("patch", "pod", "one", f"--type={kind}", "-p", patch).returncode == 0
    labels = json.loads(kubectl("get pod one -o json"))["metadata"]["labels"]
    assert labels == {"app": "one", "tier": "front", "a": "1", "b": "2", "c": "3"}
    watch = ["get", "pods", "--watch", "--request-timeout=1s", "--output-watch-events", "-l", "tier=front"]
    eventually(lambda: re.search("ADDED +one ", kubectl.run(*watch).stdout), what="an event")


def test_taints_move_pods(kubectl: Local) -> None:
    """A NoExecute taint drives pods off a node; taken away, the node is as before."""
    _web(kubectl)
    kubectl("taint node node-2 fire=yes:NoExecute")
    eventually(lambda: "node-2" not in _nodes(kubectl, "app=web"), what="the node is empty")
    kubectl("rollout status deployment/web --timeout=120s")
    kubectl("taint node node-2 fire-")


def test_services_have_endpoints(kubectl: Local) -> None:
    """An exposed deployment has a slice with its pods' addresses, and describe shows them."""
    kubectl("create deployment web --image=nginx --port=80 --replicas=2")
    kubectl("expose deployment web")
    kubectl("rollout status deployment/web --timeout=120s")
    addresses = {pod["status"]["podIP"] for pod in _pods(kubectl, "app=web")}
    listed = "get endpointslices -o jsonpath={.items[*].endpoints[*].addresses[*]}"
    eventually(lambda: set(kubectl(listed).split()) == addresses, what="an address for each pod")
    assert all(f"{address}:80" in kubectl("describe service web") for address in addresses)


def test_who_may_do_what(kubectl: Local) -> None:
    """auth can-i knows the roles of a service account, and a token of it is held to them."""
    namespace = kubectl("config view --minify -o jsonpath={..namespace}")
    account = f"--as=system:serviceaccount:{namespace}:default"
    assert kubectl.run("auth", "can-i", "list", "pods", account).stdout == "no\n"
    kubectl(f"create rolebinding reader --clusterrole=view --serviceaccount={namespace}:default")
    assert kubectl.run("auth", "can-i", "list", "pods", account).stdout == "yes\n"
    assert kubectl.run("auth", "can-i", "delete", "pods", account).stdout == "no\n"
    assert kubectl("auth whoami -o jsonpath={.status.userInfo.username}") == "kubernetes-admin"
    assert kubectl.run("auth", "can-i", "--list", account).returncode == 0


def test_events_and_descriptions(kubectl: Local) -> None:
    """events lists what happened in order; describe of every kind ends with its own."""
    _web(kubectl, 1)
    reasons = {"ScalingReplicaSet", "SuccessfulCreate", "Scheduled", "Pulled", "Started"}
    eventually(lambda: reasons <= set(kubectl("events").split()), what="all events")
    assert "Scaled up replica set web-" in kubectl("describe deployment web")
    assert "Created pod: web-" in kubectl("describe replicaset")
    described = kubectl("describe node node-1")
    assert "KubeletReady" in described
    assert re.search(r"cpu +\d+m? \(\d+%\)", described)


def test_a_pod_that_fits_nowhere_says_why(kubectl: Local) -> None:
    """Pending, with upstream's message in its events and in its condition."""
    overrides = '{"spec":{"containers":[{"name":"big","image":"x","resources":{"requests":{"cpu":"64"}}}]}}'
    assert kubectl.run("run", "big", "--image=x", f"--overrides={overrides}").returncode == 0
    message = "0/3 nodes are available: 3 Insufficient cpu."
    eventually(lambda: message in kubectl("describe pod big"), what="the message")
    reason = "get pod big -o jsonpath={.status.conditions[?(@.type=='PodScheduled')].reason}"
    eventually(lambda: kubectl(reason) == "Unschedulable", what="the condition")


def test_a_bad_manifest_names_the_field(kubectl: Local) -> None:
    """A misspelt field, a wrong type and a broken rule are refused, each by its path."""
    for manifest, problem in (
        ("{name: a, imagee: x}", 'unknown field "spec.containers[0].imagee"'),
        ("{name: a, image: x, ports: [{containerPort: many}]}", "spec.containers.ports.containerPort"),
        ("{name: A_b, image: x}", "spec.containers[0].name: Invalid value"),
    ):
        text = f"---\n{{apiVersion: v1, kind: Pod, metadata: {{name: bad}}, spec: {{containers: [{manifest}]}}}}"
        done = kubectl.run("apply", "-f", "-", stdin=text)
        assert done.returncode != 0
        assert problem in done.stderr, done.stderr


def test_a_node_by_apply(kubectl: Local) -> None:
    """A Node object is enough: it becomes ready, pods run on it, and deleting it takes it away."""
    node = "metadata: {name: extra, labels: {disk: ssd}}\nstatus: {capacity: {cpu: '2'}}"
    kubectl("apply -f -", f"apiVersion: v1\nkind: Node\n{node}")
    kubectl("wait --for=condition=Ready node/extra --timeout=120s")
    overrides = '{"spec":{"nodeSelector":{"disk":"ssd"}}}'
    assert kubectl.run("run", "fast", "--image=nginx", f"--overrides={overrides}").returncode == 0
    kubectl("wait --for=condition=Ready pod/fast --timeout=120s")
    assert _pods(kubectl)[0]["spec"]["nodeName"] == "extra"
    kubectl("delete pod fast")
    kubectl("delete node extra")
