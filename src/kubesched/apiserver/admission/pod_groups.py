"""Admission of pod groups: protection while in use, and rules that depend on other objects."""

from __future__ import annotations

from kubesched.apiserver.storage.store import Store
from kubesched.apiserver.wire.status import forbidden
from kubesched.base.types import JSON

FINALIZER = "scheduling.k8s.io/podgroup-protection"
_GROUPS, _WORKLOADS = "scheduling.k8s.io/podgroups", "scheduling.k8s.io/workloads"


def check_workload(store: Store, group: JSON) -> None:
    """Refuse a group whose Workload does not have its template. PodGroupWorkloadExists upstream."""
    reference = (group["spec"].get("podGroupTemplateRef") or {}).get("workload")
    if not reference:
        return
    name, template = reference["workloadName"], reference["podGroupTemplateName"]
    record = store.get(_WORKLOADS, f"{group['metadata']['namespace']}/{name}")
    workload = {} if record is None else record.load()
    why = ""
    if record is None:
        why = f'Workload "{name}" not found'
    elif "deletionTimestamp" in workload["metadata"]:
        why = f'Workload "{name}" is being deleted'
    elif all(each["name"] != template for each in workload["spec"]["podGroupTemplates"]):
        why = f'PodGroupTemplate "{template}" not found in Workload "{name}"'
    if why:
        refused = group["metadata"].get("name", "")
        raise forbidden("podgroups", "scheduling.k8s.io", refused, f"PodGroup rejected: {why}")


def check_parallelism(store: Store, old: JSON, new: JSON) -> None:
    """Refuse another parallelism for a Job whose pods are a gang. JobValidation upstream."""
    if old["spec"].get("parallelism") == new["spec"].get("parallelism"):
        return
    for group in _groups_of(store, old):
        if group["spec"]["schedulingPolicy"].get("gang") is not None:
            name = group["metadata"]["name"]
            why = f'cannot change parallelism for a Job referencing gang-scheduled PodGroup "{name}"'
            raise forbidden("jobs", "batch", old["metadata"]["name"], why)


def _groups_of(store: Store, job: JSON) -> list[JSON]:
    """The group that the Job's template names, or else the groups that the Job controls."""
    meta = job["metadata"]
    named = (job["spec"]["template"]["spec"].get("schedulingGroup") or {}).get("podGroupName")
    if named:
        record = store.get(_GROUPS, f"{meta['namespace']}/{named}")
        return [] if record is None else [record.load()]
    found = (record.load() for record in store.records(_GROUPS, meta["namespace"]))
    return [group for group in found if _is_controlled_by(group, meta["uid"])]


def _is_controlled_by(obj: JSON, uid: str) -> bool:
    owners = obj["metadata"].get("ownerReferences") or []
    return any(owner.get("controller") and owner["uid"] == uid for owner in owners)
