"""RuntimeClasses: pods get the overhead, the node selector and the tolerations of the class that they name."""

from __future__ import annotations

from kubesched.api.quantity import QuantityError, nanos
from kubesched.apiserver.storage.store import Store
from kubesched.apiserver.wire.status import StatusError, forbidden
from kubesched.base.types import JSON


def apply_runtime_class(store: Store, pod: JSON) -> None:
    """Complete a new pod by its class. Refuse one that contradicts its class or names one that does not exist."""
    spec = pod["spec"]
    if spec.get("runtimeClassName") is None and not spec.get("overhead"):
        return
    runtime_class = _class_of(store, pod)
    overhead = (runtime_class.get("overhead") or {}).get("podFixed")
    if overhead is None and spec.get("overhead"):
        raise _refused(pod, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
    if overhead is not None:
        if spec.get("overhead") and not _same_amounts(spec["overhead"], overhead):
            raise _refused(pod, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        spec["overhead"] = overhead
    _schedule(pod, runtime_class.get("scheduling") or {})


def _class_of(store: Store, pod: JSON) -> JSON:
    name = pod["spec"].get("runtimeClassName")
    if name is None:
        return {}
    record = store.get("node.k8s.io/runtimeclasses", name)
    if record is None:
        raise _refused(pod, f'pod rejected: RuntimeClass "{name}" not found')
    return record.load()


def _schedule(pod: JSON, scheduling: JSON) -> None:
    spec = pod["spec"]
    wanted = scheduling.get("nodeSelector") or {}
    given = spec.get("nodeSelector") or {}
    for key, value in wanted.items():
        if given.get(key, value) != value:
            why = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {given[key]}"
            raise _refused(pod, f"conflict: {why}")
    if wanted:
        spec["nodeSelector"] = {**given, **wanted}
    tolerations = spec.get("tolerations") or []
    added = [each for each in scheduling.get("tolerations") or [] if each not in tolerations]
    if added:
        spec["tolerations"] = [*tolerations, *added]


def _same_amounts(first: JSON, second: JSON) -> bool:
    try:
        return {k: nanos(v) for k, v in first.items()} == {k: nanos(v) for k, v in second.items()}
    except QuantityError:
        return False


def _refused(pod: JSON, why: str) -> StatusError:
    return forbidden("pods", "", pod["metadata"].get("name", ""), why)
