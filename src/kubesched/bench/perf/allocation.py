"""Allocating claims without pods, for `allocResourceClaims`: a scheduler on a copy of the cluster in memory does it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

import msgspec

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.apiserver.inprocess.memory import MemoryClient
from kubesched.base.clocks import SystemClock
from kubesched.base.features import Features
from kubesched.base.types import JSON
from kubesched.bench.perf.cluster import Objects, PerfClient, in_parallel
from kubesched.config.load import default
from kubesched.plugins import in_tree_registry
from kubesched.scheduler.build import build_scheduler

KINDS = (api.Node, api.DeviceClass, api.ResourceSlice)
SECONDS = 60.0


async def allocate_claims(client: PerfClient, namespace: str, features: Features) -> None:
    """Allocate the claims of a namespace, or of all, that have no devices yet."""
    claims = [claim for claim in (await client.list(api.ResourceClaim)).items if isinstance(claim, api.ResourceClaim)]
    wanted = [claim for claim in claims if claim.status.allocation is None and namespace in ("", claim.namespace)]
    allocated = await _allocate(client, claims, wanted, features)
    objects = Objects(client)

    async def write(claim: api.ResourceClaim) -> None:
        path = f"/apis/resource.k8s.io/v1/namespaces/{claim.namespace}/resourceclaims/{claim.name}/status"
        allocation: JSON = msgspec.to_builtins(claim.status.allocation)
        await objects.merge(path, {"status": {"allocation": allocation}})

    await in_parallel(allocated, write)


async def _allocate(
    client: PerfClient, claims: Sequence[api.ResourceClaim], wanted: Sequence[api.ResourceClaim], features: Features
) -> list[api.ResourceClaim]:
    clock = SystemClock()
    copy = MemoryClient(clock)
    for kind in KINDS:
        for obj in (await client.list(kind)).items:
            copy.create(obj)
    for claim in claims:
        copy.create(claim)
    scheduler = build_scheduler(default(), in_tree_registry(), copy, clock, Random(), features=features)
    task = asyncio.create_task(scheduler.run())
    for claim in wanted:
        copy.create(_user_of(claim))
    try:
        async with asyncio.timeout(SECONDS):
            while len(copy.bindings) < len(wanted):
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise TimeoutError(f"only {len(copy.bindings)} of {len(wanted)} claims could be allocated") from None
    finally:
        await scheduler.stop()
        await asyncio.wait([task])
    return [await copy.read(api.ResourceClaim, claim.name, claim.namespace) for claim in wanted]


def _user_of(claim: dra.ResourceClaim) -> api.Pod:
    reference = api.PodResourceClaim("claim", resource_claim_name=claim.name)
    spec = api.PodSpec(containers=(api.Container(name="none"),), resource_claims=(reference,))
    name = f"user-of-{claim.name}"
    return api.Pod(metadata=api.ObjectMeta(name=name, namespace=claim.namespace, uid=f"{claim.key}"), spec=spec)
