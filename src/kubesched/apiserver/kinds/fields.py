"""The selectable fields of each kind, as upstream.

Their values are read once when an object is stored, so that lists and watches never decode it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kubesched.base.types import JSON

Path = tuple[str, ...]
FieldPaths = Mapping[str, Path]
"""Selectable fields by the client's name, with their paths in the stored object."""


def _paths(*names: str) -> dict[str, Path]:
    return {name: tuple(name.split(".")) for name in names}


_OBJECT_PARTS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")

_EVENT_COMMON = {
    **_paths("reason", "type", "reportingComponent"),
    "source": ("source", "component"),
}
_EVENTS = {**_EVENT_COMMON, **_paths(*(f"involvedObject.{part}" for part in _OBJECT_PARTS))}
_NEW_EVENTS = {
    **_EVENT_COMMON,
    "reportingController": ("reportingComponent",),
    **{f"regarding.{part}": ("involvedObject", part) for part in _OBJECT_PARTS},
}

FIELDS: dict[tuple[str, str], FieldPaths] = {
    ("", "pods"): _paths(
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    ("", "nodes"): _paths("spec.unschedulable"),
    ("", "namespaces"): _paths("status.phase"),
    ("", "secrets"): _paths("type"),
    ("", "replicationcontrollers"): _paths("status.replicas"),
    ("apps", "replicasets"): _paths("status.replicas"),
    ("certificates.k8s.io", "certificatesigningrequests"): _paths("spec.signerName"),
    ("batch", "jobs"): {"status.successful": ("status", "succeeded")},
    ("", "events"): _EVENTS,
    ("events.k8s.io", "events"): _NEW_EVENTS,
    ("resource.k8s.io", "resourceslices"): _paths("spec.nodeName", "spec.driver"),
}

# Fields whose default is not the empty string.
_ABSENT = {"spec.unschedulable": "false", "spec.hostNetwork": "false", "status.replicas": "0", "status.successful": "0"}


def fields_reader(paths: FieldPaths) -> Callable[[JSON], dict[str, str]]:
    """A function that reads the selectable fields of an object, by their paths."""
    sections: dict[tuple[str, ...], list[tuple[str, str, str]]] = {}
    for *parents, last in sorted(set(paths.values())):
        name = ".".join((*parents, last))
        sections.setdefault(tuple(parents), []).append((name, last, _ABSENT.get(name, "")))

    def read(obj: JSON) -> dict[str, str]:
        # Called for every stored object, so it avoids function calls.
        values = {}
        for parents, wanted in sections.items():
            section: Any = obj
            for part in parents:
                section = section.get(part) if isinstance(section, dict) else None
            if not isinstance(section, dict):
                values.update({name: absent for name, _, absent in wanted if absent})
                continue
            get = section.get
            for name, last, absent in wanted:
                value = get(last)
                if value.__class__ is str and value:
                    values[name] = value
                elif value is not None and value != "":
                    values[name] = _text(value)
                elif absent:
                    values[name] = absent
        return values

    return read


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
