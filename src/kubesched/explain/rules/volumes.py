"""VolumeBinding, VolumeZone, VolumeRestrictions, NodeVolumeLimits: claims, their volumes and where these are."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kubesched.api import objects as api
from kubesched.api.selectors import node_selector
from kubesched.explain.change import Change
from kubesched.explain.commands import create, recreate
from kubesched.explain.rules.resources import add_node_like
from kubesched.explain.rules.rule import Detail, Value, some
from kubesched.explain.survey import Survey
from kubesched.plugins.volume_restrictions import CLAIM_CONFLICT
from kubesched.plugins.volume_zone import topologies
from kubesched.plugins.volumes import (
    BIND_COMPLETED,
    WAIT_FOR_FIRST_CONSUMER,
    claim_key,
    claim_names,
    claim_uses,
    class_of_claim,
    is_fully_bound,
)

SIZE = {"storage": "1Gi"}
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


def _claim(survey: Survey, name: str) -> api.PersistentVolumeClaim | None:
    return survey.cluster.get(api.PersistentVolumeClaim, claim_key(survey.pod.namespace, name))


def _class(survey: Survey, claim: api.PersistentVolumeClaim) -> api.StorageClass | None:
    return survey.cluster.get(api.StorageClass, class_of_claim(claim))


def _volume(survey: Survey, claim: api.PersistentVolumeClaim) -> api.PersistentVolume | None:
    return survey.cluster.get(api.PersistentVolume, claim.spec.volume_name) if claim.spec.volume_name else None


def binding_details(survey: Survey, row: int) -> list[Detail]:
    """What is wrong with each claim of the pod, for the node of the row."""
    node, found = survey.table.node(row), []
    for use in claim_uses(survey.pod):
        claim = _claim(survey, use.name)
        values: dict[str, Value] = {"claim": use.name}
        if claim is None:
            found.append(Detail(f"claim {use.name} does not exist in namespace {survey.pod.namespace}", values))
            continue
        volume = _volume(survey, claim)
        if volume is not None:
            values["volume"] = volume.name
            required = volume.spec.node_affinity and volume.spec.node_affinity.required
            if required and not node_selector(required).matches(node.labels, node.name):
                text = f"volume {volume.name} of claim {use.name} is tied to other nodes by its node affinity"
                found.append(Detail(text, values))
        elif claim.spec.volume_name:
            text = f"claim {use.name} is bound to volume {claim.spec.volume_name}, which does not exist"
            found.append(Detail(text, values))
        elif not is_fully_bound(claim):
            found.append(_unbound(survey, claim, values))
    return found


def _unbound(survey: Survey, claim: api.PersistentVolumeClaim, values: dict[str, Value]) -> Detail:
    name, storage_class = class_of_claim(claim), _class(survey, claim)
    values["storageClass"] = name
    size = claim.spec.resources.requests.get("storage", "")
    asks = f"claim {claim.name}" + (f" ({size})" if size else "")
    if not name:
        return Detail(f"{asks} is not bound and names no storage class", values)
    if storage_class is None:
        return Detail(f"{asks} is not bound: its storage class {name} does not exist", values)
    if storage_class.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER:
        return Detail(f"{asks} is not bound: its class {name} binds at once, and {_provisioner(storage_class)}", values)
    return Detail(f"no volume of class {name} is available on the node for {asks}", values)


def _provisioner(storage_class: api.StorageClass) -> str:
    if storage_class.provisioner in ("", NO_PROVISIONER):
        return "no volume has been bound to it"
    return f"provisioner {storage_class.provisioner} has not provided a volume yet"


def binding_fixes(survey: Survey, row: int) -> list[Change]:
    """Claims, classes and volumes that are missing."""
    found: list[Change] = []
    for use in claim_uses(survey.pod):
        claim = _claim(survey, use.name)
        if claim is None:
            found += _create_claim(survey, use.name)
        elif not is_fully_bound(claim):
            found += _bind(survey, claim)
    return found


def _create_claim(survey: Survey, name: str) -> Iterator[Change]:
    meta = api.ObjectMeta(name=name, namespace=survey.pod.namespace, uid=f"claim:{name}")
    spec = api.PersistentVolumeClaimSpec(
        access_modes=("ReadWriteOnce",), resources=api.VolumeResourceRequirements(requests=dict(SIZE))
    )
    claim = api.PersistentVolumeClaim(metadata=meta, spec=spec)
    usable = _waiting_classes(survey)
    if usable:
        chosen = replace(claim, spec=replace(spec, storage_class_name=usable[0]))
        words = f"create claim {claim.key}, for example with storage class {usable[0]}"
        yield Change("claim", words, 2, objects=(chosen,), commands=(create(chosen),))
    else:
        yield Change("claim", f"create claim {claim.key} and a volume for it", 3, objects=_bound(claim))


def _bind(survey: Survey, claim: api.PersistentVolumeClaim) -> Iterator[Change]:
    name, storage_class = class_of_claim(claim), _class(survey, claim)
    if name and storage_class is None:
        usable = _waiting_classes(survey)
        if usable:
            changed = replace(claim, spec=replace(claim.spec, storage_class_name=usable[0]))
            words = f"recreate claim {claim.key} with storage class {usable[0]}, which exists, instead of {name}"
            yield Change("class", words, 2.5, objects=(changed,), commands=(recreate(claim, changed),))
        made = api.StorageClass(
            metadata=api.ObjectMeta(name=name),
            provisioner="example.com/provisioner",
            volume_binding_mode=WAIT_FOR_FIRST_CONSUMER,
        )
        words = f"create storage class {name} (with volumeBindingMode {WAIT_FOR_FIRST_CONSUMER})"
        yield Change("class", words, 3, objects=(made,))
    yield Change("volume", f"provide a volume for claim {claim.key}", 3.5, objects=_bound(claim))


def _bound(claim: api.PersistentVolumeClaim) -> tuple[api.Object, ...]:
    """A volume and the claim, bound to each other."""
    name = f"volume-for-{claim.name}"
    reference = api.ObjectReference(kind=claim.kind, namespace=claim.namespace, name=claim.name, uid=claim.uid)
    spec = api.PersistentVolumeSpec(
        capacity=dict(claim.spec.resources.requests) or dict(SIZE),
        access_modes=claim.spec.access_modes,
        claim_ref=reference,
        storage_class_name=class_of_claim(claim),
    )
    annotations = {**claim.annotations, BIND_COMPLETED: "yes"}
    bound = replace(
        claim,
        metadata=replace(claim.metadata, annotations=annotations),
        spec=replace(claim.spec, volume_name=name),
        status=api.PersistentVolumeClaimStatus(phase="Bound"),
    )
    return api.PersistentVolume(metadata=api.ObjectMeta(name=name), spec=spec), bound


def _waiting_classes(survey: Survey) -> list[str]:
    """Storage classes that provide a volume where the pod goes; the default class first."""
    usable = [
        each
        for each in survey.cluster.all(api.StorageClass)
        if each.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER and each.provisioner not in ("", NO_PROVISIONER)
    ]
    return [each.name for each in sorted(usable, key=lambda c: (c.annotations.get(DEFAULT_CLASS) != "true", c.name))]


# Zones


def _zones(survey: Survey, row: int) -> Iterator[tuple[str, str, str, list[str]]]:
    """(claim, volume, label, values) of volumes that are not where the node is."""
    labels = survey.table.node(row).labels
    for name in claim_names(survey.pod):
        claim = _claim(survey, name)
        volume = None if claim is None else _volume(survey, claim)
        for each in topologies(volume) if volume is not None else ():
            if labels.get(each.key) not in each.values:
                assert volume is not None
                yield name, volume.name, each.key, sorted(each.values)


def zone_details(survey: Survey, row: int) -> list[Detail]:
    labels = survey.table.node(row).labels
    found = []
    for claim, volume, key, values in _zones(survey, row):
        has = f"the node is in {labels[key]}" if key in labels else f"the node has no label {key}"
        text = f"volume {volume} of claim {claim} is in {key}={','.join(values)}: {has}"
        found.append(Detail(text, {"claim": claim, "volume": volume, "key": key, "zone": ",".join(values)}))
    return found or binding_details(survey, row)


def zone_fixes(survey: Survey, row: int) -> list[Change]:
    wanted = {key: values[0] for _, _, key, values in _zones(survey, row)}
    return [add_node_like(survey, row, wanted)] if wanted else binding_fixes(survey, row)


# Exclusive claims


def restriction_details(survey: Survey, row: int) -> list[Detail]:
    if survey.verdicts["VolumeRestrictions"].status(row) != CLAIM_CONFLICT:
        return [each for each in binding_details(survey, row) if "does not exist" in each.text]
    names = claim_names(survey.pod)
    users = [
        info.pod.key
        for info in survey.cluster.pods.values()
        if info.pod.namespace == survey.pod.namespace and set(names) & set(claim_names(info.pod))
    ]
    return [
        Detail(f"claim {', '.join(names)} is ReadWriteOncePod and in use by {some(users)}", {"usedBy": some(users)})
    ]


def restriction_fixes(survey: Survey, row: int) -> list[Change]:
    missing = [use for use in claim_uses(survey.pod) if _claim(survey, use.name) is None]
    return binding_fixes(survey, row) if missing else []


def limit_details(survey: Survey, row: int) -> list[Detail]:
    """The plugin's own message says it all, unless a claim is missing."""
    return [each for each in binding_details(survey, row) if "does not exist" in each.text]
