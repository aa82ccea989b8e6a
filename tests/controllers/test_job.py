"""Jobs: completions, parallelism, failures and cleanup."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from tests.controllers.world import World, template, world

from kubesched.apiserver.quota.ledger import QUOTAS
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.types import JSON
from kubesched.controllers.job import BURST
from kubesched.reconcile.access import JOBS, PODS


def _job(run_time: str = "10s", exit_code: int = 0, restart: str = "Never", **spec: Any) -> JSON:
    annotations = {"kubesched.io/run-time": run_time, "kubesched.io/exit-code": str(exit_code)}
    return {"template": template("job", restartPolicy=restart, annotations=annotations), **spec}


def _ended(w: World, kind: str, name: str = "pi") -> bool:
    conditions = (w.get(JOBS, name).get("status") or {}).get("conditions") or []
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)


def _message(w: World) -> str:
    return str(next(each for each in w.get(JOBS, "pi")["status"]["conditions"] if each["type"] == "Failed")["reason"])


@virtual_time
async def test_as_many_succeed_as_asked_for_a_few_at_a_time(clock: VirtualClock) -> None:
    """Five completions, two at a time, in three rounds."""
    async with world(clock) as w:
        most: list[int] = []
        w.api.store.shelf(PODS).observers.append(lambda _event: most.append(len(w.running(app="job"))))
        began = clock.now()
        w.create(JOBS, "pi", _job(completions=5, parallelism=2))
        await w.until(lambda: _ended(w, "Complete"))
        status = w.get(JOBS, "pi")["status"]
        assert (status["succeeded"], status.get("active", 0), max(most)) == (5, 0, 2)
        assert 30 <= clock.now() - began < 40
        assert "Completed" in w.reasons("pi")


@virtual_time
async def test_a_job_whose_pods_a_quota_refuses_has_started(clock: VirtualClock) -> None:
    """Its status counts the pods that it has, and its deadline passes."""
    async with world(clock) as w:
        w.create(QUOTAS, "few", {"hard": {"pods": "1"}})
        w.create(JOBS, "pi", _job("1h", parallelism=3, activeDeadlineSeconds=60))
        await clock.advance(5)
        status = w.get(JOBS, "pi")["status"]
        assert (status["active"], "startTime" in status) == (1, True)
        await w.until(lambda: _ended(w, "Failed"), 120)
        assert _message(w) == "DeadlineExceeded"


@virtual_time
async def test_failures_are_tried_again_ever_later_up_to_the_limit(clock: VirtualClock) -> None:
    """The Job fails after the back-off limit, with doubled waits between attempts."""
    async with world(clock) as w:
        w.create(JOBS, "pi", _job("1s", exit_code=3, backoffLimit=2))
        await w.until(lambda: _ended(w, "Failed"))
        assert _message(w) == "BackoffLimitExceeded"
        assert w.get(JOBS, "pi")["status"]["failed"] == 3
        assert 30 <= clock.monotonic() < 50


@virtual_time
async def test_a_container_that_is_restarted_counts_too(clock: VirtualClock) -> None:
    """With OnFailure the pod stays and its restarts count against the limit."""
    async with world(clock) as w:
        w.create(JOBS, "pi", _job("1s", exit_code=1, restart="OnFailure", backoffLimit=1))
        await w.until(lambda: _ended(w, "Failed"))
        assert len({pod["metadata"]["name"] for pod in w.pods(app="job")}) <= 1


@virtual_time
async def test_a_deadline_ends_it(clock: VirtualClock) -> None:
    """A Job that exceeds its deadline fails, and its pods are deleted."""
    async with world(clock) as w:
        w.create(JOBS, "pi", _job("1h", activeDeadlineSeconds=20))
        await w.until(lambda: _ended(w, "Failed"))
        assert _message(w) == "DeadlineExceeded"
        await clock.advance(2)
        assert w.pods(app="job") == []


@virtual_time
async def test_indexes_are_handed_out_once_each(clock: VirtualClock) -> None:
    """An indexed Job gives every completion an index."""
    async with world(clock) as w:
        w.create(JOBS, "pi", _job("1s", completions=3, parallelism=3, completionMode="Indexed"))
        await w.until(lambda: _ended(w, "Complete"))
        assert w.get(JOBS, "pi")["status"]["completedIndexes"] == "0-2"
        assert all(
            pod["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX" for pod in w.pods(app="job")
        )


@pytest.mark.parametrize("rule", [{"succeededCount": 1}, {"succeededIndexes": "0,4-5", "succeededCount": 1}])
@virtual_time
async def test_a_success_policy_ends_it_early(clock: VirtualClock, rule: JSON) -> None:
    """A Job whose success policy is met is complete; its other pods are deleted and no more are created."""
    async with world(clock) as w:
        policy = {"rules": [{"succeededIndexes": "3-4"}, rule]}
        w.create(JOBS, "pi", _job("1s", completions=6, completionMode="Indexed", successPolicy=policy))
        await w.until(lambda: _ended(w, "Complete"))
        status = w.get(JOBS, "pi")["status"]
        assert (status["completedIndexes"], status["succeeded"]) == ("0", 1)
        ends = {(each["reason"], each["message"]) for each in status["conditions"]}
        assert ends == {("SuccessPolicy", "Matched rules at index 1")}


@virtual_time
async def test_a_pod_that_has_ended_counts_even_when_it_is_deleted(clock: VirtualClock) -> None:
    """Deleting finished pods of a running Job does not make it start over."""
    async with world(clock) as w:
        w.create(JOBS, "pi", _job("5s", completions=2))
        await w.until(lambda: (w.get(JOBS, "pi").get("status") or {}).get("succeeded") == 1)
        done = next(pod for pod in w.pods(app="job") if pod["status"]["phase"] == "Succeeded")
        w.delete(PODS, done["metadata"]["name"])
        await w.until(lambda: _ended(w, "Complete"), timeout=9)


@virtual_time
async def test_it_is_deleted_some_time_after_its_end(clock: VirtualClock) -> None:
    """A Job with a TTL is deleted with its pods after that time."""
    async with world(clock) as w:
        w.create(JOBS, "pi", _job("1s", ttlSecondsAfterFinished=60))
        await w.until(lambda: _ended(w, "Complete"))
        await clock.advance(55)
        assert w.names(JOBS) == ["pi"]
        await clock.advance(10)
        assert (w.names(JOBS), w.names(PODS)) == ([], [])


@virtual_time
async def test_a_condition_without_a_time_is_survived(clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    """A user may write one. When the Job ended is not known then, so that it stays."""
    async with world(clock, nodes=0) as w:
        w.create(JOBS, "pi", _job("1s", ttlSecondsAfterFinished=5))
        done = {"conditions": [{"type": "Complete", "status": "True"}, {"reason": "odd"}]}
        w.access.edit(JOBS, "default/pi", lambda job: job.update(status=done), "status")
        await clock.advance(60)
        assert w.names(JOBS) == ["pi"]
        assert not [each for each in caplog.records if each.exc_info]


@virtual_time
async def test_with_a_finalizer_it_is_deleted_once(clock: VirtualClock) -> None:
    """A finished Job that a finalizer holds after its TTL is not written again and again."""
    async with world(clock) as w:
        w.create(JOBS, "pi", _job("1s", ttlSecondsAfterFinished=5), finalizers=["example.com/hold"])
        await w.until(lambda: _ended(w, "Complete"))
        await clock.advance(10)
        before = w.get(JOBS, "pi")
        assert "deletionTimestamp" in before["metadata"]
        await clock.advance(10)
        assert w.get(JOBS, "pi") == before


@pytest.mark.parametrize("mode", ["NonIndexed", "Indexed"])
@virtual_time
async def test_a_great_number_of_pods_is_created_in_parts(clock: VirtualClock, mode: str) -> None:
    """A Job of very many pods creates some at a time, so that others have their turn."""
    async with world(clock, nodes=0) as w:
        w.create(JOBS, "pi", _job(parallelism=2200, completions=2200, completionMode=mode))
        counts = [0]
        while counts[-1] < 2200:
            await clock.sleep(0.001)
            counts.append(len(w.names(PODS)))
        assert (
            max(after - before for before, after in pairwise(counts)) <= 2 * BURST
        )  # the first pods cause a sync at once


@virtual_time
async def test_suspended_it_has_no_pods(clock: VirtualClock) -> None:
    """Suspending a Job deletes its pods, and resuming creates new ones."""
    async with world(clock) as w:
        w.create(JOBS, "pi", _job("20s", suspend=True))
        await clock.advance(5)
        assert w.names(PODS) == []
        assert _ended(w, "Suspended")
        w.edit(JOBS, "pi", suspend=False)
        await w.until(lambda: _ended(w, "Complete"))
        assert not _ended(w, "Suspended")
        assert w.reasons("pi") == ["Suspended", "SuccessfulCreate", "Resumed", "Completed"]


@virtual_time
async def test_a_decided_job_ends_when_its_pods_have(clock: VirtualClock) -> None:
    """With a pod that takes its time to stop, the Job has SuccessCriteriaMet at once and Complete afterwards."""
    async with world(clock) as w:
        policy = {"rules": [{"succeededCount": 1}]}
        slow = {"kubesched.io/stop-time": "20s", "kubesched.io/run-time": "1s"}
        pod = template("pi", restartPolicy="Never", annotations=slow)
        pod["spec"]["containers"][0]["command"] = ["run"]
        w.create(
            JOBS,
            "pi",
            {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "template": pod, "successPolicy": policy},
        )
        await w.until(lambda: len(w.pods(app="pi")) == 2)
        w.annotate(PODS, w.pods(app="pi")[1]["metadata"]["name"], **{"kubesched__io_run-time": "1h"})

        def kinds() -> list[str]:
            return [each["type"] for each in w.get(JOBS, "pi")["status"].get("conditions", [])]

        await w.until(lambda: kinds() == ["SuccessCriteriaMet"])
        assert w.get(JOBS, "pi")["status"]["terminating"] == 1
        await w.until(lambda: kinds() == ["SuccessCriteriaMet", "Complete"])
        status = w.get(JOBS, "pi")["status"]
        assert (status["terminating"], status["ready"], status.get("active")) == (0, 0, None)
