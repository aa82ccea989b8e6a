"""Events about what controllers and kubelets do: v1 Events, repeated ones counted, old ones removed."""

from __future__ import annotations

from collections import OrderedDict, deque

from kubesched.apiserver.meta import new_uid, timestamp
from kubesched.apiserver.storage.store import Change, Event
from kubesched.base.types import JSON
from kubesched.controllers.access import EVENTS, NAMESPACES, Access
from kubesched.controllers.loop import Controller, WorkLoop

REMEMBERED = 4096
TTL_SECONDS = 3600.0

_Identity = tuple[str, str, str, str]


class Recorder:
    """Writes events. They are stored unchecked: there are several for every pod, and their form is fixed here."""

    def __init__(self, access: Access, *, enabled: bool = True) -> None:
        self._access = access
        self.enabled = enabled
        self._known: OrderedDict[_Identity, str] = OrderedDict()
        self._counter = 0

    def event(
        self, source: str, about: JSON, kind: str, reason: str, message: str, *, host: str = "", field: str = ""
    ) -> None:
        """Tell what happened to an object, given by its reference. `kind` is Normal or Warning."""
        if not self.enabled:
            return
        namespace = about.get("namespace") or "default"
        home = self._access.store.get(NAMESPACES, namespace)
        if home is None or home.fields.get("status.phase") == "Terminating":
            return
        identity = (about.get("uid", ""), field, reason, message)
        known = self._known.get(identity)
        if known is None or not self._again(known):
            self._first(identity, namespace, source, about, kind, reason, message, host, field)

    def _again(self, key: str) -> bool:
        event = self._access.get(EVENTS, key)
        if event is None:
            return False
        event["count"] = event.get("count", 1) + 1
        event["lastTimestamp"] = self._access.now()
        self._access.put(EVENTS, key, event)
        return True

    def _first(
        self,
        identity: _Identity,
        namespace: str,
        source: str,
        about: JSON,
        kind: str,
        reason: str,
        message: str,
        host: str,
        field: str,
    ) -> None:
        seconds = self._access.clock.now()
        now = timestamp(seconds)
        # Upstream's names end in the time in nanoseconds; on a virtual clock many things happen at one time.
        self._counter += 1
        name = f"{about['name']}.{int(seconds * 1e9) + self._counter:x}"
        event: JSON = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace, "uid": new_uid(), "creationTimestamp": now},
            "involvedObject": {**about, "fieldPath": field} if field else dict(about),
            "reason": reason,
            "message": message,
            "source": {"component": source, "host": host} if host else {"component": source},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "type": kind,
            "eventTime": None,
            "reportingComponent": source,
            "reportingInstance": host,
        }
        key = f"{namespace}/{name}"
        self._access.put(EVENTS, key, event)
        self._known[identity] = key
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)


def reference(obj: JSON) -> JSON:
    """What an event says it is about."""
    meta = obj["metadata"]
    found = {"kind": obj["kind"], "apiVersion": obj["apiVersion"], "name": meta["name"], "uid": meta["uid"]}
    if meta.get("namespace"):
        found["namespace"] = meta["namespace"]
    if meta.get("resourceVersion"):
        found["resourceVersion"] = meta["resourceVersion"]
    return found


class EventExpiry(Controller):
    """Removes events after an hour, which upstream's API server leaves to etcd."""

    name = "event-expiry"

    def __init__(self, access: Access, loop: WorkLoop) -> None:
        super().__init__(loop)
        self._access = access
        now = access.clock.monotonic()
        shelf = access.store.shelf(EVENTS)
        self._added: deque[tuple[float, str]] = deque((now, key) for key in shelf.sorted_keys())
        shelf.observers.append(self._on_event)
        self.enqueue("", TTL_SECONDS)

    def _on_event(self, event: Event) -> None:
        if event.change is Change.ADDED:
            self._added.append((self._access.clock.monotonic(), event.record.key))

    def sync(self, key: str) -> None:
        over = self._access.clock.monotonic() - TTL_SECONDS
        while self._added and self._added[0][0] <= over:
            _, name = self._added.popleft()
            if self._access.store.get(EVENTS, name) is not None:
                self._access.store.delete(EVENTS, name)
        self.enqueue("", 60.0)
