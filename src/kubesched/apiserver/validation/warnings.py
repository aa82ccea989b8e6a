"""Warnings about objects that are valid but hardly meant so, in kube-apiserver's words."""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.api.quantity import QuantityError, nanos
from kubesched.apiserver.kinds.registry import ApiResource
from kubesched.apiserver.validation.checks import each
from kubesched.apiserver.validation.naming import label_errors
from kubesched.base.types import JSON

_DEPRECATED_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
}
_REQUIRED, _PREFERRED = (f"{how}DuringSchedulingIgnoredDuringExecution" for how in ("required", "preferred"))
_NO_SELECTOR = "labelSelector: a null labelSelector results in matching no pod"
_NAMES = "this is used in Pod names and hostnames"
_TEMPLATES = {
    "apps/deployments": ("spec.template", _NAMES),
    "apps/replicasets": ("spec.template", _NAMES),
    "apps/daemonsets": ("spec.template", ""),
    "apps/statefulsets": ("spec.template", ""),
    "/replicationcontrollers": ("spec.template", _NAMES),
    "/podtemplates": ("template", ""),
    "batch/jobs": ("spec.template", _NAMES),
    "batch/cronjobs": ("spec.jobTemplate.spec.template", _NAMES),
}
"""Where kinds have their template, and what their names are used for."""
_INGRESS_CLASS = "kubernetes.io/ingress.class"
_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
_OLD_CLASS = 'deprecated since v1.8; use "storageClassName" attribute instead'
_RECYCLE = (
    "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is"
    " to use dynamic provisioning."
)


def warnings_about(resource: ApiResource, obj: JSON) -> Iterator[str]:
    """What is to be said about a new object, or one whose spec has changed."""
    storage, meta, spec = resource.storage, obj["metadata"], obj.get("spec") or {}
    annotations = meta.get("annotations") or {}
    if storage == "/pods":
        yield from _name(meta.get("name") or "", "this is used in the Pod's hostname")
        yield from _pod(spec, "spec")
    elif storage in _TEMPLATES:
        path, use = _TEMPLATES[storage]
        yield from _name(meta.get("name") or "", use) if use else ()
        template = obj
        for part in path.split("."):
            template = template.get(part) or {}
        yield from _pod(template.get("spec") or {}, f"{path}.spec")
    elif storage == "networking.k8s.io/ingresses" and _INGRESS_CLASS in annotations:
        yield f"annotation \"{_INGRESS_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"
    elif storage == "/services" and spec.get("clusterIP") == "None":
        if spec.get("externalIPs"):
            yield "spec.externalIPs is ignored for headless services"
        if spec.get("sessionAffinity") not in (None, "None"):
            yield "spec.SessionAffinity is ignored for headless services"
    elif storage in ("/persistentvolumeclaims", "/persistentvolumes"):
        if _STORAGE_CLASS in annotations:
            yield f"metadata.annotations[{_STORAGE_CLASS}]: {_OLD_CLASS}"
        if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
            yield _RECYCLE
        yield from _fractions((spec.get("resources") or {}).get("requests") or {}, "spec.resources.requests")


def _name(name: str, use: str) -> Iterator[str]:
    if errors := list(label_errors(name)):
        yield (
            f"metadata.name: {use}, which can result in surprising behavior; a DNS label is recommended:"
            f" [{' '.join(errors)}]"
        )


def _pod(spec: JSON, path: str) -> Iterator[str]:
    for key in spec.get("nodeSelector") or {}:
        if key in _DEPRECATED_LABELS:
            yield f"{path}.nodeSelector[{key}]: {_DEPRECATED_LABELS[key]}"
    affinity = spec.get("affinity") or {}
    yield from _node_affinity(affinity.get("nodeAffinity") or {}, f"{path}.affinity.nodeAffinity")
    for constraint, here in each(spec.get("topologySpreadConstraints"), f"{path}.topologySpreadConstraints"):
        if (key := constraint.get("topologyKey")) in _DEPRECATED_LABELS:
            yield f"{here}.topologyKey: {key} is {_DEPRECATED_LABELS[key]}"
        if constraint.get("labelSelector") is None:
            yield f"{here}.{_NO_SELECTOR}"
    for alias, here in _repeated(spec, "hostAliases", "ip", path):
        yield f'{here}: duplicate ip "{alias}"'
    for secret, here in _repeated(spec, "imagePullSecrets", "name", path):
        yield f'{here}: duplicate name "{secret}"'
    for secret, here in each(spec.get("imagePullSecrets"), f"{path}.imagePullSecrets"):
        if not secret.get("name"):
            yield f'{here}.name: invalid empty name ""'
    for kind in ("initContainers", "containers"):
        for container, here in each(spec.get(kind), f"{path}.{kind}"):
            yield from _container(container, here)
    yield from _ports(spec, path)
    for kind in ("podAffinity", "podAntiAffinity"):
        terms, here = affinity.get(kind) or {}, f"{path}.affinity.{kind}"
        for term, place in each(terms.get(_REQUIRED), f"{here}.{_REQUIRED}"):
            if term.get("labelSelector") is None:
                yield f"{place}.{_NO_SELECTOR}"
        for weighted, place in each(terms.get(_PREFERRED), f"{here}.{_PREFERRED}"):
            if (weighted.get("podAffinityTerm") or {}).get("labelSelector") is None:
                yield f"{place}.podAffinityTerm.{_NO_SELECTOR}"


def _node_affinity(affinity: JSON, path: str) -> Iterator[str]:
    required = f"{path}.{_REQUIRED}.nodeSelectorTerms"
    terms = list(each((affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms"), required))
    for weighted, here in each(affinity.get(_PREFERRED), f"{path}.{_PREFERRED}"):
        terms.append((weighted.get("preference") or {}, f"{here}.preference"))
    for term, here in terms:
        for expression, place in each(term.get("matchExpressions"), f"{here}.matchExpressions"):
            if (key := expression.get("key")) in _DEPRECATED_LABELS:
                yield f"{place}.key: {key} is {_DEPRECATED_LABELS[key]}"


def _repeated(spec: JSON, field: str, key: str, path: str) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for item, here in each(spec.get(field), f"{path}.{field}"):
        value = item.get(key) or ""
        if value and value in seen:
            yield value, f"{here}.{key}"
        seen.add(value)


def _container(container: JSON, path: str) -> Iterator[str]:
    names: set[str] = set()
    for variable, here in each(container.get("env"), f"{path}.env"):
        name = variable.get("name") or ""
        if name in names:
            yield f'{here}: hides previous definition of "{name}", which may be dropped when using apply'
        names.add(name)
    for field in ("limits", "requests"):
        yield from _fractions((container.get("resources") or {}).get(field) or {}, f"{path}.resources.{field}")


def _fractions(amounts: JSON, path: str) -> Iterator[str]:
    for name in ("memory", "ephemeral-storage", "storage"):
        try:
            is_fraction = name in amounts and nanos(amounts[name]) % 1_000_000_000 != 0
        except QuantityError:
            continue
        if is_fraction:
            yield f'{path}[{name}]: fractional byte value "{amounts[name]}" is invalid, must be an integer'


def _ports(spec: JSON, path: str) -> Iterator[str]:
    """Ports that are there twice, also in different containers."""
    seen: list[tuple[JSON, str]] = []
    for kind in ("initContainers", "containers"):
        for container, here in each(spec.get(kind), f"{path}.{kind}"):
            if kind == "initContainers" and container.get("restartPolicy") != "Always":
                continue
            for port, place in each(container.get("ports"), f"{here}.ports"):
                yield from _overlaps(port, place, seen)
                seen.append((port, place))


def _overlaps(port: JSON, path: str, seen: list[tuple[JSON, str]]) -> Iterator[str]:
    for other, there in seen:
        if _target(port) != _target(other):
            continue
        same = _host(port) == _host(other)
        # A port that is also a host port overlaps with one that is not. The same on two addresses of a host do not.
        if same or not _host(port)[1] or not _host(other)[1]:
            yield f"{path}: {'duplicate' if same else 'overlapping'} port definition with {there}"
            if same:
                break
    name = port.get("name")
    for other, there in seen:
        if name and other.get("name") == name and not path.startswith(there.rpartition(".")[0]):
            yield (
                f'{path}: duplicate port name "{name}" with {there}, services and probes that select ports by name will'
                f" use {there}"
            )
            break


def _target(port: JSON) -> tuple[object, str]:
    return port.get("containerPort"), port.get("protocol") or "TCP"


def _host(port: JSON) -> tuple[str, int]:
    return port.get("hostIP") or "", port.get("hostPort") or 0
