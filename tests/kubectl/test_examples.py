"""The READMEs of examples can be typed: `kubesched up` with their flags, then their kubectl commands.

The examples that are not here are typed in test_seeds.py, and that of devices with its guide in test_guide.py.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.kubectl.local import ROOT, Local, eventually, local
from tests.pages import lines, typed

EXAMPLES = ROOT / "examples"


@contextmanager
def example(folder: Path, name: str, **replaced: str) -> Iterator[Local]:
    """The cluster that a README starts. Words of the command can be replaced."""
    ((_up, *flags),) = (words for words in typed(EXAMPLES / name / "README.md", "kubesched") if words[0] == "up")
    with local(folder, *(replaced.get(Path(word).stem, word) for word in flags)) as cluster:
        yield cluster


def script(name: str, *beginnings: str) -> str:
    """The kubectl commands of a README that begin with one of these."""
    wanted = tuple(f"kubectl {each}" for each in beginnings)
    found = [line for line in lines(EXAMPLES / name / "README.md") if line.startswith(wanted)]
    assert found
    return "\n".join((f"cd {ROOT}", *found))


def all_scheduled(cluster: Local, number: int) -> None:
    """Wait until the default namespace has this many pods on nodes."""
    shown = "get pods -o jsonpath={.items[*].spec.nodeName}"
    eventually(lambda: len(cluster(shown).split()) == number, what=f"{number} pods are scheduled")


def test_cost_aware(tmp_path: Path) -> None:
    """The deployment's pods are scheduled; where they go is tested beside the example."""
    with example(tmp_path, "cost-aware") as cluster:
        cluster.shell(script("cost-aware", "label", "apply"))
        all_scheduled(cluster, 3)
        assert cluster.shell(script("cost-aware", "get")).count(" node-") == 3


def test_qos_sort(tmp_path: Path) -> None:
    """All pods are scheduled once there is a node, and the last command shows when."""
    with example(tmp_path, "qos-sort") as cluster:
        cluster.shell(script("qos-sort", "apply"))
        pods = cluster("get pods -o jsonpath={.items[*].metadata.name}").split()
        all_scheduled(cluster, len(pods))
        eventually(
            lambda: all(name in cluster.shell(script("qos-sort", "get events")) for name in pods), what="all events"
        )


def test_gpu_sharing(tmp_path: Path) -> None:
    """Two pods share a GPU, and the third has one of its own, in whichever order they are scheduled."""
    with example(tmp_path, "gpu-sharing") as cluster:
        cluster.shell(script("gpu-sharing", "create", "apply"))
        all_scheduled(cluster, 3)
        _title, *rows = cluster.shell(script("gpu-sharing", "get")).splitlines()
        gpus = dict(row.split() for row in rows)
    assert sorted(gpus) == ["half-1", "half-2", "whole"]
    assert gpus["half-1"] == gpus["half-2"] != gpus["whole"]
    assert set(gpus.values()) == {"0", "1"}


def test_gym(tmp_path: Path) -> None:
    """A policy is trained, with fewer episodes than by default, and scores in a cluster."""
    pytest.importorskip("gymnasium")
    ((program, *flags),) = typed(EXAMPLES / "gym/README.md", "python")
    policy = tmp_path / "policy.json"
    fewer = ["--nodes=4", "--pods=20", "--generations=1", "--population=2", f"--output={policy}"]
    done = subprocess.run(
        [sys.executable, str(ROOT / program), *flags, *fewer], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "LeastAllocated" in done.stdout
    config = tmp_path / "scheduler.yaml"
    text = (EXAMPLES / "gym/scheduler.yaml").read_text("utf-8")
    config.write_text(text.replace("policy.json", str(policy)), "utf-8")
    with example(tmp_path, "gym", scheduler=str(config)) as cluster:
        cluster("run web --image=nginx")
        all_scheduled(cluster, 1)
