"""The event recorder on virtual time: documents, series and retries, without ever delaying a bind."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import pod

from kubesched.api import objects as api
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.types import JSON
from kubesched.client.protocol import ApiError
from kubesched.scheduler import recorder as recording
from kubesched.scheduler.ports import NORMAL, WARNING, EventSink
from kubesched.scheduler.recorder import EventRecorder, event_name, micro_time, truncated
from kubesched.scheduler.urgent_calls import UrgentCalls
from kubesched.testing.faulty_api import FaultyApi

PROFILE = "default-scheduler"


class Lines(list[tuple[int, str]]):
    """A log that keeps levels and messages."""

    verbosity = 5

    def __call__(self, level: int, message: str, /, **fields: object) -> None:
        self.append((level, message))


@asynccontextmanager
async def recording_to(cluster: FaultyApi, clock: VirtualClock, **settings: Any) -> AsyncIterator[EventRecorder]:
    recorder = EventRecorder(cluster, clock, hostname="host", **settings)
    task = asyncio.create_task(recorder.run())
    try:
        yield recorder
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def failed(recorder: EventSink, regarding: api.Pod, note: str = "0/1 nodes are available") -> None:
    recorder.event(PROFILE, regarding, WARNING, "FailedScheduling", "Scheduling", note)


def reasons(cluster: FaultyApi) -> list[str]:
    return [event["reason"] for event in cluster.events]


def versioned(name: str, version: int) -> api.Pod:
    meta = api.ObjectMeta(name=name, namespace="default", uid=f"u-{name}", resource_version=str(version))
    return api.Pod(metadata=meta)


# --- documents --------------------------------------------------------------------------------------------------------


@virtual_time
async def test_an_event_does_not_hold_its_pods(clock: VirtualClock) -> None:
    """A recorder remembers events for minutes, and pods that are deleted meanwhile must not stay in memory."""
    preemptor, victim = versioned("urgent", 1), versioned("batch", 2)
    async with recording_to(FaultyApi(clock), clock) as recorder:
        before = sys.getrefcount(preemptor), sys.getrefcount(victim)
        recorder.event(PROFILE, victim, NORMAL, "Preempted", "Preempting", "Preempted by a pod", preemptor)
        await clock.settle()
        assert (sys.getrefcount(preemptor), sys.getrefcount(victim)) == before


@virtual_time
async def test_an_event(clock: VirtualClock) -> None:
    """An event has all the fields that kubectl shows."""
    cluster = FaultyApi(clock)
    async with recording_to(cluster, clock) as recorder:
        note = "Successfully assigned default/web to n1"
        recorder.event(PROFILE, versioned("web", 7), NORMAL, "Scheduled", "Binding", note)
        await clock.settle()
    (event,) = cluster.events
    event["metadata"].pop("resourceVersion")
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "web.18867251edfa0000", "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-host",
        "action": "Binding",
        "reason": "Scheduled",
        "regarding": {
            "kind": "Pod",
            "namespace": "default",
            "name": "web",
            "uid": "u-web",
            "apiVersion": "v1",
            "resourceVersion": "7",
        },
        "note": note,
        "type": "Normal",
    }


@virtual_time
async def test_a_related_object(clock: VirtualClock) -> None:
    """A victim's event refers to its preemptor."""
    cluster = FaultyApi(clock)
    async with recording_to(cluster, clock) as recorder:
        note = "Preempted by pod u-vip on node n1"
        recorder.event(PROFILE, pod("low"), NORMAL, "Preempted", "Preempting", note, related=pod("vip", uid="u-vip"))
        await clock.settle()
    assert cluster.events[0]["related"] == {
        "kind": "Pod",
        "namespace": "default",
        "name": "vip",
        "uid": "u-vip",
        "apiVersion": "v1",
    }


@virtual_time
async def test_an_object_without_namespace(clock: VirtualClock) -> None:
    """Events of an object without a namespace go to "default"."""
    cluster = FaultyApi(clock)
    async with recording_to(cluster, clock) as recorder:
        failed(recorder, pod("web", namespace=""))
        await clock.settle()
    assert cluster.events[0]["metadata"]["namespace"] == "default"


@virtual_time
async def test_events_of_one_moment_have_different_names(clock: VirtualClock) -> None:
    """Events at the same time have different names, although the name contains the time."""
    cluster = FaultyApi(clock)
    async with recording_to(cluster, clock) as recorder:
        for version in range(5):
            failed(recorder, versioned("web", version))
        await clock.settle()
    assert len({event["metadata"]["name"] for event in cluster.events}) == 5


def test_names() -> None:
    """An invalid name is replaced by a random one, which is the same for the same random source."""
    assert event_name("web", 255, Random(1)) == "web.ff"
    assert len(event_name("Web_1", 255, Random(1))) == 36
    assert len(event_name("a" * 251, 255, Random(1))) == 36
    assert event_name("Web_1", 255, Random(1)) == event_name("Web_1", 255, Random(1))


def test_times() -> None:
    """Times are RFC 3339 with exactly six decimal digits."""
    assert micro_time(1.0000004) == "1970-01-01T00:00:01.000000Z"
    assert micro_time(1.9999996) == "1970-01-01T00:00:02.000000Z"


@given(st.text(max_size=2000) | st.text(alphabet="é日😀", min_size=300, max_size=1100))
def test_notes_are_cut_between_characters(note: str) -> None:
    """A note is cut to valid text of at most 1,024 bytes, and the cut is visible."""
    cut = truncated(note)
    size = len(note.encode("utf-8", "replace"))
    assert len(cut.encode("utf-8", "replace")) <= recording.NOTE_LIMIT
    if size > recording.NOTE_LIMIT:
        assert cut.endswith(" ...")
        assert note.startswith(cut.removesuffix(" ..."))
        assert len(cut.encode()) > recording.NOTE_LIMIT - 4
    else:
        assert cut == note


@virtual_time
async def test_an_unknown_type(clock: VirtualClock) -> None:
    """Only Normal and Warning exist; any other type is logged as an error."""
    log = Lines()
    cluster = FaultyApi(clock)
    async with recording_to(cluster, clock, log=log) as recorder:
        recorder.event(PROFILE, pod("web"), "Strange", "Scheduled", "Binding", "")
        await clock.settle()
    assert not cluster.events
    assert log == [(-1, "Unsupported event type")]


# --- series -----------------------------------------------------------------------------------------------------------


@virtual_time
async def test_a_series(clock: VirtualClock) -> None:
    """The second event starts a series at once; later ones are only counted until the series ends."""
    cluster = FaultyApi(clock)
    async with recording_to(cluster, clock) as recorder:
        for _ in range(5):
            failed(recorder, versioned("web", 1))
            await clock.advance(10)
        (event,) = cluster.events
        assert event["series"] == {"count": 2, "lastObservedTime": "2026-01-01T00:00:10.000000Z"}
        assert dict(cluster.calls) == {"create_event": 1, "patch_event": 1}
        await clock.advance(12 * 60)
    (event,) = cluster.events
    assert event["series"] == {"count": 5, "lastObservedTime": "2026-01-01T00:00:40.000000Z"}
    assert dict(cluster.calls) == {"create_event": 1, "patch_event": 2}


@virtual_time
async def test_a_series_that_goes_on_is_refreshed(clock: VirtualClock) -> None:
    """Every half hour the count is written, so that the event does not expire."""
    cluster = FaultyApi(clock)
    async with recording_to(cluster, clock) as recorder:
        for _ in range(31):
            failed(recorder, versioned("web", 1))
            await clock.advance(60)
    assert cluster.events[0]["series"]["count"] in (30, 31)
    assert cluster.calls["patch_event"] == 2


@virtual_time
async def test_after_six_minutes_a_new_event(clock: VirtualClock) -> None:
    """An event that recurs after a long pause is a new event."""
    cluster = FaultyApi(clock)
    async with recording_to(cluster, clock) as recorder:
        failed(recorder, versioned("web", 1))
        await clock.advance(13 * 60)
        failed(recorder, versioned("web", 1))
        await clock.settle()
    assert len(cluster.events) == 2


@pytest.mark.parametrize("version", [2, None])
@virtual_time
async def test_what_makes_events_different(clock: VirtualClock, version: int | None) -> None:
    """A different version of the pod or a different reason makes a new event; a different note does not."""
    cluster = FaultyApi(clock)
    async with recording_to(cluster, clock) as recorder:
        failed(recorder, versioned("web", 1), "because")
        if version is None:
            failed(recorder, versioned("web", 1), "for another reason")
        else:
            failed(recorder, versioned("web", version))
        recorder.event("other", versioned("web", 1), WARNING, "FailedScheduling", "Scheduling", "because")
        await clock.settle()
    assert len(cluster.events) == (2 if version is None else 3)
    assert cluster.events[0]["note"] == "because"


@virtual_time
async def test_a_series_whose_event_is_gone(clock: VirtualClock) -> None:
    """An event that has expired on the server is recreated with the count so far."""
    cluster = FaultyApi(clock)
    async with recording_to(cluster, clock) as recorder:
        failed(recorder, versioned("web", 1))
        await clock.settle()
        cluster.fail("patch_event", ApiError(404, "NotFound", "gone"))
        (expired,) = cluster.events
        cluster.memory.store.delete("events.k8s.io/events", f"default/{expired['metadata']['name']}")
        failed(recorder, versioned("web", 1))
        await clock.settle()
    assert [event["series"]["count"] for event in cluster.events] == [2]


@virtual_time
async def test_a_second_event_during_the_first_write(clock: VirtualClock) -> None:
    """The patch waits for the creation of its event."""
    cluster = FaultyApi(clock)
    cluster.delay("create_event", 3)
    async with recording_to(cluster, clock) as recorder:
        failed(recorder, versioned("web", 1))
        await clock.advance(1)
        failed(recorder, versioned("web", 1))
        await clock.advance(5)
    assert dict(cluster.calls) == {"create_event": 1, "patch_event": 1}
    assert cluster.events[0]["series"]["count"] == 2


# --- failures ---------------------------------------------------------------------------------------------------------


@virtual_time
async def test_out_of_reach(clock: VirtualClock) -> None:
    """While the server is unreachable, each event is retried every ten seconds or a little more."""
    cluster = FaultyApi(clock)
    log = Lines()
    cluster.fail("create_event", OSError("no route to host"), times=3)
    async with recording_to(cluster, clock, log=log) as recorder:
        failed(recorder, versioned("web", 1))
        await clock.advance(29)
        assert not cluster.events
        await clock.advance(9)
        assert len(cluster.events) == 1
    assert log == [(-1, "Unable to write event (may retry after sleeping)")] * 3


@virtual_time
async def test_twelve_tries(clock: VirtualClock) -> None:
    """After twelve attempts an event is dropped, and it does not delay others."""
    cluster = FaultyApi(clock)
    log = Lines()
    cluster.fail("create_event", OSError("no route to host"), times=12)
    async with recording_to(cluster, clock, log=log) as recorder:
        failed(recorder, versioned("web", 1))
        await clock.advance(200)
        failed(recorder, versioned("api", 1))
        await clock.advance(1)
        assert recorder.abandoned == 1
    assert cluster.calls["create_event"] == 13
    assert [event["regarding"]["name"] for event in cluster.events] == ["api"]
    assert log[-1] == (-1, "Unable to write event (retry limit exceeded!)")


@virtual_time
async def test_an_outage_does_not_fill_the_memory(clock: VirtualClock) -> None:
    """No more events wait for a retry than fit in the queue; the rest are dropped."""
    cluster = FaultyApi(clock)
    cluster.fail("create_event", OSError("down"), times=math.inf)
    async with recording_to(cluster, clock, queue_size=10) as recorder:
        for number in range(30):
            failed(recorder, versioned(f"p{number}", 1))
            await clock.settle()
        assert (recorder.abandoned, recorder.pending) == (20, 0)
        cluster.heal()
        await clock.advance(60)
    assert len(cluster.events) == 10


@virtual_time
async def test_a_refusal(clock: VirtualClock) -> None:
    """An event that the server rejects is not retried."""
    cluster = FaultyApi(clock)
    log = Lines()
    cluster.fail("create_event", ApiError(403, "Forbidden", "namespace is being terminated"))
    async with recording_to(cluster, clock, log=log) as recorder:
        failed(recorder, versioned("web", 1))
        await clock.advance(60)
        assert recorder.abandoned == 1
    assert cluster.calls["create_event"] == 1
    assert log == [(-1, "Server rejected event (will not retry!)")]


@virtual_time
async def test_a_lost_answer(clock: VirtualClock) -> None:
    """An event whose response was lost is not written twice."""
    cluster = FaultyApi(clock)
    log = Lines()
    cluster.fail("create_event", OSError("connection reset"), answer_lost=True)
    async with recording_to(cluster, clock, log=log) as recorder:
        failed(recorder, versioned("web", 1))
        await clock.advance(60)
    assert len(cluster.events) == 1
    assert log[-1] == (5, "Server rejected event (will not retry!)")


@virtual_time
async def test_a_lost_answer_within_a_series(clock: VirtualClock) -> None:
    """A series finds the existing event when the response to its creation was lost."""
    cluster = FaultyApi(clock)
    cluster.fail("create_event", OSError("connection reset"), answer_lost=True)
    async with recording_to(cluster, clock) as recorder:
        failed(recorder, versioned("web", 1))
        await clock.settle()
        failed(recorder, versioned("web", 1))
        await clock.advance(60)
    (event,) = cluster.events
    assert event["series"]["count"] == 2


@virtual_time
async def test_half_of_all_calls_fail(clock: VirtualClock) -> None:
    """Even if half of all calls fail, every event arrives exactly once."""
    cluster = FaultyApi(clock, seed=3)
    cluster.fail("create_event", OSError("reset"), probability=0.3)
    cluster.fail("create_event", OSError("reset"), probability=0.3, answer_lost=True)
    cluster.fail("patch_event", OSError("reset"), probability=0.5)
    async with recording_to(cluster, clock) as recorder:
        for _ in range(3):
            for number in range(50):
                failed(recorder, versioned(f"web-{number}", 1))
            await clock.advance(1)
        await clock.advance(15 * 60)
    assert sorted(event["regarding"]["name"] for event in cluster.events) == sorted(f"web-{n}" for n in range(50))
    assert {event["series"]["count"] for event in cluster.events} == {3}


# --- never in the way -------------------------------------------------------------------------------------------------


@virtual_time
async def test_binds_first(clock: VirtualClock) -> None:
    """No event is written while a bind is in progress."""
    cluster = FaultyApi(clock)
    calls = UrgentCalls()
    calls.pending = 1
    async with recording_to(cluster, clock, urgent_calls=calls) as recorder:
        failed(recorder, versioned("web", 1))
        await clock.advance(4)
        assert not cluster.events
        calls.pending = 0
        await clock.advance(0.1)
        assert len(cluster.events) == 1


@virtual_time
async def test_binds_without_end(clock: VirtualClock) -> None:
    """A scheduler that is never idle still writes its events, a few seconds late."""
    cluster = FaultyApi(clock)
    calls = UrgentCalls()
    calls.pending = 1
    async with recording_to(cluster, clock, urgent_calls=calls) as recorder:
        for second in range(10):
            failed(recorder, versioned(f"web-{second}", 1))
            await clock.advance(1)
        assert len(cluster.events) in (5, 6)


@virtual_time
async def test_late_events_are_written_one_at_a_time(clock: VirtualClock) -> None:
    """While binds are in progress, late events are written one after another; as soon as there are none, several."""

    class SlowApi(FaultyApi):
        async def create_event(self, namespace: str, event: JSON) -> None:
            await clock.sleep(1)
            await super().create_event(namespace, event)

    cluster, calls = SlowApi(clock), UrgentCalls()
    calls.pending = 1
    async with recording_to(cluster, clock, urgent_calls=calls) as recorder:
        for number in range(10):
            failed(recorder, versioned(f"web-{number}", 1))
        await clock.advance(8.5)
        assert len(cluster.events) == 3
        calls.pending = 0
        await clock.advance(1.1)
        assert len(cluster.events) == 7


@virtual_time
async def test_a_full_queue_drops_the_oldest(clock: VirtualClock) -> None:
    """When the queue is full, the oldest events are dropped and counted, and recording continues."""
    cluster = FaultyApi(clock)
    recorder = EventRecorder(cluster, clock, queue_size=3)
    for number in range(5):
        failed(recorder, versioned(f"web-{number}", 1))
    assert (recorder.pending, recorder.dropped) == (3, 2)
    task = asyncio.create_task(recorder.run())
    assert await recorder.flush()
    task.cancel()
    assert names(cluster.events) == ["web-2", "web-3", "web-4"]


@virtual_time
async def test_flush_does_not_wait_for_ever(clock: VirtualClock) -> None:
    """On shutdown, events are written within a time limit."""
    cluster = FaultyApi(clock)
    cluster.pause("create_event")
    async with recording_to(cluster, clock) as recorder:
        failed(recorder, versioned("web", 1))
        assert not await recorder.flush(1.0)
        cluster.resume("create_event")


@virtual_time
async def test_spam(clock: VirtualClock) -> None:
    """One pod may have 25 events at once and then one every five minutes; other pods are not affected."""
    cluster = FaultyApi(clock)
    async with recording_to(cluster, clock) as recorder:
        for version in range(30):
            failed(recorder, versioned("web", version))
        failed(recorder, versioned("api", 1))
        await clock.settle()
        assert names(cluster.events).count("web") == 25
        assert names(cluster.events).count("api") == 1
        assert recorder.suppressed == 5
        await clock.advance(301)
        for version in range(100, 102):
            failed(recorder, versioned("web", version))
        await clock.settle()
    assert names(cluster.events).count("web") == 26


@virtual_time
async def test_no_spam_filter(clock: VirtualClock) -> None:
    """A burst of 0 disables the filter."""
    cluster = FaultyApi(clock)
    async with recording_to(cluster, clock, spam_burst=0) as recorder:
        for version in range(100):
            failed(recorder, versioned("web", version))
        await clock.settle()
    assert len(cluster.events) == 100


@virtual_time
async def test_memory_is_bounded(clock: VirtualClock) -> None:
    """The recorder evicts the oldest events, so that its memory does not grow with the cluster."""
    recorder = EventRecorder(FaultyApi(clock), clock, queue_size=10)
    for number in range(recording.CACHE_SIZE + 10):
        failed(recorder, versioned(f"web-{number}", 1))
    assert len(recorder._cache) == recording.CACHE_SIZE


def names(events: Iterable[dict[str, Any]]) -> list[str]:
    return [event["regarding"]["name"] for event in events]
