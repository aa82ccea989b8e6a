"""Persistent volumes: binds claims to volumes, and provisions volumes for claims of the simulated storage class.

As upstream, a binding is stored on both sides: the volume names its claim, and the claim names its volume. If the
scheduler or a user has set one of them, the controller completes the other.
"""

from __future__ import annotations

from functools import partial

from kubesched.api.quantity import nanos, value
from kubesched.apiserver.storage.store import ChangeType, StoreEvent, decode
from kubesched.apiserver.validation.workloads import selects
from kubesched.base.types import JSON
from kubesched.reconcile.access import CLAIMS, CLASSES, NODES, VOLUMES
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.events import reference
from kubesched.reconcile.loop import Controller

PROVISIONER = "simulated.kubesched.io"
"""Also the name of the CSI driver of its volumes, so it has no slash."""
OLD_PROVISIONER = "kubesched.io/simulated"
"""Its name in clusters of earlier builds."""
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_RENAME = "rename"
_ZONE = "topology.kubernetes.io/zone"
INITIAL_CLASSES: tuple[tuple[str, str, bool], ...] = (
    ("standard", "WaitForFirstConsumer", True),
    ("immediate", "Immediate", False),
)


class VolumeController(Controller):
    """Binds claims, provisions volumes and reclaims released ones. Keys: ``rename``, ``claim …``, ``volume …``."""

    name = "persistentvolume-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context.loop)
        self._context = context
        self._access = context.access
        self._last_messages: dict[str, str] = {}
        """The last event message about each claim, by UID."""
        store = self._access.store
        self.enqueue(_RENAME)
        for storage, kind in ((CLAIMS, "claim"), (VOLUMES, "volume")):
            shelf = store.shelf(storage)
            shelf.observers.append(partial(self._on_event, kind))
            for key in shelf.sorted_keys():
                self.enqueue(f"{kind} {key}")
        store.shelf(CLASSES).observers.append(lambda _event: self._all_claims())

    def add_classes(self) -> None:
        """Create the storage classes of a new cluster."""
        for name, mode, default in INITIAL_CLASSES:
            if self._access.store.get(CLASSES, name) is None:
                meta: JSON = {"name": name, "annotations": {DEFAULT_CLASS: "true"}} if default else {"name": name}
                body = {"provisioner": PROVISIONER, "reclaimPolicy": "Delete", "volumeBindingMode": mode}
                self._access.create(CLASSES, {"metadata": meta, **body})

    def _on_event(self, kind: str, event: StoreEvent) -> None:
        self.enqueue(f"{kind} {event.record.key}")
        if kind == "volume":
            self._all_claims()
            holder = event.record.load()["spec"].get("claimRef") if event.change is ChangeType.DELETED else None
            if holder:
                self.enqueue(f"claim {holder.get('namespace')}/{holder.get('name')}")
            return
        claim = event.record.load()
        if event.change is ChangeType.DELETED:
            self._last_messages.pop(claim["metadata"]["uid"], None)
        if volume := (claim.get("spec") or {}).get("volumeName"):
            self.enqueue(f"volume {volume}")

    def _all_claims(self) -> None:
        """Queue all pending claims: a new volume or class may be what they wait for."""
        for record in self._access.store.records(CLAIMS):
            if b'"phase":"Pending"' in record.data:
                self.enqueue(f"claim {record.key}")

    def sync(self, key: str) -> None:
        kind, _, name = key.partition(" ")
        if kind == "claim":
            self._sync_claim(name)
        elif kind == "volume":
            self._sync_volume(name)
        else:
            self._rename_provisioner()

    def _rename_provisioner(self) -> None:
        """Give the classes and volumes of an earlier build today's name, which clients may not change."""
        old, new = f'"{OLD_PROVISIONER}"'.encode(), f'"{PROVISIONER}"'.encode()
        for storage in (CLASSES, VOLUMES):
            for record in self._access.store.records(storage):
                if old in record.data:
                    self._access.put(storage, record.key, decode(record.data.replace(old, new)))

    # --- claims -------------------------------------------------------------------------------------------------------

    def _sync_claim(self, key: str) -> None:
        claim = self._access.get(CLAIMS, key)
        if claim is None or "deletionTimestamp" in claim["metadata"]:
            return
        named = claim["spec"].get("volumeName")
        if named:
            self._complete(claim, named)
            return
        volume = self._find(claim)
        if volume is not None:
            self._bind(claim, volume)
        else:
            self._provision(claim)

    def _complete(self, claim: JSON, name: str) -> None:
        """Bind a claim to the volume that it names, unless another claim has it."""
        volume = self._access.get(VOLUMES, name)
        if volume is None:
            if BIND_COMPLETED in (claim["metadata"].get("annotations") or {}):
                self._set_phase(claim, "Lost")
                self._record(
                    claim, "Warning", "ClaimLost", "Bound claim has lost its PersistentVolume. Data may be lost!"
                )
            return
        holder = volume["spec"].get("claimRef")
        if holder is None or _is_held_by(volume, claim):
            self._bind(claim, volume)

    def _find(self, claim: JSON) -> JSON | None:
        """Return the volume reserved for this claim, or else the smallest one that fits."""
        found = []
        waits = self._waits(claim)
        for volume in self._access.list(VOLUMES):
            if "deletionTimestamp" in volume["metadata"]:
                continue
            if volume["spec"].get("claimRef"):
                if _is_held_by(volume, claim):
                    return volume
            elif not waits and _fits(claim, volume) and (volume.get("status") or {}).get("phase") == "Available":
                found.append(volume)
        return min(found, key=lambda each: (_size(each), each["metadata"]["name"])) if found else None

    def _waits(self, claim: JSON) -> bool:
        """Whether the claim waits until the scheduler has chosen a node for its pod."""
        storage_class = self._class_of(claim)
        mode = (storage_class or {}).get("volumeBindingMode")
        return mode == "WaitForFirstConsumer" and SELECTED_NODE not in (claim["metadata"].get("annotations") or {})

    def _class_of(self, claim: JSON) -> JSON | None:
        name = claim["spec"].get("storageClassName")
        return self._access.get(CLASSES, name) if name else None

    def _bind(self, claim: JSON, volume: JSON) -> None:
        meta, name = claim["metadata"], volume["metadata"]["name"]
        holder = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": meta["namespace"]}
        holder |= {"name": meta["name"], "uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        if not _is_held_by(volume, claim) or not (volume["spec"].get("claimRef") or {}).get("uid"):

            def hold(obj: JSON) -> None:
                if not obj["spec"].get("claimRef"):
                    _annotate(obj, BOUND_BY_CONTROLLER)
                obj["spec"]["claimRef"] = holder

            self._access.edit(VOLUMES, name, hold)
        self._access.edit_status(VOLUMES, name, lambda obj: obj["status"].update(phase="Bound"))
        annotations = meta.get("annotations") or {}
        if claim["spec"].get("volumeName") != name or BIND_COMPLETED not in annotations:

            def take(obj: JSON) -> None:
                if not obj["spec"].get("volumeName"):
                    _annotate(obj, BOUND_BY_CONTROLLER)
                _annotate(obj, BIND_COMPLETED)
                obj["spec"]["volumeName"] = name

            self._access.edit(CLAIMS, _key(claim), take)
        capacity = {"storage": self._grown(claim, volume)}
        self._set_phase(claim, "Bound", accessModes=volume["spec"].get("accessModes") or [], capacity=capacity)

    def _grown(self, claim: JSON, volume: JSON) -> str:
        """Return the capacity of a claim's volume. A volume that was provisioned here grows to the requested size."""
        has: str = volume["spec"]["capacity"]["storage"]
        wants: str = ((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage", has)
        made_here = (volume["metadata"].get("annotations") or {}).get(PROVISIONED_BY) == PROVISIONER
        if not made_here or nanos(wants) <= nanos(has):
            return has
        self._access.edit(
            VOLUMES, volume["metadata"]["name"], lambda obj: obj["spec"]["capacity"].update(storage=wants)
        )
        return wants

    def _set_phase(self, claim: JSON, phase: str, **more: object) -> None:
        self._access.edit_status(
            CLAIMS, _key(claim), lambda obj: obj["status"].update(phase=phase, **more), claim["metadata"]["uid"]
        )

    # --- provisioning -------------------------------------------------------------------------------------------------

    def _provision(self, claim: JSON) -> None:
        storage_class = self._class_of(claim)
        if storage_class is None:
            name = claim["spec"].get("storageClassName")
            text = (
                f'storageclass.storage.k8s.io "{name}" not found'
                if name
                else ("no persistent volumes available for this claim and no storage class is set")
            )
            self._record(
                claim, "Warning" if name else "Normal", "ProvisioningFailed" if name else "FailedBinding", text
            )
            return
        if self._waits(claim):
            text = "waiting for first consumer to be created before binding"
            self._record(claim, "Normal", "WaitForFirstConsumer", text)
            return
        provisioner = storage_class["provisioner"]
        if provisioner != PROVISIONER:
            text = (
                f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by"
                " the system administrator. If volume creation is delayed, please verify that the provisioner is"
                " running and correctly registered."
            )
            self._record(claim, "Normal", "ExternalProvisioning", text)
            return
        volume = self._access.create(VOLUMES, self._new_volume(claim, storage_class))
        text = f"Successfully provisioned volume {volume['metadata']['name']}"
        self._record(claim, "Normal", "ProvisioningSucceeded", text, PROVISIONER)

    def _new_volume(self, claim: JSON, storage_class: JSON) -> JSON:
        meta, spec = claim["metadata"], claim["spec"]
        name = f"pvc-{meta['uid']}"
        body: JSON = {
            "capacity": {"storage": ((spec.get("resources") or {}).get("requests") or {}).get("storage", "1Gi")},
            "accessModes": list(spec.get("accessModes") or ["ReadWriteOnce"]),
            "claimRef": {
                "kind": "PersistentVolumeClaim",
                "apiVersion": "v1",
                "namespace": meta["namespace"],
                "name": meta["name"],
                "uid": meta["uid"],
            },
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
            "storageClassName": storage_class["metadata"]["name"],
            "volumeMode": spec.get("volumeMode", "Filesystem"),
            "csi": {"driver": PROVISIONER, "volumeHandle": name},
        }
        if zone := self._zone(claim):
            expression = {"key": _ZONE, "operator": "In", "values": [zone]}
            body["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
        return {"metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}}, "spec": body}

    def _zone(self, claim: JSON) -> str:
        """Return the zone of the selected node; the volume is created there. Empty if nodes have no zones."""
        chosen = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE, "")
        node = self._access.get(NODES, chosen) if chosen else None
        return str(((node or {}).get("metadata", {}).get("labels") or {}).get(_ZONE, ""))

    # --- volumes ------------------------------------------------------------------------------------------------------

    def _sync_volume(self, name: str) -> None:
        volume = self._access.get(VOLUMES, name)
        if volume is None or "deletionTimestamp" in volume["metadata"]:
            return
        holder = volume["spec"].get("claimRef")
        if not holder:
            self._set_volume_phase(name, "Available")
            return
        key = f"{holder.get('namespace')}/{holder.get('name')}"
        claim = self._access.get(CLAIMS, key)
        if claim is not None and holder.get("uid") in (None, "", claim["metadata"]["uid"]):
            self.enqueue(f"claim {key}")
            if (volume.get("status") or {}).get("phase") != "Bound":
                self._set_volume_phase(name, "Available")
        elif holder.get("uid"):
            self._reclaim(name, volume)
        else:
            self._set_volume_phase(name, "Available")

    def _reclaim(self, name: str, volume: JSON) -> None:
        self._set_volume_phase(name, "Released")
        if volume["spec"].get("persistentVolumeReclaimPolicy") != "Delete":
            return
        if (volume["metadata"].get("annotations") or {}).get(PROVISIONED_BY) == PROVISIONER:
            self._access.delete(VOLUMES, name, uid=volume["metadata"]["uid"])

    def _set_volume_phase(self, name: str, phase: str) -> None:
        self._access.edit_status(VOLUMES, name, lambda obj: obj["status"].update(phase=phase))

    def _record(self, claim: JSON, kind: str, reason: str, message: str, source: str = "") -> None:
        """Record an event, unless it is the same as the last one about the claim."""
        if self._last_messages.get(claim["metadata"]["uid"]) == message:
            return
        self._last_messages[claim["metadata"]["uid"]] = message
        self._context.events.record(source or self.name, reference(claim), kind, reason, message)


def _key(claim: JSON) -> str:
    return f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"


def _annotate(obj: JSON, name: str) -> None:
    obj["metadata"]["annotations"] = {**(obj["metadata"].get("annotations") or {}), name: "yes"}


def _is_held_by(volume: JSON, claim: JSON) -> bool:
    holder, meta = volume["spec"].get("claimRef") or {}, claim["metadata"]
    same = (holder.get("namespace"), holder.get("name")) == (meta["namespace"], meta["name"])
    return same and holder.get("uid") in (None, "", meta["uid"])


def _size(volume: JSON) -> int:
    return value(volume["spec"]["capacity"]["storage"])


def _fits(claim: JSON, volume: JSON) -> bool:
    wanted, offered = claim["spec"], volume["spec"]
    if (wanted.get("storageClassName") or "") != (offered.get("storageClassName") or ""):
        return False
    if wanted.get("volumeMode", "Filesystem") != offered.get("volumeMode", "Filesystem"):
        return False
    if not set(wanted.get("accessModes") or []) <= set(offered.get("accessModes") or []):
        return False
    selector = wanted.get("selector")
    if selector and not selects(selector, volume["metadata"].get("labels") or {}):
        return False
    request = ((wanted.get("resources") or {}).get("requests") or {}).get("storage", "0")
    return _size(volume) >= value(request)
