"""Owners and what they own: references, templates, adopting and letting go."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable

import msgspec

from kubesched.api import objects as api
from kubesched.api.selectors import Selector, SelectorError, label_selector, selector_from_map
from kubesched.apiserver.wire.status import StatusError
from kubesched.base.types import JSON
from kubesched.reconcile.access import PODS
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.views import Pod


def controller_reference(owner: JSON) -> JSON:
    """The reference in an object that says who manages it."""
    meta = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owner_of(obj: JSON) -> JSON | None:
    """The reference to the owner that manages an object."""
    references = obj["metadata"].get("ownerReferences") or []
    return next((each for each in references if each.get("controller")), None)


def selector_of(owner: JSON) -> Selector | None:
    """The compiled selector of a workload; None if it has none that selects anything."""
    selector = (owner.get("spec") or {}).get("selector")
    if not selector:
        return None
    if owner["kind"] == "ReplicationController":
        return selector_from_map(selector)
    try:
        compiled = label_selector(msgspec.convert(selector, api.LabelSelector))
    except (SelectorError, msgspec.ValidationError):
        return None
    return compiled if compiled.requirements else None


def pod_from(template: JSON, owner: JSON, **meta: object) -> JSON:
    """A pod as a template describes it; `meta` are its name or generateName."""
    described = template.get("metadata") or {}
    pod_meta: JSON = {"namespace": owner["metadata"]["namespace"], **meta}
    for field in ("labels", "annotations", "finalizers"):
        if described.get(field):
            pod_meta[field] = copy.deepcopy(described[field])
    pod_meta["ownerReferences"] = [controller_reference(owner)]
    return {"metadata": pod_meta, "spec": copy.deepcopy(template.get("spec") or {})}


def claimed_pods(context: ControllerContext, owner: JSON, selector: Selector | None) -> list[Pod]:
    """The pods an owner manages, after taking in those it selects and letting go of those it no longer does."""
    uid, namespace = owner["metadata"]["uid"], owner["metadata"]["namespace"]
    if selector is None or "deletionTimestamp" in owner["metadata"]:
        return context.pods_by_owner.get(uid)
    for pod in context.pods_by_owner.get(uid):
        if not pod.metadata.being_deleted and not selector.matches(pod.metadata.labels):
            context.access.edit(PODS, pod.key, _releaser(uid))
    for pod in context.orphans.get(namespace):
        if pod.is_active and selector.matches(pod.metadata.labels):
            context.access.edit(PODS, pod.key, _adopter(controller_reference(owner)))
    return context.pods_by_owner.get(uid)


def _adopter(reference: JSON) -> Callable[[JSON], None]:
    def adopt(obj: JSON) -> None:
        meta = obj["metadata"]
        meta["ownerReferences"] = [*(meta.get("ownerReferences") or []), reference]

    return adopt


def _releaser(uid: str) -> Callable[[JSON], None]:
    def release(obj: JSON) -> None:
        meta = obj["metadata"]
        meta["ownerReferences"] = [each for each in meta.get("ownerReferences") or [] if each.get("uid") != uid]

    return release


def create_pod(
    context: ControllerContext, source: str, owner: JSON, pod: JSON, reference: JSON, told: str = "Created pod: {}"
) -> JSON:
    """Create a pod and tell of it; a refusal is told of too, and raised."""
    try:
        made = context.access.create(PODS, pod)
    except StatusError as error:
        # The same text every time: with the name that was thought up for this try, each would look like news.
        base = pod["metadata"].get("generateName", "")
        message = re.sub(rf'"{re.escape(base)}[a-z0-9]{{5}}"', f'"{base}"', error.message) if base else error.message
        context.events.record(source, reference, "Warning", "FailedCreate", f"Error creating: {message}")
        raise StatusError(error.code, message, reason=error.reason) from error
    context.events.record(source, reference, "Normal", "SuccessfulCreate", told.format(made["metadata"]["name"]))
    return made


def delete_pod(
    context: ControllerContext, source: str, pod: Pod, reference: JSON, told: str = "Deleted pod: {}"
) -> None:
    """Delete a pod and tell of it."""
    context.access.delete(PODS, pod.key, uid=pod.metadata.uid)
    context.events.record(source, reference, "Normal", "SuccessfulDelete", told.format(pod.metadata.name))
