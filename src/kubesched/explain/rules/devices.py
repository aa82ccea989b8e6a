"""DynamicResources: which devices a claim asks for, and how many a node has."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from msgspec.structs import replace

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.cluster.table import Mask
from kubesched.explain.change import Change
from kubesched.explain.commands import create, recreate
from kubesched.explain.rules.rule import Detail, Value
from kubesched.explain.survey import Survey
from kubesched.plugins.dynamic_resources.claims import ClaimError, claim_name

Key = tuple[str, str, str]


def _claims(survey: Survey) -> Iterator[tuple[str, dra.ResourceClaim | None]]:
    """The keys of the pod's claims, and the claims that exist."""
    for reference in survey.pod.spec.resource_claims:
        try:
            name, _ = claim_name(survey.pod, reference)
        except ClaimError:
            name = None
        if name is not None:
            key = f"{survey.pod.namespace}/{name}"
            yield key, survey.cluster.get(api.ResourceClaim, key)


def _exact(claim: dra.ResourceClaim) -> Iterator[tuple[dra.DeviceRequest, dra.ExactDeviceRequest]]:
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            yield request, request.exactly


def _taken(survey: Survey) -> set[Key]:
    """The devices that claims hold."""
    found: set[Key] = set()
    for claim in survey.cluster.all(api.ResourceClaim):
        if claim.status.allocation is not None:
            found |= {(each.driver, each.pool, each.device) for each in claim.status.allocation.devices.results}
    return found


def _devices(survey: Survey, row: int) -> tuple[int, int]:
    """How many devices slices list for a node, and how many of them no claim holds."""
    if "devices" not in survey.memo:
        taken = _taken(survey)
        counts: dict[str, tuple[int, int]] = {}
        for each in survey.cluster.all(api.ResourceSlice):
            keys = [(each.spec.driver, each.spec.pool.name, device.name) for device in each.spec.devices]
            there, free = counts.get(each.spec.node_name or "", (0, 0))
            counts[each.spec.node_name or ""] = (there + len(keys), free + sum(key not in taken for key in keys))
        survey.memo["devices"] = counts
    there, free = survey.memo["devices"].get(survey.table.names[row], (0, 0))
    return int(there), int(free)


def has_free(survey: Survey) -> Mask:
    """Where a device is free that slices list for the node."""
    free = np.zeros(survey.size, dtype=np.bool_)
    for row in survey.rows.tolist():
        free[row] = _devices(survey, row)[1] > 0
    return free


def details(survey: Survey, row: int) -> list[Detail]:
    there, free = _devices(survey, row)
    found = []
    for key, claim in _claims(survey):
        values: dict[str, Value] = {"claim": key}
        if claim is None:
            found.append(Detail(f"resource claim {key} does not exist", values))
            continue
        for request, exactly in _exact(claim):
            name, count = exactly.device_class_name, exactly.count or 1
            values = {"claim": key, "request": request.name, "class": name, "count": count}
            start = f"resource claim {key}, request {request.name}: "
            if survey.cluster.get(api.DeviceClass, name) is None:
                found.append(Detail(f"{start}device class {name} does not exist", values))
            else:
                devices = f"{there} device{'s' * (there != 1)}, {free} of them free" if there else "no device"
                text = f"{start}asks for {count} of class {name}; the node has {devices}"
                found.append(Detail(text, {**values, "devices": there, "free": free}))
    return found


def fixes(survey: Survey, row: int) -> list[Change]:
    found: list[Change] = []
    classes = sorted(each.name for each in survey.cluster.all(api.DeviceClass))
    _, free = _devices(survey, row)
    for key, claim in _claims(survey):
        if claim is None:
            found += [_create(key, name) for name in classes[:1]]
            continue
        for request, exactly in _exact(claim):
            if exactly.device_class_name not in classes:
                found += [_other_class(claim, request.name, name) for name in classes[:3]]
                made = api.DeviceClass(metadata=api.ObjectMeta(name=exactly.device_class_name))
                words = f"create device class {exactly.device_class_name}"
                found.append(Change("class", words, 3, objects=(made,)))
            elif 0 < free < (exactly.count or 1):
                found.append(_fewer(claim, request.name, exactly.count or 1, free))
    return found


def _other_class(claim: dra.ResourceClaim, request: str, name: str) -> Change:
    changed = _edited(claim, request, lambda exactly: replace(exactly, device_class_name=name))
    words = f"ask for class {name}, which exists, in resource claim {claim.key}"
    return Change("class", words, 2.5, objects=(changed,), commands=(recreate(claim, changed),))


def _fewer(claim: dra.ResourceClaim, request: str, count: int, free: int) -> Change:
    changed = _edited(claim, request, lambda exactly: replace(exactly, count=free))
    words = f"ask for {free} instead of {count} devices in resource claim {claim.key}"
    return Change("devices", words, 3, objects=(changed,), commands=(recreate(claim, changed),))


def _create(key: str, class_name: str) -> Change:
    namespace, _, name = key.partition("/")
    exactly = dra.ExactDeviceRequest(device_class_name=class_name, allocation_mode=dra.EXACT_COUNT, count=1)
    spec = dra.ResourceClaimSpec(devices=dra.DeviceClaim(requests=(dra.DeviceRequest(name="device", exactly=exactly),)))
    meta = api.ObjectMeta(name=name, namespace=namespace, uid=f"claim:{key}")
    words = f"create resource claim {key}, for example with device class {class_name}"
    claim = dra.ResourceClaim(metadata=meta, spec=spec)
    return Change("claim", words, 2, objects=(claim,), commands=(create(claim),))


def _edited(
    claim: dra.ResourceClaim, name: str, edit: Callable[[dra.ExactDeviceRequest], dra.ExactDeviceRequest]
) -> dra.ResourceClaim:
    """The claim with one of its requests changed."""
    requests = tuple(
        replace(each, exactly=edit(each.exactly)) if each.name == name and each.exactly is not None else each
        for each in claim.spec.devices.requests
    )
    return replace(claim, spec=replace(claim.spec, devices=replace(claim.spec.devices, requests=requests)))
