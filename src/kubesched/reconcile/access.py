"""How controllers and kubelets in this process use the API server: synchronously, without a socket or encoding.

Writes pass defaulting, admission and validation like those of any client. Statuses are the exception: our own code
writes them many times a second, so they are stored without checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.apply.managers import Manager
from kubesched.apiserver.kinds.registry import ApiResource
from kubesched.apiserver.meta import timestamp
from kubesched.apiserver.rest.deletion import DeleteOptions
from kubesched.apiserver.rest.subresources import scale_of
from kubesched.apiserver.rest.writer import Preconditions
from kubesched.apiserver.storage.store import Record
from kubesched.apiserver.wire.status import StatusError
from kubesched.base.types import JSON

PODS, NODES, NAMESPACES, EVENTS = "/pods", "/nodes", "/namespaces", "/events"
SERVICES, ENDPOINTS, ENDPOINT_SLICES = "/services", "/endpoints", "discovery.k8s.io/endpointslices"
ACCOUNTS, CONFIG_MAPS = "/serviceaccounts", "/configmaps"
CLAIMS, VOLUMES, CLASSES = "/persistentvolumeclaims", "/persistentvolumes", "storage.k8s.io/storageclasses"
CONTROLLERS, REPLICA_SETS, DEPLOYMENTS = "/replicationcontrollers", "apps/replicasets", "apps/deployments"
STATEFUL_SETS, DAEMON_SETS, REVISIONS = "apps/statefulsets", "apps/daemonsets", "apps/controllerrevisions"
AUTOSCALERS = "autoscaling/horizontalpodautoscalers"
JOBS, CRON_JOBS = "batch/jobs", "batch/cronjobs"
DEVICE_CLASSES, SLICES = "resource.k8s.io/deviceclasses", "resource.k8s.io/resourceslices"
TAINT_RULES = "resource.k8s.io/devicetaintrules"
DEVICE_CLAIMS, CLAIM_TEMPLATES = "resource.k8s.io/resourceclaims", "resource.k8s.io/resourceclaimtemplates"
WORKLOADS, POD_GROUPS = "scheduling.k8s.io/workloads", "scheduling.k8s.io/podgroups"
BUDGETS, LEASES = "policy/poddisruptionbudgets", "coordination.k8s.io/leases"

CONTROLLER_MANAGER = "kube-controller-manager"
"""The manager of the fields that controllers set."""

Edit = Callable[[JSON], object]
"""Changes an object in place."""


class Access:
    """Synchronous reads and writes on the API server of this process."""

    def __init__(self, api: ApiServer) -> None:
        self.api = api
        self.store = api.store
        self.clock = api.clock
        self.names = api.names
        self.writing_status = False
        """Whether the event that observers see now is a status that this process writes."""
        self._second, self._text = -1, ""

    def now(self) -> str:
        """The current time in the format of API objects. It is asked for several times within a moment."""
        second = int(self.clock.now())
        if second != self._second:
            self._second, self._text = second, timestamp(second)
        return self._text

    def resource(self, storage: str) -> ApiResource:
        """Look up a resource by its storage name. If several versions are served, the first."""
        group, _, plural = storage.rpartition("/")
        for resource in self.api.registry:
            if (resource.group, resource.plural) == (group, plural):
                return resource
        raise KeyError(storage)

    # --- reading ------------------------------------------------------------------------------------------------------

    def get(self, storage: str, key: str) -> JSON | None:
        """Return a copy of an object, or None."""
        record = self.store.get(storage, key)
        return None if record is None else record.load()

    def list(self, storage: str, namespace: str = "") -> Iterator[JSON]:
        """Iterate over copies of all objects of a kind, or those in a namespace."""
        return (record.load() for record in self.store.records(storage, namespace))

    # --- writing ------------------------------------------------------------------------------------------------------

    def create(self, storage: str, obj: JSON) -> JSON:
        """Create an object and return it as stored."""
        resource = self.resource(storage)
        body = {"apiVersion": resource.group_version, "kind": resource.kind, **obj}
        return self.api.writer.create(resource, obj["metadata"].get("namespace", ""), body).load()

    def edit(
        self, storage: str, key: str, edit: Edit, subresource: str = "", *, manager: str = CONTROLLER_MANAGER
    ) -> bool:
        """Update an object like a client. False if it does not exist."""

        def change(obj: JSON) -> JSON:
            edit(obj)
            return obj

        resource = self.resource(storage)
        owner = Manager(manager, "Update", resource.group_version, subresource, self.now())
        namespace, _, name = key.rpartition("/")
        try:
            if subresource == "scale":
                self.api.writer.update(resource, namespace, name, change, manager=owner, scale=scale_of)
            else:
                self.api.writer.update(resource, namespace, name, change, subresource=subresource, manager=owner)
        except StatusError as error:
            if error.code != 404:
                raise
            return False
        return True

    def rescale(self, storage: str, key: str, replicas: int) -> bool:
        """Set the replicas of a workload, as a write of its Scale. False if it does not exist."""
        return self.edit(storage, key, lambda obj: obj["spec"].update(replicas=replicas), "scale")

    def edit_status(self, storage: str, key: str, edit: Edit, uid: str = "", *, only_status: bool = False) -> bool:
        """Update a status without checks. False if the object does not exist or has another UID.

        With `only_status`, `edit` may read and change nothing else. That is faster: the rest is not decoded.
        """
        record = self.store.get(storage, key)
        if record is None:
            return False
        obj = record.load_status() if only_status else record.load()
        if uid and obj["metadata"]["uid"] != uid:
            return False
        before = obj.get("status")
        obj["status"] = dict(before or {})
        edit(obj)
        if obj["status"] != (before or {}):
            self.writing_status = True
            try:
                self.store.put(storage, key, obj, only_status=only_status)
            finally:
                self.writing_status = False
        return True

    def put(self, storage: str, key: str, obj: JSON) -> Record:
        """Store an object without checks."""
        return self.store.put(storage, key, obj)

    def delete(self, storage: str, key: str, *, uid: str = "", propagation: str = "", grace: int | None = None) -> None:
        """Delete an object. Does nothing if it does not exist or has another UID."""
        namespace, _, name = key.rpartition("/")
        options = DeleteOptions(grace, propagation, Preconditions(uid))
        try:
            self.api.deleter.delete(self.resource(storage), namespace, name, options)
        except StatusError as error:
            if error.code not in (404, 409):
                raise

    def remove(self, storage: str, key: str, uid: str = "") -> None:
        """Finish a graceful deletion: remove the object now, unless finalizers hold it."""
        self.delete(storage, key, uid=uid, grace=0)
