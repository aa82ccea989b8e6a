"""Custom resources: a kind is served as long as its definition exists.

Objects are checked against types, required fields, enumerations and ranges of the definition's schema. As upstream,
unknown fields are dropped unless the schema preserves them. Its rules in CEL are checked if nothing keeps them from
being evaluated. Conversion webhooks are not called, which a warning says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubesched.apiserver.crd.columns import columns_of
from kubesched.apiserver.crd.schema import Validator, without_nulls
from kubesched.apiserver.crd.values import NOWHERE, whole_numbers
from kubesched.apiserver.kinds.fields import fields_reader
from kubesched.apiserver.kinds.registry import SCALE, STATUS, ApiResource, ResourceRegistry
from kubesched.apiserver.meta import timestamp
from kubesched.apiserver.printing.table import Columns
from kubesched.apiserver.storage.store import ChangeType, Store, StoreEvent
from kubesched.apiserver.wire.status import Cause
from kubesched.base.clock import Clock
from kubesched.base.types import JSON

DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions"

_BLOCKING = frozenset(f"FieldValue{word}" for word in ("NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid"))
"""Problems with which rules in CEL cannot be evaluated."""
_RULES_SKIPPED = Cause(
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing"
    " errors to complete validation",
    NOWHERE,
)


class CustomResources:
    """Watches the definitions and keeps the table of kinds up to date."""

    def __init__(self, store: Store, registry: ResourceRegistry, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._served: dict[str, list[ApiResource]] = {}
        self._versions: dict[ApiResource, JSON] = {}
        self._validators: dict[ApiResource, Validator] = {}
        self._busy = False
        store.shelf(DEFINITIONS).observers.append(self._changed)

    def restore(self) -> None:
        """Serve the definitions in the store when the server starts."""
        for record in self._store.records(DEFINITIONS):
            self._serve(record.key, record.load())

    # --- for requests -------------------------------------------------------------------------------------------------

    def complete(self, resource: ApiResource, obj: JSON) -> list[str]:
        """Drop the fields that the schema does not know, and fill in its defaults. Returns the paths dropped."""
        if not resource.custom:
            return []
        validator = self._validators[resource]
        whole_numbers(obj)
        unknown = validator.prune(obj)
        validator.default(obj)
        return unknown

    def problems(self, resource: ApiResource, obj: JSON, old: JSON | None = None) -> list[Cause]:
        """The rules of the schema that a custom object breaks.

        Old problems do not refuse an update: a stricter schema must not keep finalizers from being removed.
        """
        if not resource.custom:
            return []
        validator = self._validators[resource]
        found = _new(validator.problems(obj), lambda: validator.problems(old) if old is not None else [])
        if any(problem.reason in _BLOCKING for problem in found):
            return [*found, *([_RULES_SKIPPED] if validator.has_rules else ())]
        broken = validator.broken_rules(obj, old)
        return found + _new(broken, lambda: validator.broken_rules(old, None) if old is not None else [])

    def deprecation(self, resource: ApiResource) -> str:
        """What clients of a deprecated version are told, or nothing."""
        version = self._versions.get(resource) or {}
        if not version.get("deprecated"):
            return ""
        default = f"{resource.group_version} {resource.kind} is deprecated"
        return str(version.get("deprecationWarning") or default)

    def columns(self, resource: ApiResource) -> Columns | None:
        """The printed columns in the definition."""
        return columns_of(self._versions[resource].get("additionalPrinterColumns") or [])

    def scale_paths(self, resource: ApiResource) -> JSON:
        """The paths of the kind's replicas."""
        paths: JSON = (self._versions[resource].get("subresources") or {}).get("scale") or {}
        return {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", **paths}

    def schema(self, resource: ApiResource) -> JSON | None:
        """The OpenAPI schema of a custom kind, if its definition has one."""
        version = self._versions.get(resource)
        return None if version is None else (version.get("schema") or {}).get("openAPIV3Schema")

    # --- definitions --------------------------------------------------------------------------------------------------

    def _changed(self, event: StoreEvent) -> None:
        if self._busy:
            return
        definition = event.record.load()
        if event.change is ChangeType.DELETED:
            self._withdraw(event.record.key, forget=True)
            return
        self._serve(event.record.key, definition)
        if not _is_established(definition):
            self._establish(event.record.key, definition)

    def _serve(self, key: str, definition: JSON) -> None:
        self._withdraw(key, forget=False)
        resources = []
        for version in _served_versions(definition):
            schema = without_nulls((version.get("schema") or {}).get("openAPIV3Schema") or {})
            version = {**version, "schema": {"openAPIV3Schema": schema}}
            validator = Validator(schema)
            resource = _resource(definition, version, validator.default if validator.has_defaults else None)
            self._versions[resource] = version
            self._validators[resource] = validator
            resources.append(resource)
        resources.sort(key=lambda resource: _version_rank(resource.version))
        # All versions share one shelf, so it has the selectable fields of all.
        paths = {name: path for resource in resources for name, path in resource.field_paths.items()}
        for resource in resources:
            self._store.shelf(resource.storage, fields_reader(paths))
            self._registry.add(resource)
        self._served[key] = resources

    def _withdraw(self, key: str, *, forget: bool) -> None:
        for resource in self._served.pop(key, ()):
            self._registry.remove(resource)
            self._versions.pop(resource, None)
            self._validators.pop(resource, None)
            if forget:
                self._remove_objects(resource)

    def _remove_objects(self, resource: ApiResource) -> None:
        for record in list(self._store.records(resource.storage)):
            self._store.delete(resource.storage, record.key)

    def _establish(self, key: str, definition: JSON) -> None:
        """Set the conditions that say that the kind is served. Clients wait for them."""
        now = timestamp(self._clock.now())
        spec = definition["spec"]
        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message}
            for kind, reason, message in (
                ("NamesAccepted", "NoConflicts", "no conflicts found"),
                ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            )
        ]
        stored = [version["name"] for version in spec.get("versions") or [] if version.get("storage")]
        status = {"conditions": conditions, "acceptedNames": spec.get("names") or {}, "storedVersions": stored}
        self._busy = True
        try:
            self._store.put(DEFINITIONS, key, {**definition, "status": status})
        finally:
            self._busy = False


def _new(found: list[Cause], known: Callable[[], list[Cause]]) -> list[Cause]:
    """The problems that are not known already."""
    if not found:
        return found
    before = known()
    return [problem for problem in found if problem not in before]


def _is_established(definition: JSON) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or []
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)


def resources_of(definition: JSON) -> list[ApiResource]:
    """The resources that a definition defines."""
    return [_resource(definition, version) for version in _served_versions(definition)]


def _served_versions(definition: JSON) -> list[JSON]:
    return [version for version in definition["spec"].get("versions") or [] if version.get("served")]


def _resource(definition: JSON, version: JSON, complete_on_read: Callable[[JSON], None] | None = None) -> ApiResource:
    spec = definition["spec"]
    names = spec["names"]
    subresources = version.get("subresources") or {}
    selectable = [field.get("jsonPath", "") for field in version.get("selectableFields") or []]
    return ApiResource(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        namespaced=spec.get("scope") == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(
            sub for name, sub in (("scale", SCALE), ("status", STATUS)) if subresources.get(name) is not None
        ),
        singular=names.get("singular") or names["kind"].lower(),
        custom=True,
        storage_version=next((each["name"] for each in spec["versions"] if each.get("storage")), ""),
        complete_on_read=complete_on_read,
        field_paths={path.lstrip("."): tuple(path.strip(".").split(".")) for path in selectable},
    )


def _version_rank(version: str) -> tuple[Any, ...]:
    """Newer and more stable versions first, as clients should prefer them."""
    digits = version.removeprefix("v")
    for rank, word in enumerate(("beta", "alpha"), start=1):
        major, found, minor = digits.partition(word)
        if found and major.isdecimal():
            return (rank, -int(major), -int(minor) if minor.isdecimal() else 0)
    return (0, -int(digits), 0) if digits.isdecimal() else (3, 0, 0)
