"""The running scheduler: its queue and its attempts, asked at its secure port with the user's credentials."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Final
from urllib.parse import quote

from kubesched.base.types import JSON
from kubesched.client.connection import Connection
from kubesched.client.http import HttpClient
from kubesched.client.protocol import ApiError
from kubesched.library.live import queued_pods
from kubesched.web.model import ClusterModel
from kubesched.web.moments import Moment, What, seconds_of
from kubesched.web.questions import Questions

PREFIX: Final = "/debug/scheduling"
PERIOD = 0.5
MOST_ATTEMPTS = 500
"""Attempts that are read at a time. More than that happen only under load, when the newest suffice."""
MOST_QUEUED = 100


class SchedulerLink:
    """Asks the scheduler while a browser shows the page."""

    def __init__(self, connection: Connection, server: str, authority: bytes | None = None) -> None:
        """`authority` is the PEM of the scheduler's certificate authority, if that is not the cluster's."""
        tls = connection.tls if authority is None else replace(connection.tls, ca_file="", ca_data=authority)
        self._client = HttpClient(replace(connection, server=server.rstrip("/"), tls=tls), timeout=10)
        self.problem = ""
        """Why the scheduler cannot be asked."""
        self.queue: JSON = {}
        self._instance: str | None = None
        self._attempt = 0
        self._wake = 0

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def poll(self, model: ClusterModel, questions: Questions) -> None:
        """Read what is new."""
        try:
            await self._attempts(model)
            await self._wakes(model)
            self.queue = await self._get("queue", limit=str(MOST_QUEUED))
            questions.queue = queued_pods(self.queue)
            self.problem = ""
        except Exception as error:  # whatever a scheduler that restarts responds, the page goes on
            self.problem = str(error) or type(error).__name__

    async def configuration(self) -> JSON | None:
        """The configuration in force; None if the scheduler does not say."""
        with suppress(ApiError, OSError, asyncio.TimeoutError):
            found = await self._client.get("/configz")
            return found.get("kubescheduler.config.k8s.io") or next(iter(found.values()), None)
        return None

    async def pod(self, key: str) -> list[JSON]:
        """The attempts of a pod that the scheduler remembers, the newest first."""
        namespace, _, name = key.partition("/")
        try:
            found = await self._get(f"pods/{quote(namespace, safe='')}/{quote(name, safe='')}")
        except ApiError as error:
            if error.code == 404:
                return []
            raise
        return list(found["attempts"])

    async def attempt(self, number: int) -> JSON:
        """One attempt with columns. Raises ApiError."""
        return await self._get(f"attempts/{number}")

    async def _get(self, path: str, **query: str) -> JSON:
        return await self._client.get(f"{PREFIX}/{path}", query)

    async def _attempts(self, model: ClusterModel) -> None:
        found = await self._new_attempts()
        first = self._instance is None
        instance = found.get("instance", "")
        if instance != self._instance:
            # A scheduler that was restarted counts from 1 again.
            self._instance, self._attempt, self._wake = instance, 0, 0
            found = await self._new_attempts()
        for each in reversed(found["items"]):
            if not each["finished"]:
                continue
            self._attempt = max(self._attempt, each["number"])
            when, key = seconds_of(each["time"]), f"{each['namespace']}/{each['pod']}"
            failed = each["outcome"] != "scheduled"
            model.rates.attempted(when, each["seconds"], bound=first and not failed, failed=failed)
            if failed:
                model.moments.add(Moment(when, What.FAILED, key, each["nominatedNode"], each["message"]))
            for victim in each["victims"]:
                model.moments.add(Moment(when, What.PREEMPTED, victim, each["nominatedNode"], f"makes room for {key}"))

    async def _new_attempts(self) -> JSON:
        return await self._get("attempts", after=str(self._attempt), limit=str(MOST_ATTEMPTS))

    async def _wakes(self, model: ClusterModel) -> None:
        found = await self._get("wakeups", after=str(self._wake))
        self._wake = found["count"]
        for each in found["items"]:
            text = f"{each['event']}, to {each['queue'].lower()}"
            model.moments.add(Moment(seconds_of(each["time"]), What.WOKEN, each["pod"], "", text))
