"""CoordinatedLeaderElection: the candidate's object, and a lease that is given instead of taken."""

from __future__ import annotations

from typing import Any

from aiohttp import web
from tests.client.server import serving
from tests.client.test_leader import Candidate

from kubesched.base.clocks import SystemClock, VirtualClock, virtual_time
from kubesched.client.http import HttpClient
from kubesched.client.leader import ElectionSettings, Ended
from kubesched.client.lease_candidate import LeaseCandidate

PATH = "/apis/coordination.k8s.io/v1beta1/namespaces/kube-system/leasecandidates"
COORDINATED = ElectionSettings(coordinated=True)


def answer(body: dict[str, Any], status: int = 200) -> Any:
    async def respond(request: web.Request) -> web.Response:
        return web.json_response(body, status=status)

    return respond


async def test_the_candidate() -> None:
    """It creates its object, leaves it alone while it is fresh, and answers a ping by renewing it."""
    missing = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "not found"}
    async with serving() as server, HttpClient(server.connection) as client:
        candidate = LeaseCandidate(client, "host_1", "1.36.0", SystemClock())
        server.script = [answer(missing, 404), answer({}, 201)]
        await candidate.ensure()
        created = server.received[-1]
        assert (created.method, created.path) == ("POST", PATH)
        spec = created.body["spec"]
        assert {key: value for key, value in spec.items() if key != "renewTime"} == {
            "leaseName": "kube-scheduler",
            "binaryVersion": "1.36.0",
            "emulationVersion": "1.36.0",
            "strategy": "OldestEmulationVersion",
        }
        server.script = [answer(created.body)]
        await candidate.ensure()
        assert server.received[-1].method == "GET"
        pinged = {**created.body, "spec": {**spec, "pingTime": "2100-01-01T00:00:00.000000Z"}}
        server.script = [answer(pinged), answer(pinged)]
        await candidate.ensure()
        renewed = server.received[-1]
        assert (renewed.method, renewed.path) == ("PUT", f"{PATH}/host_1")
        assert renewed.body["spec"]["pingTime"] == pinged["spec"]["pingTime"]
        assert renewed.body["spec"]["renewTime"] > spec["renewTime"]


async def give(candidate: Candidate, holder: str, **more: str) -> None:
    """Do as the control plane does: name the leader in the lease."""
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "strategy": "OldestEmulationVersion", **more}
    try:
        lease = candidate.whole_lease()
    except AssertionError:
        body = {"metadata": {"name": "kube-scheduler", "namespace": "kube-system"}, "spec": spec}
        await candidate.api.create_lease("kube-system", body)
    else:
        await candidate.api.update_lease("kube-system", "kube-scheduler", {**lease, "spec": {**lease["spec"], **spec}})


@virtual_time
async def test_a_lease_is_given_not_taken(clock: VirtualClock) -> None:
    """Nobody takes a lease that is missing, free or another's; the one it names leads and renews it."""
    one = Candidate(clock, "one", settings=COORDINATED).start()
    two = Candidate(clock, "two", one.api, settings=COORDINATED).start()
    await clock.advance(30)
    assert (one.leading, two.leading) == (False, False)
    await give(one, "two")
    await clock.advance(60)
    assert (one.leading, two.leading) == (False, True)
    assert two.lease()["strategy"] == "OldestEmulationVersion"
    await one.stop()
    await two.stop()


@virtual_time
async def test_the_end_of_a_term(clock: VirtualClock) -> None:
    """A leader stops renewing a lease that has another preferred holder."""
    one = Candidate(clock, "one", settings=COORDINATED).start()
    await clock.advance(1)
    await give(one, "one")
    await clock.advance(10)
    assert one.leading
    await give(one, "one", preferredHolder="two")
    await clock.advance(30)
    assert not one.leading
    assert one.task is not None
    assert await one.task is Ended.LOST
