"""CronJobs: create Jobs on a schedule, and delete old ones."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, tzinfo
from email.utils import format_datetime
from typing import Any
from zoneinfo import ZoneInfo

from kubesched.apiserver.meta import parse_timestamp, timestamp
from kubesched.apiserver.storage.store import StoreEvent
from kubesched.apiserver.validation.cron_schedule import Schedule, ScheduleError, parse_schedule
from kubesched.apiserver.wire.status import StatusError
from kubesched.base.types import JSON
from kubesched.controllers.job import finished_condition
from kubesched.controllers.ownership import controller_reference, owner_of
from kubesched.reconcile.access import CRON_JOBS, JOBS
from kubesched.reconcile.cache import Cache, Index, is_news
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.events import reference
from kubesched.reconcile.loop import Controller
from kubesched.reconcile.views import View

SCHEDULED_TIMESTAMP = "batch.kubernetes.io/cronjob-scheduled-timestamp"
DELAY = 0.1
"""Seconds after a scheduled time at which to look, as upstream: never before it."""
MANY_MISSED = 100
_NEVER = "time difference between two schedules is less than 1 second"


class CronJobController(Controller):
    """Starts the Jobs of CronJobs when they are due."""

    name = "cronjob-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context.loop)
        self._context = context
        self._access = context.access
        jobs = Cache(self._access.store.shelf(JOBS), View)
        self._jobs_by_owner: Index[View] = jobs.index(_owner_uid)
        shelf = self._access.store.shelf(CRON_JOBS)
        shelf.observers.append(self._on_cron_job)
        for key in shelf.sorted_keys():
            self.enqueue(key)
        jobs.watch(self._on_job)

    def _on_cron_job(self, event: StoreEvent) -> None:
        if is_news(event, self._access):
            self.enqueue(event.record.key)

    def _on_job(self, old: View | None, new: View | None) -> None:
        for job in (old, new):
            owner = job.metadata.controller if job is not None else None
            if job is not None and owner is not None and owner.kind == "CronJob":
                self.enqueue(f"{job.metadata.namespace}/{owner.name}")

    def sync(self, key: str) -> None:
        cron_job = self._access.get(CRON_JOBS, key)
        if cron_job is None:
            return
        found = [self._access.get(JOBS, view.key) for view in self._jobs_by_owner.get(cron_job["metadata"]["uid"])]
        jobs = [job for job in found if job is not None]
        status: JSON = dict(cron_job.get("status") or {})
        self._update_active(cron_job, status, jobs)
        self._delete_history(cron_job, jobs)
        try:
            if "deletionTimestamp" not in cron_job["metadata"] and not cron_job["spec"].get("suspend"):
                self._start_if_due(key, cron_job, status)
        finally:
            self._access.edit_status(CRON_JOBS, key, lambda obj: obj.update(status=status), cron_job["metadata"]["uid"])

    # --- jobs that exist ----------------------------------------------------------------------------------------------

    def _update_active(self, cron_job: JSON, status: JSON, jobs: list[JSON]) -> None:
        """Remove finished and missing Jobs from the active list."""
        by_uid = {job["metadata"]["uid"]: job for job in jobs}
        active = []
        for entry in status.get("active") or []:
            job, name = by_uid.get(entry.get("uid")), entry.get("name", "")
            if job is None:
                self._record(cron_job, "Normal", "MissingJob", f"Active job went missing: {name}")
            elif outcome := finished_condition(job):
                text = f"Saw completed job: {name}, condition: {outcome}"
                self._record(cron_job, "Normal", "SawCompletedJob", text)
            else:
                active.append({**entry, "name": job["metadata"]["name"]})
        _set(status, "active", active)
        completed = [job["status"].get("completionTime", "") for job in jobs if finished_condition(job) == "Complete"]
        _set(status, "lastSuccessfulTime", max([status.get("lastSuccessfulTime", ""), *completed]))

    def _delete_history(self, cron_job: JSON, jobs: list[JSON]) -> None:
        """Delete the oldest finished Jobs beyond the history limits."""
        limits = (("Complete", "successfulJobsHistoryLimit", 3), ("Failed", "failedJobsHistoryLimit", 1))
        for outcome, field, default in limits:
            finished = [job for job in jobs if finished_condition(job) == outcome]
            finished.sort(key=lambda job: (job["status"].get("startTime", ""), job["metadata"]["name"]))
            for job in finished[: max(0, len(finished) - cron_job["spec"].get(field, default))]:
                self._delete(cron_job, job["metadata"])

    def _delete(self, cron_job: JSON, meta: JSON) -> None:
        key = f"{cron_job['metadata']['namespace']}/{meta['name']}"
        self._access.delete(JOBS, key, uid=meta["uid"], propagation="Background")
        self._record(cron_job, "Normal", "SuccessfulDelete", f"Deleted job {meta['name']}")

    # --- starting -----------------------------------------------------------------------------------------------------

    def _start_if_due(self, key: str, cron_job: JSON, status: JSON) -> None:
        schedule = self._schedule(cron_job)
        if schedule is None:
            return
        now = self._access.clock.now()
        since = parse_timestamp(status.get("lastScheduleTime") or cron_job["metadata"]["creationTimestamp"])
        due = schedule.latest(since, now)
        upcoming = schedule.next(since if due is None else due)
        if upcoming is None:
            self._record(
                cron_job, "Warning", "InvalidSchedule", f"invalid schedule: {cron_job['spec']['schedule']} : {_NEVER}"
            )
            return
        self.enqueue(key, max(upcoming - now, 0.0) + DELAY)
        if due is not None and self._may_start(cron_job, status, schedule, since, due):
            self._start(cron_job, status, due)

    def _schedule(self, cron_job: JSON) -> Schedule | None:
        """Parse the schedule and the time zone. Records an event and returns None if one of them is invalid."""
        try:
            return parse_schedule(cron_job["spec"]["schedule"], _zone(cron_job))
        except ScheduleError as error:
            text = f'unparseable schedule: "{cron_job["spec"]["schedule"]}" : {error}'
            self._record(cron_job, "Warning", "UnparseableSchedule", text)
        except (KeyError, ValueError, OSError):
            name = cron_job["spec"]["timeZone"]
            text = f'invalid timeZone: "{name}": unknown time zone {name}'
            self._record(cron_job, "Warning", "UnknownTimeZone", text)
        return None

    def _may_start(self, cron_job: JSON, status: JSON, schedule: Schedule, since: float, due: float) -> bool:
        """Check the deadline and the concurrency policy. With Replace, delete the active Jobs."""
        spec, now = cron_job["spec"], self._access.clock.now()
        deadline = spec.get("startingDeadlineSeconds")
        if deadline is not None and due + deadline < now:
            when = format_datetime(datetime.fromtimestamp(due, UTC))
            self._record(cron_job, "Warning", "MissSchedule", f"Missed scheduled time to start a job: {when}")
            return False
        if deadline is None and _missed(schedule, since, now) > MANY_MISSED:
            text = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            self._record(cron_job, "Warning", "TooManyMissedTimes", text)
        if spec.get("concurrencyPolicy") == "Forbid" and status.get("active"):
            text = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self._record(cron_job, "Normal", "JobAlreadyActive", text)
            return False
        if spec.get("concurrencyPolicy") == "Replace":
            for entry in status.pop("active", []):
                self._delete(cron_job, entry)
        return True

    def _start(self, cron_job: JSON, status: JSON, due: float) -> None:
        job = self._create(cron_job, due)
        if job is None:
            return
        status["active"] = [*(status.get("active") or []), reference(job)]
        status["lastScheduleTime"] = timestamp(due)

    def _create(self, cron_job: JSON, due: float) -> JSON | None:
        """Create the Job for a time. Its name contains the time, so that there is never a second one."""
        template, meta = cron_job["spec"]["jobTemplate"], cron_job["metadata"]
        described = template.get("metadata") or {}
        when = datetime.fromtimestamp(due, _zone(cron_job)).isoformat(timespec="seconds").replace("+00:00", "Z")
        job_meta: JSON = {
            "name": f"{meta['name']}-{int(due) // 60}",
            "namespace": meta["namespace"],
            "annotations": {**(described.get("annotations") or {}), SCHEDULED_TIMESTAMP: when},
            "ownerReferences": [controller_reference(cron_job)],
        }
        if described.get("labels"):
            job_meta["labels"] = dict(described["labels"])
        try:
            job = self._access.create(JOBS, {"metadata": job_meta, "spec": copy.deepcopy(template["spec"])})
        except StatusError as error:
            if error.reason == "AlreadyExists":
                found = self._access.get(JOBS, f"{meta['namespace']}/{job_meta['name']}")
                owner = owner_of(found) if found is not None else None
                return found if owner is not None and owner.get("uid") == meta["uid"] else None
            self._record(cron_job, "Warning", "FailedCreate", f"Error creating job: {error.message}")
            raise
        self._record(cron_job, "Normal", "SuccessfulCreate", f"Created job {job_meta['name']}")
        return job

    def _record(self, cron_job: JSON, kind: str, reason: str, message: str) -> None:
        self._context.events.record(self.name, reference(cron_job), kind, reason, message)


def _zone(cron_job: JSON) -> tzinfo:
    name = cron_job["spec"].get("timeZone")
    return ZoneInfo(name) if name else UTC


def _missed(schedule: Schedule, since: float, now: float) -> float:
    """Estimate how many times have passed, from the distance of the first two."""
    first = schedule.next(since)
    second = schedule.next(first) if first is not None else None
    return (now - first) / (second - first) + 1 if first is not None and second is not None else 0.0


def _owner_uid(job: View) -> tuple[str, ...]:
    owner = job.metadata.controller
    return (owner.uid,) if owner is not None else ()


def _set(status: JSON, field: str, value: Any) -> None:
    """Set a field, or remove it if it is empty."""
    if value:
        status[field] = value
    else:
        status.pop(field, None)
