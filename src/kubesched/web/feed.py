"""Where the page's cluster comes from: a running cluster that is watched, or files that are read once."""

from __future__ import annotations

import asyncio
import random
import warnings
from collections.abc import Sequence
from pathlib import Path

from kubesched.api import objects as api
from kubesched.client.connection import Connection
from kubesched.client.endpoints import Endpoint, endpoint_of
from kubesched.client.http import HttpClient
from kubesched.client.informer import Informer
from kubesched.library.live import FAILED, READ, REQUIRED, SchedulingEvent
from kubesched.library.manifests import read_paths
from kubesched.web.model import ClusterModel
from kubesched.web.moments import Moment, What, seconds_of
from kubesched.web.simulation import completed_objects, is_simulation, load_simulation


class FailedScheduling(SchedulingEvent, frozen=True):
    """The events that tell of failed attempts, of any scheduler."""

    message: str = ""
    last_timestamp: str | None = None
    event_time: str | None = None

    endpoint = Endpoint("v1", "events", field_selector=f"reason={FAILED}")


class Feeder:
    """Hands an informer's objects to the model."""

    def __init__(self, model: ClusterModel) -> None:
        self._model = model

    def on_add(self, obj: api.Object, is_initial_list: bool) -> None:
        self._model.set(obj, initial=is_initial_list)

    def on_update(self, old: api.Object, new: api.Object) -> None:
        self._model.set(new)

    def on_delete(self, obj: api.Object) -> None:
        self._model.remove(obj)


class EventFeeder:
    """Adds failed attempts to the timeline, as far as events tell of them."""

    def __init__(self, model: ClusterModel, tries: dict[str, int]) -> None:
        self._model = model
        self._tries = tries

    def on_add(self, obj: FailedScheduling, is_initial_list: bool) -> None:
        self._note(obj)

    def on_update(self, old: FailedScheduling, new: FailedScheduling) -> None:
        self._note(new)

    def on_delete(self, obj: FailedScheduling) -> None:
        """Events expire; what they told stays true as long as there is the pod."""
        about = obj.involved_object
        pod = self._model.pods.get(f"{about.namespace}/{about.name}")
        if pod is None or pod.uid != about.uid:
            self._tries.pop(about.uid, None)

    def _note(self, event: FailedScheduling) -> None:
        about = event.involved_object
        count = event.series.count if event.series is not None else event.count
        self._tries[about.uid] = max(1, count)
        when = seconds_of(event.last_timestamp) or seconds_of(event.event_time) or self._model.clock()
        self._model.moments.add(Moment(when, What.FAILED, f"{about.namespace}/{about.name}", "", event.message))


class LiveFeed:
    """Watches a cluster. Kinds that may not be read are left out, and `notes` says so."""

    def __init__(self, connection: Connection, model: ClusterModel, *, events: bool) -> None:
        """With `events`, failed attempts are read from events; a scheduler that can be asked knows them better."""
        self.client = HttpClient(connection, qps=-1, agent="ui")
        self.tries: dict[str, int] = {}
        feeder = Feeder(model)
        self._informers: list[Informer[api.Object]] = [
            Informer(self.client, kind, feeder, chance=random.Random()) for kind in READ
        ]
        self._events = Informer(self.client, FailedScheduling, EventFeeder(model, self.tries)) if events else None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start to watch; returns when everything is known. Raises ApiError or OSError if nodes or pods are not."""
        for kind in REQUIRED:
            # Informers never give up, but a user who starts the page wants to know at once.
            await self.client.get(endpoint_of(kind).path(), {"limit": "1"})
        for each in self._informers:
            self._tasks.append(asyncio.create_task(each.run(), name=f"watch {each.resource}"))
        if self._events is not None:
            self._tasks.append(asyncio.create_task(self._events.run(), name="watch events"))
        await asyncio.gather(*(each.wait_until_settled() for each in self._informers))

    async def stop(self) -> None:
        """Stop watching."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.client.close()

    @property
    def notes(self) -> list[str]:
        """What could not be read."""
        missing = (each for each in self._informers if each.missing is not None and each.missing.code != 404)
        return [f"{each.resource} may not be read, so decisions may differ: {each.missing}" for each in missing]


class FileFeed:
    """Reads files and folders once."""

    def __init__(self, paths: Sequence[Path], model: ClusterModel) -> None:
        self._model = model
        self.notes: list[str] = []
        self.simulation = ""
        """The name of the scenario, if the files are a simulation's report."""
        self._paths = paths

    async def start(self) -> None:
        """Read everything. Raises ManifestError, HistoryError or OSError."""
        for path in self._paths:
            if is_simulation(path):
                self.simulation = load_simulation(path, self._model)
        manifests = [path for path in self._paths if not is_simulation(path)]
        if not manifests:
            return
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = await asyncio.to_thread(read_paths, manifests)
            complete, ignored = await asyncio.to_thread(completed_objects, found)
        self.notes = [str(each.message) for each in caught]
        self.notes += [f"{number} objects of kind {kind} are ignored" for kind, number in ignored.items()]
        for each in complete:
            self._model.set(each, initial=True)

    async def stop(self) -> None:
        """Nothing runs."""
