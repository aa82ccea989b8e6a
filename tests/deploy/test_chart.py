"""The Helm chart, with a real helm: it renders what kustomize renders, and its releases run on `kubesched up`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.parts import HELM, VARIABLE, find
from tests.kubectl.local import Local, eventually, local
from tests.pages import Script

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "kubesched"
WAIT = ("--wait", "--timeout=240s")
REPLACEMENT = ("--set=schedulerName=default-scheduler", "--set=leaderElection.resourceName=kube-scheduler")
PLUGIN = """
import kubesched


@kubesched.filter
def never(pod: kubesched.Pod, node: kubesched.NodeInfo) -> str:
    return "node(s) were reserved"
"""
LONG_LEASE = {"leaderElection": {"leaseDuration": "3600s", "renewDeadline": "1800s", "retryPeriod": "500ms"}}
"""An hour: a scheduler that did not release its lease when it was stopped would keep the next one waiting."""
INSTALLED = {"config": LONG_LEASE}
UPGRADED = {
    "schedulerName": "mine",
    "replicas": 1,
    "plugins": {"mine.py": PLUGIN},
    "config": {
        **LONG_LEASE,
        "profiles": [{"schedulerName": "mine", "plugins": {"multiPoint": {"enabled": [{"name": "never"}]}}}],
    },
}
EVERYTHING = """
image: {repository: registry.example.com/kubesched, digest: "sha256:%s"}
imagePullSecrets: [{name: pull}]
config: {podMaxBackoffSeconds: 20}
extraArgs: [--decision-history=100]
plugins: {mine.py: "import kubesched\\n"}
podAnnotations: {a: b}
podLabels: {c: d}
affinity: {nodeAffinity: {}}
serviceAccount: {annotations: {e: f}}
rbac: {extraRules: [{apiGroups: [example.com], resources: [things], verbs: [get]}]}
podDisruptionBudget: {enabled: true}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
prometheusRule: {enabled: true}
grafanaDashboard: {enabled: true}
""" % ("0" * 64)

pytestmark = [
    pytest.mark.skipif(
        find(part) is None, reason=f"no {part}: make parts builds it, or {VARIABLE} names a folder that holds it"
    )
    for part in (HELM, "kubectl")
]


def helm(*arguments: str, stdin: str = "", env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run helm, whatever its end."""
    command = [str(find(HELM)), *arguments]
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, check=False, env=env, timeout=300, cwd=ROOT
    )


def documents(text: str) -> dict[tuple[str, str], Any]:
    """Kubernetes objects by kind and name."""
    found = [each for each in yaml.safe_load_all(text) if each]
    by_name = {(each["kind"], each["metadata"]["name"]): each for each in found}
    assert len(by_name) == len(found)
    return by_name


def rendered(*arguments: str, stdin: str = "") -> dict[tuple[str, str], Any]:
    """What `helm template` makes of the chart, in kube-system."""
    done = helm("template", "kubesched", str(CHART), "--namespace=kube-system", *arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return documents(done.stdout)


def comparable(objects: dict[tuple[str, str], Any]) -> dict[tuple[str, str], Any]:
    """Objects without what the two tools add: labels of all objects, and how a changed configuration is noticed."""
    found = {}
    for (kind, name), each in objects.items():
        each["metadata"].pop("labels", None)
        if kind == "ConfigMap":
            name = each["metadata"]["name"] = "kubesched-config"
            each["data"] = {file: yaml.safe_load(text) for file, text in each["data"].items()}
        if kind == "Deployment":
            template = each["spec"]["template"]
            template["metadata"] = {"labels": {"app": template["metadata"]["labels"]["app"]}}
            template["spec"]["volumes"][0]["configMap"]["name"] = "kubesched-config"
        found[kind, name] = each
    return found


@pytest.mark.parametrize(("overlay", "flags"), [("second-scheduler", ()), ("replacement", REPLACEMENT)])
def test_the_chart_deploys_what_kustomize_does(overlay: str, flags: tuple[str, ...]) -> None:
    """The default values are the second scheduler; two of them make it the replacement."""
    command = [str(find("kubectl")), "kustomize", str(DEPLOY / "overlays" / overlay)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert comparable(rendered(*flags)) == comparable(documents(done.stdout))


@pytest.mark.parametrize("values", ["", EVERYTHING], ids=["defaults", "everything"])
def test_helm_lints_the_chart(values: str, tmp_path: Path) -> None:
    """No error and no warning, with the default values and with all that there are."""
    file = tmp_path / "values.yaml"
    file.write_text(values, "utf-8")
    done = helm("lint", "--strict", str(CHART), f"--values={file}")
    assert done.returncode == 0, done.stdout + done.stderr


def test_all_values_have_an_effect() -> None:
    """The optional objects are rendered, and plugins, configuration and image are where the scheduler finds them."""
    objects = rendered("--values=-", stdin=EVERYTHING)
    kinds = {kind for kind, _ in objects}
    assert {"PodDisruptionBudget", "Service", "ServiceMonitor", "PrometheusRule"} <= kinds
    template = objects["Deployment", "kubesched"]["spec"]["template"]
    assert template["metadata"]["labels"]["app.kubernetes.io/instance"] == "kubesched"  # kubectl logs -l finds them
    spec = template["spec"]
    (container,) = spec["containers"]
    assert container["image"] == f"registry.example.com/kubesched@sha256:{'0' * 64}"
    assert container["args"][2:] == ["--plugin=/etc/kubesched-plugins/mine.py", "--decision-history=100"]
    assert {"name": "plugins", "configMap": {"name": "kubesched-plugins"}} in spec["volumes"]
    assert spec["affinity"] == {"nodeAffinity": {}}
    config = yaml.safe_load(objects["ConfigMap", "kubesched-config"]["data"]["config.yaml"])
    assert (config["podMaxBackoffSeconds"], config["profiles"]) == (20, [{"schedulerName": "kubesched"}])
    assert objects["ClusterRole", "kubesched"]["rules"][-1]["resources"] == ["things"]
    rules = yaml.safe_load((DEPLOY / "prometheus/rules.yaml").read_text("utf-8"))
    assert objects["PrometheusRule", "kubesched"]["spec"] == rules
    dashboard = json.loads((DEPLOY / "grafana/kubesched.json").read_text("utf-8"))
    assert json.loads(objects["ConfigMap", "kubesched-dashboard"]["data"]["kubesched.json"]) == dashboard


def test_two_releases_do_not_collide() -> None:
    """A second release in a namespace of its own shares no cluster-wide name, and has its lease where it may write."""
    done = helm("template", "other", str(CHART), "--namespace=elsewhere")
    second = documents(done.stdout)
    assert not second.keys() & rendered().keys()
    config = yaml.safe_load(second["ConfigMap", "other-kubesched-config"]["data"]["config.yaml"])
    assert config["leaderElection"] == {"resourceName": "kubesched", "resourceNamespace": "elsewhere"}
    assert second["RoleBinding", "other-kubesched-authentication-reader"]["metadata"]["namespace"] == "kube-system"


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--set=replica=1", "replica"),
        ("--set=replicas=-1", "replicas"),
        ("--set=schedulerName=Not_A_Name", "schedulerName"),
        ("--set=leaderElection.enabled=false", "more than one needs leaderElection.enabled"),
        ("--set=plugins.mine=x", "plugins"),
        ("--set=extraArgs={v}", "extraArgs"),
    ],
)
def test_wrong_values_are_refused(flag: str, message: str) -> None:
    """The schema and the templates name the value that is wrong."""
    done = helm("template", "kubesched", str(CHART), flag)
    assert done.returncode != 0
    assert message in done.stderr


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Local]:
    """A cluster with one node."""
    with local(tmp_path, "--nodes=1") as running:
        yield running


def test_a_release_is_installed_upgraded_and_rolled_back(
    script: Callable[[str], Script], cluster: Local, tmp_path: Path
) -> None:
    """Installed as the guide says; each revision decides about the pods that name its scheduler, with its plugins;
    uninstalling leaves nothing."""

    def release(*arguments: str) -> str:
        done = helm(*arguments, "--namespace=kube-system", env=cluster.environment)
        assert done.returncode == 0, done.stderr or done.stdout
        return done.stdout

    def create(pod: str, scheduler: str) -> None:
        spec = json.dumps({"spec": {"schedulerName": scheduler}})
        done = cluster.run("run", pod, "--image=pause", f"--overrides={spec}")
        assert done.returncode == 0, done.stderr

    def becomes_bound(pod: str) -> None:
        eventually(lambda: cluster(f"get pod {pod} -o jsonpath={{.spec.nodeName}}"), what=f"{pod} is bound")

    def holder() -> str:
        return cluster("get lease kubesched -n kube-system -o jsonpath={.spec.holderIdentity}")

    def ready() -> list[str]:
        """The containers of the scheduler's pods, each with whether its process is ready."""
        shown = "-o jsonpath={.items[*].status.containerStatuses[*].ready}"
        return cluster(f"get pods -n kube-system -l app=kubesched {shown}").split()

    first, second = tmp_path / "first.json", tmp_path / "second.json"
    first.write_text(json.dumps(INSTALLED), "utf-8")
    second.write_text(json.dumps(UPGRADED), "utf-8")
    (install,) = script("docs/guides/deploy.md").words("helm")
    notes = release(*install, f"--values={first}", *WAIT)
    assert 'schedules pods with "schedulerName: kubesched"' in notes
    assert ready() == ["true", "true"]
    create("first", "kubesched")
    becomes_bound("first")
    leaders = [holder()]
    release("upgrade", "kubesched", str(CHART), f"--values={second}", *WAIT)
    create("second", "mine")
    eventually(lambda: "node(s) were reserved" in cluster("get events"), what="the plugin refused a pod")
    leaders.append(holder())
    release("rollback", "kubesched", "1", *WAIT)
    create("third", "kubesched")
    becomes_bound("third")
    leaders.append(holder())
    assert len(set(leaders)) == 3, "each revision leads after the one before has released the lease"
    history = json.loads(release("history", "kubesched", "--output=json"))
    assert [each["status"] for each in history] == ["superseded", "superseded", "deployed"]
    assert cluster("get deployment kubesched -n kube-system -o jsonpath={.spec.replicas}") == "2"
    release("uninstall", "kubesched", *WAIT)
    assert ready() == []
    kinds = "serviceaccount,configmap,deployment,role,rolebinding,clusterrole,clusterrolebinding"
    assert not cluster(f"get {kinds} -n kube-system -l app.kubernetes.io/managed-by=Helm -o name")
