"""Owners and their pods: references, templates, adoption and release."""

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
    """Return the owner reference for an object that this owner manages."""
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
    """Return the reference to the owner that manages an object."""
    references = obj["metadata"].get("ownerReferences") or []
    return next((each for each in references if each.get("controller")), None)


def selector_of(owner: JSON) -> Selector | None:
    """Return the compiled selector of a workload; None if it is missing, empty or invalid."""
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
    """Build a pod from a template. `meta` has its name or generateName."""
    described = template.get("metadata") or {}
    pod_meta: JSON = {"namespace": owner["metadata"]["namespace"], **meta}
    for field in ("labels", "annotations", "finalizers"):
        if described.get(field):
            pod_meta[field] = copy.deepcopy(described[field])
    pod_meta["ownerReferences"] = [controller_reference(owner)]
    return {"metadata": pod_meta, "spec": copy.deepcopy(template.get("spec") or {})}


def claimed_pods(context: ControllerContext, owner: JSON, selector: Selector | None) -> list[Pod]:
    """Return the pods of an owner. Adopts orphans that it selects, and releases pods that it no longer selects."""
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
    context: ControllerContext, source: str, owner: JSON, pod: JSON, reference: JSON, message: str = "Created pod: {}"
) -> JSON:
    """Create a pod and record an event. A refusal is recorded and raised."""
    try:
        made = context.access.create(PODS, pod)
    except StatusError as error:
        # Without the generated name the text is the same for every retry, and the event is counted, not repeated.
        base = pod["metadata"].get("generateName", "")
        reason = re.sub(rf'"{re.escape(base)}[a-z0-9]{{5}}"', f'"{base}"', error.message) if base else error.message
        context.events.record(source, reference, "Warning", "FailedCreate", f"Error creating: {reason}")
        raise StatusError(error.code, reason, reason=error.reason) from error
    context.events.record(source, reference, "Normal", "SuccessfulCreate", message.format(made["metadata"]["name"]))
    return made


def delete_pod(
    context: ControllerContext, source: str, pod: Pod, reference: JSON, message: str = "Deleted pod: {}"
) -> None:
    """Delete a pod and record an event."""
    context.access.delete(PODS, pod.key, uid=pod.metadata.uid)
    context.events.record(source, reference, "Normal", "SuccessfulDelete", message.format(pod.metadata.name))
