"""The commands of the README and of five guides can be typed as they are, all on one cluster."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.kubectl.local import ROOT, Local, eventually, local
from tests.pages import lines, typed

from kubesched.cli.main import main

README = ROOT / "README.md"
GUIDES = [ROOT / "docs/guides" / page for page in ("pending.md", "snapshots.md", "whatif.md")]
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


def block(page: Path, language: str, beginning: str) -> str:
    """The block of a page that contains some text."""
    found = re.findall(rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return next(str(each) for each in found if beginning in each)


@pytest.fixture(scope="module")
def typing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """The cluster of the README, with more nodes, and the files that the pages name in its folder."""
    folder = tmp_path_factory.mktemp("pages")
    plugin = block(README, "python", "def has_licence")
    for name in ("licences.py", "mine.py", "rule.py"):
        (folder / name).write_text(plugin, "utf-8")
    for name in ("packed.yaml", "other.yaml", "new.yaml"):
        (folder / name).write_text(CONFIG, "utf-8")
    for name in ("web", "train"):
        pod = f"{{containers: [{{name: c, image: {name}, resources: {{requests: {{cpu: 1}}}}}}]}}"
        (folder / f"{name}.yaml").write_text(f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {pod}\n")
    (folder / "types.yaml").write_text(block(GUIDES[2], "yaml", "nodeTypes:"), "utf-8")
    shutil.copy(ROOT / "examples/scenarios/node10.py", folder / "day.py")
    (command,) = (words for words in typed(README, "kubesched") if words[0] == "up")
    flags = [word.replace("licences.py", str(folder / "licences.py")) for word in command[1:] if "nodes" not in word]
    with local(folder, "--nodes=9", *flags) as running:
        yield running


def test_the_readme(typing: Local) -> None:
    """Its plugin keeps a pod pending with the message that the page shows, until a node has the licence."""
    commands = [line.partition("  #")[0].strip() for line in lines(README) if line.startswith("kubectl ")]
    assert len(commands) == 4
    run, describe, label, get = commands
    typing.shell(run)
    eventually(lambda: "FailedScheduling" in typing.shell(describe), what="an attempt")
    assert "9 node(s) had no licence for matlab" in typing.shell(describe)
    typing.shell(label)
    typing("wait --for=condition=Ready pod/solver --timeout=120s")
    assert re.search(r"^solver +1/1 +Running .* node-2 ", typing.shell(get.removesuffix(" --watch")), re.MULTILINE)


def test_the_custom_resources_of_contrib(typing: Local) -> None:
    """`kubectl apply -k deploy/contrib` works where the definitions are there already."""
    (words,) = typed(ROOT / "docs/guides/contrib.md", "kubectl")
    printed = typing.shell(f"cd {ROOT} && kubectl create namespace kubesched && kubectl {' '.join(words)}")
    assert "podgroups.scheduling.x-k8s.io" in printed


@pytest.mark.parametrize(
    ("page", "expected"),
    [("history.md", '"kind": "PodScheduling"'), ("deploy.md", "scheduler_schedule_attempts_total")],
)
def test_asking_the_scheduler(typing: Local, page: str, expected: str) -> None:
    """Roles, bindings, a token and curl, as the pages say: what is behind authorization is shown."""
    script = [
        line for line in lines(ROOT / "docs/guides" / page) if line.startswith(("kubectl create", "TOKEN=", "curl"))
    ]
    assert len(script) >= 5
    typing.shell("kubectl get pod web || kubectl run web --image=nginx")
    eventually(lambda: "Running" in typing("get pod web"), 120, "the pod runs")
    for line in script:
        if line.startswith("kubectl"):
            typing.shell(line)
    asking = "\n".join(line for line in script if not line.startswith("kubectl"))
    asking = asking.replace("10259", str(typing.secure_port)).replace("curl -k", "curl -sfk")
    assert expected in typing.shell(asking)


def test_questions_about_a_running_cluster(typing: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command of the pages succeeds; where the answer is no, the exit code is 3."""
    typing("apply -f -", stdin=MANIFEST)
    typing("taint node node-2 gpu=yes:NoSchedule")
    monkeypatch.chdir(typing.folder)
    monkeypatch.setenv("KUBECONFIG", str(typing.kubeconfig))
    recorded = {"8h": "1s", "r.jsonl.gz": "monday.jsonl.gz", "5": "2"}
    commands = [[recorded.get(word, word) for word in words] for page in GUIDES for words in typed(page, "kubesched")]
    commands = sorted((words for words in commands if words[0] != "up"), key=lambda words: "monday.jsonl.gz" in words)
    assert len(commands) > 15
    for words in commands:
        done = CliRunner().invoke(main, words)
        assert done.exit_code in (0, 3), f"{words}: {done.output}\n{done.exception!r}"
