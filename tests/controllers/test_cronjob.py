"""CronJobs: when Jobs start, what happens to those still running, and what is kept."""

from __future__ import annotations

from typing import Any

from tests.controllers.world import World, template, world

from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.types import JSON
from kubesched.reconcile.access import CRON_JOBS, JOBS

MINUTE = 60.0


def _cron_job(schedule: str = "*/5 * * * *", run_time: str = "10s", exit_code: int = 0, **spec: Any) -> JSON:
    annotations = {"kubesched.io/run-time": run_time, "kubesched.io/exit-code": str(exit_code)}
    pod = template("cron", restartPolicy="Never", annotations=annotations)
    job = {"metadata": {"labels": {"by": "cron"}}, "spec": {"template": pod, "backoffLimit": 0}}
    return {"schedule": schedule, "jobTemplate": job, **spec}


def _active(w: World) -> list[str]:
    return [each["name"] for each in (w.get(CRON_JOBS, "c").get("status") or {}).get("active") or []]


@virtual_time
async def test_jobs_start_on_schedule_and_old_ones_go(clock: VirtualClock) -> None:
    """A Job starts every five minutes, and the three latest successful ones are kept."""
    async with world(clock) as w:
        w.create(CRON_JOBS, "c", _cron_job())
        await clock.advance(5.1 * MINUTE)
        (name,) = w.names(JOBS)
        job = w.get(JOBS, name)
        minutes = int(name.removeprefix("c-"))
        assert minutes % 5 == 0
        assert job["metadata"]["labels"]["by"] == "cron"
        assert "batch.kubernetes.io/cronjob-scheduled-timestamp" in job["metadata"]["annotations"]
        await clock.advance(30.5 * MINUTE)
        assert w.names(JOBS) == [f"c-{minutes + 5 * n}" for n in (4, 5, 6)]
        status = w.get(CRON_JOBS, "c")["status"]
        assert "active" not in status
        assert status["lastSuccessfulTime"] > status["lastScheduleTime"]
        assert {"SuccessfulCreate", "SawCompletedJob", "SuccessfulDelete"} <= set(w.reasons("c"))


@virtual_time
async def test_failed_jobs_have_a_limit_of_their_own(clock: VirtualClock) -> None:
    """Of failed Jobs only one is kept by default."""
    async with world(clock) as w:
        w.create(CRON_JOBS, "c", _cron_job(exit_code=1))
        await clock.advance(31 * MINUTE)
        assert len(w.names(JOBS)) == 1
        assert "lastSuccessfulTime" not in w.get(CRON_JOBS, "c")["status"]


@virtual_time
async def test_allow_runs_jobs_side_by_side(clock: VirtualClock) -> None:
    """With Allow, the default, a new Job starts although the previous ones still run."""
    async with world(clock) as w:
        w.create(CRON_JOBS, "c", _cron_job(run_time="12m"))
        await clock.advance(11 * MINUTE)
        assert len(_active(w)) == 2


@virtual_time
async def test_forbid_starts_the_job_when_the_previous_one_ends(clock: VirtualClock) -> None:
    """With Forbid there is one Job at a time, and the latest missed time is made up for."""
    async with world(clock) as w:
        w.create(CRON_JOBS, "c", _cron_job(run_time="6m", concurrencyPolicy="Forbid"))
        await w.until(lambda: len(_active(w)) == 1, 6 * MINUTE)
        first = _active(w)
        await clock.advance(5.5 * MINUTE)
        assert _active(w) == first
        assert "JobAlreadyActive" in w.reasons("c")
        await clock.advance(1 * MINUTE)
        assert len(_active(w)) == 1
        assert _active(w) != first


@virtual_time
async def test_replace_deletes_the_previous_job(clock: VirtualClock) -> None:
    """With Replace the running Job is deleted when the next one is due."""
    async with world(clock) as w:
        w.create(CRON_JOBS, "c", _cron_job(run_time="12m", concurrencyPolicy="Replace"))
        await w.until(lambda: len(_active(w)) == 1, 6 * MINUTE)
        first = _active(w)
        await clock.advance(5.5 * MINUTE)
        assert len(w.names(JOBS)) == 1
        assert w.names(JOBS) == _active(w) != first


@virtual_time
async def test_a_suspended_one_starts_nothing_until_it_is_resumed(clock: VirtualClock) -> None:
    """Resumed within the deadline, it makes up for the latest missed time; after it, it waits for the next."""
    async with world(clock) as w:
        w.create(CRON_JOBS, "c", _cron_job("0 * * * *", suspend=True))
        w.create(CRON_JOBS, "late", _cron_job("0 * * * *", suspend=True, startingDeadlineSeconds=1))
        await clock.advance(61 * MINUTE)
        assert w.names(JOBS) == []
        for name in ("c", "late"):
            w.edit(CRON_JOBS, name, suspend=False)
        await clock.advance(5)
        (name,) = w.names(JOBS)
        assert name.startswith("c-")
        assert "MissSchedule" in w.reasons("late")


@virtual_time
async def test_the_schedule_is_in_its_time_zone(clock: VirtualClock) -> None:
    """Six o'clock in India is half past midnight UTC, and the annotation of the Job has the local time."""
    async with world(clock) as w:
        w.create(CRON_JOBS, "c", _cron_job("0 6 * * *", timeZone="Asia/Kolkata"))
        await clock.advance(60 * MINUTE)
        (name,) = w.names(JOBS)
        assert int(name.removeprefix("c-")) % (24 * 60) == 30
        annotations = w.get(JOBS, name)["metadata"]["annotations"]
        assert annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"].endswith("T06:00:00+05:30")


def _store(w: World, name: str, **spec: str) -> None:
    """Store a zone or a schedule that the API server would refuse, as if it had been accepted once."""
    resource = w.api.resource("batch", "v1", "cronjobs")
    record = w.api.writer.find(resource, "default", name)
    stored = record.load()
    w.api.writer.put(resource, record, {**stored, "spec": {**stored["spec"], **spec}})


@virtual_time
async def test_what_is_wrong_is_an_event(clock: VirtualClock) -> None:
    """An unknown time zone, a schedule that cannot be parsed and a day that never comes start nothing."""
    async with world(clock) as w:
        w.create(CRON_JOBS, "zone", _cron_job(timeZone="Europe/Berlin"))
        _store(w, "zone", timeZone="Mars/Olympus")
        w.create(CRON_JOBS, "text", _cron_job())
        _store(w, "text", schedule="99 * * * *")
        w.create(CRON_JOBS, "never", _cron_job("0 0 31 2 *"))
        await clock.advance(10 * MINUTE)
        assert w.names(JOBS) == []
        assert w.reasons("zone") == ["UnknownTimeZone"]
        assert w.reasons("text") == ["UnparseableSchedule"]
        assert w.reasons("never") == ["InvalidSchedule"]


@virtual_time
async def test_its_jobs_go_with_it(clock: VirtualClock) -> None:
    """Deleting a CronJob deletes its Jobs and their pods."""
    async with world(clock) as w:
        w.create(CRON_JOBS, "c", _cron_job(run_time="1h"))
        await clock.advance(6 * MINUTE)
        assert len(w.running(app="cron")) == 1
        w.delete(CRON_JOBS, "c")
        await w.until(lambda: not w.names(JOBS) and not w.pods(app="cron"), 60)
