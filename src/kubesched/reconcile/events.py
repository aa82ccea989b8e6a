"""The v1 Events that controllers and kubelets write. Repeated events are counted, not written again."""

from __future__ import annotations

from collections import OrderedDict

from kubesched.apiserver.meta import timestamp
from kubesched.base.types import JSON
from kubesched.reconcile.access import EVENTS, NAMESPACES, Access
from kubesched.reconcile.views import Pod

MAX_KNOWN_EVENTS = 4096

_Identity = tuple[str, str, str, str]


class EventWriter:
    """Writes events straight to the store, unvalidated: every pod causes several, and their form is fixed here."""

    def __init__(self, access: Access, *, enabled: bool = True) -> None:
        self._access = access
        self.enabled = enabled
        self._known: OrderedDict[_Identity, str] = OrderedDict()
        self._counter = 0

    def record(
        self, source: str, about: JSON, kind: str, reason: str, message: str, *, host: str = "", field: str = ""
    ) -> None:
        """Write an event about the object with this reference. `kind` is Normal or Warning."""
        if not self.enabled:
            return
        namespace = about.get("namespace") or "default"
        stored = self._access.store.get(NAMESPACES, namespace)
        if stored is None or stored.fields.get("status.phase") == "Terminating":
            return
        identity = (about.get("uid", ""), field, reason, message)
        known = self._known.get(identity)
        if known is None or not self._count_again(known):
            self._write_first(identity, namespace, source, about, kind, reason, message, host, field)

    def _count_again(self, key: str) -> bool:
        event = self._access.get(EVENTS, key)
        if event is None:
            return False
        event["count"] = event.get("count", 1) + 1
        event["lastTimestamp"] = self._access.now()
        self._access.put(EVENTS, key, event)
        return True

    def _write_first(
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
        # Upstream's names end in the time in nanoseconds. On a virtual clock many events share one time.
        self._counter += 1
        name = f"{about['name']}.{int(seconds * 1e9) + self._counter:x}"
        event: JSON = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": self._access.names.uid(),
                "creationTimestamp": now,
            },
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
        if len(self._known) > MAX_KNOWN_EVENTS:
            self._known.popitem(last=False)


def reference(obj: JSON) -> JSON:
    """Return the reference by which an event names its object."""
    meta = obj["metadata"]
    found = {"kind": obj["kind"], "apiVersion": obj["apiVersion"], "name": meta["name"], "uid": meta["uid"]}
    if meta.get("namespace"):
        found["namespace"] = meta["namespace"]
    if meta.get("resourceVersion"):
        found["resourceVersion"] = meta["resourceVersion"]
    return found


def pod_reference(pod: Pod) -> JSON:
    """Return the reference by which an event names a pod."""
    meta = pod.metadata
    return {"kind": "Pod", "namespace": meta.namespace, "name": meta.name, "uid": meta.uid, "apiVersion": "v1"}
