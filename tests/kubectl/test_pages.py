"""The commands of the README, of guides and of the reference can be typed as they are, most of them on one cluster."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.kubectl.local import ROOT, Local, eventually, local
from tests.pages import Script, type_in

from kubesched.cli.main import main

README = ROOT / "README.md"
CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
MANIFEST = """
apiVersion: v1
kind: Node
metadata: {name: pool-a-1, labels: {topology.kubernetes.io/zone: a}}
---
apiVersion: v1
kind: Pod
metadata: {name: big}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 90}}}]}
"""
QUESTIONS = (
    "docs/guides/pending.md",
    "docs/guides/snapshots.md",
    "docs/guides/whatif.md",
    "docs/reference/commands.md",
)
OTHERS = {
    "8h": "1s",
    "5": "2",
    "r.jsonl.gz": "monday.jsonl.gz",
    "n7": "node-7",
    "web-1": "web",
    "shop/web-1": "big",
    "default/big": "big",
}
"""Words that are others here: less time, fewer runs, one recording, and what this cluster has."""


def block(page: Path, language: str, beginning: str) -> str:
    """The block of a page that contains some text."""
    found = re.findall(rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return next(str(each) for each in found if beginning in each)


@pytest.fixture(scope="module")
def typing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """A cluster, and the files that the pages name in its folder."""
    folder = tmp_path_factory.mktemp("pages")
    for name in ("mine.py", "rule.py"):
        (folder / name).write_text(block(README, "python", "def has_licence"), "utf-8")
    for name in ("packed.yaml", "other.yaml", "new.yaml"):
        (folder / name).write_text(CONFIG, "utf-8")
    for name in ("web", "train", "db", "batch", "pod"):
        pod = f"{{containers: [{{name: c, image: {name}, resources: {{requests: {{cpu: 1}}}}}}]}}"
        (folder / f"{name}.yaml").write_text(f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {pod}\n")
    (folder / "types.yaml").write_text(block(ROOT / "docs/guides/whatif.md", "yaml", "nodeTypes:"), "utf-8")
    shutil.copy(ROOT / "examples/scenarios/node10.py", folder / "day.py")
    report = CliRunner().invoke(main, ["compare", "default", "--from", str(folder / "day.py"), "-o", "json"])
    (folder / "before.json").write_text(report.stdout, "utf-8")
    with local(folder, "--nodes=9") as running:
        yield running


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_a_first_cluster(script: Callable[[str], Script], page: str, tmp_path: Path) -> None:
    """The plugin of the page keeps a pod pending with the message that it shows, until a node has the licence."""
    plugin = tmp_path / "licences.py"
    plugin.write_text(block(README, "python", "def has_licence"), "utf-8")
    commands = script(page)
    ((_, *flags),) = commands.words("kubesched up")
    with local(tmp_path, *(word.replace("licences.py", str(plugin)) for word in flags)) as cluster:
        cluster.shell("\n".join(commands.take("export", "kubectl run")))
        (describe,) = commands.take("kubectl describe")
        eventually(lambda: "FailedScheduling" in cluster.shell(describe), what="an attempt")
        assert "0/5 nodes are available: 5 node(s) had no licence for matlab." in cluster.shell(describe)
        cluster.shell("\n".join(commands.take("kubectl label")))
        cluster("wait --for=condition=Ready pod/solver --timeout=120s")
        (get,) = commands.take()
        assert re.search(r"^solver +1/1 +Running .* node-2 ", cluster.shell(get.removesuffix(" --watch")), re.MULTILINE)


def test_the_help_of_up(script: Callable[[str], Script], tmp_path: Path) -> None:
    """A cluster with a rule of one's own, and kubectl beside it."""
    rule = tmp_path / "rule.py"
    rule.write_text(block(README, "python", "def has_licence").replace("has_licence", "my_rule"), "utf-8")
    commands = script("docs/reference/commands.md")
    ((_, *flags),) = commands.words("kubesched up")
    with local(tmp_path, *(word.replace("rule.py", str(rule)) for word in flags)) as cluster:
        assert "deployment.apps/web created" in cluster.shell("\n".join(commands.take()))


def test_the_custom_resources_of_contrib(script: Callable[[str], Script], typing: Local) -> None:
    """`kubectl apply -k deploy/contrib` works where the definitions are there already."""
    (command,) = script("docs/guides/contrib.md").take()
    printed = typing.shell(f"cd {ROOT} && kubectl create namespace kubesched && {command}")
    assert "podgroups.scheduling.x-k8s.io" in printed


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("docs/guides/history.md", '"kind": "PodScheduling"'),
        ("docs/guides/deploy.md", "scheduler_schedule_attempts_total"),
        ("docs/reference/commands.md", "successfully set klog.logging.verbosity to 5"),
    ],
)
def test_asking_the_scheduler(script: Callable[[str], Script], typing: Local, page: str, expected: str) -> None:
    """Roles, bindings, a token and curl, as the pages say: what is behind authorization is shown."""
    commands = script(page)
    typing.shell("kubectl get pod web || kubectl run web --image=nginx")
    eventually(lambda: "Running" in typing("get pod web"), 120, "the pod runs")
    asking = commands.take("TOKEN=", "curl")
    if commands.left:
        typing.shell("\n".join(commands.take()))
    else:
        typing("create clusterrolebinding everything --clusterrole=cluster-admin --serviceaccount=default:default")
        asking.insert(0, "TOKEN=$(kubectl create token default)")
    typed = "\n".join(asking).replace("10259", str(typing.secure_port)).replace("curl -k", "curl -sfk")
    assert expected in typing.shell(typed)


def test_questions_about_a_running_cluster(
    script: Callable[[str], Script], typing: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command of the pages gets an answer, and the cluster that was saved can be started again."""
    typing("apply -f -", stdin=MANIFEST)
    typing.shell("kubectl get pod web || kubectl run web --image=nginx")
    typing("taint node node-2 gpu=yes:NoSchedule")
    monkeypatch.chdir(typing.folder)
    monkeypatch.setenv("KUBECONFIG", str(typing.kubeconfig))
    pages = [script(page) for page in QUESTIONS]
    started = {command for page in pages for command in page.left if command.startswith("kubesched up ")}
    commands = [command for page in pages for command in page.take() if command not in started]
    # What is asked about files comes after what writes them.
    for command in sorted(commands, key=lambda each: not each.startswith(("kubesched snapshot", "kubesched record"))):
        type_in(command, **OTHERS)
    (command,) = started
    folder = typing.folder / "restored"
    folder.mkdir()
    with local(folder, command.split()[-1].replace("=", f"={typing.folder}/")) as restored:
        assert "pool-a-1" in restored("get nodes")
