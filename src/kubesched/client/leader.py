"""Leader election on a Lease: of several schedulers, one schedules.

The rules are client-go's. A candidate takes the lease when it has not changed for its whole duration, by its own
clock. The times in the lease are informational. One rule is stricter here: a leader's deadline counts from when it
sent its last successful renewal, not from the response, so that a slow API server cannot cause two leaders.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import socket
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from kubesched.base.clock import Clock
from kubesched.base.clocks import SystemClock
from kubesched.base.log import ERROR, SILENT, Log
from kubesched.base.types import JSON
from kubesched.client.protocol import ApiError, Client

logger = logging.getLogger(__name__)

JITTER = 1.2
EVENT_SECONDS = 1.0
"""How long the last event may take. A process that has lost the lease must end soon."""


@dataclass(frozen=True, slots=True)
class ElectionSettings:
    """The settings of `leaderElection` in the configuration; times in seconds."""

    name: str = "kube-scheduler"
    namespace: str = "kube-system"
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    release_on_exit: bool = True
    coordinated: bool = False
    """Whether the control plane chooses the leader. Then a candidate only renews a lease that was given to it."""

    def __post_init__(self) -> None:
        if min(self.lease_duration, self.renew_deadline, self.retry_period) <= 0:
            raise ValueError("leaderElection.leaseDuration, renewDeadline and retryPeriod must be greater than zero")
        if self.lease_duration <= self.renew_deadline:
            raise ValueError("leaderElection.leaseDuration must be greater than renewDeadline")
        if self.renew_deadline <= self.retry_period * JITTER:
            raise ValueError(f"leaderElection.renewDeadline must be greater than {JITTER} times retryPeriod")

    @property
    def request_timeout(self) -> float:
        """Half the deadline, so that there is time for a second renewal if the first one hangs."""
        return max(self.renew_deadline / 2, 1.0)


class Ended(Enum):
    """Why a candidacy ended."""

    LOST = "lost"
    DONE = "done"


def default_identity() -> str:
    """A name that is unique among all candidates, also after a restart on the same host."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


def _nothing(*_: object) -> None:
    pass


class LeaderElector:
    """One candidate. `lead` does the leader's work: a coroutine function that is cancelled when leadership is lost.

    With a `component`, becoming leader and stopping to lead are recorded as Events on the Lease, from that component.
    """

    def __init__(
        self,
        client: Client,
        lead: Callable[[], Coroutine[Any, Any, None]],
        settings: ElectionSettings | None = None,
        *,
        identity: str = "",
        component: str = "",
        on_stopped_leading: Callable[[], None] = _nothing,
        on_new_leader: Callable[[str], None] = _nothing,
        clock: Clock | None = None,
        chance: random.Random | None = None,
        log: Log = SILENT,
    ) -> None:
        self.settings = settings or ElectionSettings()
        self.identity = identity or default_identity()
        self._component = component
        self._client = client
        self._lead = lead
        self._on_stopped_leading = on_stopped_leading
        self._on_new_leader = on_new_leader
        self._clock: Clock = clock or SystemClock()
        self._chance = chance or random.Random()
        self._log = log
        self._step = ""
        """What is logged if the request that is under way fails."""
        self._lease: JSON | None = None
        self._observed: JSON = {}
        self._observed_at = float("-inf")
        self._good_until = float("-inf")
        self._reported = ""

    # --- state --------------------------------------------------------------------------------------------------------

    @property
    def leader(self) -> str:
        """The identity of the last observed leader, or the empty string."""
        return str(self._observed.get("holderIdentity") or "")

    def is_leader(self) -> bool:
        """Whether this candidate leads now; false as soon as the deadline has passed."""
        return self._clock.monotonic() < self._good_until

    def is_healthy(self, tolerance: float = 20.0) -> bool:
        """False for a leader that has neither renewed nor stopped for too long; as upstream's watchdog."""
        overdue = self._clock.monotonic() - self._observed_at - self.settings.lease_duration
        return self.leader != self.identity or overdue <= tolerance

    @property
    def _where(self) -> str:
        return f"{self.settings.namespace}/{self.settings.name}"

    # --- the candidacy ------------------------------------------------------------------------------------------------

    async def run(self) -> Ended:
        """Wait for leadership and lead. Returns why it ended. Cancelling stops `lead`, then releases the lease."""
        try:
            await self._acquire()
            recording = asyncio.create_task(self._record("became leader"), name="leader election event")
            try:
                return await self._lead_and_renew()
            finally:
                self._good_until = float("-inf")
                await _end(recording)
                await self._record("stopped leading", EVENT_SECONDS)
        finally:
            self._good_until = float("-inf")
            self._on_stopped_leading()

    async def _acquire(self) -> None:
        self._log(0, "Attempting to acquire leader lease...", lock=self._where)
        while not await self._try_once():
            self._report_leader()
            self._log(4, "Failed to acquire lease", lock=self._where)
            await self._clock.sleep(self.settings.retry_period * (1 + self._chance.random() * JITTER))
        self._report_leader()
        self._log(0, "Successfully acquired lease", lock=self._where)

    async def _lead_and_renew(self) -> Ended:
        leading = asyncio.create_task(self._lead(), name="leading")
        renewing = asyncio.create_task(self._renew(), name="renewing the lease")
        try:
            await asyncio.wait((leading, renewing), return_when=asyncio.FIRST_COMPLETED)
            if leading.done():
                await leading
                return Ended.DONE
            self._log(0, "Failed to renew lease", lock=self._where, err="context deadline exceeded")
            return Ended.LOST
        finally:
            if lost := renewing.done():
                self._good_until = float("-inf")
            await _end(leading)
            await _end(renewing)
            if self.settings.release_on_exit and not lost:
                await self._release()

    async def _renew(self) -> None:
        """Renew the lease until it is lost."""
        while True:
            await self._clock.sleep(self.settings.retry_period)
            remaining = self._good_until - self._clock.monotonic()
            if remaining <= 0:
                return
            try:
                async with asyncio.timeout(remaining):
                    while not await self._try_once():
                        self._report_leader()
                        if self.leader != self.identity:
                            return
                        await self._clock.sleep(self.settings.retry_period)
            except TimeoutError:
                return
            self._log(5, "Successfully renewed lease", lock=self._where)

    # --- one try ------------------------------------------------------------------------------------------------------

    async def _try_once(self) -> bool:
        """Take or renew the lease. Returns whether we hold it."""
        try:
            async with asyncio.timeout(self.settings.request_timeout):
                return await (self._renew_if_chosen() if self.settings.coordinated else self._take_or_renew())
        except (ApiError, OSError) as error:
            self._log(ERROR, self._step, err=_problem(error), lock=self._where)
        return False

    async def _take_or_renew(self) -> bool:
        if self.is_leader() and self._lease is not None:
            # The leader knows the lease from its last renewal and need not read it.
            try:
                return await self._write(self._lease, acquired=False)
            except ApiError as error:
                message = "Failed to update lease optimistically, falling back to slow path"
                self._log(2, message, lock=self._where, err=error)
        try:
            lease = await self._read()
        except ApiError as error:
            if error.code != 404:
                raise
            return await self._create()
        self._observe(lease)
        if self.leader and self.leader != self.identity and not self._expired():
            self._log(4, "Lease is held by and has not yet expired", lock=self._where, holder=self.leader)
            return False
        return await self._write(lease, acquired=self.leader != self.identity)

    async def _renew_if_chosen(self) -> bool:
        """Renew a lease that names us, unless it is to go to another candidate."""
        try:
            lease = await self._read()
        except ApiError as error:
            if error.code != 404:
                raise
            self._log(0, "Lease lock not found", lock=self._where, err=error)
            return False
        self._observe(lease)
        if self._expired():
            self._log(0, "Lease has expired", lock=self._where)
            return False
        if self.leader != self.identity:
            self._log(6, "Lease is held and has not yet expired", lock=self._where, holder=self.leader)
            return False
        if self._observed.get("preferredHolder"):
            self._log(4, "Lease is marked as 'end of term'", lock=self._where)
            return False
        return await self._write(lease, acquired=False)

    async def _read(self) -> JSON:
        self._step = "Error retrieving lease lock"
        return await self._client.get_lease(self.settings.namespace, self.settings.name)

    async def _create(self) -> bool:
        self._step = "Error initially creating lease lock"
        sent = self._clock.monotonic()
        now = self._date()
        spec = {**self._claim(now), "acquireTime": now, "leaseTransitions": 0}
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.settings.name, "namespace": self.settings.namespace},
            "spec": spec,
        }
        self._held(await self._client.create_lease(self.settings.namespace, body), sent)
        return True

    async def _write(self, lease: JSON, acquired: bool) -> bool:
        self._step = "Failed to update lock" if self.settings.coordinated else "Failed to update lease"
        sent = self._clock.monotonic()
        now = self._date()
        spec = {**(lease.get("spec") or {}), **self._claim(now)}
        if acquired:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
        body = {**lease, "spec": spec}
        self._held(await self._client.update_lease(self.settings.namespace, self.settings.name, body), sent)
        return True

    def _claim(self, now: str) -> JSON:
        duration = math.ceil(self.settings.lease_duration)
        return {"holderIdentity": self.identity, "leaseDurationSeconds": duration, "renewTime": now}

    def _held(self, lease: JSON, sent: float) -> None:
        self._lease = lease
        self._observe(lease)
        self._good_until = sent + self.settings.renew_deadline

    def _observe(self, lease: JSON) -> None:
        self._lease = lease
        spec = lease.get("spec") or {}
        if spec != self._observed:
            self._observed, self._observed_at = spec, self._clock.monotonic()

    def _expired(self) -> bool:
        """By our own clock, with the duration that the holder wrote into the lease."""
        duration = float(self._observed.get("leaseDurationSeconds") or 0)
        return self._clock.monotonic() >= self._observed_at + duration

    def _report_leader(self) -> None:
        if self.leader != self._reported:
            self._reported = self.leader
            self._on_new_leader(self._reported)

    # --- release ------------------------------------------------------------------------------------------------------

    async def _release(self) -> None:
        """Let another candidate lead at once. If this fails, it can lead when the lease expires."""
        settings = self.settings
        step = "error retrieving resource lock"
        try:
            async with asyncio.timeout(settings.renew_deadline):
                lease = await self._client.get_lease(settings.namespace, settings.name)
                step = "Failed to release lease"
                spec = lease.get("spec") or {}
                if spec.get("holderIdentity") != self.identity:
                    return
                now = self._date()
                times = {"acquireTime": now, "renewTime": now}
                body = {**lease, "spec": {**spec, **times, "holderIdentity": "", "leaseDurationSeconds": 1}}
                self._observe(await self._client.update_lease(settings.namespace, settings.name, body))
        except (ApiError, OSError) as error:
            if isinstance(error, ApiError) and error.code == 404 and step != "Failed to release lease":
                self._log(0, "lease lock not found", lock=self._where)
            else:
                self._log(ERROR, step, err=_problem(error), lock=self._where)

    # --- events -------------------------------------------------------------------------------------------------------

    async def _record(self, what: str, seconds: float = math.inf) -> None:
        """Record an Event, as client-go does: in the old API, and without failing if that is impossible."""
        if not self._component or self._lease is None:
            return
        now, lease = self._clock.now(), self._lease["metadata"]
        date = datetime.fromtimestamp(int(now), UTC).isoformat().replace("+00:00", "Z")
        regarding = {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1"}
        regarding |= {key: lease[key] for key in ("namespace", "name", "uid", "resourceVersion") if lease.get(key)}
        event: JSON = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{self.settings.name}.{int(now * 1e9):x}", "namespace": self.settings.namespace},
            "involvedObject": regarding,
            "reason": "LeaderElection",
            "message": f"{self.identity} {what}",
            "type": "Normal",
            "count": 1,
            "firstTimestamp": date,
            "lastTimestamp": date,
            "source": {"component": self._component},
            "reportingComponent": self._component,
        }
        try:
            async with asyncio.timeout(min(seconds, self.settings.request_timeout)):
                await self._client.create_event(self.settings.namespace, event)
        except (ApiError, OSError) as error:
            logger.warning("event about lease %s: %s", self._where, str(error) or "no response in time")

    def _date(self) -> str:
        moment = datetime.fromtimestamp(self._clock.now(), UTC)
        return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _problem(error: Exception) -> str:
    return str(error) or "no response in time"


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait until it has ended: `lead` must be over before the lease is released."""
    if task.done():
        return
    task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("%s failed", task.get_name(), exc_info=error)
