"""Schedulers deployed as pods: the example's deployment as it is, one that cannot start, and one with a host's file."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator

import pytest
from tests.kubectl.local import ROOT, Local, eventually, local

SAMPLE = ROOT / "examples/sample2"
STATIC = """
apiVersion: v1
kind: Pod
metadata: {name: kube-scheduler, namespace: kube-system}
spec:
  containers:
  - name: kube-scheduler
    image: registry.k8s.io/kube-scheduler:v1.36.0
    command: [kube-scheduler, --kubeconfig=/etc/kubernetes/scheduler.conf, --leader-elect=false, --secure-port=10259]
    volumeMounts: [{name: kubeconfig, mountPath: /etc/kubernetes/scheduler.conf}]
  volumes: [{name: kubeconfig, hostPath: {path: /etc/kubernetes/scheduler.conf}}]
"""


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """A cluster with two nodes."""
    with local(tmp_path_factory.mktemp("pods"), "--nodes=2") as running:
        yield running


def test_the_example_is_deployed_as_it_is(deployed: Local) -> None:
    """Its ConfigMap has the configuration and the plugin; its pods wait for a label; kubectl shows its log."""
    deployed(f"apply -f {SAMPLE}/sample-scheduler.yaml -f {SAMPLE}/test-scheduler.yaml")
    deployed("rollout status deployment/sample-scheduler -n kube-system")
    # It was not ready before its process served.
    assert "Serving securely on 127.0.0.1:" in deployed("logs deployment/sample-scheduler -n kube-system")
    eventually(lambda: "1 Node: node-1, 1 Node: node-2" in deployed("get events"), what="the scheduler has tried")
    deployed("label node node-1 cpu=true")
    deployed("rollout status deployment/test-scheduler")
    log = deployed("logs deployment/sample-scheduler -n kube-system")
    assert '"Successfully bound pod to node"' in log
    assert len(deployed("logs deployment/sample-scheduler -n kube-system --tail=2").splitlines()) == 2
    restarts_when_killed(deployed)
    deployed(f"delete -f {SAMPLE}/sample-scheduler.yaml")


def restarts_when_killed(deployed: Local) -> None:
    """Kill the example's process: the pod is ready again when the new one serves. kubectl shows the logs of both."""
    (process,) = re.findall(r"The scheduler runs as process (\d+)", deployed("get events -n kube-system"))
    os.kill(int(process), signal.SIGKILL)
    pod = "-n kube-system -l component=sample-scheduler -o jsonpath={.items[0].status.containerStatuses[0]"
    eventually(lambda: deployed(f"get pods {pod}.restartCount}}") == "1", what="the container was restarted")
    eventually(lambda: deployed(f"get pods {pod}.ready}}") == "true", what="the container is ready again")
    assert deployed(f"get pods {pod}.lastState.terminated.exitCode}}") == "137"
    log, before = (deployed(f"logs deployment/sample-scheduler -n kube-system{each}") for each in ("", " --previous"))
    assert "Serving securely on 127.0.0.1:" in log
    assert '"Successfully bound pod to node"' not in log
    assert '"Successfully bound pod to node"' in before


def test_a_scheduler_that_cannot_start_is_restarted_with_back_off(deployed: Local) -> None:
    """Its pod ends with the exit code, and an event has the error."""
    pod = STATIC.replace("--leader-elect=false", "--no-such-flag").replace("kube-scheduler, n", "broken, n")
    deployed("apply -f -", pod)
    eventually(lambda: "unknown flag: --no-such-flag" in deployed("get events -n kube-system"), what="the event")
    eventually(lambda: "CrashLoopBackOff" in deployed("get pod broken -n kube-system"), what="the back-off")
    assert "unknown flag: --no-such-flag" in deployed("logs broken -n kube-system")
    assert "True" not in deployed("get pod broken -n kube-system -o jsonpath={.status.conditions[?(@.type=='Ready')]}")
    deployed("delete pod broken -n kube-system")


def test_a_deleted_scheduler_releases_its_lease(deployed: Local) -> None:
    """Its process is asked to end, and leaves the lease without a holder, so that the next one need not wait."""
    deployed("apply -f -", STATIC.replace("--leader-elect=false", "--leader-elect=true"))
    holder = ("get", "lease", "kube-scheduler", "-n", "kube-system", "-o", "jsonpath={.spec.holderIdentity}")
    eventually(lambda: deployed.run(*holder).stdout, what="it leads")
    deployed("delete pod kube-scheduler -n kube-system")
    eventually(lambda: deployed(" ".join(holder)) == "", what="the lease has no holder")


def test_without_programs_an_event_says_so(deployed: Local) -> None:
    """A program with a service account of its own would act on the cluster, but nothing runs."""
    deployed("create serviceaccount operator")
    spec = "{serviceAccountName: operator, containers: [{name: main, image: operator}]}"
    deployed("apply -f -", f"apiVersion: v1\nkind: Pod\nmetadata: {{name: operator}}\nspec: {spec}\n")
    eventually(lambda: "No program runs in this container" in deployed("get events"), what="the event")
    assert "no program runs in it" in deployed("logs operator")


WRONG = """
apiVersion: v1
kind: ConfigMap
metadata: {name: wrong}
data:
  config.yaml: |
    {apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, parallelism: -1}
---
apiVersion: v1
kind: Pod
metadata: {name: wrong}
spec:
  containers:
  - name: scheduler
    image: kube-scheduler
    command: [kube-scheduler, --config=/etc/scheduler/config.yaml]
    volumeMounts: [{name: config, mountPath: /etc/scheduler}]
  volumes: [{name: config, configMap: {name: wrong}}]
"""


def test_an_error_in_a_configuration_names_the_mounted_file(deployed: Local) -> None:
    """Event and log have the path in the container, not that of a temporary copy."""
    deployed("apply -f -", WRONG)
    eventually(lambda: "SchedulerEnded" in deployed("get events"), what="the event")
    event = next(line for line in deployed("get events").splitlines() if "SchedulerEnded" in line)
    eventually(lambda: "CrashLoopBackOff" in deployed("get pod wrong"), what="the back-off")
    log = deployed("logs wrong")
    deployed("delete pod wrong")
    for text in (event, log):
        assert "/etc/scheduler/config.yaml: parallelism" in text
        assert "kubesched-pod-" not in text


def is_running(process: str) -> bool:
    """Whether a process is there, and not only its exit code."""
    found = subprocess.run(["ps", "-o", "stat=", "-p", process], capture_output=True, text=True, check=False)
    return found.stdout.strip()[:1] not in ("", "Z")


def test_a_static_pods_manifest_schedules_a_cluster_without_a_scheduler(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """kubeadm's manifest of kube-scheduler, bound to a node by hand, schedules with --no-scheduler. Its process does
    not outlive the cluster, even if that is killed."""
    with local(tmp_path_factory.mktemp("static"), "--nodes=1", "--no-scheduler") as cluster:
        cluster("apply -f -", STATIC.replace("spec:\n", "spec:\n  nodeName: node-1\n", 1))
        cluster("create deployment web --image=nginx")
        cluster("rollout status deployment/web")
        processes = re.findall(r"The scheduler runs as process (\d+)", cluster("get events -n kube-system"))
        assert any(map(is_running, processes))
        cluster.process.kill()
        eventually(lambda: not any(map(is_running, processes)), what="the scheduler has ended")
