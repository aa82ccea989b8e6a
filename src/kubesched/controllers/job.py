"""Jobs: run pods until the desired number has succeeded, a few at a time."""

from __future__ import annotations

from itertools import islice

from kubesched.apiserver.job_indexes import index_ranges
from kubesched.apiserver.meta import parse_timestamp
from kubesched.apiserver.storage.store import ChangeType, StoreEvent
from kubesched.base.types import JSON
from kubesched.controllers.job_groups import JobGroups, join_group
from kubesched.controllers.ownership import claimed_pods, create_pod, delete_pod, pod_from, selector_of
from kubesched.reconcile.access import JOBS
from kubesched.reconcile.cache import is_news
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.events import reference
from kubesched.reconcile.loop import Controller
from kubesched.reconcile.views import Owner, Pod

FIRST_BACKOFF, LAST_BACKOFF = 10.0, 600.0
BURST = 500
"""Pods created at a time, as upstream. The rest follows in the next sync."""
INDEX = "batch.kubernetes.io/job-completion-index"
MAX_DIGITS = 10
"""An index has 32 bits, and Python refuses to read numbers of thousands of digits."""
_INDEX_VARIABLE: JSON = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}},
}

_BEFORE = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}
"""The condition that a Job has before each of its ends, while its pods end."""


class JobController(Controller):
    """Runs Jobs to completion."""

    name = "job-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context.loop)
        self._context = context
        self._access = context.access
        self._failed_at: dict[str, dict[str, float]] = {}
        self._ended: dict[str, dict[str, Pod]] = {}
        """The ended pods of each Job, by UID. They count even after they are deleted."""
        self._groups = JobGroups(context, self.name) if context.features.workload_with_job else None
        shelf = self._access.store.shelf(JOBS)
        shelf.observers.append(self._on_job)
        for key in shelf.sorted_keys():
            self.enqueue(key)
        context.owned_pods.watch("Job", self._on_pod)

    def _on_job(self, event: StoreEvent) -> None:
        if is_news(event, self._access) or b'"completionTime"' in event.record.data or b'"Failed"' in event.record.data:
            # The end of a Job is in its status, and the Job may have to be deleted later.
            self.enqueue(event.record.key)
        if event.change is ChangeType.DELETED:
            uid = event.record.load()["metadata"]["uid"]
            self._failed_at.pop(uid, None)
            self._ended.pop(uid, None)

    def _on_pod(self, owner: Owner, pod: Pod, _relabelled: bool) -> None:
        size = self._context.pods_by_owner.size(owner.uid)
        self.enqueue_one_of(f"{pod.metadata.namespace}/{owner.name}", size)
        if pod.has_ended:
            self._ended.setdefault(owner.uid, {})[pod.metadata.uid] = pod
        if pod.status.phase == "Failed":
            failures = self._failed_at.setdefault(owner.uid, {})
            failures.setdefault(pod.metadata.uid, self._access.clock.monotonic())

    def sync(self, key: str) -> None:
        job = self._access.get(JOBS, key)
        if job is None:
            return
        uid = job["metadata"]["uid"]
        if finished_condition(job):
            self._delete_after_ttl(key, job)
            return
        pods = claimed_pods(self._context, job, selector_of(job))
        if "deletionTimestamp" in job["metadata"]:
            return
        state = self._state(job, pods)
        group = None if self._groups is None else self._groups.group_of(job, started=_has_started(job, pods))
        outcome = _decided(job) or self._outcome(key, job, state)
        try:
            if outcome is not None or job["spec"].get("suspend"):
                for pod in state.active:
                    delete_pod(self._context, self.name, pod, reference(job))
            else:
                self._manage(key, job, state, group)
        finally:  # also if a quota refuses a pod: the Job has started, and its deadline counts from now
            self._write_status(key, job, self._state(job, self._context.pods_by_owner.get(uid)), outcome)

    def _state(self, job: JSON, pods: list[Pod]) -> _State:
        known = {pod.metadata.uid for pod in pods}
        gone = [pod for uid, pod in self._ended.get(job["metadata"]["uid"], {}).items() if uid not in known]
        return _State(job, [*pods, *gone])

    # --- the end ------------------------------------------------------------------------------------------------------

    def _outcome(self, key: str, job: JSON, state: _State) -> tuple[str, str, str] | None:
        """Return Complete or Failed with reason and message; None if the Job is not finished."""
        spec = job["spec"]
        if state.failures > spec.get("backoffLimit", 6):
            return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        started = (job.get("status") or {}).get("startTime")
        deadline = spec.get("activeDeadlineSeconds")
        if deadline is not None and started and not spec.get("suspend"):
            left = parse_timestamp(started) + deadline - self._access.clock.now()
            if left <= 0:
                return "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
            self.enqueue(key, left)
        if (rule := state.matched_rule((spec.get("successPolicy") or {}).get("rules") or [])) is not None:
            return "Complete", "SuccessPolicy", f"Matched rules at index {rule}"
        wanted = spec.get("completions")
        # Without completions it is a work queue: done when one pod has succeeded and all others have ended.
        queue_done = wanted is None and state.succeeded > 0 and not state.active
        if queue_done or (wanted is not None and state.succeeded >= wanted):
            return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
        return None

    def _delete_after_ttl(self, key: str, job: JSON) -> None:
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        self._failed_at.pop(job["metadata"]["uid"], None)
        self._ended.pop(job["metadata"]["uid"], None)
        if ttl is None or "deletionTimestamp" in job["metadata"]:  # a finalizer may hold it for any time
            return
        times = [each["lastTransitionTime"] for each in job["status"]["conditions"] if each.get("lastTransitionTime")]
        if not times:  # a user has written the conditions
            return
        left = max(map(parse_timestamp, times)) + ttl - self._access.clock.now()
        if left > 0:
            self.enqueue(key, left)
        else:
            self._access.delete(JOBS, key, uid=job["metadata"]["uid"], propagation="Foreground")

    # --- pods ---------------------------------------------------------------------------------------------------------

    def _manage(self, key: str, job: JSON, state: _State, group: JSON | None) -> None:
        spec = job["spec"]
        wanted, parallelism = spec.get("completions"), spec.get("parallelism", 1)
        room = parallelism - len(state.active)
        if wanted is not None:
            room = min(room, wanted - state.succeeded - len(state.active))
        elif state.succeeded:
            room = 0
        if room < 0:
            for pod in sorted(state.active, key=lambda pod: (pod.is_ready, pod.metadata.name))[:-room]:
                delete_pod(self._context, self.name, pod, reference(job))
        elif room and (wait := self._backoff(job)) > 0:
            self.enqueue(key, wait)
        elif room:
            some = min(room, BURST)
            for index in state.missing_indexes(some) if state.indexed else [None] * some:
                self._create(job, index, group)
            if room > BURST:
                self.enqueue_one_of(key, BURST)  # later, so that others have their turn

    def _backoff(self, job: JSON) -> float:
        """Return how long to wait before creating pods again after failures."""
        failures = self._failed_at.get(job["metadata"]["uid"])
        if not failures:
            return 0.0
        wait: float = min(FIRST_BACKOFF * 2 ** min(len(failures) - 1, 10), LAST_BACKOFF)
        return max(failures.values()) + wait - self._access.clock.monotonic()

    def _create(self, job: JSON, index: int | None, group: JSON | None) -> None:
        name = job["metadata"]["name"]
        if index is None:
            pod = pod_from(job["spec"]["template"], job, generateName=f"{name}-")
        else:
            pod = pod_from(job["spec"]["template"], job, name=f"{name}-{index}-{self._access.names.suffix()}")
            for part in ("annotations", "labels"):
                pod["metadata"][part] = {**(pod["metadata"].get(part) or {}), INDEX: str(index)}
            pod["spec"]["hostname"] = f"{name}-{index}"
            for container in (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]):
                container["env"] = [*(container.get("env") or []), _INDEX_VARIABLE]
        if group is not None:
            join_group(pod, group)
        create_pod(self._context, self.name, job, pod, reference(job))

    # --- status -------------------------------------------------------------------------------------------------------

    def _write_status(self, key: str, job: JSON, state: _State, outcome: tuple[str, str, str] | None) -> None:
        """Write the status. A Job whose outcome is decided ends when its pods have."""
        now = self._access.now()
        ends = outcome is not None and not state.remaining
        suspended = bool(job["spec"].get("suspend"))
        changed = suspended is not _is_suspended(job)

        def edit(obj: JSON) -> None:
            old = obj["status"]
            counts = {
                "active": len(state.active),
                "succeeded": state.succeeded,
                "failed": state.failed,
                "ready": sum(pod.is_ready for pod in state.active),
            }
            status: JSON = {name: count for name, count in counts.items() if count or name == "ready"}
            status |= {
                "terminating": sum(pod.metadata.being_deleted for pod in state.remaining),
                "uncountedTerminatedPods": {},
            }
            if state.indexed and state.succeeded:
                status["completedIndexes"] = state.completed_indexes()
            if not suspended:
                status["startTime"] = now if changed else old.get("startTime") or now
            conditions = list(old.get("conditions") or [])
            if changed:
                conditions = [each for each in conditions if each.get("type") != "Suspended"]
                conditions.append(_suspension(suspended, now))
            if outcome is not None:
                kind, reason, message = outcome
                if _decided(obj) is None:
                    conditions.append(_condition(_BEFORE[kind], reason, message, now))
                if ends:
                    conditions.append(_condition(kind, reason, message, now))
                    if kind == "Complete":
                        status["completionTime"] = now
            if conditions:
                status["conditions"] = conditions
            obj["status"] = status

        self._access.edit_status(JOBS, key, edit, job["metadata"]["uid"])
        if changed:
            reason, text = ("Suspended", "Job suspended") if suspended else ("Resumed", "Job resumed")
            self._context.events.record(self.name, reference(job), "Normal", reason, text)
        if outcome is not None and ends:
            kind, reason, message = outcome
            level, event = ("Normal", "Completed") if kind == "Complete" else ("Warning", reason)
            text = "Job completed" if kind == "Complete" else message
            self._context.events.record(self.name, reference(job), level, event, text)


class _State:
    """The counted pods of a Job."""

    def __init__(self, job: JSON, pods: list[Pod]) -> None:
        self.pods = pods
        self.indexed = job["spec"].get("completionMode") == "Indexed"
        self._completions = job["spec"].get("completions") or 0
        self.active = [pod for pod in pods if pod.is_active]
        self.remaining = [pod for pod in pods if not pod.has_ended]
        """Pods that have not ended, with those that are being deleted."""
        done = [pod for pod in pods if pod.status.phase == "Succeeded"]
        self._done = sorted({index for pod in done if (index := _index(pod)) is not None})
        self.succeeded = len(self._done) if self.indexed else len(done)
        self.failed = sum(pod.status.phase == "Failed" for pod in pods)
        restarts = sum(pod.restarts for pod in self.active if pod.spec.restart_policy == "OnFailure")
        self.failures = self.failed + restarts

    def missing_indexes(self, count: int) -> list[int]:
        taken = {_index(pod) for pod in self.active} | set(self._done)
        return list(islice((index for index in range(self._completions) if index not in taken), count))

    def matched_rule(self, rules: list[JSON]) -> int | None:
        """Return the number of the first rule of a success policy that is met."""
        for number, rule in enumerate(rules):
            count, wanted, done = rule.get("succeededCount"), 1, self._done
            if (text := rule.get("succeededIndexes")) is not None:
                ranges = index_ranges(text)
                wanted = sum(len(each) for each in ranges)
                done = [index for index in done if any(index in each for each in ranges)]
            if len(done) >= (wanted if count is None else count):
                return number
        return None

    def completed_indexes(self) -> str:
        """Format the completed indexes like upstream: 0,2-5"""
        parts: list[list[int]] = []
        for index in self._done:
            if parts and parts[-1][-1] == index - 1:
                parts[-1].append(index)
            else:
                parts.append([index])
        return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def _index(pod: Pod) -> int | None:
    """A pod's index, from an annotation, which its owner may have changed to anything; None if it is none."""
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isdecimal() and len(text) < MAX_DIGITS else None


def finished_condition(job: JSON) -> str:
    """Return Complete or Failed for a Job that has ended, otherwise an empty string."""
    conditions = (job.get("status") or {}).get("conditions") or []
    ends = (
        each.get("type")
        for each in conditions
        if each.get("type") in ("Complete", "Failed") and each.get("status") == "True"
    )
    return next(ends, "")


def _decided(job: JSON) -> tuple[str, str, str] | None:
    """The outcome of a Job that waits for its pods to end."""
    for each in (job.get("status") or {}).get("conditions") or ():
        for outcome, before in _BEFORE.items():
            if each.get("type") == before and each.get("status") == "True":
                return outcome, each.get("reason", ""), each.get("message", "")
    return None


def _has_started(job: JSON, pods: list[Pod]) -> bool:
    status = job.get("status") or {}
    suspended = any(each.get("type") == "Suspended" for each in status.get("conditions") or [])
    return bool(pods or suspended or any(status.get(field) for field in ("startTime", "succeeded", "failed")))


def _is_suspended(job: JSON) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or []
    return any(each.get("type") == "Suspended" and each.get("status") == "True" for each in conditions)


def _suspension(suspended: bool, now: str) -> JSON:
    if suspended:
        return _condition("Suspended", "JobSuspended", "Job suspended", now)
    return {**_condition("Suspended", "JobResumed", "Job resumed", now), "status": "False"}


def _condition(kind: str, reason: str, message: str, now: str) -> JSON:
    times = {"lastProbeTime": now, "lastTransitionTime": now}
    return {"type": kind, "status": "True", **times, "reason": reason, "message": message}
