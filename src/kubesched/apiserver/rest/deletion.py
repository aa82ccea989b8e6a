"""Deletion in steps: grace periods of pods, finalizers, and the propagation policy for dependents.

The server only marks and removes objects. The kubelet stops a pod, the garbage collector deletes or orphans dependents,
and the namespace controller empties a namespace. Each then removes its finalizer; with the last one the object goes.
"""

from __future__ import annotations

from dataclasses import dataclass

from kubesched.apiserver import meta
from kubesched.apiserver.kinds.conversion import served_object, to_stored
from kubesched.apiserver.kinds.registry import ApiResource
from kubesched.apiserver.kinds.schema import type_of
from kubesched.apiserver.policies.attributes import SERVER, AdmissionAttributes, no_warning
from kubesched.apiserver.rest.body import not_registered, parse
from kubesched.apiserver.rest.options import check_dry_run
from kubesched.apiserver.rest.writer import NO_PRECONDITIONS, Preconditions, Warn, Writer
from kubesched.apiserver.storage.store import Record
from kubesched.apiserver.validation.problems import Problems
from kubesched.apiserver.validation.typecheck import WrongTypeError, drop_unknown
from kubesched.apiserver.wire.request import ApiRequest, UserInfo
from kubesched.apiserver.wire.status import bad_request, invalid
from kubesched.base.types import JSON

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_POLICIES = ("Foreground", "Background", "Orphan")
# Kinds whose dependents are orphaned by default, for compatibility.
_ORPHANING = ("/replicationcontrollers", "batch/jobs")
_KEPT = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set"
    " propagationPolicy=Orphan to suppress this warning"
)
_FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The options of a deletion."""

    grace: int | None = None
    propagation: str = ""
    preconditions: Preconditions = NO_PRECONDITIONS
    dry_run: bool = False


def read_options(request: ApiRequest) -> DeleteOptions:
    """The options of a deletion: its body, or without one the query."""
    body = _read_body(request) if request.body.strip() else _from_query(request)
    propagation, orphan = body.get("propagationPolicy"), body.get("orphanDependents")
    dry_run: list[str] = body.get("dryRun") or []
    problems = Problems()
    if orphan is not None and propagation is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        problems.invalid("propagationPolicy", propagation, why)
    if propagation is not None and propagation not in _POLICIES:
        problems.unsupported("propagationPolicy", propagation, (*_POLICIES, "nil"))
    check_dry_run(dry_run, problems)
    if problems.found:
        raise invalid("DeleteOptions", "meta.k8s.io", "", problems.found)
    if orphan is not None:
        propagation = "Orphan" if orphan else "Background"
    grace, wanted = body.get("gracePeriodSeconds"), body.get("preconditions") or {}
    return DeleteOptions(
        # As upstream: a negative time is one second.
        grace=1 if grace is not None and grace < 0 else grace,
        propagation=propagation or "",
        preconditions=Preconditions(wanted.get("uid") or "", wanted.get("resourceVersion") or ""),
        dry_run=bool(dry_run),
    )


def _read_body(request: ApiRequest) -> JSON:
    type_ = type_of("meta.DeleteOptions")
    assert type_ is not None
    body = parse(request, type_)
    if (kind := body.get("kind")) not in (None, "", "DeleteOptions"):
        version = body.get("apiVersion") or "meta.k8s.io/v1"
        raise bad_request(not_registered(str(kind), str(version)))
    try:
        drop_unknown(body, type_)
    except WrongTypeError as error:
        raise bad_request(str(error)) from None
    return body


def _from_query(request: ApiRequest) -> JSON:
    body: JSON = {"gracePeriodSeconds": request.number("gracePeriodSeconds")}
    if "propagationPolicy" in request.query:
        body["propagationPolicy"] = request.query["propagationPolicy"]
    if "orphanDependents" in request.query:
        body["orphanDependents"] = request.flag("orphanDependents")
    if "dryRun" in request.query:
        body["dryRun"] = [request.query["dryRun"]]
    return body


class Deleter:
    """Deletes objects, at once or by marking them."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def delete(
        self,
        resource: ApiResource,
        namespace: str,
        name: str,
        options: DeleteOptions,
        user: UserInfo | None = None,
        warn: Warn = no_warning,
        *,
        admit: bool = True,
    ) -> tuple[Record, bool]:
        """Delete an object. Returns its last state and whether it is gone. Without `admit` no policy is asked."""
        record = self._writer.find(resource, namespace, name)
        obj = served_object(resource, record)
        options.preconditions.check(resource, obj)
        if admit:
            self._writer.admission.delete(resource, obj)
            self._writer.admission.validate(
                AdmissionAttributes("DELETE", resource, None, obj, user or SERVER, dry_run=options.dry_run, warn=warn)
            )
        if resource.storage == "batch/jobs" and not options.propagation:
            warn(_KEPT)
        grace = self._grace(resource, obj, options)
        finalizers = self._finalizers(resource, obj, options)
        if not finalizers and grace == 0 and not self._is_held(resource, obj):
            return self._remove(resource, record, obj, options), True
        return self._mark(resource, record, obj, finalizers, grace, options), False

    def _remove(self, resource: ApiResource, record: Record, obj: JSON, options: DeleteOptions) -> Record:
        if options.dry_run:
            return record
        last = to_stored(resource, obj)
        if resource.storage == "/pods":
            # Watchers of a forced deletion must see that there was no grace period.
            last["metadata"].setdefault("deletionTimestamp", meta.timestamp(self._writer.clock.now()))
            last["metadata"]["deletionGracePeriodSeconds"] = 0
        return self._writer.store.delete(resource.storage, record.key, last)

    def _grace(self, resource: ApiResource, obj: JSON, options: DeleteOptions) -> int:
        if resource.storage != "/pods":
            return 0
        spec = obj["spec"]
        unstarted = not spec.get("nodeName")
        if unstarted or (obj.get("status") or {}).get("phase") in _FINISHED:
            return 0
        wanted = spec.get("terminationGracePeriodSeconds", 30) if options.grace is None else options.grace
        return max(0, int(wanted))

    def _finalizers(self, resource: ApiResource, obj: JSON, options: DeleteOptions) -> list[str]:
        """The object's finalizers, with the one of the propagation policy."""
        finalizers = list(obj["metadata"].get("finalizers") or [])
        propagation = options.propagation
        if not propagation and resource.storage in _ORPHANING and not {FOREGROUND, ORPHAN} & set(finalizers):
            propagation = "Orphan"
        wanted = {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(propagation)
        if options.propagation:
            finalizers = [f for f in finalizers if f not in (FOREGROUND, ORPHAN) or f == wanted]
        if wanted and wanted not in finalizers:
            finalizers.append(wanted)
        return finalizers

    def _is_held(self, resource: ApiResource, obj: JSON) -> bool:
        return resource.storage == "/namespaces" and bool((obj.get("spec") or {}).get("finalizers"))

    def _mark(
        self,
        resource: ApiResource,
        record: Record,
        obj: JSON,
        finalizers: list[str],
        grace: int,
        options: DeleteOptions,
    ) -> Record:
        found = obj["metadata"]
        before = served_object(resource, record)
        if finalizers:
            found["finalizers"] = finalizers
        else:
            found.pop("finalizers", None)
        if "deletionTimestamp" not in found:
            self._set_deletion(obj, grace)
        elif grace < found.get("deletionGracePeriodSeconds", 0):
            found["deletionTimestamp"] = meta.timestamp(self._writer.clock.now() + grace)
            found["deletionGracePeriodSeconds"] = grace
        if resource.storage == "/namespaces":
            obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        if obj == before:
            return record
        return self._writer.put(resource, record, obj, dry_run=options.dry_run)

    def _set_deletion(self, obj: JSON, grace: int) -> None:
        found = obj["metadata"]
        found["deletionTimestamp"] = meta.timestamp(self._writer.clock.now() + grace)
        found["deletionGracePeriodSeconds"] = grace
        if found.get("generation"):
            meta.bump_generation(obj)
