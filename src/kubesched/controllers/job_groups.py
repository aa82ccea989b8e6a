"""The Workload and PodGroup of a Job whose pods can only run together (gate WorkloadWithJob)."""

from __future__ import annotations

import logging

from kubesched.api.objects import Part
from kubesched.api.workloads import API_VERSION
from kubesched.apiserver.names import safe_name
from kubesched.base.types import JSON
from kubesched.controllers.ownership import controller_reference, owner_of
from kubesched.reconcile.access import POD_GROUPS, WORKLOADS
from kubesched.reconcile.cache import Cache, Index
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.events import reference
from kubesched.reconcile.views import PodGroup, View

_MAX_NAME = 253
_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193

_log = logging.getLogger(__name__)


class _ControllerReference(Part, frozen=True):
    api_group: str = ""
    kind: str = ""
    name: str = ""


class _WorkloadSpec(Part, frozen=True):
    controller_ref: _ControllerReference = _ControllerReference()


class _Workload(View, frozen=True):
    spec: _WorkloadSpec = _WorkloadSpec()


class JobGroups:
    """Finds or creates the pod groups of Jobs."""

    def __init__(self, context: ControllerContext, source: str) -> None:
        self._access = context.access
        self._events = context.events
        self._source = source
        store = context.access.store
        self._workloads: Index[_Workload] = Cache(store.shelf(WORKLOADS), _Workload).index(_job_of)
        self._groups: Index[PodGroup] = Cache(store.shelf(POD_GROUPS), PodGroup).index(_workload_of)

    def group_of(self, job: JSON, *, started: bool) -> JSON | None:
        """Return the group for a Job's pods; None if they are scheduled one by one.

        A Job that has already started gets no Workload. Workloads and groups that refer to the Job but have another
        owner are left alone, and the Job has no group then.
        """
        if not _is_gang(job["spec"]):
            return None
        workload = self._workload(job, started)
        if workload is None:
            return None
        found = self._own(job, POD_GROUPS, [each.key for each in self._groups.get(_key(workload))])
        if found is None:
            return None
        return found[0] if found else self._create_group(job, workload)

    def _workload(self, job: JSON, started: bool) -> JSON | None:
        found = self._own(job, WORKLOADS, [each.key for each in self._workloads.get(_key(job))])
        if found is None or (started and not found):
            return None
        workload = found[0] if found else self._create_workload(job)
        return workload if len(workload["spec"]["podGroupTemplates"]) == 1 else None

    def _own(self, job: JSON, storage: str, keys: list[str]) -> list[JSON] | None:
        """Return the one object that belongs to a Job, or nothing; None if it is another's, or one of several."""
        if len(keys) > 1:
            kind = "Workloads referencing Job" if storage == WORKLOADS else "PodGroups referencing the Workload of Job"
            _log.error("found %d %s %s, falling back to default scheduling", len(keys), kind, _key(job))
            return None
        objects = [obj for key in keys if (obj := self._access.get(storage, key)) is not None]
        owned = all((owner_of(obj) or {}).get("uid") == job["metadata"]["uid"] for obj in objects)
        return objects if owned else None

    def _create_workload(self, job: JSON) -> JSON:
        meta = job["metadata"]
        # Upstream hashes the UID as Go prints it, with its type.
        hashed = _hash(f"(types.UID){meta['uid']}")
        template = {
            "name": f"{meta['name']}-pgt-0",
            "schedulingPolicy": {"gang": {"minCount": job["spec"]["parallelism"]}},
        }
        made = self._access.create(
            WORKLOADS,
            {
                "metadata": {
                    "name": f"{meta['name'][: _MAX_NAME - len(hashed) - 1]}-{hashed}",
                    "namespace": meta["namespace"],
                    "ownerReferences": [controller_reference(job)],
                },
                "spec": {
                    "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": meta["name"]},
                    "podGroupTemplates": [template],
                },
            },
        )
        text = f"Created Workload {made['metadata']['name']} for Job {meta['name']}"
        self._events.record(self._source, reference(job), "Normal", "WorkloadCreated", text)
        return made

    def _create_group(self, job: JSON, workload: JSON) -> JSON:
        meta, template = workload["metadata"], workload["spec"]["podGroupTemplates"][0]
        names = {"workloadName": meta["name"], "podGroupTemplateName": template["name"]}
        owner = {"apiVersion": API_VERSION, "kind": "Workload", "name": meta["name"], "uid": meta["uid"]}
        return self._access.create(
            POD_GROUPS,
            {
                "metadata": {
                    "name": group_name(meta["name"], template["name"]),
                    "namespace": meta["namespace"],
                    "ownerReferences": [controller_reference(job), owner],
                },
                "spec": {
                    "podGroupTemplateRef": {"workload": names},
                    "schedulingPolicy": template["schedulingPolicy"],
                },
            },
        )


def join_group(pod: JSON, group: JSON) -> None:
    """Make a new pod a member of a group, which owns it too."""
    meta = group["metadata"]
    pod["spec"]["schedulingGroup"] = {"podGroupName": meta["name"]}
    owner = {"apiVersion": API_VERSION, "kind": "PodGroup", "name": meta["name"], "uid": meta["uid"]}
    pod["metadata"]["ownerReferences"].append(owner)


def group_name(workload: str, template: str) -> str:
    """Return upstream's name for the group of a template. If it is too long, the longer part is shortened first."""
    hashed = _hash(workload + template)
    room = _MAX_NAME - len(hashed) - 2
    if len(workload) + len(template) > room:
        half = room // 2
        if len(workload) <= half:
            template = template[: room - len(workload)]
        elif len(template) <= half:
            workload = workload[: room - len(template)]
        else:
            workload, template = workload[: room - half], template[:half]
    return f"{workload}-{template}-{hashed}"


def _hash(text: str) -> str:
    """FNV-1a with 32 bits, in characters that names may have."""
    value = _FNV_OFFSET
    for byte in text.encode():
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return safe_name(str(value))


def _is_gang(spec: JSON) -> bool:
    """Whether all pods of a Job run at the same time, each with an index of its own."""
    parallelism = spec.get("parallelism", 1)
    return (
        parallelism > 1
        and spec.get("completionMode") == "Indexed"
        and spec.get("completions") == parallelism
        and spec["template"]["spec"].get("schedulingGroup") is None
    )


def _job_of(workload: _Workload) -> list[str]:
    owner = workload.spec.controller_ref
    named = (owner.api_group, owner.kind) == ("batch", "Job") and owner.name
    return [f"{workload.metadata.namespace}/{owner.name}"] if named else []


def _workload_of(group: PodGroup) -> list[str]:
    name = group.spec.pod_group_template_ref.workload.workload_name
    return [f"{group.metadata.namespace}/{name}"] if name else []


def _key(obj: JSON) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
