"""The API server as controllers and kubelets inside the process use it: no socket, no encoding, no waiting.

Writes take the same path as a client's, with defaults, admission and validation, but for statuses: those are made by
code of this package, many times a second, and are stored as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.kinds.resources import Resource
from kubesched.apiserver.meta import timestamp
from kubesched.apiserver.rest.deletion import DeleteOptions
from kubesched.apiserver.rest.writing import Preconditions
from kubesched.apiserver.storage.store import Record
from kubesched.apiserver.wire.status import StatusError
from kubesched.base.types import JSON

PODS, NODES, NAMESPACES, EVENTS = "/pods", "/nodes", "/namespaces", "/events"
SERVICES, ENDPOINTS, ENDPOINT_SLICES = "/services", "/endpoints", "discovery.k8s.io/endpointslices"
ACCOUNTS, CONFIG_MAPS = "/serviceaccounts", "/configmaps"
CLAIMS, VOLUMES, CLASSES = "/persistentvolumeclaims", "/persistentvolumes", "storage.k8s.io/storageclasses"
CONTROLLERS, REPLICA_SETS, DEPLOYMENTS = "/replicationcontrollers", "apps/replicasets", "apps/deployments"
STATEFUL_SETS, DAEMON_SETS, REVISIONS = "apps/statefulsets", "apps/daemonsets", "apps/controllerrevisions"
JOBS, CRON_JOBS = "batch/jobs", "batch/cronjobs"
BUDGETS, LEASES = "policy/poddisruptionbudgets", "coordination.k8s.io/leases"

Edit = Callable[[JSON], object]
"""Changes an object in place."""


class Access:
    """Reads and writes objects of the API server in this process, at once."""

    def __init__(self, api: ApiServer) -> None:
        self.api = api
        self.store = api.store
        self.clock = api.clock

    def now(self) -> str:
        """The time as objects have it."""
        return timestamp(self.clock.now())

    def resource(self, storage: str) -> Resource:
        """A kind by the name under which it is stored; of several versions the first that is served."""
        group, _, plural = storage.rpartition("/")
        for resource in self.api.registry:
            if (resource.group, resource.plural) == (group, plural):
                return resource
        raise KeyError(storage)

    # --- reading ------------------------------------------------------------------------------------------------------

    def get(self, storage: str, key: str) -> JSON | None:
        """An object, the caller's to change; None if there is none."""
        record = self.store.get(storage, key)
        return None if record is None else record.load()

    def list(self, storage: str, namespace: str = "") -> Iterator[JSON]:
        """All objects of a kind, or those of a namespace."""
        return (record.load() for record in self.store.records(storage, namespace))

    # --- writing ------------------------------------------------------------------------------------------------------

    def create(self, storage: str, obj: JSON) -> JSON:
        """Create an object; answers with what was stored."""
        resource = self.resource(storage)
        body = {"apiVersion": resource.group_version, "kind": resource.kind, **obj}
        return self.api.writer.create(resource, obj["metadata"].get("namespace", ""), body).load()

    def edit(self, storage: str, key: str, edit: Edit, subresource: str = "") -> bool:
        """Change an object as a client would; False if it is gone."""

        def change(obj: JSON) -> JSON:
            edit(obj)
            return obj

        namespace, _, name = key.rpartition("/")
        try:
            self.api.writer.update(self.resource(storage), namespace, name, change, subresource=subresource)
        except StatusError as error:
            if error.code != 404:
                raise
            return False
        return True

    def edit_status(self, storage: str, key: str, edit: Edit, uid: str = "") -> bool:
        """Change an object's status without further checks; False if it, or the very one that is meant, is gone."""
        record = self.store.get(storage, key)
        if record is None:
            return False
        obj = record.load()
        if uid and obj["metadata"]["uid"] != uid:
            return False
        before = obj.get("status")
        obj["status"] = dict(before or {})
        edit(obj)
        if obj["status"] != (before or {}):
            self.store.put(storage, key, obj)
        return True

    def put(self, storage: str, key: str, obj: JSON) -> Record:
        """Store an object of our own making as it is."""
        return self.store.put(storage, key, obj)

    def delete(self, storage: str, key: str, *, uid: str = "", propagation: str = "", grace: int | None = None) -> None:
        """Delete an object; that it, or the very one that is meant, is gone already is as good."""
        namespace, _, name = key.rpartition("/")
        options = DeleteOptions(grace, propagation, Preconditions(uid))
        try:
            self.api.deleter.delete(self.resource(storage), namespace, name, options)
        except StatusError as error:
            if error.code not in (404, 409):
                raise

    def remove(self, storage: str, key: str, uid: str = "") -> None:
        """Remove an object for good once nothing but its finalizers could hold it: the end of a graceful deletion."""
        self.delete(storage, key, uid=uid, grace=0)
