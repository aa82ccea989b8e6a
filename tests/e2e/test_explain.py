"""`kubesched explain` on a cluster that the real kube-scheduler runs: it names the plugins and counts of its events."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from typing import Any

from click.testing import CliRunner
from tests.e2e.api import Api
from tests.e2e.control_plane import ADMIN, ControlPlane
from tests.e2e.parts import path_of
from tests.e2e.schedulers import KUBE_SCHEDULER, Running, start
from tests.e2e.waiting import until
from tests.explain import fifteen

from kubesched.cli.explain import PENDING, command

UNDECIDED = ("gate", "scheduler", "node-name")
"""Pods that the scheduler never tries."""
COUNTED = re.compile(r"(\d+) (.+)")
GAUGE = re.compile(r'scheduler_unschedulable_pods\{plugin="(\w+)",profile="default-scheduler"\} (\d+)')


def create(plane: ControlPlane, objects: list[dict[str, Any]]) -> None:
    """Create objects with kubectl, all at once."""
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    kubectl = [str(path_of("kubectl")), f"--kubeconfig={plane.kubeconfig(token=ADMIN)}", "create", "-f", "-"]
    subprocess.run(kubectl, input=listed, text=True, check=True, capture_output=True)


def allow_no_disruption(api: Api) -> None:
    """What the disruption controller would write, which is not here."""
    counts = {"disruptionsAllowed": 0, "currentHealthy": 3, "desiredHealthy": 3, "expectedPods": 3}
    status = {"status": {"observedGeneration": 1, **counts}}
    api.patch("/apis/policy/v1/namespaces/default/poddisruptionbudgets/db/status", status)


def events(api: Api) -> dict[str, str]:
    """The last message of FailedScheduling by pod."""
    return {each["regarding"]["name"]: each["note"] for each in api.events(reason="FailedScheduling")}


def explained(plane: ControlPlane, cause: str) -> dict[str, Any]:
    """What `kubesched explain pod` says."""
    arguments = ["pod", f"default/{cause}", "--kubeconfig", str(plane.kubeconfig(token=ADMIN)), "-o", "json"]
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == PENDING, done.output
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def first_plugins(report: dict[str, Any]) -> dict[str, str]:
    """The first plugin that rejects each node; the others are hidden behind it in kube-scheduler's message."""
    return {each["node"]: each["refusals"][0]["plugin"] for each in report["nodes"]}


def first_reasons(report: dict[str, Any]) -> Counter[str]:
    """How many nodes each first rejection's reasons concern."""
    return Counter(reason for each in report["nodes"] for reason in each["refusals"][0]["message"].split(", "))


def unschedulable(scheduler: Running) -> dict[str, int]:
    """How many pods each plugin keeps waiting, by kube-scheduler's own metric."""
    _, text = scheduler.served("/metrics", ADMIN)
    return {plugin: int(count) for plugin, count in GAUGE.findall(text) if int(count)}


def test_names_the_plugins_and_counts_of_the_events(plane: ControlPlane) -> None:
    """Messages are the same word for word, node by node they add up, and so do the plugins that reject pods."""
    pods = {cause: pod for cause, pod in fifteen.pending().items() if cause not in UNDECIDED}
    others = [{key: value for key, value in each.items() if key != "status"} for each in fifteen.others()]
    create(plane, [*fifteen.nodes(), *others, *fifteen.placed()])
    allow_no_disruption(plane.admin)
    scheduler = start(KUBE_SCHEDULER, plane)
    create(plane, list(pods.values()))
    until(lambda: events(plane.admin), "every pod was tried", enough=lambda found: set(found) == set(pods))
    until(lambda: unschedulable(scheduler), "its metric counts the pods")
    plugins: Counter[str] = Counter()
    for cause, message in events(plane.admin).items():
        report = explained(plane, cause)
        assert report["message"] == message
        plugins.update(set(first_plugins(report).values()))
        body = message.partition(": ")[2].partition(". ")[0].removesuffix(".")
        counts = {found[2]: int(found[1]) for part in body.split(", ") if (found := COUNTED.fullmatch(part))}
        told = {reason: count for reason, count in first_reasons(report).items() if reason in counts}
        assert told == counts, cause
    assert dict(plugins) == unschedulable(scheduler)
