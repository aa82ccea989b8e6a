"""Identical pods with the real kube-scheduler and with kubesched: the same nodes, and the same counts of batching."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.e2e.api import JSON, node_of
from tests.e2e.control_plane import ADMIN, ControlPlane
from tests.e2e.objects import node, pod
from tests.e2e.schedulers import KUBE_SCHEDULER, KUBESCHED, Running, start
from tests.e2e.stage import Stage
from tests.e2e.waiting import until

WITHOUT_DEFAULT_CONSTRAINTS: JSON = {
    "profiles": [{"pluginConfig": [{"name": "PodTopologySpread", "args": {"defaultingType": "List"}}]}]
}
"""Pods can be batched only without default spread constraints."""
COUNTED = re.compile(
    r"^(scheduler_(?:batch_attempts_total|get_node_hint_duration_seconds_count){.*}) (\d+)(?:\.0)?$", re.MULTILINE
)


FILLING = [pod(f"fills-{number}", ports=[8080], cpu="1") for number in range(4)]


def beginning(stage: Stage) -> None:
    """Pods that each fill the node they get. They are there before the scheduler, which so tries one after the other:
    a batch lasts half a second."""
    stage.put(*(node(f"n{cpus}", cpu=str(cpus), memory="8Gi") for cpus in (3, 4, 5, 6)))
    stage.put(*FILLING[:3])


def scenario(stage: Stage) -> None:
    """Another kind of pod between those that fill nodes, and a node that comes later."""
    stage.becomes_bound(*(each["metadata"]["name"] for each in FILLING[:3]))
    stage.bound(pod("other", cpu="100m", memory="1Gi"))
    stage.put(node("n7", cpu="7", memory="8Gi"))
    stage.bound(FILLING[3])


def counts(running: Running) -> dict[str, str]:
    """The batching metrics: how often, not how long."""
    status, text = running.served("/metrics", ADMIN)
    assert status == 200, text
    return dict(COUNTED.findall(text))


def played(program: str, folder: Path) -> JSON:
    """Where the pods are and what the metrics say, with one of the two schedulers."""
    folder.mkdir()
    plane = ControlPlane(folder)
    try:
        plane.start()
        stage = Stage(plane)
        beginning(stage)
        running = start(program, plane, config=WITHOUT_DEFAULT_CONSTRAINTS)
        scenario(stage)
        nodes = {each["metadata"]["name"]: node_of(each) for each in plane.admin.pods()}
        return {"nodes": nodes, "counts": until(lambda: counts(running), "batching is counted")}
    finally:
        plane.stop()


def test_batches_end_the_same(folder: Path) -> None:
    """Pods go to the same nodes, by the same number of hints. On a busy machine a batch may end because its half second
    is over, so other counts get a second and a third chance."""
    for turn in ("first", "second", "third"):
        with ThreadPoolExecutor(2) as pool:
            theirs = pool.submit(played, KUBE_SCHEDULER, folder / f"{turn}-{KUBE_SCHEDULER}").result
            ours = pool.submit(played, KUBESCHED, folder / f"{turn}-{KUBESCHED}").result
            if ours() == theirs():
                break
    assert ours() == theirs()
