"""The real kubectl against the embedded API server: what people type, and what they see."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.apiserver.kubectl import Kubectl, find_kubectl
from tests.apiserver.support import PATIENCE
from tests.apiserver.test_crd import definition

from kubesched.apiserver.http_server import HttpServer

PATH, REASON = find_kubectl()

pytestmark = [pytest.mark.kubectl, pytest.mark.skipif(not PATH, reason=REASON)]

NODE = """
apiVersion: v1
kind: Node
metadata: {{name: {name}, labels: {{kubernetes.io/hostname: {name}}}}}
status:
  capacity: {{cpu: "4", memory: 8Gi, pods: "110"}}
  conditions: [{{type: Ready, status: "True"}}]
"""

# The pods of the first seed document.
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


@pytest.fixture
def kubectl(server: HttpServer, tmp_path: Path) -> Kubectl:
    """kubectl as the cluster's admin."""
    config = tmp_path / "kubeconfig"
    server.write_kubeconfig(config)
    return Kubectl(tmp_path, config)


async def _node(kubectl: Kubectl, name: str = "n1") -> None:
    await kubectl("apply -f -", NODE.format(name=name))


async def _watched(server: HttpServer) -> None:
    """Wait until a kubectl watches pods."""
    async with asyncio.timeout(PATIENCE):
        while not server.api.store.shelf("/pods").watchers:
            await asyncio.sleep(0.01)


async def _bind(kubectl: Kubectl, pod: str, node: str = "n1") -> None:
    binding = f'{{"apiVersion":"v1","kind":"Binding","metadata":{{"name":"{pod}"}},"target":{{"name":"{node}"}}}}'
    await kubectl(f"create -f - --raw /api/v1/namespaces/default/pods/{pod}/binding", binding)


async def test_the_first_seed_document(kubectl: Kubectl) -> None:
    """Roles for a path, a binding, a token, a deployment and the sample pods, as typed there."""
    role = await kubectl("create clusterrole debug-flag-admin --verb=put --non-resource-url=/debug/flags/v")
    assert role == "clusterrole.rbac.authorization.k8s.io/debug-flag-admin created\n"
    binding = await kubectl(
        "create clusterrolebinding debug-flag-admin --clusterrole=debug-flag-admin --serviceaccount=default:default"
    )
    assert binding == "clusterrolebinding.rbac.authorization.k8s.io/debug-flag-admin created\n"
    token = await kubectl("create token default")
    assert token.startswith("eyJhbGciOiJSUzI1NiIsImtpZCI6I")
    account = "--as=system:serviceaccount:default:default"
    assert await kubectl(f"auth can-i put /debug/flags/v {account}") == "yes\n"
    deployed = await kubectl("create deployment demo-sched --image=nginx --port=80")
    assert deployed == "deployment.apps/demo-sched created\n"
    await kubectl("apply -f -", SAMPLES)
    wide = (await kubectl("get pod -o wide")).splitlines()
    columns = ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE", "NOMINATED NODE", "READINESS GATES"]
    assert wide[0].split() == " ".join(columns).split()
    assert wide[3].split()[:3] == ["sample-03", "0/1", "Pending"]


async def test_the_fourth_seed_document(kubectl: Kubectl) -> None:
    """A scheduler's configuration and deployment, a pod that waits, its event, and a label on a node."""
    await _node(kubectl)
    manifest = """
apiVersion: v1
kind: ConfigMap
metadata: {name: scheduler-config, namespace: kube-system}
data: {scheduler-config.yaml: "kind: KubeSchedulerConfiguration"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: test-scheduler}
spec:
  selector: {matchLabels: {app: test-scheduler}}
  template:
    metadata: {labels: {app: test-scheduler}}
    spec: {schedulerName: sample-scheduler, containers: [{name: nginx, image: "nginx:1.19.2-alpine"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: test}
spec: {schedulerName: sample-scheduler, containers: [{name: nginx, image: nginx}]}
"""
    assert (await kubectl("apply -f -", manifest)).count("created") == 3
    assert (await kubectl("apply -f -", manifest)).count("unchanged") == 3
    event = """
apiVersion: events.k8s.io/v1
kind: Event
metadata: {name: test.1, namespace: default}
eventTime: "2026-01-01T00:00:00.000000Z"
type: Warning
reason: FailedScheduling
action: Scheduling
note: "0/1 nodes are available: 1 Node: n1."
reportingController: sample-scheduler
reportingInstance: x
regarding: {kind: Pod, namespace: default, name: test, apiVersion: v1, uid: UID}
"""
    uid = await kubectl("get pod test -o jsonpath={.metadata.uid}")
    await kubectl("create -f -", event.replace("UID", uid))
    described = await kubectl("describe pod test")
    assert "FailedScheduling" in described
    assert "node.kubernetes.io/not-ready:NoExecute" in described
    assert "FailedScheduling" in await kubectl("events --for pod/test")
    assert await kubectl("label node n1 cpu=true") == "node/n1 labeled\n"
    assert await kubectl("get nodes -l cpu=true -o name") == "node/n1\n"


async def test_getting(kubectl: Kubectl, server: HttpServer) -> None:
    """Every form of output, selection by labels and fields, and a watch."""
    await kubectl("run a --image=nginx --labels=app=a")
    await kubectl("run b --image=nginx --labels=app=b")
    assert await kubectl("get pods -l app=a -o name") == "pod/a\n"
    assert await kubectl("get pods --field-selector metadata.name=b -o name") == "pod/b\n"
    assert await kubectl("get pod a -o jsonpath={.spec.containers[0].image}") == "nginx"
    assert "kind: Pod" in await kubectl("get pod a -o yaml")
    assert '"kind": "List"' in await kubectl("get pods -o json")
    assert (
        await kubectl("get pods --no-headers --sort-by=.metadata.name -o custom-columns=N:.metadata.name")
    ) == "a\nb\n"
    watching = asyncio.create_task(kubectl.until("get pods --watch --no-headers", "c     0/1   Pending"))
    await _watched(server)
    await kubectl("run c --image=nginx")
    await watching
    listed = await kubectl("get all -A")
    assert "service/kubernetes" in listed


async def test_changing(kubectl: Kubectl) -> None:
    """Labels, annotations, taints, the three patches, scale, images and a second apply."""
    await _node(kubectl)
    await kubectl("create deployment web --image=nginx:1 --replicas=2")
    await kubectl("label deployment web tier=front")
    await kubectl("annotate deployment web note=x")
    await kubectl("taint node n1 a=b:NoSchedule")
    assert await kubectl("get node n1 -o jsonpath={.spec.taints[0].key}") == "a"
    await kubectl("taint node n1 a-")
    for kind, patch in (
        ("strategic", '{"spec":{"template":{"spec":{"containers":[{"name":"nginx","image":"nginx:2"}]}}}}'),
        ("merge", '{"metadata":{"labels":{"tier":null}}}'),
        ("json", '[{"op":"replace","path":"/spec/replicas","value":3}]'),
    ):
        await kubectl(f"patch deployment web --type={kind} -p {patch}")
    await kubectl("scale deployment web --replicas=5")
    await kubectl("set image deployment/web nginx=nginx:3")
    await kubectl("rollout restart deployment/web")
    path = "{.spec.replicas}/{.spec.template.spec.containers[0].image}/{.metadata.labels.tier}"
    assert await kubectl(f"get deployment web -o jsonpath={path}") == "5/nginx:3/"
    dry = await kubectl("create deployment dry --image=x --dry-run=server -o name")
    assert dry == "deployment.apps/dry\n"
    assert (await kubectl.run("get", "deployment", "dry")).code == 1


async def test_draining(kubectl: Kubectl) -> None:
    """A node is cordoned and drained; a budget that is used up holds its pod."""
    await _node(kubectl)
    await kubectl("run held --image=nginx")
    await _bind(kubectl, "held")
    ready = '{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}'
    await kubectl(f"patch pod held --subresource=status -p {ready}")
    await kubectl("create pdb budget --selector=run=held --min-available=1")
    counted = '{"status":{"observedGeneration":1,"desiredHealthy":1,"currentHealthy":1,"disruptionsAllowed":0}}'
    await kubectl(f"patch pdb budget --subresource=status --type=merge -p {counted}")
    async with asyncio.timeout(PATIENCE):
        drained = await kubectl.run("drain", "n1", "--force", "--timeout=1s")
        while "Cannot evict pod as it would violate the pod's disruption budget." not in drained.err:
            drained = await kubectl.run("drain", "n1", "--force", "--timeout=10s")
    assert drained.code == 1
    assert "SchedulingDisabled" in await kubectl("get nodes")
    await kubectl("delete pdb budget")
    async with asyncio.timeout(PATIENCE):
        while "Terminating" not in await kubectl("get pod held"):
            drained = await kubectl.run("drain", "n1", "--force", "--timeout=1s")
    assert "evicting pod default/held" in drained.out
    assert await kubectl("uncordon n1") == "node/n1 uncordoned\n"


async def test_deleting(kubectl: Kubectl, server: HttpServer) -> None:
    """At once, by force, in the foreground, orphaning, and waiting for it."""
    await kubectl("run a --image=nginx")
    await _bind(kubectl, "a")
    await kubectl("delete pod a --wait=false")
    assert "Terminating" in await kubectl("get pod a")
    await kubectl("delete pod a --force")
    for cascade, finalizer in (("foreground", "foregroundDeletion"), ("orphan", "orphan")):
        await kubectl(f"create deployment {cascade} --image=x")
        await kubectl(f"delete deployment {cascade} --cascade={cascade} --wait=false")
        path = f"get deployment {cascade} -o jsonpath={{.metadata.finalizers[0]}}"
        assert await kubectl(path) == finalizer
    await kubectl("create configmap c --from-literal=a=b")
    assert "deleted" in await kubectl("delete configmap c")
    await kubectl("run b --image=nginx")
    waiting = asyncio.create_task(kubectl(f"wait --for=delete pod/b --timeout={PATIENCE:g}s"))
    await _watched(server)
    await kubectl("delete pod b")
    assert "condition met" in await waiting


async def test_a_bad_manifest_names_the_field(kubectl: Kubectl) -> None:
    """Unknown fields, wrong types and broken rules have different messages, each with the field."""
    bad = "apiVersion: v1\nkind: Pod\nmetadata: {{name: x}}\n"
    bad += "spec: {{{extra} containers: [{{name: c, image: {image}}}]}}\n"
    cases = {
        bad.format(extra="conatiners: [],", image="x"): 'unknown field "spec.conatiners"',
        bad.format(extra="priority: high,", image="x"): "of type int32",
        bad.format(extra="restartPolicy: Sometimes,", image="x"): "spec.restartPolicy: Unsupported value",
        bad.format(extra="", image='""'): "spec.containers[0].image: Required value",
    }
    for manifest, text in cases.items():
        result = await kubectl.run("apply", "-f", "-", stdin=manifest)
        assert result.code == 1
        assert text in result.err


async def test_server_side_apply(kubectl: Kubectl) -> None:
    """kubectl applies on the server, reports conflicts, takes fields over by force, and shows differences."""
    manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: ssa}}\ndata: {{a: {value}}}\n"
    command = ["apply", "--server-side", "-f", "-"]
    first = await kubectl.run(*command, stdin=manifest.format(value="one"))
    assert first.out == "configmap/ssa serverside-applied\n"
    other = [*command, "--field-manager=other"]
    conflict = await kubectl.run(*other, stdin=manifest.format(value="two"))
    assert 'Apply failed with 1 conflict: conflict with "kubectl": .data.a' in conflict.err
    forced = await kubectl.run(*other, "--force-conflicts", stdin=manifest.format(value="two"))
    assert forced.code == 0, forced.err
    shown = await kubectl.run("diff", *command[1:], "--force-conflicts", stdin=manifest.format(value="three"))
    assert "-  a: two\n+  a: three" in shown.out, shown.err


async def test_asking(kubectl: Kubectl, server: HttpServer, tmp_path: Path) -> None:
    """api-resources, explain and auth can-i."""
    assert "v1.36" in await kubectl("version")
    resources = await kubectl("api-resources --no-headers")
    assert "deployments" in resources
    explained = await kubectl("explain pod.spec.containers")
    assert "FIELD: containers <[]Container>" in explained
    assert "image" in explained
    assert "yes" in await kubectl("auth can-i create pods")
    assert "kubernetes-admin" in await kubectl("auth whoami")
    config = tmp_path / "jane"
    server.write_kubeconfig(config, "jane", server.identity.authority.client_pair("jane"))
    jane = Kubectl(tmp_path, config)
    assert (await jane.run("auth", "can-i", "create", "pods")).out == "no\n"
    assert 'User "jane" cannot list resource "pods"' in (await jane.run("get", "pods")).err


async def test_custom_resources(kubectl: Kubectl, tmp_path: Path) -> None:
    """A definition is applied and waited for; its objects are applied, listed, scaled and explained."""
    body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", **definition()}
    await kubectl("apply -f -", json.dumps(body))
    await kubectl("wait --for=condition=Established crd/crontabs.stable.example.com")
    manifest = "apiVersion: stable.example.com/v1\nkind: CronTab\nmetadata: {name: a}\nspec: {cron: '* *'}\n"
    assert await kubectl("apply -f -", manifest) == "crontab.stable.example.com/a created\n"
    assert (
        await kubectl("apply -f -", manifest.replace("'* *'", "'1 *'")) == "crontab.stable.example.com/a configured\n"
    )
    assert await kubectl("get ct a -o jsonpath={.spec.cron}") == "1 *"
    assert "cron" in await kubectl("explain crontab.spec")
