"""What a kubelet looks at before it starts a pod: its claims on devices, host ports, ConfigMaps and Secrets.

The scheduler sees to allocations and reservations of devices. A pod that was bound without it may lack them. The words
about those are upstream's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from kubesched.api import objects as api
from kubesched.api.selectors import node_selector
from kubesched.base.types import JSON
from kubesched.reconcile.access import CONFIG_MAPS, DEVICE_CLAIMS, NODES, PODS, Access
from kubesched.reconcile.cache import Index
from kubesched.reconcile.views import Pod, Port


def refusal(access: Access, pod: Pod) -> str:
    """Say why a pod cannot start because of its claims on devices; empty if it can."""
    for each in pod.spec.resource_claims:
        name = pod.device_claim(each)
        if name is None:
            why = f'pod "{pod.key}": ResourceClaim not created yet'
        elif name:
            why = _refused_claim(access, pod, name)
        else:
            continue
        if why:
            return f"prepare dynamic resources: {why}"
    return ""


def _refused_claim(access: Access, pod: Pod, name: str) -> str:
    claim = access.get(DEVICE_CLAIMS, f"{pod.metadata.namespace}/{name}")
    if claim is None:
        return f'fetch ResourceClaim {name}: resourceclaims.resource.k8s.io "{name}" not found'
    meta, uid, status = pod.metadata, claim["metadata"]["uid"], claim.get("status") or {}
    if not any(_is_user(user, pod) for user in status.get("reservedFor") or []):
        return f"pod {meta.name} ({meta.uid}) is not allowed to use ResourceClaim {name} ({uid})"
    if not _is_for_node(status.get("allocation"), access.get(NODES, pod.spec.node_name)):
        return f"NodePrepareResources failed for ResourceClaim {name}: its devices are not on node {pod.spec.node_name}"
    return ""


def _is_user(user: JSON, pod: Pod) -> bool:
    """Whether a claim is reserved for a pod or for its group, of which the pod knows only the name."""
    if (user.get("apiGroup"), user.get("resource")) == ("scheduling.k8s.io", "podgroups"):
        return bool(user["name"] == pod.spec.scheduling_group.pod_group_name)
    return bool(user["uid"] == pod.metadata.uid)


def _is_for_node(allocation: JSON | None, node: JSON | None) -> bool:
    if allocation is None or node is None:
        return False
    wanted = allocation.get("nodeSelector")
    if wanted is None:
        return True
    compiled = node_selector(msgspec.convert(wanted, api.NodeSelector))
    return compiled.matches(node["metadata"].get("labels") or {}, node["metadata"]["name"])


def has_port_conflict(pod: Pod, by_node: Index[Pod]) -> bool:
    """Whether a pod wants a host port that an earlier pod on its node has. Only a pod bound by hand can."""
    wanted = _host_ports(pod)
    if not wanted:
        return False
    others = by_node.get(pod.spec.node_name)
    earlier = (each for each in others if each.metadata.uid != pod.metadata.uid and each.status.start_time)
    taken = [port for each in earlier if not each.has_ended for port in _host_ports(each)]
    return any(_conflict(one, other) for one in wanted for other in taken)


def _host_ports(pod: Pod) -> list[Port]:
    return [port for container in pod.spec.containers for port in container.ports if port.host_port]


def _conflict(one: Port, other: Port) -> bool:
    every = ("", "0.0.0.0")  # noqa: S104 - compared with host ports
    same_address = one.host_ip == other.host_ip or one.host_ip in every or other.host_ip in every
    return same_address and (one.host_port, one.protocol) == (other.host_port, other.protocol)


_SECRETS = "/secrets"
_KINDS = {"configMap": ("ConfigMap", CONFIG_MAPS), "secret": ("Secret", _SECRETS)}
_REFERENCES = (b'apRef":', b'apKeyRef":', b'ecretRef":', b'ecretKeyRef":', b'"secret":')


def missing_objects(access: Access, pod: Pod) -> list[str]:
    """The ConfigMaps and Secrets, or keys in them, that a pod needs and that do not exist.

    A real kubelet waits for them. Here the pod starts all the same: what programs would create is never there, and
    snapshots have no Secrets.
    """
    record = access.store.get(PODS, pod.key)
    # Most pods refer to nothing but the certificate beside their token, so they need not be decoded.
    if record is None or not (
        any(mark in record.data for mark in _REFERENCES) or record.data.count(b'"configMap":') > 1
    ):
        return []
    namespace, found = pod.metadata.namespace, []
    for kind, name, key in dict.fromkeys(_references(record.load()["spec"])):
        word, storage = _KINDS[kind]
        known = access.get(storage, f"{namespace}/{name}")
        if known is None:
            found.append(f'{word.lower()} "{name}" not found')
        elif key and key not in {**(known.get("data") or {}), **(known.get("binaryData") or {})}:
            found.append(f"couldn't find key {key} in {word} {namespace}/{name}")
    return found


def _references(spec: JSON) -> Iterator[tuple[str, str, str]]:
    """The kind, name and key of what a pod needs, the key only for variables."""
    for volume in spec.get("volumes") or []:
        sources = [volume, *((volume.get("projected") or {}).get("sources") or [])]
        yield from _needed(sources, _KINDS, "secretName")
    for container in (*(spec.get("initContainers") or []), *(spec.get("containers") or [])):
        yield from _needed(container.get("envFrom") or [], [f"{kind}Ref" for kind in _KINDS])
        values = [variable.get("valueFrom") or {} for variable in container.get("env") or []]
        yield from _needed(values, [f"{kind}KeyRef" for kind in _KINDS])


def _needed(sources: list[JSON], fields: Iterable[str], other: str = "name") -> Iterator[tuple[str, str, str]]:
    for source in sources:
        for field in fields:
            reference = source.get(field)
            if reference is not None and not reference.get("optional"):
                name = reference.get("name") or reference.get(other) or ""
                yield field.removesuffix("Ref").removesuffix("Key"), name, reference.get("key") or ""
