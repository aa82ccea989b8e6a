"""ControllerRevisions: the template history of StatefulSets and DaemonSets, for `kubectl rollout`."""

from __future__ import annotations

import copy
from itertools import count
from typing import Any

from kubesched.base.types import JSON
from kubesched.controllers.ownership import controller_reference, owner_of
from kubesched.controllers.rollout import template_hash
from kubesched.reconcile.access import REVISIONS, Access

HASH_LABEL = "controller-revision-hash"


class Revisions:
    """The revisions of one kind of owner."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def of(self, owner: JSON) -> list[JSON]:
        """Return an owner's revisions, oldest first."""
        uid = owner["metadata"]["uid"]
        found = []
        for revision in self._access.list(REVISIONS, owner["metadata"]["namespace"]):
            manager = owner_of(revision)
            if manager is not None and manager.get("uid") == uid:
                found.append(revision)
        return sorted(found, key=lambda each: int(each.get("revision", 0)))

    def template(self, owner: JSON, name: str) -> JSON | None:
        """Return the template of a revision, or None if the revision was deleted."""
        for revision in self.of(owner):
            if revision["metadata"]["name"] == name:
                return {key: value for key, value in revision["data"]["spec"]["template"].items() if key != "$patch"}
        return None

    def current(self, owner: JSON) -> JSON:
        """Return the revision of the owner's current template. Creates or renumbers it if necessary."""
        data = _ordered({"spec": {"template": {**_as_go_encodes(owner["spec"]["template"]), "$patch": "replace"}}})
        known = self.of(owner)
        newest = int(known[-1].get("revision", 0)) if known else 0
        for revision in known:
            if revision.get("data") == data:
                if int(revision.get("revision", 0)) != newest:
                    return self._renew(revision, newest + 1)
                return revision
        meta = owner["metadata"]
        suffix = self._free_suffix(owner)
        labels = {**(owner["spec"]["template"]["metadata"].get("labels") or {}), HASH_LABEL: suffix}
        body: JSON = {
            "metadata": {
                "name": f"{meta['name']}-{suffix}",
                "namespace": meta["namespace"],
                "labels": labels,
                "ownerReferences": [controller_reference(owner)],
            },
            "data": data,
            "revision": newest + 1,
        }
        made = self._access.create(REVISIONS, body)
        self._delete_old(owner, known)
        return made

    def _free_suffix(self, owner: JSON) -> str:
        """The hash of the owner's template, or another one if a set of another kind has a revision of that name."""
        prefix = f"{owner['metadata']['namespace']}/{owner['metadata']['name']}"
        hashes = (template_hash(owner["spec"]["template"], collisions) for collisions in count())
        return next(each for each in hashes if self._access.get(REVISIONS, f"{prefix}-{each}") is None)

    def _renew(self, revision: JSON, number: int) -> JSON:
        key = f"{revision['metadata']['namespace']}/{revision['metadata']['name']}"
        self._access.edit(REVISIONS, key, lambda obj: obj.update(revision=number))
        return {**revision, "revision": number}

    def _delete_old(self, owner: JSON, known: list[JSON]) -> None:
        limit = owner["spec"].get("revisionHistoryLimit", 10)
        for revision in known[: max(0, len(known) - limit)]:
            key = f"{revision['metadata']['namespace']}/{revision['metadata']['name']}"
            self._access.delete(REVISIONS, key)


def _as_go_encodes(template: JSON) -> JSON:
    """A template with the empty objects that Go always writes. Clients compare revisions byte by byte."""
    template = copy.deepcopy(template)
    spec = template.get("spec") or {}
    for field in ("initContainers", "containers"):
        for container in spec.get(field) or ():
            container.setdefault("resources", {})
    return template


def _ordered(value: Any) -> Any:
    """A value with the keys of all its objects in order."""
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value)}
    return [_ordered(each) for each in value] if isinstance(value, list) else value
