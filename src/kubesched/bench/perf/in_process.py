"""Workloads on an API server and a scheduler in this process, without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from random import Random

from kubesched.apiserver.admission.admission import AdmissionSettings
from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.inprocess.direct import DirectClient
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.storage.store import decode
from kubesched.base.clock import Clock
from kubesched.base.clocks import SystemClock
from kubesched.base.types import JSON
from kubesched.bench.perf.executor import features_of
from kubesched.bench.perf.format import PerfRun
from kubesched.client.protocol import ApiError
from kubesched.config.load import default, load
from kubesched.plugins import in_tree_registry
from kubesched.scheduler.build import build_scheduler
from kubesched.scheduler.metrics import Metrics
from kubesched.scheduler.recorder import EventRecorder
from kubesched.scheduler.urgent_calls import UrgentCalls

PERF_ADMISSION = AdmissionSettings(complete_pods=False)
"""As scheduler_perf has it: there are no service accounts, and pods set their priority themselves."""


class InProcessClient(DirectClient):
    """The scheduler's client protocol, and requests of any kind."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server)
        self._local = LocalClient(server)

    async def request(
        self,
        method: str,
        path: str,
        body: JSON | bytes | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        """Send a request through the whole path of the API server. Raises `ApiError`."""
        response = await self._local.send(method, path, body, query=query, content_type=content_type)
        if response.status >= 300:
            status = decode(response.body)
            raise ApiError(response.status, status.get("reason", ""), status.get("message", ""))
        # A server with a socket would let others run between two requests.
        await asyncio.sleep(0)
        return response.body


@asynccontextmanager
async def in_process_cluster(run: PerfRun, clock: Clock | None = None) -> AsyncGenerator[InProcessClient, None]:
    """An API server with a scheduler that runs with the configuration and the gates of a workload."""
    clock, calls = clock or SystemClock(), UrgentCalls()
    client = InProcessClient(ApiServer(admission=PERF_ADMISSION, clock=clock, random=Random(0)))
    recorder = EventRecorder(client, clock, urgent_calls=calls)
    config = default() if run.scheduler_config is None else load(run.scheduler_config.read_text("utf-8")).config
    scheduler = build_scheduler(
        config,
        in_tree_registry(),
        client,
        clock,
        Random(0),
        recorder=recorder,
        metrics=Metrics(process=False),
        urgent_calls=calls,
        features=features_of(run),
    )
    tasks = [asyncio.create_task(scheduler.run()), asyncio.create_task(recorder.run())]
    try:
        yield client
    finally:
        await scheduler.stop()
        tasks[1].cancel()
        await asyncio.wait(tasks)
