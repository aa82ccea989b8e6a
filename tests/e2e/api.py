"""A client for tests: paths and JSON, nothing else. It shares no code with the client that is tested."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Sequence
from contextlib import closing
from typing import Any
from urllib.parse import quote, urlencode

JSON = dict[str, Any]

CORE = "/api/v1"
PREFIXES = {
    "v1": CORE,
    "apps/v1": "/apis/apps/v1",
    "policy/v1": "/apis/policy/v1",
    "resource.k8s.io/v1": "/apis/resource.k8s.io/v1",
    "scheduling.k8s.io/v1": "/apis/scheduling.k8s.io/v1",
    "scheduling.k8s.io/v1alpha2": "/apis/scheduling.k8s.io/v1alpha2",
    "storage.k8s.io/v1": "/apis/storage.k8s.io/v1",
}
PLURALS = {"StorageClass": "storageclasses", "PriorityClass": "priorityclasses", "DeviceClass": "deviceclasses"}
CLUSTER_WIDE = {
    "Node",
    "Namespace",
    "PersistentVolume",
    "StorageClass",
    "CSINode",
    "PriorityClass",
    "DeviceClass",
    "ResourceSlice",
}
JSON_TYPE = "application/json"
TIMEOUT = 120.0


class RefusedError(Exception):
    """An answer that is no success."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


class Api:
    """Talks to one server with one token, each time over a new connection, so that none can be stale."""

    def __init__(self, port: int, tls: ssl.SSLContext, token: str = "") -> None:
        self._port = port
        self._tls = tls
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    # --- requests -----------------------------------------------------------------------------------------------------

    def ask(self, method: str, path: str, body: object = None, content_type: str = JSON_TYPE) -> tuple[int, str]:
        """Status and text of an answer. Bytes are sent as they are, anything else as JSON."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body)
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=TIMEOUT, context=self._tls)
        with closing(connection):
            connection.request(method, path, data, {**self._headers, "Content-Type": content_type})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def get(self, path: str) -> JSON:
        """The JSON at a path."""
        return self._json("GET", path)

    def items(self, path: str, **query: str) -> list[JSON]:
        """All objects at a path."""
        found: list[JSON] = self.get(f"{path}?{urlencode(query)}" if query else path)["items"]
        return found

    def post(self, path: str, body: JSON) -> JSON:
        """Create."""
        return self._json("POST", path, body)

    def patch(self, path: str, body: JSON, *, strategic: bool = False) -> JSON:
        """Merge into what is at a path."""
        kind = "strategic-merge-patch" if strategic else "merge-patch"
        return self._json("PATCH", path, body, f"application/{kind}+json")

    def delete(self, path: str, *, now: bool = False) -> None:
        """Delete, or, like a kubelet that is through with a pod, remove at once. What is gone already is fine."""
        try:
            self._json("DELETE", path, {"gracePeriodSeconds": 0} if now else {})
        except RefusedError as refused:
            if refused.code != 404:
                raise

    def _json(self, method: str, path: str, body: JSON | None = None, content_type: str = JSON_TYPE) -> JSON:
        code, text = self.ask(method, path, body, content_type)
        if code >= 300:
            raise RefusedError(code, f"{method} {path}: {text}")
        answer: JSON = json.loads(text)
        return answer

    # --- objects ------------------------------------------------------------------------------------------------------

    def create(self, *objects: JSON) -> list[JSON]:
        """Create objects, in order, with the status they carry."""
        return [self._create(each) for each in objects]

    def _create(self, obj: JSON) -> JSON:
        made = self.post(collection(obj), obj)
        if "status" in obj and obj["kind"] not in ("Node", "Pod"):
            made = self.patch(f"{path_of(obj)}/status", {"status": obj["status"]})
        return made

    def pod(self, name: str, namespace: str = "default") -> JSON:
        """A pod."""
        return self.get(pod_path(name, namespace))

    def pods(self, namespace: str = "default") -> list[JSON]:
        """All pods of a namespace."""
        return self.items(f"{CORE}/namespaces/{namespace}/pods")

    def events(self, **fields: str) -> list[JSON]:
        """Schedulers' events of all namespaces with these fields, in the order in which they were made.

        Name a field that only schedulers' events have: the order is the time in their names, and the names of the API
        server's own events are random.
        """
        selector = ",".join(f"{key}={value}" for key, value in fields.items())
        found = self.items("/apis/events.k8s.io/v1/events", fieldSelector=selector)
        return sorted(found, key=lambda event: int(event["metadata"]["name"].rpartition(".")[2], 16))


def collection(obj: JSON) -> str:
    """Where objects like this one are."""
    kind: str = obj["kind"]
    prefix = PREFIXES[obj["apiVersion"]]
    if kind not in CLUSTER_WIDE:
        prefix += f"/namespaces/{obj['metadata'].get('namespace', 'default')}"
    return f"{prefix}/{PLURALS.get(kind, kind.lower() + 's')}"


def path_of(obj: JSON) -> str:
    """Where an object is."""
    return f"{collection(obj)}/{quote(obj['metadata']['name'])}"


def pod_path(name: str, namespace: str = "default") -> str:
    """Where a pod is."""
    return f"{CORE}/namespaces/{namespace}/pods/{name}"


def condition(pod: JSON, kind: str = "PodScheduled") -> JSON:
    """A pod's condition, empty if it has none of the kind."""
    found: Sequence[JSON] = pod.get("status", {}).get("conditions") or ()
    return next((each for each in found if each["type"] == kind), {})


def node_of(pod: JSON) -> str:
    """The node a pod is bound to, or the empty string."""
    name: str = pod["spec"].get("nodeName") or ""
    return name
