"""LimitRanges: the default requests and limits of containers, and bounds for containers, pods and claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from kubesched.api.quantity import QuantityError, canonical, nanos
from kubesched.apiserver.kinds.registry import ApiResource
from kubesched.apiserver.pod_resources import containers_of, pod_total
from kubesched.apiserver.qos import qos_class
from kubesched.apiserver.storage.store import Store
from kubesched.apiserver.wire.status import forbidden
from kubesched.base.types import JSON

_ANNOTATION = "kubernetes.io/limit-ranger"


class LimitRanges:
    """Applies the limit ranges of an object's namespace to it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def apply(self, resource: ApiResource, obj: JSON) -> None:
        """Set the defaults of a pod's containers and refuse a pod or claim out of bounds."""
        if not self._store.shelf("/limitranges").records:
            return
        namespace = obj["metadata"].get("namespace", "")
        ranges = [record.load() for record in self._store.records("/limitranges", namespace)]
        if not ranges:
            return
        is_pod = resource.storage == "/pods"
        if is_pod:
            for each in ranges:
                _set_defaults(obj, each)
            obj["status"]["qosClass"] = qos_class(obj["spec"])
        for each in ranges:
            try:
                problems = list(_pod_problems(obj["spec"], each) if is_pod else _claim_problems(obj["spec"], each))
            except QuantityError:
                return  # validation names the field
            if problems:
                name = obj["metadata"].get("name", "")
                raise forbidden(resource.plural, resource.group, name, _joined(problems))


def _joined(problems: list[str]) -> str:
    unique = list(dict.fromkeys(problems))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


def _limits(limit_range: JSON, kind: str) -> Iterator[JSON]:
    return (limit for limit in limit_range["spec"].get("limits") or [] if limit.get("type") == kind)


# --- defaults ---------------------------------------------------------------------------------------------------------


def _set_defaults(pod: JSON, limit_range: JSON) -> None:
    requests: JSON = {}
    limits: JSON = {}
    for limit in _limits(limit_range, "Container"):
        requests |= limit.get("defaultRequest") or {}
        limits |= limit.get("default") or {}
    notes = []
    for kind, container in containers_of(pod["spec"]):
        for field, amounts in (("requests", requests), ("limits", limits)):
            if added := _complete(container, field, amounts):
                notes.append(f"{', '.join(added)} {field[:-1]} for {kind} {container.get('name', '')}")
    if notes:
        annotations = pod["metadata"].get("annotations") or {}
        pod["metadata"]["annotations"] = {**annotations, _ANNOTATION: f"LimitRanger plugin set: {'; '.join(notes)}"}


def _complete(container: JSON, field: str, defaults: JSON) -> list[str]:
    """Set the missing amounts of a container; returns their names."""
    resources = container.get("resources") or {}
    given = resources.get(field) or {}
    added = sorted(name for name in defaults if name not in given)
    if added:
        container["resources"] = {**resources, field: {**{name: defaults[name] for name in added}, **given}}
    return added


# --- bounds -----------------------------------------------------------------------------------------------------------

Bound = Callable[[str, str, str, JSON, JSON], "str | None"]
"""Takes the kind of limit, the resource, the bound, requests and limits. Returns what is wrong."""


def _pod_problems(spec: JSON, limit_range: JSON) -> Iterator[str]:
    for limit in limit_range["spec"].get("limits") or []:
        if limit.get("type") == "Container":
            for _, container in containers_of(spec):
                resources = container.get("resources") or {}
                yield from _violations(limit, resources.get("requests") or {}, resources.get("limits") or {})
        elif limit.get("type") == "Pod":
            yield from _violations(limit, pod_total(spec, "requests"), pod_total(spec, "limits"))


def _violations(limit: JSON, requests: JSON, limits: JSON) -> Iterator[str]:
    bounds: tuple[tuple[str, Bound], ...] = (("min", _minimum), ("max", _maximum), ("maxLimitRequestRatio", _ratio))
    return chain.from_iterable(_broken(limit, field, bound, requests, limits) for field, bound in bounds)


def _claim_problems(spec: JSON, limit_range: JSON) -> Iterator[str]:
    requests = (spec.get("resources") or {}).get("requests") or {}
    for limit in _limits(limit_range, "PersistentVolumeClaim"):
        yield from _broken(limit, "min", _minimum, requests, {})
        yield from _broken(limit, "max", _maximum_request, requests, {})


def _broken(limit: JSON, field: str, bound: Bound, requests: JSON, limits: JSON) -> Iterator[str]:
    for name, amount in sorted((limit.get(field) or {}).items()):
        problem = bound(limit["type"], name, amount, requests, limits)
        if problem is not None:
            yield problem


def _minimum(kind: str, name: str, least: str, requests: JSON, limits: JSON) -> str | None:
    start = f"minimum {name} usage per {kind} is {canonical(least)}"
    if name not in requests:
        return f"{start}.  No request is specified"
    for what, amounts in (("request", requests), ("limit", limits)):
        if name in amounts and nanos(amounts[name]) < nanos(least):
            return f"{start}, but {what} is {canonical(amounts[name])}"
    return None


def _maximum(kind: str, name: str, most: str, requests: JSON, limits: JSON) -> str | None:
    start = f"maximum {name} usage per {kind} is {canonical(most)}"
    if name not in limits:
        return f"{start}.  No limit is specified"
    for what, amounts in (("limit", limits), ("request", requests)):
        if name in amounts and nanos(amounts[name]) > nanos(most):
            return f"{start}, but {what} is {canonical(amounts[name])}"
    return None


def _maximum_request(kind: str, name: str, most: str, requests: JSON, _limits: JSON) -> str | None:
    start = f"maximum {name} usage per {kind} is {canonical(most)}"
    if name not in requests:
        return f"{start}.  No request is specified"
    if nanos(requests[name]) > nanos(most):
        return f"{start}, but request is {canonical(requests[name])}"
    return None


def _ratio(kind: str, name: str, most: str, requests: JSON, limits: JSON) -> str | None:
    start = f"{name} max limit to request ratio per {kind} is {canonical(most)}"
    request, limit = nanos(requests.get(name, 0)), nanos(limits.get(name, 0))
    if not request:
        return f"{start}, but no request is specified or request is 0"
    if not limit:
        return f"{start}, but no limit is specified or limit is 0"
    if limit * 10**9 > nanos(most) * request:
        return f"{start}, but provided ratio is {limit / request:f}"
    return None
