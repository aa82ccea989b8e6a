"""Leader election on virtual time: one leads, another takes over, and never two at once."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.base.clocks import VirtualClock, run_virtual, virtual_time
from kubesched.base.log import ERROR
from kubesched.base.types import JSON
from kubesched.client.leader import ElectionSettings, Ended, LeaderElector, default_identity
from kubesched.client.protocol import ApiError
from kubesched.testing.faulty_api import FaultyApi

RETRY = 2 * (1 + 1.2)
"""The longest time between two retries."""


class Messages(list[tuple[int, str, dict[str, object]]]):
    """A log that keeps its messages."""

    verbosity = 10

    def __call__(self, level: int, message: str, /, **fields: object) -> None:
        self.append((level, message, fields))


class Candidate:
    """A candidate with its own connection to the API server, and a record of its leadership."""

    def __init__(self, clock: VirtualClock, name: str, others: FaultyApi | None = None, **options: Any) -> None:
        self.api = FaultyApi(clock, memory=others.memory if others else None)
        self.clock = clock
        self.leading = False
        self.seen: list[str] = []
        self.messages = Messages()
        self.stopped = 0
        self.elector = LeaderElector(
            self.api,
            self.lead,
            identity=name,
            clock=clock,
            chance=random.Random(name),
            on_stopped_leading=self._stopped,
            on_new_leader=self.seen.append,
            log=self.messages,
            **options,
        )
        self.task: asyncio.Task[Ended] | None = None

    async def lead(self) -> None:
        self.leading = True
        try:
            await asyncio.Event().wait()
        finally:
            self.led_to_the_end = self.elector.is_leader()
            self.leading = False

    def _stopped(self) -> None:
        self.stopped += 1

    def start(self) -> Candidate:
        self.task = asyncio.create_task(self.elector.run())
        return self

    async def stop(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.wait((self.task,))

    def whole_lease(self) -> JSON:
        """The lease as the cluster has it."""
        record = self.api.memory.store.get("coordination.k8s.io/leases", "kube-system/kube-scheduler")
        assert record is not None
        return record.load()

    def lease(self) -> Any:
        return self.whole_lease()["spec"]


@virtual_time
async def test_the_first_candidate_leads_at_once(clock: VirtualClock) -> None:
    """If there is no lease, one is created with the fields that upstream writes."""
    one = Candidate(clock, "one").start()
    await clock.settle()
    assert one.leading
    assert one.elector.is_leader()
    assert one.seen == ["one"]
    assert one.lease() == {
        "holderIdentity": "one",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.000000Z",
        "leaseTransitions": 0,
    }
    await clock.advance(60)
    assert one.lease()["renewTime"] == "2026-01-01T00:01:00.000000Z"
    assert one.lease()["acquireTime"] == "2026-01-01T00:00:00.000000Z"
    assert one.api.calls["get_lease"] == 1
    await one.stop()


@virtual_time
async def test_events_report_the_leader(clock: VirtualClock) -> None:
    """Becoming leader and stopping to lead are Events on the lease, with the type and message of client-go."""
    one = Candidate(clock, "one", component="default-scheduler").start()
    await clock.settle()
    (event,) = one.api.events
    metadata = one.whole_lease()["metadata"]
    name = event["metadata"]["name"]
    assert name.partition(".")[0] == "kube-scheduler"
    assert int(name.partition(".")[2], 16) == int(clock.now() * 1e9)
    assert {key: value for key, value in event.items() if key != "metadata"} == {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "name": "kube-scheduler",
            "namespace": "kube-system",
            **{key: metadata[key] for key in ("uid", "resourceVersion") if metadata.get(key)},
        },
        "reason": "LeaderElection",
        "message": "one became leader",
        "type": "Normal",
        "count": 1,
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "source": {"component": "default-scheduler"},
        "reportingComponent": "default-scheduler",
    }
    await clock.advance(60)
    await one.stop()
    assert [each["message"] for each in one.api.events] == ["one became leader", "one stopped leading"]


@virtual_time
async def test_events_delay_nothing(clock: VirtualClock) -> None:
    """A leader whose Events cannot be written leads all the same, and ends within a second of the release."""
    one = Candidate(clock, "one", component="default-scheduler")
    one.api.pause("create_event")
    one.start()
    await clock.settle()
    assert one.leading
    ending = asyncio.create_task(one.stop())
    await clock.settle()
    assert one.lease()["holderIdentity"] == ""
    assert not one.elector.is_leader()
    await clock.advance(1)
    assert ending.done()
    assert one.api.events == ()


@virtual_time
async def test_a_lease_that_cannot_be_released(clock: VirtualClock) -> None:
    """When the API server does not respond, a leader that is stopped gives up after the deadline and logs why."""
    one = Candidate(clock, "one").start()
    await clock.settle()
    one.api.pause()
    ending = asyncio.create_task(one.stop())
    await clock.advance(10)
    assert ending.done()
    problem = {"err": "no response in time", "lock": "kube-system/kube-scheduler"}
    assert one.messages[-1] == (ERROR, "error retrieving resource lock", problem)


@virtual_time
async def test_the_log_of_an_election(clock: VirtualClock) -> None:
    """A leader and a candidate that waits log each try in client-go's words."""
    one = Candidate(clock, "one").start()
    await clock.advance(0.5)
    two = Candidate(clock, "two", one.api).start()
    await clock.advance(2.5)
    lock = {"lock": "kube-system/kube-scheduler"}
    assert one.messages == [
        (0, "Attempting to acquire leader lease...", lock),
        (0, "Successfully acquired lease", lock),
        (5, "Successfully renewed lease", lock),
    ]
    assert two.messages[:3] == [
        (0, "Attempting to acquire leader lease...", lock),
        (4, "Lease is held by and has not yet expired", {**lock, "holder": "one"}),
        (4, "Failed to acquire lease", lock),
    ]


@virtual_time
async def test_the_second_waits_and_takes_over(clock: VirtualClock) -> None:
    """When the leader dies without a release, another leads after the lease duration and two retries."""
    one = Candidate(clock, "one").start()
    await clock.settle()
    two = Candidate(clock, "two", one.api).start()
    await clock.advance(60)
    assert not two.leading
    assert two.seen == ["one"]
    one.api.pause()
    died = clock.monotonic()
    await clock.run_until(lambda: two.leading, timeout=60)
    assert 13 <= clock.monotonic() - died <= 15 + 2 * RETRY
    assert not one.leading
    assert two.seen == ["one", "two"]
    assert two.lease()["leaseTransitions"] == 1
    assert two.lease()["acquireTime"] == two.lease()["renewTime"]
    await two.stop()
    assert one.task is not None
    assert await one.task is Ended.LOST


@virtual_time
async def test_a_leader_that_exits_gives_the_lease_back(clock: VirtualClock) -> None:
    """On exit leading ends first, then the lease is released, and another leads within a retry."""
    one = Candidate(clock, "one").start()
    await clock.settle()
    two = Candidate(clock, "two", one.api).start()
    await clock.advance(5)
    await one.stop()
    assert not one.leading
    assert one.stopped == 1
    assert (one.lease()["holderIdentity"], one.lease()["leaseDurationSeconds"]) == ("", 1)
    left = clock.monotonic()
    await clock.run_until(lambda: two.leading, timeout=60)
    assert clock.monotonic() - left <= RETRY
    assert two.lease()["leaseTransitions"] == 1
    assert two.lease()["leaseDurationSeconds"] == 15
    await two.stop()


@virtual_time
async def test_release_can_be_off(clock: VirtualClock) -> None:
    """Without release the lease stays as it is and expires."""
    one = Candidate(clock, "one", settings=ElectionSettings(release_on_exit=False)).start()
    await clock.settle()
    await one.stop()
    assert one.lease()["holderIdentity"] == "one"


@virtual_time
async def test_leading_that_ends_by_itself(clock: VirtualClock) -> None:
    """When the work is done the lease is released; when it fails, its error is raised after that."""
    one = Candidate(clock, "one")

    async def work() -> None:
        await asyncio.sleep(30)

    one.elector._lead = work
    assert await one.elector.run() is Ended.DONE
    assert one.lease()["holderIdentity"] == ""

    async def fail() -> None:
        raise ValueError("no")

    one.elector._lead = fail
    with pytest.raises(ValueError, match="no"):
        await one.elector.run()
    assert one.lease()["holderIdentity"] == ""


@virtual_time
async def test_a_leader_steps_down_at_its_deadline(clock: VirtualClock) -> None:
    """A leader that cannot renew stops ten seconds after it sent its last renewal, before another may lead."""
    one = Candidate(clock, "one").start()
    await clock.advance(5)
    renewed = clock.monotonic() - 1
    one.api.fail("*", ConnectionResetError("no"), times=1000)
    await clock.run_until(lambda: not one.leading, timeout=60)
    assert clock.monotonic() - renewed == pytest.approx(10.0)
    assert not one.elector.is_leader()
    assert one.task is not None
    assert await one.task is Ended.LOST
    assert one.stopped == 1


@virtual_time
async def test_a_lost_answer_does_not_cost_the_lease(clock: VirtualClock) -> None:
    """A renewal that took effect but lost its response is found by reading the lease, and leading goes on."""
    one = Candidate(clock, "one").start()
    await clock.settle()
    one.api.fail("update_lease", TimeoutError(), times=2, answer_lost=True)
    await clock.advance(60)
    assert one.leading
    assert one.stopped == 0
    await one.stop()


@virtual_time
async def test_a_lease_taken_by_hand_ends_leading(clock: VirtualClock) -> None:
    """A leader that finds another name in the lease steps down at once."""
    one = Candidate(clock, "one").start()
    await clock.settle()
    lease = one.whole_lease()
    lease["spec"]["holderIdentity"] = "somebody"
    await one.api.memory.update_lease("kube-system", "kube-scheduler", lease)
    await clock.advance(2.5)
    assert not one.leading
    assert one.seen == ["one", "somebody"]
    assert not one.led_to_the_end, "what leading still has to end must not count as a leader's"


@virtual_time
async def test_times_in_the_lease_do_not_count(clock: VirtualClock) -> None:
    """A lease with an old date is still respected for its duration, counted from when it was first seen."""
    old = {"holderIdentity": "old", "leaseDurationSeconds": 15, "renewTime": "2020-01-01T00:00:00.000000Z"}
    one = Candidate(clock, "one")
    await one.api.create_lease(
        "kube-system", {"metadata": {"name": "kube-scheduler", "labels": {"a": "b"}}, "spec": old}
    )
    one.start()
    await clock.advance(14.9)
    assert not one.leading
    await clock.advance(5)
    assert one.leading
    assert one.whole_lease()["metadata"]["labels"] == {"a": "b"}
    await one.stop()


@virtual_time
async def test_no_permission_is_no_leadership(clock: VirtualClock) -> None:
    """A candidate that may not read the lease keeps trying and never leads."""
    one = Candidate(clock, "one")
    one.api.fail("*", ApiError(403, "Forbidden", "no"), times=1000)
    one.start()
    await clock.advance(60)
    assert not one.leading
    assert one.elector.is_healthy()
    await one.stop()


@virtual_time
async def test_health(clock: VirtualClock) -> None:
    """A leader that neither renews nor stops is unhealthy; one that does either is healthy."""
    one = Candidate(clock, "one").start()
    await clock.advance(10)
    assert one.elector.is_healthy()
    assert one.task is not None
    await one.stop()
    one.elector._observed = {"holderIdentity": "one"}
    await clock.advance(36)
    assert not one.elector.is_healthy()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lease_duration": 10}, "leaseDuration must be greater than renewDeadline"),
        ({"retry_period": 9}, "renewDeadline must be greater than 1.2 times retryPeriod"),
        ({"retry_period": 0}, "must be greater than zero"),
    ],
)
def test_settings_that_cannot_be(options: dict[str, float], message: str) -> None:
    """Settings that would allow two leaders, or none, are refused in upstream's terms."""
    with pytest.raises(ValueError, match=message):
        ElectionSettings(**options)  # type: ignore[arg-type]  # the other fields are strings and a flag


def test_identities_differ() -> None:
    """Two processes on one host are two candidates."""
    assert default_identity() != default_identity()
    assert "_" in default_identity()


# --- never two --------------------------------------------------------------------------------------------------------


def disturb(candidate: Candidate, chance: random.Random) -> None:
    """Change the faults between a candidate and the API server."""
    trouble = chance.choice(("fail", "lost", "late", "slow", "very slow", "hang", "heal", "heal"))
    if trouble == "fail":
        error = chance.choice((OSError("no"), ApiError(500, "InternalError", "no"), ApiError(409, "Conflict", "no")))
        candidate.api.fail("*", error, probability=chance.random())
    elif trouble == "lost":
        candidate.api.fail("update_lease", OSError("no"), probability=chance.random(), answer_lost=True)
    elif trouble == "late":
        candidate.api.delay("update_lease", lambda: chance.random() * 6, answer=True)
    elif trouble == "slow":
        candidate.api.delay("*", lambda: chance.random() * 3)
    elif trouble == "very slow":
        candidate.api.delay("*", lambda: chance.random() * 20)
    elif trouble == "hang":
        candidate.api.pause()
    else:
        candidate.api.heal()


@virtual_time
async def test_a_late_answer_does_not_make_two_leaders(clock: VirtualClock) -> None:
    """The deadline counts from when a renewal was sent, so a leader with late responses stops in time."""
    one = Candidate(clock, "one").start()
    await clock.advance(9)
    eager = ElectionSettings(retry_period=0.05)
    two = Candidate(clock, "two", one.api, settings=eager).start()
    one.api.delay("update_lease", 4.9, answer=True)  # as late as the leader still accepts
    await clock.advance(2)
    renewed = one.lease()["renewTime"]
    assert renewed == "2026-01-01T00:00:10.000000Z"
    await clock.advance(4.5)
    one.api.pause()
    await clock.run_until(lambda: not one.leading, timeout=60)
    assert clock.monotonic() == pytest.approx(20.0)
    await clock.run_until(lambda: two.leading, timeout=60)
    assert one.lease()["leaseTransitions"] == 1
    assert clock.monotonic() == pytest.approx(25.0, abs=0.2)
    await two.stop()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_never_two_leaders(seed: int) -> None:
    """Whatever the faults, two candidates never lead at once; once the faults are gone, one leads."""

    async def main(clock: VirtualClock) -> None:
        chance = random.Random(seed)
        first = Candidate(clock, "c0")
        candidates = [first, *(Candidate(clock, f"c{number}", first.api) for number in range(1, 4))]
        for candidate in candidates:
            candidate.start()
        for _ in range(60):
            disturb(chance.choice(candidates), chance)
            for _ in range(10):
                await clock.advance(chance.random() * 1.5)
                assert sum(candidate.leading for candidate in candidates) <= 1
                assert sum(candidate.elector.is_leader() for candidate in candidates) <= 1
            for candidate in candidates:
                if candidate.task is not None and candidate.task.done():
                    candidate.start()
        for candidate in candidates:
            candidate.api.heal()
        await clock.advance(60)
        for candidate in candidates:
            if candidate.task is not None and candidate.task.done():
                candidate.start()
        await clock.advance(20)
        assert sum(candidate.leading for candidate in candidates) == 1
        for candidate in candidates:
            await candidate.stop()

    run_virtual(main)
