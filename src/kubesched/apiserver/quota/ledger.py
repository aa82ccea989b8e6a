"""Keeps the status of ResourceQuotas and refuses objects that would exceed them.

Usage follows the store: every change of an object in a namespace with quotas adds or subtracts what the object counts
for. Only a quota that is new, or whose spec changed, is counted from scratch.
"""

from __future__ import annotations

from functools import partial

from kubesched.api.quantity import QuantityError, canonical, nanos
from kubesched.apiserver.kinds.registry import ResourceRegistry
from kubesched.apiserver.pod_resources import add
from kubesched.apiserver.policies.attributes import AdmissionAttributes
from kubesched.apiserver.quota.scopes import in_scope
from kubesched.apiserver.quota.usage import CLAIMS, PODS, SERVICES, missing, usage
from kubesched.apiserver.storage.store import ChangeType, Record, Store, StoreEvent
from kubesched.apiserver.wire.status import forbidden
from kubesched.base.types import JSON

QUOTAS = "/resourcequotas"
_GROWS = {PODS: "resize", SERVICES: "", CLAIMS: ""}
"""The kinds of which an update can use more, and the part of them that can grow."""
_COUNT = "count/"


class Quota:
    """One quota, with what is used of it."""

    def __init__(self, name: str, spec: JSON) -> None:
        self.name = name
        self.spec = spec
        self.hard: JSON = spec.get("hard") or {}
        self.used: JSON = dict.fromkeys(self.hard, "0")

    def of(self, storage: str, obj: JSON) -> JSON:
        """What an object counts for in this quota."""
        if not in_scope(self.spec, storage, obj):
            return {}
        return {name: amount for name, amount in usage(storage, obj).items() if name in self.hard}

    def exceeded(self, more: JSON) -> list[str]:
        """The resources of which there is not enough left."""
        return sorted(n for n in more if nanos(self.used[n]) + nanos(more[n]) > nanos(self.hard[n]))


class QuotaLedger:
    """All quotas, by namespace."""

    def __init__(self, store: Store, registry: ResourceRegistry) -> None:
        self._store = store
        self._quotas: dict[str, dict[str, Quota]] = {}
        self._counted: set[str] = set()
        self._built_in = [each.storage for each in registry if each.is_stored and each.namespaced]
        """Counted from the first quota on. Most clusters have none, and an observer costs time at every write."""
        self._count(QUOTAS)
        store.shelf(QUOTAS).observers.append(self._quota_changed)

    def restore(self) -> None:
        """Count everything in a store that was loaded."""
        for record in tuple(self._store.records(QUOTAS)):
            self._load(record)

    # --- admission ----------------------------------------------------------------------------------------------------

    def check(self, attributes: AdmissionAttributes) -> None:
        """Refuse a write that needs more than a quota has left."""
        quotas = self._quotas.get(attributes.namespace)
        if not quotas or attributes.obj is None:
            return
        storage = attributes.resource.storage
        if attributes.operation != "CREATE" and _GROWS.get(storage) != attributes.subresource:
            return
        for name in sorted(quotas):
            try:
                self._check(quotas[name], attributes)
            except QuantityError:
                continue

    def _check(self, quota: Quota, attributes: AdmissionAttributes) -> None:
        storage, obj, resource = attributes.resource.storage, attributes.obj, attributes.resource
        assert obj is not None
        more = quota.of(storage, obj)
        if storage == PODS and in_scope(quota.spec, storage, obj) and (lacking := missing(obj, quota.hard)):
            why = f"failed quota: {quota.name}: must specify {lacking}"
            raise forbidden(resource.plural, resource.group, attributes.name, why)
        if attributes.old is not None:
            add(more, quota.of(storage, attributes.old), -1)
        more = {name: amount for name, amount in more.items() if nanos(amount) > 0}
        if exceeded := quota.exceeded(more):
            parts = (("requested", more), ("used", quota.used), ("limited", quota.hard))
            shown = ", ".join(f"{word}: {_shown(amounts, exceeded)}" for word, amounts in parts)
            raise forbidden(resource.plural, resource.group, attributes.name, f"exceeded quota: {quota.name}, {shown}")

    # --- usage --------------------------------------------------------------------------------------------------------

    def _count(self, storage: str) -> None:
        if storage not in self._counted:
            self._counted.add(storage)
            shelf = self._store.shelf(storage)
            # The first observer, so that the others see the usage. A new list: the old one may be in use just now.
            shelf.observers = [partial(self._object_changed, storage), *shelf.observers]

    def _object_changed(self, storage: str, event: StoreEvent) -> None:
        quotas = self._quotas.get(event.record.namespace)
        if not quotas:
            return
        before = None if event.previous is None else event.previous.load()
        after = None if event.change is ChangeType.DELETED else event.record.load()
        for key, quota in quotas.items():
            used = dict(quota.used)
            try:
                if before is not None:
                    add(used, quota.of(storage, before), -1)
                if after is not None:
                    add(used, quota.of(storage, after))
            except QuantityError:
                continue
            if used != quota.used:
                quota.used = used
                self._write(f"{event.record.namespace}/{key}", quota)

    # --- quotas -------------------------------------------------------------------------------------------------------

    def _quota_changed(self, event: StoreEvent) -> None:
        known = self._quotas.get(event.record.namespace, {})
        if event.change is ChangeType.DELETED:
            known.pop(event.record.name, None)
            return
        quota = known.get(event.record.name)
        if quota is None or quota.spec != (event.record.load().get("spec") or {}):
            self._load(event.record)
        else:
            self._write(event.record.key, quota)  # in case a client wrote another status

    def _load(self, record: Record) -> None:
        quota = Quota(record.name, record.load().get("spec") or {})
        for storage in self._built_in:
            self._count(storage)
        for name in quota.hard:
            if name.startswith(_COUNT):
                plural, _, group = name.removeprefix(_COUNT).partition(".")
                self._count(f"{group}/{plural}")
        for storage in self._counted:
            for each in self._store.records(storage, record.namespace):
                try:
                    add(quota.used, quota.of(storage, each.load()))
                except QuantityError:
                    continue
        self._quotas.setdefault(record.namespace, {})[record.name] = quota
        self._write(record.key, quota)

    def _write(self, key: str, quota: Quota) -> None:
        record = self._store.get(QUOTAS, key)
        status = {"hard": quota.hard, "used": quota.used}
        if record is not None and (obj := record.load()).get("status") != status:
            self._store.put(QUOTAS, key, {**obj, "status": status})


def _shown(amounts: JSON, names: list[str]) -> str:
    return ",".join(f"{name}={canonical(amounts[name])}" for name in names)
