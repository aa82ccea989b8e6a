"""Writes the results of attempts to their pods."""

from __future__ import annotations

import asyncio
from typing import Final

from kubesched.api import objects as api
from kubesched.base.log import ERROR, Log
from kubesched.client.protocol import ApiError, Client
from kubesched.history.annotations import Results
from kubesched.history.record import AttemptRecord
from kubesched.scheduler.attempt import Attempt
from kubesched.scheduler.tasks import Tasks

TRIES: Final = 5
AT_ONCE: Final = 16
BACKLOG: Final = 1000
"""Attempts that may wait to be written; more are left out."""
FORBIDDEN: Final = "give the scheduler the right to patch pods, or leave out --annotate-results"


class Annotator:
    """Patches pods, beside everything else: nothing waits for it."""

    def __init__(self, client: Client, log: Log) -> None:
        self.left_out = 0
        self._client = client
        self._log = log
        self._tasks = Tasks(log)
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._last: dict[str, asyncio.Task[None]] = {}
        self._warned = False

    def put(self, record: AttemptRecord, attempt: Attempt) -> None:
        """Write an attempt that has ended to its pod, after those before it."""
        if len(self._tasks) >= BACKLOG:
            self.left_out += 1
            return
        uid = record.uid
        work = self._write(self._last.get(uid), Results.of(record, attempt))
        task = self._last[uid] = self._tasks.spawn(work)
        task.add_done_callback(lambda done: self._forget(uid, done))

    async def close(self, seconds: float = 5.0) -> None:
        """Wait for what is under way."""
        await self._tasks.drain(seconds)

    def _forget(self, uid: str, done: asyncio.Task[None]) -> None:
        if self._last.get(uid) is done:
            del self._last[uid]

    async def _write(self, previous: asyncio.Task[None] | None, results: Results) -> None:
        if previous is not None:
            await asyncio.wait((previous,))
        async with self._turn:
            try:
                for _ in range(TRIES):
                    if await self._patch(results):
                        return
            except (ApiError, OSError) as problem:
                self._report(problem, results.record)

    async def _patch(self, results: Results) -> bool:
        """Try once; False if the pod changed meanwhile."""
        record = results.record
        pod = await self._client.read(api.Pod, record.name, record.namespace)
        if pod.uid != record.uid:
            return True
        annotations = await asyncio.to_thread(results.annotations, pod.metadata.annotations)
        if not annotations:
            self._log(ERROR, "No room for results: the pod has too many annotations of its own", pod=pod)
            return True
        metadata = {"uid": pod.uid, "resourceVersion": pod.metadata.resource_version, "annotations": annotations}
        try:
            await self._client.merge_patch(api.Pod, record.name, {"metadata": metadata}, record.namespace)
        except ApiError as problem:
            if problem.code != 409:
                raise
            return False
        return True

    def _report(self, problem: Exception, record: AttemptRecord) -> None:
        code = problem.code if isinstance(problem, ApiError) else 0
        if code == 404:
            return  # the pod is gone
        if code != 403:
            self._log(ERROR, "Failed to write results to the pod", pod=record.key, err=problem)
        elif not self._warned:
            self._warned = True
            self._log(ERROR, f"Failed to write results to pods: {FORBIDDEN}", err=problem)
