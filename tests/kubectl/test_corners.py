"""Corners that people run into with kubectl: lists, kinds that are not served, containers that are not there."""

from __future__ import annotations

import json
import re

from tests.kubectl.local import Local, eventually

LIST = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {a: b}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: two}}
"""

CRON = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crons.stable.example.com}
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: crons, singular: cron, kind: Cron}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {replicas: {type: integer, minimum: 1, description: How many.}}}
"""

GATED = """
apiVersion: v1
kind: Pod
metadata: {name: gated}
spec: {schedulingGates: [{name: wait}], containers: [{name: main, image: nginx}]}
"""


def _refused(kubectl: Local, *words: str, stdin: str = "") -> str:
    done = kubectl.run(*words, stdin=stdin)
    assert done.returncode != 0, done.stdout
    return done.stderr


def test_a_list_of_objects(kubectl: Local) -> None:
    """kubectl checks the items of a List itself, against what OpenAPI says; what get prints can be applied again."""
    assert kubectl("create -f -", LIST) == "configmap/one created\nconfigmap/two created\n"
    wrong = _refused(kubectl, "create", "-f", "-", stdin=LIST.replace("data:", "date:"))
    assert 'unknown field "date" in io.k8s.api.core.v1.ConfigMap' in wrong
    listed = kubectl("get configmap one two -o yaml")
    kubectl("delete configmap one two")
    assert "configmap/two created" in kubectl("apply -f -", listed)


def test_a_kind_that_is_not_served(kubectl: Local) -> None:
    """The error names the kind, as on every cluster."""
    for version, kind in (("v1", "Podd"), ("networking.k8s.io/v1beta1", "Ingress")):
        words = _refused(kubectl, "apply", "-f", "-", stdin=f"apiVersion: {version}\nkind: {kind}\n")
        assert f'no matches for kind "{kind}" in version "{version}"' in words


def test_what_needs_a_container_says_that_there_is_none(kubectl: Local) -> None:
    """exec, attach, cp and port-forward; the log says what happened to the container."""
    kubectl("run one --image=nginx")
    kubectl("wait --for=condition=Ready pod/one --timeout=120s")
    assert "container one started\nkubesched up simulates this container: no program runs in it" in kubectl("logs one")
    for words in ("exec one -- ls", "attach one", "cp one:/a /tmp/a", "port-forward one 0:80"):
        assert "simulated and run no containers" in _refused(kubectl, *words.split()), words


def test_debugging(kubectl: Local) -> None:
    """A container that is added to a pod runs, and describe shows it."""
    kubectl("run one --image=nginx")
    kubectl("wait --for=condition=Ready pod/one --timeout=120s")
    assert kubectl.run("debug", "one", "--image=busybox", "--container=helper", "--", "sh").returncode == 0
    state = "get pod one -o jsonpath={.status.ephemeralContainerStatuses[0].state.running}"
    eventually(lambda: "startedAt" in kubectl(state), what="it runs")
    assert re.search(r"Ephemeral Containers:\n +helper:[^$]*State: +Running", kubectl("describe pod one"))


def test_a_gated_pod(kubectl: Local) -> None:
    """It is shown as gated, and scheduled when the gate is gone."""
    kubectl("apply -f -", GATED)
    assert re.search(r"gated +0/1 +SchedulingGated ", kubectl("get pods"))
    open_ = '[{"op":"remove","path":"/spec/schedulingGates"}]'
    assert kubectl.run("patch", "pod", "gated", "--type=json", "-p", open_).returncode == 0
    kubectl("wait --for=condition=Ready pod/gated --timeout=120s")


def test_fields_that_select(kubectl: Local) -> None:
    """Equal and unequal, and an error that lists what a kind can be selected by."""
    kubectl("create configmap one")
    kubectl("create configmap two")
    assert kubectl("get configmap --field-selector=metadata.name!=one -o name").split() == [
        "configmap/kube-root-ca.crt",
        "configmap/two",
    ]
    words = _refused(kubectl, "get", "configmap", "--field-selector=data.a=b")
    assert '"data.a" is not a known field selector: only "metadata.name", "metadata.namespace"' in words


def test_a_custom_kind(kubectl: Local) -> None:
    """Served, explained and checked as soon as its definition is there."""
    kubectl("apply -f -", CRON)
    kubectl("wait --for=condition=Established crd/crons.stable.example.com --timeout=120s")
    assert "How many." in kubectl("explain cron.spec.replicas")
    kind = "apiVersion: stable.example.com/v1\nkind: Cron"
    kubectl("apply -f -", f"{kind}\nmetadata: {{name: a}}\nspec: {{replicas: 2}}\n")
    wrong = _refused(kubectl, "apply", "-f", "-", stdin=f"{kind}\nmetadata: {{name: b}}\nspec: {{replicas: 0}}\n")
    assert "spec.replicas in body should be greater than or equal to 1" in wrong
    kubectl("delete crd crons.stable.example.com")


def test_apply_edit_diff_replace(kubectl: Local) -> None:
    """Three ways to change an object, each with only its own changes; nothing to do is nothing done."""
    drafted = kubectl("create deployment web --image=nginx:1 --dry-run=client -o yaml")
    # Before 1.34 kubectl writes this down, and then takes every apply of it for a change.
    text = re.sub(r"\n *creationTimestamp: null", "", drafted)
    kubectl("apply -f -", text)
    assert kubectl("apply -f -", text) == "deployment.apps/web unchanged\n"
    kubectl("set env deployment/web A=b")
    limited = text.replace("resources: {}", "resources: {limits: {cpu: 100m}}")
    changed = kubectl.run("diff", "-f", "-", stdin=limited)
    assert changed.returncode == 1
    assert "cpu: 100m" in changed.stdout
    assert "requests" not in changed.stdout
    kubectl("apply -f -", limited)
    assert kubectl.run("diff", "-f", "-", stdin=limited).returncode == 0
    kubectl.shell("EDITOR='sed -i s/nginx:1/nginx:2/' kubectl edit deployment web")
    (container,) = json.loads(kubectl("get deployment web -o json"))["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["env"]) == ("nginx:2", [{"name": "A", "value": "b"}])
    assert "replaced" in kubectl("replace --force -f -", text)


def test_an_unhappy_namespace_says_why_it_stays(kubectl: Local) -> None:
    """Its conditions name the finalizer that holds it."""
    kubectl("create namespace stuck")
    metadata = "{name: held, namespace: stuck, finalizers: [example.com/hold]}"
    kubectl("create -f -", f"apiVersion: v1\nkind: ConfigMap\nmetadata: {metadata}\n")
    kubectl("delete namespace stuck --wait=false")
    eventually(lambda: "example.com/hold in 1 resource instances" in kubectl("describe namespace stuck"), what="why")
    assert "Terminating" in kubectl("get namespace stuck")
    free = '{"metadata":{"finalizers":null}}'
    assert kubectl.run("patch", "configmap", "held", "-n", "stuck", "--type=merge", "-p", free).returncode == 0
    kubectl("wait --for=delete namespace/stuck --timeout=120s")
