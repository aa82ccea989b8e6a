"""Pod templates for questions about capacity: of pods and of workloads, with claims of their own for every copy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from kubesched.api import objects as api
from kubesched.api.decoding import decode_as
from kubesched.library.core import ClusterCore
from kubesched.library.manifests import DEFAULT_NAMESPACE, Source, completed
from kubesched.snapshots.contents import Item
from kubesched.snapshots.reader import ManifestError, Reader


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """A pod to be copied, and how many copies belong together."""

    pod: api.Pod
    count: int = 1
    """The replicas of a workload; 1 for a pod."""
    claims: tuple[api.PersistentVolumeClaim, ...] = ()
    """Claims that a StatefulSet makes for each pod."""
    others: tuple[api.Object, ...] = field(default=(), compare=False)
    """Objects given beside the templates that belong to the cluster, such as claim templates and classes."""

    @property
    def name(self) -> str:
        """As results name it."""
        return self.pod.name

    def copy(self, cluster: ClusterCore, number: int) -> api.Pod:
        """A pod of this template, with its claims in the cluster as controllers would make them."""
        name = f"{self.pod.name}-{number}"
        pod = replace(self.pod, metadata=replace(self.pod.metadata, name=name, uid=f"{self.pod.uid}:{number}"))
        pod = self._with_volume_claims(cluster, pod, number)
        statuses = []
        for each in pod.spec.resource_claims:
            made = _device_claim(cluster, pod, each)
            if made is not None:
                cluster.set(made)
                statuses.append(api.PodResourceClaimStatus(each.name, made.name))
        return replace(pod, status=replace(pod.status, resource_claim_statuses=tuple(statuses))) if statuses else pod

    def _with_volume_claims(self, cluster: ClusterCore, pod: api.Pod, number: int) -> api.Pod:
        for volume in pod.spec.volumes:
            if volume.ephemeral is not None and volume.ephemeral.volume_claim_template is not None:
                owner = api.OwnerReference(api_version="v1", kind="Pod", name=pod.name, uid=pod.uid, controller=True)
                meta = api.ObjectMeta(
                    name=f"{pod.name}-{volume.name}", namespace=pod.namespace, owner_references=(owner,)
                )
                spec = volume.ephemeral.volume_claim_template.spec
                cluster.set(api.PersistentVolumeClaim(metadata=meta, spec=spec))
        extra = []
        for claim in self.claims:
            name = f"{claim.name}-{pod.name}"
            meta = replace(claim.metadata, name=name, namespace=pod.namespace)
            cluster.set(replace(claim, metadata=meta))
            source = api.PersistentVolumeClaimVolumeSource(claim_name=name)
            extra.append(api.Volume(name=claim.name, persistent_volume_claim=source))
        return replace(pod, spec=replace(pod.spec, volumes=(*pod.spec.volumes, *extra))) if extra else pod


def _device_claim(cluster: ClusterCore, pod: api.Pod, claim: api.PodResourceClaim) -> api.ResourceClaim | None:
    if not claim.resource_claim_template_name:
        return None
    key = f"{pod.namespace}/{claim.resource_claim_template_name}"
    found = cluster.get(api.ResourceClaimTemplate, key)
    if found is None:
        raise LookupError(f"pod {pod.key}: the cluster has no ResourceClaimTemplate {key}")
    owner = api.OwnerReference(api_version="v1", kind="Pod", name=pod.name, uid=pod.uid, controller=True)
    name = f"{pod.name}-{claim.name}"
    meta = api.ObjectMeta(name=name, namespace=pod.namespace, uid=f"claim:{name}", owner_references=(owner,))
    return api.ResourceClaim(metadata=meta, spec=found.spec.spec)


def read_templates(sources: Sequence[Source]) -> list[PodTemplate]:
    """The templates of pods and workloads. Raises `ManifestError` if there are none."""
    found: list[PodTemplate] = []
    reader = Reader()
    for source in sources:
        if isinstance(source, api.Pod):
            found.append(PodTemplate(_complete(source)))
        elif isinstance(source, Mapping):
            reader.read_object(source, "")
        elif isinstance(source, str | bytes):
            reader.read_text(source if isinstance(source, bytes) else source.encode(), "")
        else:
            raise TypeError(f"expected a pod or a workload, got {type(source).__name__}")
    items = reader.finish().items
    others = tuple(_others(items))
    found += [_template(each, others) for each in items if each.kind == "Pod" or _spec(each)]
    if not found:
        raise ManifestError(["expected a Pod, or a workload with a pod template"])
    return found


def _others(items: Sequence[Item]) -> Iterator[api.Object]:
    for each in items:
        cls = api.KINDS.get((each.version, each.kind))
        if cls is not None and each.kind != "Pod" and not _spec(each):
            yield completed(decode_as(cls, each.data))


def _spec(item: Item) -> Mapping[str, Any]:
    """The spec of a workload that has a pod template; else nothing."""
    spec: Any = item.body().get("spec")
    if not isinstance(spec, dict):
        return {}
    spec = (spec.get("jobTemplate") or {}).get("spec") or spec
    return spec if isinstance(spec.get("template"), dict) and "spec" in spec["template"] else {}


def _template(item: Item, others: tuple[api.Object, ...]) -> PodTemplate:
    body = item.body()
    meta = body.get("metadata") or {}
    if item.kind == "Pod":
        return PodTemplate(_complete(decode_as(api.Pod, body)), others=others)
    spec = _spec(item)
    inner = spec["template"].get("metadata") or {}
    pod = {
        "metadata": {**inner, "name": meta.get("name", "pod"), "namespace": meta.get("namespace", DEFAULT_NAMESPACE)},
        "spec": spec["template"]["spec"],
    }
    count = spec.get("replicas", spec.get("parallelism", 1))
    claims = tuple(decode_as(api.PersistentVolumeClaim, each) for each in spec.get("volumeClaimTemplates") or ())
    return PodTemplate(_complete(decode_as(api.Pod, pod)), max(int(count), 1), claims, others)


def _complete(pod: api.Pod) -> api.Pod:
    """A pod that can be copied: not on a node, with a name."""
    named = replace(
        pod.metadata, name=pod.name or "pod", namespace=pod.namespace or DEFAULT_NAMESPACE, uid="", resource_version=""
    )
    return replace(pod, metadata=named, spec=replace(pod.spec, node_name=""), status=api.PodStatus())
