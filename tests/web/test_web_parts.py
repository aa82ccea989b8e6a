"""The parts behind the page: decisions in columns, the timeline, the queue, simulations, configurations, changes."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kubesched.api import objects as api
from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.http_server import HttpServer
from kubesched.client.connection import resolve
from kubesched.client.http import HttpClient
from kubesched.client.kubeconfig import parse
from kubesched.client.protocol import ApiError
from kubesched.library.cluster import Cluster
from kubesched.simulator.loading import load
from kubesched.simulator.machine import as_json
from kubesched.simulator.run import run
from kubesched.testing import node, pod
from kubesched.web.changes import ObjectEditor
from kubesched.web.configuring import Configuring, moved_pods
from kubesched.web.decisions import of_attempt
from kubesched.web.feed import FileFeed
from kubesched.web.merging import EditConflictError, merged
from kubesched.web.model import ClusterModel
from kubesched.web.moments import MOST, Moment, Moments, What
from kubesched.web.questions import Questions
from kubesched.web.queue_view import from_pods, from_scheduler
from kubesched.web.rates import Rates
from kubesched.web.simulation import is_simulation, load_simulation


def numbers(text: str, kind: str) -> list[int]:
    return [int(each) for each in np.frombuffer(base64.b64decode(text), dtype=f"<{kind}")]


async def asked(*objects: api.Object) -> Questions:
    model = ClusterModel()
    for each in objects:
        model.set(each)
    return Questions(model, Cluster())


# --- decisions --------------------------------------------------------------------------------------------------------


async def test_a_decision_in_columns() -> None:
    """Nodes that fit come first, by rank, and the first refusal of a node comes before the others."""
    tainted = api.Taint("gpu", "yes", "NoSchedule")
    questions = await asked(
        node("small", cpu="1"),
        node("gpu", cpu="1", taints=[tainted]),
        node("big", cpu="8"),
        node("bigger", cpu="32"),
        pod("web", cpu="2"),
    )
    found = await questions.decision("default/web")
    columns = found["columns"]
    assert columns["names"][:2] == ["bigger", "big"]
    assert columns["fitting"] == 2
    totals = numbers(columns["totals"], "i4")
    scores = np.array(numbers(columns["scores"], "i4")).reshape(-1, 2)
    assert scores.sum(axis=0).tolist() == totals
    refusals = columns["refusals"]
    said = [
        (columns["names"][row], refusals["plugins"][plugin])
        for row, plugin in zip(numbers(refusals["node"], "u4"), numbers(refusals["plugin"], "u1"), strict=True)
    ]
    assert said == [
        ("small", "NodeResourcesFit"),
        ("gpu", "TaintToleration"),
        ("gpu", "NodeResourcesFit"),
    ]
    assert found["requests"]["cpu"] == 2000
    assert found["largest"]["cpu"] == 32000
    questions.close()


async def test_what_if_a_pod_asked_for_less() -> None:
    """Other requests are decided with, and the cluster stays as it is."""
    questions = await asked(node("small", cpu="1"), pod("web", cpu="2"))
    assert (await questions.decision("default/web"))["columns"]["fitting"] == 0
    assert (await questions.decision("default/web", {"cpu": "900m"}))["columns"]["fitting"] == 1
    assert (await questions.decision("default/web"))["columns"]["fitting"] == 0
    with pytest.raises(ValueError, match="is malformed"):
        await questions.decision("default/web", {"cpu": "lots"})
    with pytest.raises(LookupError, match="no pod"):
        await questions.decision("default/nobody")
    questions.close()


async def test_a_kept_overview_says_how_old_it_is() -> None:
    """Nothing is decided again while nothing changes, and the page can still show the right ages."""
    questions = await asked(node("n1", cpu="1"), pod("web", cpu="2"))
    first, second = await questions.pending(), await questions.pending()
    assert second["groups"] is first["groups"]
    assert 0 <= first["secondsOld"] < second["secondsOld"]
    questions.close()


async def test_questions_see_changes_that_came_meanwhile() -> None:
    """The thread's cluster takes over what the watch has brought, deletions included."""
    questions = await asked(node("n1", cpu="1"), pod("web", cpu="2"))
    assert (await questions.pending())["count"] == 1
    questions._model.set(node("n2", cpu="4"))
    assert (await questions.decision("default/web"))["columns"]["fitting"] == 1
    questions._model.remove(questions._model.pods["default/web"])
    assert (await questions.pending())["count"] == 0
    questions.close()


def test_a_recorded_attempt_has_the_form_of_a_decision() -> None:
    """The columns of the scheduler's history become those of the page."""
    attempt: dict[str, Any] = {
        "namespace": "shop",
        "pod": "web",
        "outcome": "scheduled",
        "node": "b",
        "attempt": 2,
        "time": "2026-01-01T00:00:00Z",
        "message": "",
        "evaluatedNodes": 3,
        "feasibleNodes": 2,
        "nominatedNode": "",
        "victims": [],
        "scores": [{"node": "b", "total": 7}, {"node": "a", "total": 5}],
        "rejections": [{"plugin": "NodeResourcesFit", "count": 1}],
        "columns": {
            "nodes": ["a", "b", "c"],
            "filtered": [1, 1, 1],
            "feasible": [0, 1],
            "filters": [
                {
                    "plugin": "NodeResourcesFit",
                    "codes": [0, 0, 1],
                    "verdicts": {"1": {"code": "Unschedulable", "reasons": ["Insufficient cpu"]}},
                }
            ],
            "overruled": {},
            "scores": [{"plugin": "ImageLocality", "final": [5, 7]}],
        },
    }
    found = of_attempt(attempt)
    assert found["columns"]["names"] == ["b", "a", "c"]
    assert numbers(found["columns"]["totals"], "i4") == [7, 5]
    assert (found["runnerUp"], found["gap"]) == ("a", 2)
    assert found["columns"]["refusals"]["texts"] == ["Insufficient cpu"]


# --- over time --------------------------------------------------------------------------------------------------------


def test_moments_are_in_order_and_bounded() -> None:
    """Moments that arrive late take their place, and the oldest go."""
    moments = Moments()
    for at in (1.0, 3.0, 2.0):
        moments.add(Moment(at, What.CREATED, f"p{at}"))
    assert [each.time for each in moments.all()] == [1.0, 2.0, 3.0]
    assert [each.time for each in moments.newest(2)] == [2.0, 3.0]
    assert [each.time for each in moments.latest(2)] == [3.0, 2.0]
    for at in range(MOST + 10):
        moments.add(Moment(10.0 + at, What.BOUND, "p"))
    assert len(moments.all()) == MOST
    assert moments.all()[0].time == 20.0


def test_a_bound_pod_is_a_moment_a_placement_and_a_rate() -> None:
    """A pod that gets its node while we watch is counted once, and its end is noted."""
    now = [100.0]
    model = ClusterModel(clock=lambda: now[0])
    model.set(node("n1", cpu="4"), initial=True)
    waiting = pod("web", cpu="1")
    model.set(waiting)
    assert list(model.unbound) == ["default/web"]
    now[0] = 101.5
    model.set(pod("web", cpu="1", node="n1"))
    assert not model.unbound
    now[0] = 110.0
    model.remove(model.pods["default/web"])
    assert [each.what for each in model.moments.all()] == [What.CREATED, What.BOUND, What.DELETED]
    placed = model.placements.columns(("cpu", "pods"))
    assert placed["requests"] == [[1000.0, 1.0]]
    assert numbers(placed["from"], "f8") == [101]
    assert numbers(placed["until"], "f8") == [110]
    assert [row[1] for row in model.rates.rows()] == [1]


def test_rates_have_medians_and_forget_old_seconds() -> None:
    """A second has its bindings and the percentiles of its latencies."""
    rates = Rates()
    for latency in (0.1, 0.2, 0.3):
        rates.bound(50.2, latency)
    rates.bound(51.0, None)
    assert rates.rows() == [[50, 3, 0, 0.2, 0.3], [51, 1, 0, None, None]]
    for at in range(100, 500):
        rates.attempted(at, 0.5, bound=False, failed=True)
    assert len(rates.rows()) == 300
    assert rates.rows(499) == [[499, 0, 1, 0.5, 0.5]]


def test_a_simulation_can_be_looked_at(tmp_path: Path) -> None:
    """The report has the objects and the timeline: what is pending can be explained, and the past be shown."""
    scenario = tmp_path / "scenario.yaml"
    steps: list[dict[str, Any]] = [
        {"create": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}, "at": at}
        for name, at, spec in (("a", "10s", _spec("1")), ("b", "20s", _spec("64")))
    ]
    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}]
    scenario.write_text(yaml.safe_dump({"objects": nodes, "steps": steps, "duration": "60s"}))
    report = tmp_path / "report.json"
    report.write_text(as_json([run(load(scenario))]))
    assert is_simulation(report)
    assert not is_simulation(scenario)
    model = ClusterModel()
    load_simulation(report, model)
    assert list(model.unbound) == ["default/b"]
    assert model.clock() >= 60
    kinds = [(each.what, each.pod) for each in model.moments.all()]
    assert (What.BOUND, "default/a") in kinds
    assert (What.FAILED, "default/b") in kinds
    assert model.placements.columns(("cpu",))["requests"] == [[1000.0]]
    for content in (b'{"bindings": 1, "digest": ""}', b'{"bindings": ' + b"[" * 5000, b'{"digest": "\xff"}'):
        report.write_bytes(content)
        with pytest.raises(ValueError, match="kubesched simulate -o json"):
            load_simulation(report, model)


async def test_manifests_show_what_they_imply(tmp_path: Path) -> None:
    """A Deployment's pods are shown as pending; kinds that nothing reads are counted."""
    template = {"metadata": {"labels": {"app": "web"}}, "spec": _spec("1")}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    objects = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}},
    ]
    path = tmp_path / "web.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    model = ClusterModel()
    feed = FileFeed([path], model)
    await feed.start()
    assert len([each for each in model.unbound if each.startswith("default/web-")]) == 2
    assert feed.notes == ["1 objects of kind ConfigMap are ignored"]


def _spec(cpu: str) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}]}


# --- the queue --------------------------------------------------------------------------------------------------------


def test_the_queue_as_pods_and_as_the_scheduler_tell() -> None:
    """Without a scheduler to ask, conditions and gates tell; with one, it has the last word."""
    told = from_pods([pod("gated", gates=["example.com/x"]), pod("plain")])
    assert (told["counts"]["active"], told["counts"]["gated"]) == (1, 1)
    assert not told["exact"]
    item = {
        "namespace": "shop",
        "pod": "web",
        "place": "Backoff",
        "attempts": 3,
        "backoffUntil": "2026-01-01T00:00:00Z",
        "retriedAt": None,
        "unschedulablePlugins": ["NodeResourcesFit"],
        "pendingPlugins": [],
        "gatingPlugin": "",
    }
    bound = {**item, "pod": "gang", "place": "InFlight"}
    page = {
        "items": [item, bound],
        "counts": {"backoff": 1, "inFlight": 1},
        "waitingOnPermit": [{"namespace": "shop", "pod": "gang", "plugins": ["Gang"]}],
    }
    shown = from_scheduler(page)
    assert shown["pod"] == ["shop/web", "shop/gang"]
    assert shown["place"] == ["backoff", "permit"]
    assert shown["counts"] == {"backoff": 1, "inFlight": 0, "permit": 1}


# --- configuration ----------------------------------------------------------------------------------------------------

MOST_ALLOCATED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}
"""


def test_plugins_of_a_scheduler_that_are_not_known_are_left_out() -> None:
    """The page of a scheduler with plugins of its own starts, and knows which ones it lacks."""
    enabled = {"multiPoint": {"enabled": [{"name": "Theirs"}]}}
    profiles = [{"schedulerName": "first", "plugins": enabled}, {"schedulerName": "second"}]
    found = Configuring(None, ()).following({"profiles": profiles})
    assert found.unknown == ["Theirs"]
    assert [each["name"] for each in found.shown()["profiles"]] == ["first", "second"]


def test_a_configuration_is_checked_and_shown() -> None:
    """Mistakes have their place; a good text says which plugins would run where."""
    configuring = Configuring(None, ())
    assert "NodeResourcesFit" in configuring.shown()["text"]
    wrong = configuring.check(MOST_ALLOCATED + "parallelism: -1\n")
    assert wrong["problems"][0]["path"] == "parallelism"
    assert wrong["problems"][0]["line"] == 9
    assert configuring.check("profiles: [")["problems"]
    right = configuring.check(MOST_ALLOCATED)
    assert right["problems"] == []
    assert "filter" in [each["point"] for each in right["profiles"][0]["points"]]


def test_moved_pods_are_listed_and_ties_are_not() -> None:
    """A pod moves if another node is better, not if an equal one was drawn."""
    cluster = Cluster(
        node("full", cpu="8"), node("empty", cpu="8"), pod("there", cpu="4", node="full"), pod("new", cpu="1")
    )
    configuring = Configuring(None, ())
    found = moved_pods(*configuring.pair(cluster, MOST_ALLOCATED))
    assert [(each["pod"], each["before"], each["after"]) for each in found["items"]] == [
        ("default/new", "empty", "full")
    ]
    same = moved_pods(*configuring.pair(cluster, configuring.shown()["text"]))
    assert (same["decided"], same["moved"]) == (2, 0)


# --- changes ----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def editor_of(*, allow_changes: bool = False) -> AsyncIterator[ObjectEditor]:
    """An editor on an API server that has nothing but the Kubernetes API."""
    server = HttpServer(ApiServer())
    await server.start()
    try:
        connection = resolve(parse(yaml.safe_dump(server.kubeconfig()).encode(), "test"))
        async with HttpClient(connection) as client:
            made = ObjectEditor(client, allow_changes=allow_changes)
            await made.start()
            yield made
    finally:
        await server.stop()


POD = """
apiVersion: v1
kind: Pod
metadata: {name: a}
spec: {containers: [{name: main, image: nginx}]}
"""


async def test_a_cluster_is_read_only_unless_changes_are_allowed() -> None:
    """Nothing is changed in another cluster than one of `up` without the flag, but it can be read."""
    async with editor_of() as editor:
        assert not editor.allowed
        for work in (
            editor.create(POD),
            editor.replace(POD, POD),
            editor.delete("pods", "default", "a"),
            editor.reset(),
        ):
            with pytest.raises(PermissionError):
                await work
        assert (await editor.listed("pods"))["name"] == []
        assert "kind: Namespace" in (await editor.text("namespaces", "", "default"))["text"]


async def test_objects_are_created_replaced_and_deleted() -> None:
    """Lists and several documents work; refusals name the object; the cluster as a whole is never replaced."""
    async with editor_of(allow_changes=True) as editor:
        found = await editor.create(POD + "---\n" + json.dumps({"kind": "List", "items": [_named("b")]}))
        assert found["objects"] == ["Pod a", "Pod b"]
        assert (await editor.listed("pods"))["name"] == ["a", "b"]
        text = (await editor.text("pods", "default", "a"))["text"]
        saved = await editor.replace(text.replace("  name: a", "  labels: {tier: gold}\n  name: a", 1), text)
        assert saved == {"objects": ["Pod a"], **await editor.text("pods", "default", "a")}
        assert "tier: gold" in saved["text"]
        with pytest.raises(ApiError, match=r"Pod a: .*already exists"):
            await editor.create(POD)
        await editor.delete("pods", "default", "b")
        with pytest.raises(LookupError, match="no kind Gadget"):
            await editor.create("apiVersion: v1\nkind: Gadget\nmetadata: {name: x}\n")
        with pytest.raises(ValueError, match="apiVersion, kind and metadata"):
            await editor.create("just: text\n")
        with pytest.raises(ValueError, match='line 6: key "spec" already set in map'):
            await editor.create(POD + "spec: {}\n")
        with pytest.raises(PermissionError, match="kubesched up"):
            await editor.replace_all({})


async def test_an_edit_is_saved_on_top_of_other_changes() -> None:
    """A pod that got a status and a label since it was opened can be saved; the same field changed twice cannot."""
    async with editor_of(allow_changes=True) as editor:
        await editor.create(POD)
        opened = (await editor.text("pods", "default", "a"))["text"]
        patch = {"metadata": {"labels": {"tier": "gold"}}}
        await editor._client.patch("/api/v1/namespaces/default/pods/a", patch)
        await editor._client.patch("/api/v1/namespaces/default/pods/a/status", {"status": {"phase": "Running"}})
        without_status = opened.partition("\nstatus:")[0] + "\n"
        saved = await editor.replace(without_status.replace("image: nginx", "image: caddy"), opened)
        found = yaml.safe_load(saved["text"])
        assert found["metadata"]["labels"] == {"tier": "gold"}
        assert found["spec"]["containers"][0]["image"] == "caddy"
        assert found["status"]["phase"] == "Running"
        with pytest.raises(EditConflictError, match=r"another client has changed spec\.containers since"):
            await editor.replace(opened.replace("image: nginx", "image: httpd"), opened)
        with pytest.raises(ValueError, match="cannot be changed"):
            await editor.replace(opened.replace("name: a\n", "name: b\n"), opened)


JSON_VALUES = st.recursive(st.integers(0, 2), lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3))


@given(JSON_VALUES, JSON_VALUES)
def test_merging_with_one_writer_takes_that_writers_object(opened: Any, changed: Any) -> None:
    """Without another change the edit is stored as it is, and without an edit the current object stays as it is."""
    assert merged(opened, changed, opened) == changed
    assert merged(opened, opened, changed) == changed
    assert merged(opened, changed, changed) == changed


def _named(name: str) -> dict[str, Any]:
    return {**yaml.safe_load(POD), "metadata": {"name": name}}
