"""The commands of the guides that start schedulers and web pages can be typed, on a cluster without a scheduler."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from tests.kubectl.local import KUBESCHED, PATIENCE, ROOT, Local, eventually, free_port, local
from tests.pages import Script

REFERENCE = "docs/reference/commands.md"
PLUGIN = """
import kubesched


@kubesched.filter
def QuietHours(pod, node):
    return None
"""
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: QuietHours}]}}}]
"""
NAMES = count(1)


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """A cluster whose pods wait for the scheduler that a page starts, and the files that pages name."""
    folder = tmp_path_factory.mktemp("daemons")
    (folder / "plugins").mkdir()
    for file in ("quiet_hours.py", "plugins/quiet_hours.py"):
        (folder / file).write_text(PLUGIN, "utf-8")
    (folder / "scheduler.yaml").write_text(CONFIG, "utf-8")
    with local(folder, "--nodes=3", "--no-scheduler", "--ui=false") as running:
        shutil.copy(running.kubeconfig, folder / ".kube/config")
        yield running


@contextmanager
def daemon(cluster: Local, words: Sequence[str]) -> Iterator[Path]:
    """A command that runs until it is stopped, in the folder of the cluster; it ends well. Returns what it prints."""
    log = cluster.folder / f"log-{next(NAMES)}"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*KUBESCHED, *words], stdout=out, stderr=subprocess.STDOUT, cwd=cluster.folder, env=cluster.environment
        )
    try:
        yield log
        assert process.poll() is None, log.read_text("utf-8")
    finally:
        process.terminate()
        code = process.wait(PATIENCE)
    assert code == 0, log.read_text("utf-8")


def schedule_one(cluster: Local, words: Sequence[str], scheduler: str = "default-scheduler") -> str:
    """Create a pod, and wait until the scheduler that a command starts has bound it. Returns its name."""
    name = f"pod-{next(NAMES)}"
    spec = json.dumps({"spec": {"schedulerName": scheduler}})
    cluster.run("run", name, "--image=nginx", f"--overrides={spec}")
    with daemon(cluster, [*words, f"--secure-port={free_port()}"]):
        eventually(lambda: "Scheduled" in cluster(f"events --for=pod/{name}"), what=f"{name} is scheduled")
    if scheduler == "default-scheduler":
        holder = "get lease kube-scheduler -n kube-system -o jsonpath={.spec.holderIdentity}"
        assert cluster(holder) == "", "a scheduler that is asked to end releases its lease"
    return name


def test_plugins(script: Callable[[str], Script], waiting: Local) -> None:
    """Each command of the guide starts a scheduler with the plugin, and it binds a pod."""
    commands = script("docs/guides/plugins.md").words()
    assert len(commands) == 3
    for words in commands:
        schedule_one(waiting, words)


def test_the_history(script: Callable[[str], Script], waiting: Local) -> None:
    """Decisions are in the files, on the pods and in the events that the page names, and its jq can read them."""
    page = script("docs/guides/history.md")
    waiting.shell("\n".join(page.take("kubectl")).replace("system:kube-scheduler", "admin"))
    pods = {words[1]: schedule_one(waiting, words) for words in page.words("kubesched")}
    (asking,) = page.take()
    assert len(pods) == 6
    assert waiting.shell(asking) == "", "nothing was unschedulable"
    log = (waiting.folder / "decisions.jsonl").read_text("utf-8")
    assert pods["--decision-log=decisions.jsonl"] in log
    annotated = waiting(f"get pod {pods['--annotate-results']} -o jsonpath={{.metadata.annotations}}")
    assert "kube-scheduler-simulator.sigs.k8s.io/selected-node" in annotated
    events = waiting(f"events --for=pod/{pods['--explain-in-events']}")
    assert re.search(r"Successfully assigned default/pod-\d+ to node-\d \(runner-up node-\d, ", events)
    assert (waiting.folder / "monday.jsonl.gz").stat().st_size > 0
    assert (waiting.folder / "decisions.db").stat().st_size > 0


def test_from_your_own_machine(script: Callable[[str], Script], waiting: Local) -> None:
    """The guide to deployment begins with a configuration and a scheduler that binds the pods that name it; the help
    of `kubesched run` has the same configuration, and a scheduler for all pods."""
    guide = script("docs/guides/deploy.md")
    waiting.shell("\n".join(guide.take("cat")))
    beside, instead = script(REFERENCE).words()
    for words in (*guide.words(), beside):
        schedule_one(waiting, words, "kubesched")
    schedule_one(waiting, [word.replace("$HOME", str(waiting.folder)) for word in instead])


def test_a_second_scheduler_with_kustomize(script: Callable[[str], Script], waiting: Local) -> None:
    """The overlay with an image named as the page says, applied: its scheduler binds the pods that name it."""
    shutil.copytree(ROOT / "deploy", waiting.folder / "deploy")
    waiting.shell("\n".join(script("docs/guides/deploy.md").take()))
    image = "get deployment kubesched -n kube-system -o jsonpath={.spec.template.spec.containers[0].image}"
    assert waiting(image) == "registry.example.com/kubesched:0.1.0"
    with daemon(waiting, ["run", f"--secure-port={free_port()}"]):
        waiting(f"rollout status deployment/kubesched -n kube-system --timeout={PATIENCE:.0f}s")
    waiting.run("run", "guest", "--image=nginx", '--overrides={"spec": {"schedulerName": "kubesched"}}')
    eventually(lambda: waiting("get pod guest -o jsonpath={.spec.nodeName}"), what="the pod that names it is bound")
    waiting("delete deployment kubesched -n kube-system")


def test_web_pages(script: Callable[[str], Script], waiting: Local) -> None:
    """Each command of the guide prints a link that shows the page, of a cluster, of files and of a simulation."""
    waiting.shell("kubectl get nodes,pods -o json > cluster.json")
    simulated = [*KUBESCHED, "simulate", str(ROOT / "examples/scenarios/node10.yaml"), "-o", "json"]
    with (waiting.folder / "report.json").open("wb") as report:
        subprocess.run(simulated, stdout=report, check=True)
    if not (waiting.folder / "decisions.db").exists():
        schedule_one(waiting, ["run", "--decision-db=decisions.db"])
    port = free_port()
    commands = [*script("docs/guides/ui.md").words(), *script(REFERENCE).words()]
    with daemon(waiting, ["run", "--decision-history=10", f"--secure-port={port}"]):
        for words in commands:
            words = [word.replace("HOST:10259", f"127.0.0.1:{port}") for word in words]
            with daemon(waiting, [*words, "--port=0"]) as log:
                eventually(lambda: "http://" in log.read_text("utf-8"), what="the link")
                link = re.search(r"http://\S+", log.read_text("utf-8"))
                assert link
                with urllib.request.urlopen(link[0], timeout=60) as page:
                    assert b"<title>" in page.read()
