"""Extenders in the scheduling loop: a real HTTP server filters, scores, preempts and binds."""

from __future__ import annotations

from typing import Any

from tests.builders import node, pod
from tests.scheduler.extender_server import ExtenderServer, serving
from tests.scheduler.world import world

from kubesched.api import objects as api
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.config import types as config
from kubesched.config.duration import Duration
from kubesched.scheduler.extender import HTTPExtender

NODES = [node("n1", cpu="4"), node("n2", cpu="4"), node("n3", cpu="4")]


def extender_of(server: ExtenderServer, **settings: Any) -> HTTPExtender:
    return HTTPExtender(config.Extender(url_prefix=server.url, node_cache_capable=True, **settings))


@virtual_time
async def test_filter_and_scores_decide(clock: VirtualClock) -> None:
    """The extender keeps two nodes and prefers one of them; at the verbosity of scores, its scores are logged."""
    async with serving() as server:
        extender = extender_of(server, filter_verb="filter", prioritize_verb="prioritize", weight=5)
        server.answers["/filter"] = {"NodeNames": ["n1", "n3"], "FailedNodes": {"n2": "too loud"}}
        server.answers["/prioritize"] = [{"Host": "n3", "Score": 10}, {"Host": "n1", "Score": 0}]
        async with world(clock, *NODES, extenders=[extender], verbosity=10) as here:
            here.create(pod("web", cpu="1"))
            await here.settle()
            assert here.node_of("web") == "n3"
            said = [fields for _, message, fields in here.log if message == "Extender scored node for pod"]
            assert [(fields["extender"], fields["node"], fields["score"]) for fields in said] == [
                (extender.name, "n3", 10),
                (extender.name, "n1", 0),
            ]
            final = [fields for _, message, fields in here.log if message == "Calculated node's final score for pod"]
            totals = {fields["node"]: int(str(fields["score"])) for fields in final}
            assert totals["n3"] == totals["n1"] + 10 * 5 * 10
        await extender.close()
    assert [path for path, _ in server.asked] == ["/filter", "/prioritize"]
    assert server.asked[1][1]["NodeNames"] == ["n1", "n3"]


@virtual_time
async def test_nothing_left(clock: VirtualClock) -> None:
    """An extender's reasons appear in the pod's condition like those of a plugin."""
    async with serving() as server:
        extender = extender_of(server, filter_verb="filter")
        server.answers["/filter"] = {
            "NodeNames": [],
            "FailedNodes": {"n1": "too loud", "n2": "too loud"},
            "FailedAndUnresolvableNodes": {"n3": "on fire"},
        }
        async with world(clock, *NODES, extenders=[extender]) as here:
            here.create(pod("web", cpu="1"))
            await here.settle()
            text = here.message("web")
        await extender.close()
    assert text.startswith("0/3 nodes are available: 1 on fire, 2 too loud.")


@virtual_time
async def test_a_failing_extender(clock: VirtualClock) -> None:
    """An extender that returns 500 fails the attempt, and the pod is scheduled once the extender works again."""
    async with serving() as server:
        extender = extender_of(server, filter_verb="filter")
        server.status = 500
        async with world(clock, *NODES, extenders=[extender]) as here:
            here.create(pod("web", cpu="1"))
            await here.settle()
            text = here.message("web")
            server.status = 200
            server.answers["/filter"] = {"NodeNames": ["n2"]}
            await here.settle(30)
            assert here.node_of("web") == "n2"
        await extender.close()
    assert text == f"failed filter with extender at URL {server.url}/filter, code 500"


@virtual_time
async def test_an_ignorable_extender(clock: VirtualClock) -> None:
    """An ignorable extender that times out is ignored."""
    async with serving() as server:
        extender = extender_of(server, filter_verb="filter", ignorable=True, http_timeout=Duration.of(2))
        server.delay = 60
        async with world(clock, *NODES, extenders=[extender]) as here:
            here.create(pod("web", cpu="1"))
            await here.settle(5)
            assert here.node_of("web")
            skipped = "Skipping extender as it returned error and has ignorable flag set"
            assert skipped in [message for _, message, _ in here.log]
        await extender.close()


@virtual_time
async def test_a_binder(clock: VirtualClock) -> None:
    """A binding extender replaces the scheduler's bind for the pods it is interested in."""
    async with serving() as server:
        managed = (config.ExtenderManagedResource(name="example.com/gpu", ignored_by_scheduler=True),)
        extender = extender_of(server, bind_verb="bind", managed_resources=managed)
        async with world(clock, *NODES, extenders=[extender], check=False) as here:
            here.create(pod("plain", cpu="1"))
            here.create(pod("special", cpu="1", requests={"example.com/gpu": "0"}))
            await here.settle()
            assert here.node_of("plain")
            assert [name for name, _, _ in here.api.bindings] == ["default/plain"]
        await extender.close()
    ((path, sent),) = server.asked
    assert (path, sent["PodName"]) == ("/bind", "special")


@virtual_time
async def test_preemption(clock: VirtualClock) -> None:
    """The extender chooses on which node to preempt."""
    async with serving() as server:
        extender = extender_of(server, preempt_verb="preempt")
        server.answers["/preempt"] = lambda sent: {"NodeNameToMetaVictims": {"n2": sent["NodeNameToMetaVictims"]["n2"]}}
        low = [pod(f"low-{n.name}", cpu="4", node=n.name, uid=f"u-{n.name}") for n in NODES]
        async with world(clock, *NODES, *low, extenders=[extender]) as here:
            here.create(pod("vip", cpu="4", priority=100))
            await here.settle(30)
            assert here.node_of("vip") == "n2"
            assert here.api.get(api.Pod, "default/low-n2") is None
        await extender.close()
